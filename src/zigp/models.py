"""Models as compositions: latents by name, the signal they form, and the noise around it."""

from __future__ import annotations

import equinox as eqx

from zigp.batch import Lattice, Rows
from zigp.latent import LatentGP, Moments
from zigp.likelihoods import Likelihood
from zigp.signal import Gate, Latent, Signal

__all__ = ["Model", "gp_regression", "zero_inflated_gp"]


class Model(eqx.Module):
    """Latents, the signal composed of them, and the likelihood of what is observed."""

    latents: dict[str, LatentGP]
    likelihood: Likelihood
    signal: Signal = eqx.field(static=True)

    def marginals(self, at: Rows | Lattice) -> dict[str, Moments]:
        """Every latent's mean and variance at the inputs."""
        return {name: latent.marginal(at) for name, latent in self.latents.items()}


def gp_regression(f: LatentGP, likelihood: Likelihood) -> Model:
    """GP regression: f(x)."""
    return Model({"f": f}, likelihood, Latent("f"))


def zero_inflated_gp(f: LatentGP, g: LatentGP, likelihood: Likelihood) -> Model:
    """The zero-inflated GP: Φ(g(x)) f(x)."""
    return Model({"f": f, "g": g}, likelihood, Gate("g") * Latent("f"))
