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

_BISECTIONS = 24  # of a bracket of a few standard deviations


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

    def predictive(self, signal: Signal, marginals: Marginals) -> AveragedPredictive:
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
        sd = jnp.sqrt(found.var)
        low, high = (
            found.mean - sd * jnp.sqrt((1.0 - p) / p),
            found.mean + sd * jnp.sqrt(p / (1.0 - p)),
        )
        t = _root(self.cdf, p, low, high)
        if self.likelihood.whole:
            t = jnp.ceil(t - 1e-4)
        if self.likelihood.has_atom:
            t = jnp.where(self.cdf(jnp.zeros_like(t)) >= p, 0.0, t)
        return t

    def _each(self, answer: Callable[[Predictive], Array]) -> Array:
        def of(one: Amounts, marginals: Marginals) -> Array:
            return answer(one.predictive(self.signal, marginals))

        return self.likelihood.over(of, self.marginals)


def _mixed(each: Moments) -> Moments:
    """Return mean and variance of an equal-weight mixture along the first axis."""
    mean = jnp.mean(each.mean, axis=0)
    return Moments(mean, jnp.mean(each.var + (each.mean - mean) ** 2, axis=0))


def _root(cdf: Callable[[Array], Array], p: Array, low: Array, high: Array) -> Array:
    """Return where a distribution function reaches p: halvings, then a straight line."""

    def halve(_: Any, ends: tuple[Array, ...]) -> tuple[Array, ...]:
        low, high, below, above = ends
        middle = 0.5 * (low + high)
        at = cdf(middle)
        right = at >= p
        return (
            jnp.where(right, low, middle),
            jnp.where(right, middle, high),
            jnp.where(right, below, at),
            jnp.where(right, at, above),
        )

    first = (low, high, jnp.zeros_like(low), jnp.ones_like(low))
    low, high, below, above = jax.lax.fori_loop(0, _BISECTIONS, halve, first)
    return low + (high - low) * jnp.clip((p - below) / (above - below), 0.0, 1.0)
