"""Gaussian noise of one variance, as in the paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import PRNGKeyArray

from zigp.gp.batch import Batch
from zigp.gp.moments import Moments
from zigp.models.distributions import Mixture, mixture
from zigp.models.likelihoods.base import Amounts
from zigp.models.signal import Marginals, Signal

NOISE_FLOOR = 1e-6  # of the variance of outputs scaled to about 1


def above_floor(variance: ArrayLike, dtype: str) -> np.ndarray:
    """Return the parameter of a variance: the logarithm of its excess over the floor."""
    return np.asarray(np.log(np.asarray(variance, dtype) - NOISE_FLOOR))


def from_excess(excess: ArrayLike) -> Array:
    """Return the variance with this logarithm of its excess over the floor."""
    return NOISE_FLOOR + jnp.exp(jnp.asarray(excess))


class Gaussian(Amounts):
    """y = signal + ε with ε ~ N(0, σ²), one σ for each output.

    E[log p(y)] = −½ log 2πσ² − ((y − mean)² + var) / (2σ²)
    """

    linear: ClassVar[bool] = True

    excess: ArrayLike  # log(σ² − floor)

    @classmethod
    def of_variance(cls, noise: ArrayLike, dtype: str = "float64") -> Gaussian:
        """Return noise of the given variance, which must be above the floor."""
        return cls(above_floor(noise, dtype))

    @property
    def noise(self) -> Array:
        """σ², above a floor: it would vanish with data that the signal fits exactly."""
        return from_excess(self.excess)

    def expected(self, signal: Signal, marginals: Marginals, batch: Batch) -> Array:
        s = signal.moments(marginals)
        observed = batch.weight > 0
        error = (jnp.where(observed, batch.y, 0.0) - s.mean) ** 2 + s.var
        noise = self._along(s.mean)
        density = -0.5 * (jnp.log(2.0 * np.pi * noise) + error / noise)
        return jnp.sum(batch.weight * density)

    def moments(self, signal: Signal, marginals: Marginals) -> Moments:
        s = signal.moments(marginals)
        return Moments(s.mean, s.var + self._along(s.mean))

    def predictive(self, signal: Signal, marginals: Marginals, *, coarse: bool = False) -> Mixture:
        like = signal.moments(marginals).mean
        return mixture(signal, marginals, lambda _: self._along(like), coarse=coarse)

    def observe(self, key: PRNGKeyArray, signal: Signal, values: Mapping[str, Array]) -> Array:
        drawn = jax.vmap(signal.value)(values)
        noise = jax.random.normal(key, drawn.shape, drawn.dtype)
        return drawn + jnp.sqrt(self._along(drawn[0])) * noise

    def _along(self, values: Array) -> Array:
        """Return σ² of each output, aligned with values of shape [outputs, inputs]."""
        noise = self.noise
        return noise.reshape(*noise.shape, *(1,) * (values.ndim - noise.ndim))
