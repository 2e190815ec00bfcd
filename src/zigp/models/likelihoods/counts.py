"""Counts with more zeros than a Poisson or negative binomial distribution has."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import gammaln
from jax.typing import ArrayLike
from jaxtyping import PRNGKeyArray

from zigp.gp.batch import Batch
from zigp.gp.moments import Moments
from zigp.math.quadrature import expectation, trapezoid
from zigp.math.special import log_normal_cdf, log_probit_mean
from zigp.models.distributions import Counts, log_latent_nodes
from zigp.models.likelihoods.base import (
    LogAmounts,
    amount_and_gate,
    expectation_over_gate,
)
from zigp.models.signal import Marginals, Signal

_INNER_NODES = 17


class ZeroInflatedCounts(LogAmounts):
    """y = 0 with probability 1 − Φ(g), otherwise a count of mean exp(f), which may be zero too.

    E[log p(y)] = E[log Φ(g)] + E[log p(y | f)] for y > 0, and for y = 0
    E[log(Φ(−g) + Φ(g) p(0 | f))], a quadrature over g and f.
    """

    @property
    def whole(self) -> bool:
        return True

    @abstractmethod
    def zero_density(self, f: Moments, g: Moments, cov: Array | None) -> Array:
        """Return E[log P(y = 0)] over g and f."""

    @property
    @abstractmethod
    def spread(self) -> Array | None:
        """The dispersion r in Var = mean + mean²/r, None for Poisson."""

    def expected(self, signal: Signal, marginals: Marginals, batch: Batch) -> Array:
        f, g, cov = amount_and_gate(signal, marginals)
        y = jnp.where(batch.weight > 0, batch.y, 0.0)
        positive = log_probit_mean(g.mean, g.var) + self.amount_density(y, f)
        density = jnp.where(y > 0, positive, self.zero_density(f, g, cov))
        return jnp.sum(batch.weight * density)

    def amount(self, f: Moments, g: Moments, cov: Array | None, *, coarse: bool = False) -> Counts:
        return Counts(*log_latent_nodes(f, g, cov, coarse=coarse), self.spread)

    def draw_amount(self, keys: Sequence[PRNGKeyArray], f: Array) -> Array:
        rate = jnp.exp(f)
        if self.spread is not None:  # a negative binomial count is Poisson with a gamma rate
            rate = rate / self.spread * jax.random.gamma(keys[0], self.spread, f.shape, f.dtype)
        return jax.random.poisson(keys[1], rate).astype(f.dtype)


class ZeroInflatedPoisson(ZeroInflatedCounts):
    """Poisson counts."""

    @property
    def spread(self) -> None:
        return None

    def amount_density(self, y: Array, f: Moments) -> Array:
        # E[exp(f)] = exp(mean + var/2)
        return y * f.mean - jnp.exp(f.mean + 0.5 * f.var) - gammaln(y + 1.0)

    def zero_density(self, f: Moments, g: Moments, cov: Array | None) -> Array:
        return expectation_over_gate(_poisson_zero, f, g, cov)


class ZeroInflatedNegativeBinomial(ZeroInflatedCounts):
    """Negative binomial counts with Var = mean + mean²/r."""

    log_dispersion: ArrayLike

    @classmethod
    def of_dispersion(
        cls, dispersion: ArrayLike, dtype: str = "float64"
    ) -> ZeroInflatedNegativeBinomial:
        return cls(np.log(np.asarray(dispersion, dtype)))

    @property
    def spread(self) -> Array:
        """r."""
        return jnp.exp(jnp.asarray(self.log_dispersion))

    def amount_density(self, y: Array, f: Moments) -> Array:
        return expectation(_negative_binomial, f.mean, f.var, y, self.spread)

    def zero_density(self, f: Moments, g: Moments, cov: Array | None) -> Array:
        return expectation_over_gate(_negative_binomial_zero, f, g, cov, self.spread)


def _poisson_zero(g: Array, mean: Array, var: Array) -> Array:
    return _inflated_zero(g, mean, var, lambda f: -jnp.exp(f))


def _negative_binomial_zero(g: Array, mean: Array, var: Array, r: Array) -> Array:
    return _inflated_zero(g, mean, var, lambda f: -r * jnp.log1p(jnp.exp(f) / r))


def _inflated_zero(g: Array, mean: Array, var: Array, log_zero: Callable[[Array], Array]) -> Array:
    """E[log(Φ(−g) + Φ(g) p(0 | f))] over f ~ N(mean, var)."""
    off, on = log_normal_cdf(-g), log_normal_cdf(g)
    sd = jnp.sqrt(jnp.maximum(var, 1e-12))
    total = jnp.zeros_like(mean)
    for xi, w in zip(*(v.tolist() for v in trapezoid(_INNER_NODES)), strict=True):
        total = total + w * jnp.logaddexp(off, on + log_zero(mean + sd * xi))
    return total


def _negative_binomial(f: Array, y: Array, r: Array) -> Array:
    # log(μ/(μ + r)) = f − log(r + exp(f))
    total = jnp.logaddexp(jnp.log(r), f)
    coefficient = gammaln(y + r) - gammaln(r) - gammaln(y + 1.0)
    return coefficient + y * (f - total) + r * (jnp.log(r) - total)
