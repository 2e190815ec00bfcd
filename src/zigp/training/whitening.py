"""Coordinates in which a posterior is nearly standard normal, whatever the hyperparameters.

Around the variational fit each row's log likelihood is nearly quadratic in the predictors η of its
latents: a site with weights W and a linear term b, −½ ηᵀWη + bᵀη. With the sites of the fit, the
inducing variables w are Gaussian for any hyperparameters θ, N(m(θ), S(θ)) with

    S⁻¹ = I + A diag(W) Aᵀ        m = S A (b − W β)

and the chains move in z of w = m(θ) + R(θ) z, S = R Rᵀ. In w itself length-scales and functions
that the data determine would hold each other fast.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from zigp.gp.batch import Batch
from zigp.gp.coupling import Curvature, DenseCoupling
from zigp.gp.covariances import Dense
from zigp.gp.joint import Joint
from zigp.gp.moments import Moments
from zigp.models.draws import Values, log_density, with_values
from zigp.models.model import Model
from zigp.models.objective import slopes


class Whitening(eqx.Module):
    """The sites of a fit, and its model with a q of any covariance."""

    model: Model
    linear: dict[str, Array]  # b
    weights: list[Any]  # W, for each joint of latents

    @classmethod
    def around(cls, model: Model, data: Batch) -> Whitening:
        """Return the sites of a fit to these data."""
        seen = model.through(model.project(data.at))
        found = slopes(model, seen, data).marginals
        linear, weights = {}, []
        for joint in model.joints():
            W = _weights(joint, found)
            weights.append(W)
            pulled = _times(W, [seen[name].mean for name in joint.names])
            for name, value in zip(joint.names, pulled, strict=True):
                linear[name] = found[name].mean + value
        return cls(_dense(model), linear, weights)

    def values(self, z: Values, data: Batch) -> tuple[dict[str, Array], Array, Any]:
        """Return the values at z, log |R|, and the projections of the data.

        In z the entries of inducing variables are noise; those of hyperparameters are themselves.
        """
        here = with_values(self.model, {k: v for k, v in z.items() if not k.endswith("q_mean")})
        projections = here.project(data.at)
        values, logdet = dict(z), jnp.zeros(())
        for joint, W in zip(here.joints(), self.weights, strict=True):
            q = self._posterior(joint, W, projections)
            noise = {name: z[f"latents.{name}.q_mean"] for name in joint.names}
            for name, w in q.at_noise(noise).items():
                values[f"latents.{name}.q_mean"] = w
            logdet = logdet + 0.5 * q.logdet()
        return values, logdet, projections

    def log_density(self, z: Values, data: Batch) -> Array:
        """Return log p(z, θ, y) up to a constant."""
        values, logdet, projections = self.values(z, data)
        return log_density(self.model, values, data, projections) + logdet

    def _posterior(self, joint: Joint, W: Any, projections: Any) -> Joint:
        """Return q(w) given the sites: a natural-gradient step of rate 1 from m = 0."""
        means = [
            jnp.broadcast_to(
                _ahead(joint.latents[name].prior_mean, self.linear[name]), self.linear[name].shape
            )
            for name in joint.names
        ]
        pulls = _times(W, means)
        sites = {
            name: Moments(self.linear[name] - pull, -0.5 * weight)
            for name, pull, weight in zip(joint.names, pulls, W, strict=False)
        }
        if joint.coupling is not None:
            one, two = joint.names
            sites[one] = Moments(sites[one].mean, sites[one].var, {two: -W.between})
        return joint.natural_step(projections, sites, jnp.ones(()))


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


def _dense(model: Model) -> Model:
    """Return the model with q = N(0, I) of dense covariance for all latents."""
    latents, couplings = {}, {}
    for name, gp in model.latents.items():
        lead, shape = gp.family_shape, np.shape(gp.q_mean)[gp.leading :]
        one = Dense.scaled_identity(shape, 1.0)
        factor = np.broadcast_to(one.factor, (*lead, *np.shape(one.factor)))
        dtype = jnp.asarray(gp.q_mean).dtype
        cov = dataclasses.replace(one, factor=factor.astype(dtype))
        mean = np.zeros(np.shape(gp.q_mean), dtype)
        latents[name] = dataclasses.replace(gp, q_mean=mean, q_cov=cov)
    for second, tie in model.couplings.items():
        shapes = (np.shape(latents[name].q_mean) for name in (tie.on, second))
        none = DenseCoupling.none(*shapes, tie.on)
        couplings[second] = dataclasses.replace(none, tail=np.asarray(none.tail, dtype))
    return dataclasses.replace(model, latents=latents, couplings=couplings)
