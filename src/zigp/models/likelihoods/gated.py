"""Noise that grows with the gate: small where the signal is off, large where it is on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax import stop_gradient
from jax.typing import ArrayLike
from jaxtyping import PRNGKeyArray

from zigp.gp.batch import Batch
from zigp.gp.moments import Moments
from zigp.math.special import normal_cdf
from zigp.models.distributions import Mixture, mixture
from zigp.models.likelihoods.base import (
    Amounts,
    amount_and_gate,
    expectation_over_gate,
    gate_and_latent,
)
from zigp.models.likelihoods.gaussian import above_floor, from_excess
from zigp.models.signal import Marginals, Signal


class Gated(Amounts):
    """y ~ N(Φ(g) f, σ₀² + Φ(g)² σ₁²): noise σ₀ where the signal is off, and more where it is on.

    The expectation over f given g has a closed form, the one over g is a quadrature. With exact
    zeros σ₀ would vanish and the bound grow without limit: it stays above the `floor`, the variance
    τ²/12 of rounding to a resolution τ.
    """

    # Both variances change a lot: one falls to its floor, one rises to that of the amounts.
    early_pace: ClassVar[float] = 8.0
    linear: ClassVar[bool] = True

    off_excess: ArrayLike  # log(σ₀² − floor)
    on_excess: ArrayLike  # log(σ₁² − NOISE_FLOOR)
    floor: ArrayLike  # not learned

    @classmethod
    def of_variances(
        cls, off: ArrayLike, on: ArrayLike, floor: float, dtype: str = "float64"
    ) -> Gated:
        """Return noise of the given variances, which must be above their floors."""
        off_excess = np.log(np.asarray(off, dtype) - floor)
        return cls(off_excess, above_floor(on, dtype), np.asarray(floor, dtype))

    @property
    def off(self) -> Array:
        """σ₀²."""
        return stop_gradient(jnp.asarray(self.floor)) + jnp.exp(jnp.asarray(self.off_excess))

    @property
    def on(self) -> Array:
        """σ₁²."""
        return from_excess(self.on_excess)

    def expected(self, signal: Signal, marginals: Marginals, batch: Batch) -> Array:
        pair = amount_and_gate(signal, marginals)
        y = jnp.where(batch.weight > 0, batch.y, 0.0)
        density = expectation_over_gate(_density, *pair, y, self.off, self.on)
        return jnp.sum(batch.weight * density)

    def moments(self, signal: Signal, marginals: Marginals) -> Moments:
        gate, _ = gate_and_latent(signal)
        s, on = signal.moments(marginals), gate.moments(marginals)
        return Moments(s.mean, s.var + self.off + (on.mean**2 + on.var) * self.on)

    def predictive(self, signal: Signal, marginals: Marginals, *, coarse: bool = False) -> Mixture:
        gate, _ = gate_and_latent(signal)
        noise = lambda value: self.off + value(gate) ** 2 * self.on  # noqa: E731
        return mixture(signal, marginals, noise, coarse=coarse)

    def observe(self, key: PRNGKeyArray, signal: Signal, values: Mapping[str, Array]) -> Array:
        gate, _ = gate_and_latent(signal)
        drawn, on = jax.vmap(signal.value)(values), jax.vmap(gate.value)(values)
        noise = jax.random.normal(key, drawn.shape, drawn.dtype)
        return drawn + jnp.sqrt(self.off + on**2 * self.on) * noise


def _density(g: Array, m: Array, v: Array, y: Array, off: Array, on: Array) -> Array:
    """E[log N(y; Φ(g) f, σ₀² + Φ(g)² σ₁²)] over f ~ N(m, v)."""
    gate = normal_cdf(g)
    var = off + gate * gate * on
    return -0.5 * (jnp.log(2.0 * np.pi * var) + ((y - gate * m) ** 2 + gate * gate * v) / var)
