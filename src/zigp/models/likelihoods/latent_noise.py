"""Networks with noise on their latents at every site, and their conditional distributions."""

from __future__ import annotations

from functools import reduce
from operator import mul

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from zigp.gp.batch import Batch
from zigp.gp.moments import Moments
from zigp.models.likelihoods.gaussian import Gaussian, above_floor
from zigp.models.signal import Latent, Marginals, Signal, Total


class LatentNoise(Gaussian):
    """Gaussian noise on the outputs of a network, and noise on its latents at every site.

        y_p = Σ_q w_qp h_q + ε_p,    h_q = f_q(x) + e_q,    e_q ~ N(0, s_q)

    where w are the weights with their gates, and f the latents with theirs. The outputs of a site
    share e. Its optimal posterior given everything else is Gaussian, and is integrated out of the
    bound in closed form.
    """

    log_latent: ArrayLike  # log s, one for each q

    @classmethod
    def of_variances(
        cls, noise: ArrayLike, latent: ArrayLike, dtype: str = "float64"
    ) -> LatentNoise:
        return cls(above_floor(noise, dtype), np.log(np.asarray(latent, dtype)))

    def local(self) -> dict[str, Array]:
        return {"e": jnp.exp(jnp.asarray(self.log_latent))}

    def with_local(self, signal: Signal) -> Signal:
        weights, latents = network_parts(signal)
        return Total("q", weights * (latents + Latent("e", "q")))

    def expected(self, signal: Signal, marginals: Marginals, batch: Batch) -> Array:
        # With Λ and b of `site_posterior` for the prior h ~ N(mean of f, s), row n adds
        #   −½ Σ_p o_p (log 2πσ_p² + y_p²/σ_p²) − ½ Σ_q (log s_q + (m_q² + v_q)/s_q)
        #   − ½ log |Λ| + ½ bᵀ Λ⁻¹ b
        weights, latents = (part.moments(marginals) for part in network_parts(signal))
        observed = jnp.asarray(batch.weight > 0, weights.mean.dtype)
        y = jnp.where(batch.weight > 0, batch.y, 0.0)
        noise = self._along(y)
        s = self.local()["e"].reshape(-1, *(1,) * (latents.mean.ndim - 1))
        precision, b = _precision(Moments(latents.mean, s), weights, noise, y, observed)
        root = jnp.linalg.cholesky(precision)
        solved = jax.scipy.linalg.solve_triangular(root, b[..., None], lower=True)[..., 0]
        outputs = jnp.sum(observed * (jnp.log(2.0 * np.pi * noise) + y * y / noise), axis=0)
        inner = jnp.sum(jnp.log(s) + (latents.mean**2 + latents.var) / s, axis=0)
        logdet = 2.0 * jnp.sum(jnp.log(jnp.diagonal(root, axis1=-2, axis2=-1)), axis=-1)
        row = -0.5 * (outputs + inner + logdet - jnp.sum(solved * solved, axis=-1))
        # The weight of a row is that of its outputs, 0 for a row without any.
        return jnp.sum(jnp.max(batch.weight, axis=0) * row)


def network_parts(signal: Signal) -> tuple[Signal, Signal]:
    """Return the weights of a network, for every q and p, and its latents, for every q."""
    if not isinstance(signal, Total):
        raise TypeError(f"{signal} is not a network: it has no total over latents.")
    parts = signal.of.factors()
    weights = [part for part in parts if signal.axes[0] in part.axes]
    latents = [part for part in parts if signal.axes[0] not in part.axes]
    return reduce(mul, weights), reduce(mul, latents)


def site_posterior(
    prior: Moments, weights: Moments, noise: Array, y: Array, observed: Array
) -> tuple[Array, Array]:
    """Return mean [..., Q] and covariance [..., Q, Q] of h at every site, given outputs there.

    For a prior h ~ N(m, diag v) and y_p = w_pᵀh + ε_p with independent weights it is N(Λ⁻¹b, Λ⁻¹),
    where o_p is 1 if output p is observed and

        Λ = diag(1/v) + Σ_p o_p E[w_p w_pᵀ]/σ_p²        b = m/v + Σ_p o_p y_p E[w_p]/σ_p²
    """
    precision, b = _precision(prior, weights, noise, y, observed)
    covariance = jnp.linalg.inv(precision)
    return jnp.einsum("...qr,...r->...q", covariance, b), covariance


def network_given(weights: Moments, h_mean: Array, h_cov: Array) -> Moments:
    """Return mean and variance of the signal of every output for h of this mean and covariance.

    var = E[w]ᵀ C E[w] + Σ_q Var[w_q] (E[h_q]² + C_qq)
    """
    mean = jnp.einsum("qp...,...q->p...", weights.mean, h_mean)
    spread = jnp.einsum("qp...,...qr,rp...->p...", weights.mean, h_cov, weights.mean)
    square = h_mean**2 + jnp.diagonal(h_cov, axis1=-2, axis2=-1)
    return Moments(mean, spread + jnp.einsum("qp...,...q->p...", weights.var, square))


def _precision(
    prior: Moments, weights: Moments, noise: Array, y: Array, observed: Array
) -> tuple[Array, Array]:
    gain = observed / noise  # [P, inputs]
    outer = jnp.einsum("qp...,p...,rp...->...qr", weights.mean, gain, weights.mean)
    diagonal = 1.0 / prior.var + jnp.einsum("qp...,p...->q...", weights.var, gain)
    diagonal = jnp.moveaxis(diagonal, 0, -1)
    b = prior.mean / prior.var + jnp.einsum("qp...,p...->q...", weights.mean, gain * y)
    return outer + diagonal[..., None] * jnp.eye(diagonal.shape[-1]), jnp.moveaxis(b, 0, -1)
