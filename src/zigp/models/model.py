"""Models as compositions: latents by name, the signal that they form, and the noise around it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import add

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from zigp.gp.batch import Lattice, Rows
from zigp.gp.coupling import Coupling, coupling_of
from zigp.gp.joint import Joint
from zigp.gp.latent import LatentGP
from zigp.gp.markov import ChainedGP
from zigp.gp.moments import Moments
from zigp.gp.projection import Projection
from zigp.models.likelihoods import Bernoulli, Likelihood
from zigp.models.mixing import Mixing
from zigp.models.signal import Gate, Latent, Signal, Total


class Model(eqx.Module):
    """Latents, the signal composed of them, and the likelihood of the observations."""

    latents: dict[str, LatentGP]
    likelihood: Likelihood
    signal: Signal = eqx.field(static=True)
    # Latents without inducing inputs, and the latents whose inducing inputs they use.
    tied: tuple[tuple[str, str], ...] = eqx.field(static=True, default=())
    # Gamma(shape, rate) on the relative length-scales of a latent.
    priors: tuple[tuple[str, float, float], ...] = eqx.field(static=True, default=())
    # The input column by which the amount f is multiplied.
    exposure: int | None = eqx.field(static=True, default=None)
    # The dependence of a latent on another under q, by the name of the one that follows.
    couplings: dict[str, Coupling] = eqx.field(default_factory=dict)
    # The dependence of f and g in the prior.
    mixing: Mixing | None = None

    def untied(self) -> dict[str, LatentGP]:
        """Return the latents, each with its inducing inputs."""
        return self.latents | {
            name: eqx.tree_at(
                lambda gp: gp.inducing,
                self.latents[name],
                self.latents[source].inducing,
                is_leaf=lambda leaf: leaf is None,
            )
            for name, source in self.tied
        }

    def joints(self) -> list[Joint]:
        """Return all latents, coupled ones together."""
        latents, joints = self.untied(), []
        for second, coupling in self.couplings.items():
            pair = {name: latents.pop(name) for name in (coupling.on, second)}
            joints.append(Joint(pair, coupling))
        return [*(Joint({name: gp}) for name, gp in latents.items()), *joints]

    def with_q(self, joints: Sequence[Joint]) -> Model:
        """Return the model with the q of these latents."""
        moved = {name: gp for joint in joints for name, gp in joint.latents.items()}
        latents = {
            name: dataclasses.replace(one, q_mean=moved[name].q_mean, q_cov=moved[name].q_cov)
            for name, one in self.latents.items()
        }
        couplings = {joint.names[-1]: joint.coupling for joint in joints if joint.coupling}
        return dataclasses.replace(self, latents=latents, couplings=couplings)

    @property
    def chained(self) -> bool:
        """True if q is a chain of blocks for one of the latents."""
        return any(isinstance(gp, ChainedGP) for gp in self.latents.values())

    def extended(self, at: Rows | Lattice) -> Model:
        """Return the model with states at every time of these inputs, for chained latents."""
        return self._with(lambda latent: latent.extended(at))

    def placed(self, at: Rows | Lattice) -> Model:
        """Return the model ready to be trained on data at these inputs."""
        return self._with(lambda latent: latent.placed(at))

    def compact(self) -> Model:
        """Return the model without what `refreshed` computes from the rest."""
        return self._with(LatentGP.compact)

    def refreshed(self) -> Model:
        """Return the model with the covariance that sites and hyperparameters give."""
        return self._with(LatentGP.refreshed)

    def _with(self, change: Callable[[LatentGP], LatentGP]) -> Model:
        latents = {name: change(latent) for name, latent in self.latents.items()}
        return dataclasses.replace(self, latents=latents)

    def kl(self) -> Array:
        """Return Σ KL(q(u) ‖ p(u)), each latent counted once."""
        return reduce(add, (joint.kl() for joint in self.joints()))

    def project(self, at: Rows | Lattice) -> dict[str, Projection]:
        """Return the projection of the inputs for every latent."""
        return {name: latent.project(at) for name, latent in self.untied().items()}

    def through(self, projections: Mapping[str, Projection]) -> dict[str, Moments]:
        """Return the moments of every latent at projected inputs."""
        moments: dict[str, Moments] = {}
        for joint in self.joints():
            moments |= joint.through(projections)
        return moments

    def marginals(self, at: Rows | Lattice) -> dict[str, Moments]:
        """Return the moments of every predictor at the inputs."""
        return self.predictors(self.through(self.project(at)), at)

    def predictors(self, latents: dict[str, Moments], at: Rows | Lattice) -> dict[str, Moments]:
        """Return the moments of the predictors: latents mixed, the amount with its exposure."""
        marginals = latents if self.mixing is None else self.mixing.moments(latents)
        if self.exposure is None:
            return marginals
        f = self.likelihood.with_exposure(marginals["f"], at.exposures(self.exposure))
        return marginals | {"f": f}

    def signal_and_marginals(self, at: Rows | Lattice) -> tuple[Signal, dict[str, Moments]]:
        """Return signal and marginals at new sites, with the likelihood's own latents in them."""
        marginals = self.marginals(at)
        for name, var in self.likelihood.local().items():
            spread = jnp.broadcast_to(
                var.reshape(*var.shape, *(1,) * len(at.shape)), (*var.shape, *at.shape)
            )
            marginals[name] = Moments(jnp.zeros_like(spread), spread)
        return self.likelihood.with_local(self.signal), marginals


def gp_regression(f: LatentGP, likelihood: Likelihood) -> Model:
    """Return GP regression: f(x)."""
    return Model({"f": f}, likelihood, Latent("f"))


def gp_classification(g: LatentGP) -> Model:
    """Return GP classification: y = 1 with probability Φ(g(x))."""
    return Model({"g": g}, Bernoulli(), Gate("g"))


def zero_inflated_gp(
    f: LatentGP,
    g: LatentGP,
    likelihood: Likelihood,
    exposure: int | None = None,
    *,
    coupled: bool = False,
    mixing: Mixing | None = None,
) -> Model:
    """Return the zero-inflated GP: Φ(g(x)) f(x).

    If `coupled`, g follows f under q where the forms of their covariances allow it. With `mixing`
    the two depend on each other in the prior.
    """
    couplings = {"g": tie} if coupled and (tie := coupling_of(f, g, "f")) else {}
    return Model(
        {"f": f, "g": g},
        likelihood,
        Gate("g") * Latent("f"),
        exposure=exposure,
        couplings=couplings,
        mixing=mixing,
    )


def gp_network(
    f: LatentGP,
    W: LatentGP,
    likelihood: Likelihood,
    *,
    g: LatentGP | None = None,
    k: LatentGP | None = None,
    priors: tuple[tuple[str, float, float], ...] = (),
) -> Model:
    """Return a GP regression network: Σ_q W_qp(x) f_q(x).

    f is a family over q, and W over q and p. With gates g over q and p it is the sparse network,
    Σ_q Φ(g_qp) W_qp f_q. With gates k over q the latents themselves are sparse, Φ(k_q) f_q. A gate
    without inducing inputs uses those of the latent that it multiplies.
    """
    latents, term = {"f": f, "W": W}, Latent("W", "qp") * Latent("f", "q")
    tied = []
    for name, gate, letters, gated in (("g", g, "qp", "W"), ("k", k, "q", "f")):
        if gate is not None:
            latents[name], term = gate, Gate(name, letters) * term
            tied += [] if gate.inducing is not None else [(name, gated)]
    return Model(latents, likelihood, Total("q", term), tuple(tied), priors)
