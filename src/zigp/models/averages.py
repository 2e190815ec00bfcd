"""Averages over draws: the equal-weight mixture of their predictive distributions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import PRNGKeyArray

from zigp.gp.batch import Batch
from zigp.gp.moments import Moments
from zigp.models.distributions import Predictive
from zigp.models.likelihoods import Amounts, Likelihood
from zigp.models.signal import Marginals, Signal

_NARROW = 1e-6  # standard deviations within which a quantile is found


class Averaged(Amounts):
    """The likelihoods of draws, whose answers are averages over them.

    Marginals have an axis of draws in front.
    """

    each: Likelihood

    @property
    def has_atom(self) -> bool:
        return self.each.has_atom

    @property
    def whole(self) -> bool:
        return self.each.whole

    def expected(self, signal: Signal, marginals: Marginals, batch: Batch) -> Array:
        return jnp.mean(self.over(lambda one, m: one.expected(signal, m, batch), marginals))

    def moments(self, signal: Signal, marginals: Marginals) -> Moments:
        return _mixed(self.over(lambda one, m: one.moments(signal, m), marginals))

    def clean_moments(self, signal: Signal, marginals: Marginals) -> Moments:
        return _mixed(self.over(lambda one, m: one.clean_moments(signal, m), marginals))

    def factor_moments(self, signal: Signal, marginals: Marginals) -> tuple[Moments, ...]:
        each = self.over(lambda one, m: one.factor_moments(signal, m), marginals)
        return tuple(_mixed(factor) for factor in each)

    def predictive(
        self, signal: Signal, marginals: Marginals, *, coarse: bool = False
    ) -> AveragedPredictive:
        return AveragedPredictive(self, dict(marginals), signal)

    def observe(self, key: PRNGKeyArray, signal: Signal, values: Mapping[str, Array]) -> Array:
        raise TypeError("Observations are drawn from one draw of the parameters at a time.")

    def over(self, function: Callable[[Any, Marginals], Any], marginals: Marginals) -> Any:
        """Apply a function of one likelihood and its marginals to every draw in turn."""
        return jax.lax.map(lambda pair: function(*pair), (self.each, dict(marginals)))


class AveragedPredictive(Predictive):
    """The mixture of the predictive distributions of draws."""

    likelihood: Averaged
    marginals: dict[str, Moments]
    signal: Signal = eqx.field(static=True)

    def moments(self) -> Moments:
        return self.likelihood.moments(self.signal, self.marginals)

    def cdf(self, t: Array) -> Array:
        return jnp.mean(self._each(lambda one: one.cdf(t)), axis=0)

    def log_between(self, low: Array, high: Array) -> Array:
        each = self._each(lambda one: one.log_between(low, high))
        return jax.scipy.special.logsumexp(each, axis=0) - np.log(len(each))

    def quantile(self, p: Array) -> Array:
        # By Cantelli's inequality at most √(p/(1−p)) standard deviations above the mean.
        found = self.moments()
        sd, odds = jnp.sqrt(found.var), jnp.sqrt(p / (1.0 - p))
        low, high = found.mean - sd / odds, found.mean + sd * odds
        if not self.likelihood.has_atom:
            low, high = _bracketed(self.cdf, p, low, high, _NARROW * sd)
            return 0.5 * (low + high)
        zero = self.cdf(jnp.zeros_like(low)) >= p
        low, high = (jnp.where(zero, 0.0, jnp.maximum(end, 0.0)) for end in (low, high))
        width = 0.9 if self.likelihood.whole else _NARROW * sd
        low, high = _bracketed(self.cdf, p, low, high, jnp.broadcast_to(width, low.shape))
        # P(y ≤ low) < p ≤ P(y ≤ high): of counts there is one in between.
        return jnp.floor(high) if self.likelihood.whole else 0.5 * (low + high)

    def _each(self, answer: Callable[[Predictive], Array]) -> Array:
        def of(one: Amounts, marginals: Marginals) -> Array:
            return answer(one.predictive(self.signal, marginals, coarse=True))

        return self.likelihood.over(of, self.marginals)


def _mixed(each: Moments) -> Moments:
    """Return mean and variance of an equal-weight mixture along the first axis."""
    mean = jnp.mean(each.mean, axis=0)
    return Moments(mean, jnp.mean(each.var + (each.mean - mean) ** 2, axis=0))


def _bracketed(
    cdf: Callable[[Array], Array], p: Array, low: Array, high: Array, width: Array
) -> tuple[Array, Array]:
    """Return bounds, at most a width apart, between which a distribution function reaches p.

    The method of Oliveira and Takahashi (2020): false positions, kept so near to the middle that it
    takes one step more than halving at most, and where the function is smooth many fewer.
    """
    tiny = jnp.finfo(low.dtype).tiny
    span, goal = high - low, 0.5 * jnp.maximum(width, tiny)
    most = jnp.ceil(jnp.log2(jnp.maximum(span / (2.0 * goal), 1.0))) + 1.0

    def go_on(state: tuple[Array, ...]) -> Array:
        low, high, _, _, step = state
        return jnp.any((high - low > 2.0 * goal) & (step <= most))

    def narrow(state: tuple[Array, ...]) -> tuple[Array, ...]:
        low, high, below, above, step = state
        middle, half = 0.5 * (low + high), 0.5 * (high - low)
        reach = jnp.maximum(goal * 2.0 ** (most - step) - half, 0.0)
        position = low + (high - low) * below / (below + above)
        side = jnp.sign(middle - position)
        shift = 0.2 * (high - low) ** 2 / jnp.maximum(span, tiny)
        nearer = jnp.abs(middle - position) > shift
        position = jnp.where(nearer, position + side * shift, middle)
        at = jnp.where(jnp.abs(position - middle) > reach, middle - side * reach, position)
        beyond = cdf(at) - p
        right = beyond >= 0
        return (
            jnp.where(right, low, at),
            jnp.where(right, at, high),
            jnp.where(right, below, -beyond),
            jnp.where(right, beyond, above),
            step + 1.0,
        )

    levels = (jnp.broadcast_to(level, low.shape) for level in (p, 1.0 - p))
    first: tuple[Array, ...] = (low, high, *levels, jnp.zeros((), low.dtype))
    low, high, *_ = jax.lax.while_loop(go_on, narrow, first)
    return low, high
