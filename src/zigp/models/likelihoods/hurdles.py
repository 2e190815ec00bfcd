"""Exact zeros with a probability of their own, and positive amounts otherwise."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import gammaln
from jax.typing import ArrayLike
from jaxtyping import PRNGKeyArray

from zigp.gp.batch import Batch
from zigp.gp.moments import Moments
from zigp.math.special import log_probit_mean
from zigp.models.distributions import (
    Exponential,
    Gammas,
    Mixture,
    latent_if_on,
    log_latent_nodes,
)
from zigp.models.likelihoods.base import LogAmounts, amount_and_gate
from zigp.models.likelihoods.gaussian import above_floor, from_excess
from zigp.models.signal import Marginals, Signal


class Hurdle(LogAmounts):
    """y = 0 with probability 1 − Φ(g), otherwise a positive amount of which f is the logarithm.

    E[log p(y)] = E[log Φ(−g)] for y = 0, E[log Φ(g)] + E[log p(y | f)] for y > 0
    """

    def expected(self, signal: Signal, marginals: Marginals, batch: Batch) -> Array:
        f, g, _ = amount_and_gate(signal, marginals)  # whose covariance plays no part here
        on = batch.y > 0
        switch = log_probit_mean(jnp.where(on, 1.0, -1.0) * g.mean, g.var)
        amount = self.amount_density(jnp.where(on, batch.y, 1.0), f)
        return jnp.sum(batch.weight * (switch + jnp.where(on, amount, 0.0)))


class HurdleLognormal(Hurdle):
    """Amounts with log y ~ N(f, σ²)."""

    excess: ArrayLike  # log(σ² − floor)

    @classmethod
    def of_variance(cls, noise: ArrayLike, dtype: str = "float64") -> HurdleLognormal:
        return cls(above_floor(noise, dtype))

    @property
    def noise(self) -> Array:
        """σ²."""
        return from_excess(self.excess)

    @property
    def above(self) -> Array:
        return 0.5 * self.noise

    def amount_density(self, y: Array, f: Moments) -> Array:
        error = (jnp.log(y) - f.mean) ** 2 + f.var
        return -jnp.log(y) - 0.5 * (jnp.log(2.0 * np.pi * self.noise) + error / self.noise)

    def amount(
        self, f: Moments, g: Moments, cov: Array | None, *, coarse: bool = False
    ) -> Exponential:
        # Given g, f is normal, and so is the logarithm of an amount.
        log = latent_if_on(f, g, cov)
        return Exponential(Mixture(log.weight, log.mean, log.var + self.noise))

    def draw_amount(self, keys: Sequence[PRNGKeyArray], f: Array) -> Array:
        return jnp.exp(f + jnp.sqrt(self.noise) * jax.random.normal(keys[0], f.shape, f.dtype))


class HurdleGamma(Hurdle):
    """Amounts with a gamma distribution of mean exp(f) and shape k."""

    log_shape: ArrayLike

    @classmethod
    def of_shape(cls, shape: ArrayLike, dtype: str = "float64") -> HurdleGamma:
        return cls(np.log(np.asarray(shape, dtype)))

    @property
    def shape(self) -> Array:
        """k; the standard deviation of an amount is its mean over √k."""
        return jnp.exp(jnp.asarray(self.log_shape))

    def amount_density(self, y: Array, f: Moments) -> Array:
        # E[exp(−f)] = exp(−mean + var/2)
        k = self.shape
        inverse = jnp.exp(-f.mean + 0.5 * f.var)
        return k * (jnp.log(k) - f.mean - y * inverse) + (k - 1.0) * jnp.log(y) - gammaln(k)

    def amount(self, f: Moments, g: Moments, cov: Array | None, *, coarse: bool = False) -> Gammas:
        weight, mean = log_latent_nodes(f, g, cov, coarse=coarse)
        return Gammas(weight, self.shape, self.shape / mean)

    def draw_amount(self, keys: Sequence[PRNGKeyArray], f: Array) -> Array:
        return jnp.exp(f) / self.shape * jax.random.gamma(keys[0], self.shape, f.shape, f.dtype)
