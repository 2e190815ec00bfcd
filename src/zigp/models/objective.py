"""The bound on the log evidence, one function for every model, and priors on hyperparameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from zigp.gp.batch import Batch
from zigp.gp.kernels import Stationary
from zigp.gp.moments import Moments
from zigp.gp.projection import Projection
from zigp.models.likelihoods import Likelihood
from zigp.models.model import Model

__all__ = ["Slopes", "bound", "log_prior", "objective", "objective_and_gradient", "slopes"]


def bound(model: Model, batch: Batch, share: float = 1.0) -> Array:
    """ELBO = E_q[log p(y | signal)] − Σ KL(q(u) ‖ p(u)), each latent counted once.

    Where the batch is one of several parts, `share` is the part of the rest that counts here.
    """
    fit = model.likelihood.expected(model.signal, model.marginals(batch.at), batch)
    return fit - share * sum(latent.kl() for latent in model.latents.values())


def log_prior(model: Model) -> Array:
    """Log density of the relative length-scales that have a prior, up to a constant.

    For Gamma(a, b): (a − 1) log ℓ − b ℓ.
    """
    total = jnp.zeros(())
    for name, shape, rate in model.priors:
        kernels = jax.tree.leaves(
            model.latents[name].kernels, is_leaf=lambda k: isinstance(k, Stationary)
        )
        for kernel in kernels:
            if isinstance(kernel, Stationary):
                length = kernel.relative_lengthscale
                total = total + jnp.sum((shape - 1.0) * jnp.log(length) - rate * length)
    return total


def objective(model: Model, batch: Batch, share: float = 1.0) -> Array:
    """What training maximises: the bound plus the log prior of the hyperparameters."""
    return bound(model, batch, share) + share * log_prior(model)


class Slopes(eqx.Module):
    """What is expected of the data, and its derivatives: by marginals and by the likelihood."""

    value: Array
    marginals: dict[str, Moments]
    likelihood: Likelihood


def slopes(model: Model, marginals: Mapping[str, Moments], batch: Batch) -> Slopes:
    """The slopes where the latents have these marginals."""

    def expected(marginals: dict[str, Moments], likelihood: Likelihood) -> Array:
        there = dataclasses.replace(model, likelihood=likelihood)
        return likelihood.expected(model.signal, there.exposed(marginals, batch.at), batch)

    value, found = jax.value_and_grad(expected, (0, 1))(dict(marginals), model.likelihood)
    return Slopes(value, *found)


def objective_and_gradient(
    known: Slopes,
    chosen: Model,
    model: Model,
    seen: dict[str, Projection],
    back: Callable[[dict[str, Projection]], tuple[Model]],
    share: float,
) -> tuple[Array, Model]:
    """The objective where the slopes are known, and its gradient for the chosen part of the model.

    `seen` is how the latents see the data, and `back` takes a slope by that to one by what was
    chosen. By the chain rule Σ slope · marginal has the derivatives of what is expected of the
    data; its value means nothing, and is not computed.
    """

    def along(chosen: Model, seen: dict[str, Projection]) -> tuple[Array, Array]:
        whole = eqx.combine(chosen, model)
        moved = {name: latent.through(seen[name]) for name, latent in whole.complete().items()}
        products = jax.tree.map(
            lambda slope, part: jnp.sum(slope * part),
            (known.marginals, known.likelihood),
            (moved, whole.likelihood),
        )
        rest = log_prior(whole) - sum(latent.kl() for latent in whole.latents.values())
        return sum(jax.tree.leaves(products)) + share * rest, known.value + share * rest

    (_, value), (direct, by_seen) = jax.value_and_grad(along, (0, 1), has_aux=True)(chosen, seen)
    return value, jax.tree.map(jnp.add, direct, *back(by_seen))
