"""The bound on the log evidence, one function for every model, and priors on hyperparameters."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from zigp.batch import Batch
from zigp.kernels import Stationary
from zigp.models import Model

__all__ = ["bound", "log_prior", "objective"]


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
