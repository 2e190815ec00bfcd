"""The interface of likelihoods."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import PRNGKeyArray

from zigp.gp.batch import Batch
from zigp.gp.moments import Moments
from zigp.math.quadrature import expectation
from zigp.math.special import probit_moments
from zigp.models.distributions import Inflated, Predictive
from zigp.models.signal import Gate, Latent, Marginals, Signal, covariance, times


class Likelihood(eqx.Module):
    """The distribution of y given the signal."""

    # The factor by which its parameters learn faster than others in training that stops early.
    early_pace: ClassVar[float] = 1.0
    # True if its logarithm is quadratic in a signal that is linear in a latent.
    linear: ClassVar[bool] = False

    @property
    def has_atom(self) -> bool:
        """True if an observation is exactly zero with positive probability."""
        return False

    @property
    def whole(self) -> bool:
        """True if observations are whole numbers."""
        return False

    @abstractmethod
    def expected(self, signal: Signal, marginals: Marginals, batch: Batch) -> Array:
        """Return Σ weight · E_q[log p(y | signal)] over the batch."""

    @abstractmethod
    def moments(self, signal: Signal, marginals: Marginals) -> Moments:
        """Return mean and variance of a new observation at every input."""

    def with_exposure(self, f: Moments, exposure: Array) -> Moments:
        """Return the moments of the latent f of an amount that is multiplied by an exposure."""
        cov = {name: exposure * c for name, c in f.cov.items()}
        return Moments(exposure * f.mean, exposure**2 * f.var, cov)

    def local(self) -> dict[str, Array]:
        """Return the variances, by name, of latents that are drawn anew at every site."""
        return {}

    def with_local(self, signal: Signal) -> Signal:
        """Return the signal with these latents in it."""
        return signal

    def clean(self, signal: Signal, values: Mapping[str, Array]) -> Array:
        """Return the expected observation given values of the latents."""
        return jax.vmap(signal.value)(values)

    def clean_moments(self, signal: Signal, marginals: Marginals) -> Moments:
        """Return mean and variance of the expected observation over the latents."""
        return signal.moments(marginals)

    def factor_moments(self, signal: Signal, marginals: Marginals) -> tuple[Moments, ...]:
        """Return mean and variance of each factor of the signal."""
        return tuple(factor.moments(marginals) for factor in signal.factors())

    @abstractmethod
    def observe(self, key: PRNGKeyArray, signal: Signal, values: Mapping[str, Array]) -> Array:
        """Draw observations given values of the latents, [draws, leading axes, inputs]."""


class Amounts(Likelihood):
    """A likelihood of amounts, which have a distribution; labels only have a probability."""

    @abstractmethod
    def predictive(
        self, signal: Signal, marginals: Marginals, *, coarse: bool = False
    ) -> Predictive:
        """Return the distribution of a new observation at every input.

        Averages over many of them can be `coarse`, with fewer nodes of quadratures.
        """

    def moments(self, signal: Signal, marginals: Marginals) -> Moments:
        return self.predictive(signal, marginals).moments()


class LogAmounts(Amounts):
    """Zero with probability 1 − Φ(g), otherwise an amount or a count of which f is the logarithm.

    The mean amount is exp(f + c), the signal Φ(g) exp(f + c).
    """

    @property
    def has_atom(self) -> bool:
        return True

    @property
    def above(self) -> Array | float:
        """c, the difference between the logarithm of the mean and f."""
        return 0.0

    @abstractmethod
    def amount_density(self, y: Array, f: Moments) -> Array:
        """Return E[log p(y | f)] of an amount."""

    @abstractmethod
    def amount(
        self, f: Moments, g: Moments, cov: Array | None, *, coarse: bool = False
    ) -> Predictive:
        """Return the distribution of an amount where the signal is on."""

    @abstractmethod
    def draw_amount(self, keys: Sequence[PRNGKeyArray], f: Array) -> Array:
        """Draw an amount for each value of f, with the first or with both of two keys."""

    def predictive(self, signal: Signal, marginals: Marginals, *, coarse: bool = False) -> Inflated:
        f, g, cov = amount_and_gate(signal, marginals)
        on = probit_moments(g.mean, g.var).mean
        return Inflated(on, self.amount(f, g, cov, coarse=coarse))

    def observe(self, key: PRNGKeyArray, signal: Signal, values: Mapping[str, Array]) -> Array:
        gate, latent = gate_and_latent(signal)
        p, f = jax.vmap(gate.value)(values), jax.vmap(latent.value)(values)
        switch, *keys = jax.random.split(key, 3)
        on = jax.random.uniform(switch, p.shape, p.dtype) < p
        return jnp.where(on, self.draw_amount(keys, f), 0.0)

    def clean(self, signal: Signal, values: Mapping[str, Array]) -> Array:
        gate, latent = gate_and_latent(signal)
        return jax.vmap(gate.value)(values) * jnp.exp(jax.vmap(latent.value)(values) + self.above)

    def clean_moments(self, signal: Signal, marginals: Marginals) -> Moments:
        # E[Φ(g)^k exp(k f)] = exp(k m + k² v/2) E[Φ(g′)^k], where g′ has the mean m_g + k c.
        f, g, cov = amount_and_gate(signal, marginals)
        mean = jnp.exp(f.mean + 0.5 * f.var + self.above)
        if cov is None:
            gate = Moments(*probit_moments(g.mean, g.var))
            return times(gate, Moments(mean, mean**2 * jnp.expm1(f.var)))
        first = mean * probit_moments(g.mean + cov, g.var).mean
        on, spread = probit_moments(g.mean + 2.0 * cov, g.var)
        return Moments(first, mean**2 * jnp.exp(f.var) * (on**2 + spread) - first**2)

    def with_exposure(self, f: Moments, exposure: Array) -> Moments:
        return Moments(f.mean + jnp.log(exposure), f.var, f.cov)


def amount_and_gate(signal: Signal, marginals: Marginals) -> tuple[Moments, Moments, Array | None]:
    """Return the moments of f and g, and their covariance, None if they are independent."""
    gate, latent = gate_and_latent(signal)
    f, g = latent.moments(marginals), gate.of.moments(marginals)
    return f, g, covariance(latent, gate.of, marginals)


def expectation_over_gate(
    function: Callable[..., Array], f: Moments, g: Moments, cov: Array | None, *args: ArrayLike
) -> Array:
    """Return E[function(g, m, v, *args)] over g, with m and v the mean and variance of f given g.

    With a covariance c, m = m_f + (g − m_g) c/v_g and v = v_f − c²/v_g.
    """
    if cov is None:
        return expectation(function, g.mean, g.var, f.mean, f.var, *args)
    slope = cov / jnp.maximum(g.var, jnp.finfo(g.var.dtype).tiny)
    level, var = f.mean - slope * g.mean, jnp.maximum(f.var - slope * cov, 0.0)
    return expectation(_along_line(function), g.mean, g.var, level, slope, var, *args)


@cache  # one object for each function, as `expectation` requires
def _along_line(function: Callable[..., Array]) -> Callable[..., Array]:
    def tilted(g: Array, level: Array, slope: Array, *args: Array) -> Array:
        return function(g, level + slope * g, *args)

    return tilted


def gate_and_latent(signal: Signal) -> tuple[Gate, Signal]:
    """Return the two factors of a zero-inflated signal."""
    match signal.factors():
        case (Gate() as gate, Latent() as latent):
            return gate, latent
    raise TypeError(f"{signal} is not a gate times a latent, which this likelihood needs.")
