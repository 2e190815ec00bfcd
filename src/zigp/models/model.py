"""Models as compositions: latents by name, the signal they form, and the noise around it."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax.numpy as jnp

from zigp.gp.batch import Lattice, Rows
from zigp.gp.latent import LatentGP
from zigp.gp.moments import Moments
from zigp.gp.projection import Projection
from zigp.models.likelihoods import Bernoulli, Likelihood
from zigp.models.signal import Gate, Latent, Signal, Total

__all__ = ["Model", "gp_classification", "gp_network", "gp_regression", "zero_inflated_gp"]


class Model(eqx.Module):
    """Latents, the signal composed of them, and the likelihood of what is observed."""

    latents: dict[str, LatentGP]
    likelihood: Likelihood
    signal: Signal = eqx.field(static=True)
    # Latents without inducing inputs of their own, and whose they take.
    tied: tuple[tuple[str, str], ...] = eqx.field(static=True, default=())
    # Gamma(shape, rate) on the relative length-scales of a latent.
    priors: tuple[tuple[str, float, float], ...] = eqx.field(static=True, default=())
    # The input column that the amount f is multiplied by.
    exposure: int | None = eqx.field(static=True, default=None)

    def complete(self) -> dict[str, LatentGP]:
        """The latents, each with inducing inputs."""
        return self.latents | {
            name: eqx.tree_at(
                lambda gp: gp.inducing,
                self.latents[name],
                self.latents[source].inducing,
                is_leaf=lambda leaf: leaf is None,
            )
            for name, source in self.tied
        }

    def with_q(self, latents: dict[str, LatentGP]) -> Model:
        """The model with the posteriors of other latents of the same names."""
        moved = {
            name: dataclasses.replace(one, q_mean=latents[name].q_mean, q_cov=latents[name].q_cov)
            for name, one in self.latents.items()
        }
        return dataclasses.replace(self, latents=moved)

    def project(self, at: Rows | Lattice) -> dict[str, Projection]:
        """How every latent sees the inputs."""
        return {name: latent.project(at) for name, latent in self.complete().items()}

    def marginals(self, at: Rows | Lattice) -> dict[str, Moments]:
        """Every latent's mean and variance at the inputs, as they act there."""
        found = {name: latent.marginal(at) for name, latent in self.complete().items()}
        return self.exposed(found, at)

    def exposed(self, found: dict[str, Moments], at: Rows | Lattice) -> dict[str, Moments]:
        """Marginals with the amount multiplied by its exposure."""
        if self.exposure is None:
            return found
        return found | {"f": self.likelihood.exposed(found["f"], at.exposures(self.exposure))}

    def with_local(self, at: Rows | Lattice) -> tuple[Signal, dict[str, Moments]]:
        """The signal and marginals at new sites, the likelihood's own latents among them."""
        marginals = self.marginals(at)
        for name, var in self.likelihood.local().items():
            spread = jnp.broadcast_to(
                var.reshape(*var.shape, *(1,) * len(at.shape)), (*var.shape, *at.shape)
            )
            marginals[name] = Moments(jnp.zeros_like(spread), spread)
        return self.likelihood.whole(self.signal), marginals


def gp_regression(f: LatentGP, likelihood: Likelihood) -> Model:
    """GP regression: f(x)."""
    return Model({"f": f}, likelihood, Latent("f"))


def gp_classification(g: LatentGP) -> Model:
    """GP classification: the probability of a 1 is Φ(g(x))."""
    return Model({"g": g}, Bernoulli(), Gate("g"))


def zero_inflated_gp(
    f: LatentGP, g: LatentGP, likelihood: Likelihood, exposure: int | None = None
) -> Model:
    """The zero-inflated GP: Φ(g(x)) f(x)."""
    return Model({"f": f, "g": g}, likelihood, Gate("g") * Latent("f"), exposure=exposure)


def gp_network(
    f: LatentGP,
    W: LatentGP,
    likelihood: Likelihood,
    *,
    g: LatentGP | None = None,
    k: LatentGP | None = None,
    priors: tuple[tuple[str, float, float], ...] = (),
) -> Model:
    """A GP regression network: Σ_q W_qp(x) f_q(x).

    f is a family over q and W over q and p. With gates g over q and p it is the sparse network,
    Σ_q Φ(g_qp) W_qp f_q; with gates k over q the latents themselves are sparse, Φ(k_q) f_q. A gate
    without inducing inputs takes those of what it gates.
    """
    latents, term = {"f": f, "W": W}, Latent("W", "qp") * Latent("f", "q")
    tied = []
    for name, gate, letters, gated in (("g", g, "qp", "W"), ("k", k, "q", "f")):
        if gate is not None:
            latents[name], term = gate, Gate(name, letters) * term
            tied += [] if gate.inducing is not None else [(name, gated)]
    return Model(latents, likelihood, Total("q", term), tuple(tied), priors)
