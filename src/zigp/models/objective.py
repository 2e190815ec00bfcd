"""The bound on the log evidence, one function for every model, and priors on hyperparameters."""

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
from zigp.models.mixing import Mixing
from zigp.models.model import Model


def bound(model: Model, batch: Batch) -> Array:
    """ELBO = E_q[log p(y | signal)] − Σ KL(q(u) ‖ p(u)), each latent counted once."""
    fit = model.likelihood.expected(model.signal, model.marginals(batch.at), batch)
    return fit - model.kl()


def log_prior(model: Model) -> Array:
    """Return the log density of the relative length-scales that have a prior, up to a constant.

    For Gamma(a, b): (a − 1) log ℓ − b ℓ.
    """
    total = jnp.zeros(())
    for name, shape, rate in model.priors:
        latent = model.latents[name]
        for kernel, columns in zip(latent.kernels, latent.columns, strict=True):
            for leaf, _ in kernel.leaves(columns):
                if isinstance(leaf, Stationary):
                    length = leaf.relative_lengthscale
                    total = total + jnp.sum((shape - 1.0) * jnp.log(length) - rate * length)
    return total


def objective(model: Model, batch: Batch) -> Array:
    """Return what training maximises: the bound plus the log prior of the hyperparameters."""
    return bound(model, batch) + log_prior(model)


class Slopes(eqx.Module):
    """The expected log likelihood and its derivatives: by marginals, likelihood and mixing."""

    value: Array
    marginals: dict[str, Moments]
    likelihood: Likelihood
    mixing: Mixing | None


def slopes(model: Model, marginals: Mapping[str, Moments], batch: Batch) -> Slopes:
    """Return the slopes at these marginals of the latents."""

    def expected(
        marginals: dict[str, Moments], likelihood: Likelihood, mixing: Mixing | None
    ) -> Array:
        there = dataclasses.replace(model, likelihood=likelihood, mixing=mixing)
        return likelihood.expected(model.signal, there.predictors(marginals, batch.at), batch)

    arguments = dict(marginals), model.likelihood, model.mixing
    value, derivatives = jax.value_and_grad(expected, (0, 1, 2))(*arguments)
    return Slopes(value, *derivatives)


def objective_and_gradient(
    known: Slopes,
    chosen: Model,
    model: Model,
    projections: dict[str, Projection],
    back: Callable[[dict[str, Projection]], tuple[Model]],
) -> tuple[Array, Model]:
    """Return the objective at given slopes, and its gradient by the chosen part of the model.

    `back` takes a gradient by the projections to one by the chosen part. By the chain rule
    Σ slope · marginal has the derivatives of the expected log likelihood; its value has no meaning
    and is not computed.
    """

    def along(chosen: Model, projections: dict[str, Projection]) -> tuple[Array, Array]:
        whole = eqx.combine(chosen, model)
        moved = whole.through(projections)
        products = jax.tree.map(
            lambda slope, part: jnp.sum(slope * part),
            (known.marginals, known.likelihood, known.mixing),
            (moved, whole.likelihood, whole.mixing),
        )
        rest = log_prior(whole) - whole.kl()
        return sum(jax.tree.leaves(products)) + rest, known.value + rest

    gradient = jax.value_and_grad(along, (0, 1), has_aux=True)
    (_, value), (direct, by_projections) = gradient(chosen, projections)
    return value, jax.tree.map(jnp.add, direct, *back(by_projections))
