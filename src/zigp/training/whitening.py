"""Coordinates in which a posterior is nearly standard normal, whatever the hyperparameters.

Around the variational fit each row's log likelihood is nearly quadratic in the predictors η of its
latents: a site with weights W and a linear term b, −½ ηᵀWη + bᵀη. With the sites of the fit, the
inducing variables w are Gaussian for any hyperparameters θ, N(m(θ), S(θ)) with

    S⁻¹ = I + A diag(W) Aᵀ        m = S A (b − W β)

and the chains move in z of w = m(θ) + R(θ) z, S = R Rᵀ. In w itself length-scales and functions
that the data determine would hold each other fast.

With Gaussian noise the log likelihood of an amount f is exactly quadratic given its gate, with
sites that follow from the gate and the noise. Then z of f is standard normal whatever the rest:
chains move in the rest alone, with f integrated out, and f is drawn afterwards.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from zigp.gp.batch import Batch
from zigp.gp.coupling import Coupling, Curvature, DenseCoupling
from zigp.gp.covariances import Dense
from zigp.gp.joint import Joint
from zigp.gp.latent import LatentGP
from zigp.gp.moments import Moments
from zigp.models.draws import Values, drawn, log_density, places, with_values
from zigp.models.model import Model
from zigp.models.objective import slopes
from zigp.models.signal import Latent, Product

_ONE_AMOUNT = (Latent, Product)  # signals with one amount f: itself, or behind a gate


class Whitening(eqx.Module):
    """The sites of a fit, and its model with a q of any covariance."""

    model: Model
    linear: dict[str, Array]  # b
    weights: list[Any]  # W, for each joint of latents
    exact: str | None = eqx.field(static=True)  # the latent that is integrated out

    @classmethod
    def around(cls, model: Model, data: Batch) -> Whitening:
        """Return the sites of a fit to these data."""
        exact = "f" if model.likelihood.linear and isinstance(model.signal, _ONE_AMOUNT) else None
        seen = model.through(model.project(data.at))
        found = slopes(model, seen, data).marginals
        linear, weights = {}, []
        apart = _dense(model, coupled=exact is None)
        for joint in apart.joints():
            W = _weights(joint, found)
            weights.append(W)
            pulled = _times(W, [seen[name].mean for name in joint.names])
            for name, value in zip(joint.names, pulled, strict=True):
                linear[name] = found[name].mean + value
        return cls(apart, linear, weights, exact)

    @property
    def free(self) -> set[str]:
        """The places of parameters that chains move in."""
        return places(self.model).keys() - {_place(self.exact)}

    def values(self, z: Values, data: Batch) -> tuple[dict[str, Array], Array, Any]:
        """Return the values at z, log |R|, and the projections of the data.

        In z the entries of inducing variables are noise; those of hyperparameters are themselves.
        Inducing variables that are not in z are at the mean given the rest.
        """
        here = with_values(self.model, {k: v for k, v in z.items() if not k.endswith("q_mean")})
        projections = here.project(data.at)
        values, logdet = dict(z), jnp.zeros(())
        late = [i for i, joint in enumerate(here.joints()) if self.exact in joint.names]
        for i in sorted(range(len(self.weights)), key=lambda i: i in late):
            joint = here.joints()[i]
            if i in late:
                sites = self._exact_sites(here, values, data, projections)
            else:
                sites = self._sites(joint, self.weights[i])
            q = joint.natural_step(projections, sites, jnp.ones(()))
            nothing = {name: jnp.zeros_like(gp.q_mean) for name, gp in joint.latents.items()}
            noise = {name: z.get(_place(name), zero) for name, zero in nothing.items()}
            values |= {_place(name): w for name, w in q.at_noise(noise).items()}
            logdet = logdet + 0.5 * q.logdet()
        return values, logdet, projections

    def log_density(self, z: Values, data: Batch) -> Array:
        """Return log p(z, θ, y) up to a constant."""
        values, logdet, projections = self.values(z, data)
        return log_density(self.model, values, data, projections) + logdet

    def _sites(self, joint: Joint, W: Any) -> dict[str, Moments]:
        """Return the sites of the fit, as slopes at w = 0."""
        means = [_ahead(joint.latents[name].prior_mean, self.linear[name]) for name in joint.names]
        pulls = _times(W, means)
        sites = {
            name: Moments(self.linear[name] - pull, -0.5 * weight)
            for name, pull, weight in zip(joint.names, pulls, W, strict=False)
        }
        if joint.coupling is not None:
            one, two = joint.names
            sites[one] = Moments(sites[one].mean, sites[one].var, {two: -W.between})
        return sites

    def _exact_sites(
        self, here: Model, values: Values, data: Batch, projections: Any
    ) -> dict[str, Moments]:
        """Return the slopes at w = 0 of the latent that is integrated out, given all others."""
        name = self.exact
        assert name is not None
        at_zero = {**values, _place(name): here.latents[name].q_mean}
        seen = drawn(here, at_zero).through(projections)

        def expected(f: Moments) -> Array:
            whole = here.predictors({**seen, name: f}, data.at)
            return here.likelihood.expected(here.signal, whole, data)

        return {name: jax.grad(expected)(seen[name])}


def _place(name: str | None) -> str:
    return f"latents.{name}.q_mean"


def _weights(joint: Joint, found: dict[str, Moments]) -> Any:
    """Return W at every row, without negative curvature."""
    if joint.coupling is None:
        return (jnp.maximum(-2.0 * found[joint.names[0]].var, 0.0),)
    one, two = joint.names
    between = -found[one].cov[two]
    whole = Curvature(-2.0 * found[one].var, -2.0 * found[two].var, between)
    return whole.cut(jnp.zeros(()))


def _times(W: Any, values: list[Array]) -> list[Array]:
    if len(values) == 1:
        return [W[0] * values[0]]
    first, second = values
    return [W.first * first + W.between * second, W.between * first + W.second * second]


def _ahead(values: Any, like: Array) -> Array:
    """Return one value for each latent of a family, aligned with values at inputs."""
    values = jnp.asarray(values)
    return values.reshape(*values.shape, *(1,) * (like.ndim - values.ndim))


def _dense(model: Model, *, coupled: bool) -> Model:
    """Return the model with q = N(0, I) of dense covariance for all latents."""
    latents: dict[str, LatentGP] = {}
    couplings: dict[str, Coupling] = {}
    for name, gp in model.latents.items():
        lead, shape = gp.family_shape, np.shape(gp.q_mean)[gp.leading :]
        one = Dense.scaled_identity(shape, 1.0)
        factor = np.broadcast_to(one.factor, (*lead, *np.shape(one.factor)))
        dtype = jnp.asarray(gp.q_mean).dtype
        cov = dataclasses.replace(one, factor=factor.astype(dtype))
        mean = np.zeros(np.shape(gp.q_mean), dtype)
        latents[name] = dataclasses.replace(gp, q_mean=mean, q_cov=cov)
    for second, tie in model.couplings.items() if coupled else ():
        first, last = (np.shape(latents[name].q_mean) for name in (tie.on, second))
        none = DenseCoupling.none(first, last, tie.on)
        couplings[second] = dataclasses.replace(none, tail=np.asarray(none.tail, dtype))
    return dataclasses.replace(model, latents=latents, couplings=couplings)
