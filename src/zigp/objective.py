"""The bound on the log evidence: one function for every model."""

from __future__ import annotations

from jax import Array

from zigp.batch import Batch
from zigp.models import Model

__all__ = ["bound"]


def bound(model: Model, batch: Batch) -> Array:
    """ELBO = E_q[log p(y | signal)] − Σ KL(q(u) ‖ p(u)), each latent counted once."""
    fit = model.likelihood.expected(model.signal, model.marginals(batch.at), batch)
    return fit - sum(latent.kl() for latent in model.latents.values())
