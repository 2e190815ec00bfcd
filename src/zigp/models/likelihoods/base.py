"""The interface of likelihoods."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import PRNGKeyArray

from zigp.gp.batch import Batch
from zigp.gp.moments import Moments
from zigp.models.distributions import Inflated, Predictive
from zigp.models.signal import Gate, Latent, Marginals, Signal, times


class Likelihood(eqx.Module):
    """The distribution of y given the signal."""

    # The factor by which its parameters learn faster than others in training that stops early.
    early_pace: ClassVar[float] = 1.0
    # True if its logarithm is quadratic in a signal that is linear in a latent.
    linear: ClassVar[bool] = False

    @abstractmethod
    def expected(self, signal: Signal, marginals: Marginals, batch: Batch) -> Array:
        """Return Σ weight · E_q[log p(y | signal)] over the batch."""

    @abstractmethod
    def moments(self, signal: Signal, marginals: Marginals) -> Moments:
        """Return mean and variance of a new observation at every input."""

    def with_exposure(self, f: Moments, exposure: Array) -> Moments:
        """Return the moments of the latent f of an amount that is multiplied by an exposure."""
        return Moments(exposure * f.mean, exposure**2 * f.var)

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

    @abstractmethod
    def observe(self, key: PRNGKeyArray, signal: Signal, values: Mapping[str, Array]) -> Array:
        """Draw observations given values of the latents, [draws, leading axes, inputs]."""


class Amounts(Likelihood):
    """A likelihood of amounts, which have a distribution; labels only have a probability."""

    @abstractmethod
    def predictive(self, signal: Signal, marginals: Marginals) -> Predictive:
        """Return the distribution of a new observation at every input."""

    def moments(self, signal: Signal, marginals: Marginals) -> Moments:
        return self.predictive(signal, marginals).moments()


class LogAmounts(Amounts):
    """Zero with probability 1 − Φ(g), otherwise an amount or a count of which f is the logarithm.

    The mean amount is exp(f + c), the signal Φ(g) exp(f + c).
    """

    @property
    def above(self) -> Array | float:
        """c, the difference between the logarithm of the mean and f."""
        return 0.0

    @abstractmethod
    def amount_density(self, y: Array, f: Moments) -> Array:
        """Return E[log p(y | f)] of an amount."""

    @abstractmethod
    def amount(self, f: Moments) -> Predictive:
        """Return the distribution of an amount."""

    @abstractmethod
    def draw_amount(self, keys: Sequence[PRNGKeyArray], f: Array) -> Array:
        """Draw an amount for each value of f, with the first or with both of two keys."""

    def predictive(self, signal: Signal, marginals: Marginals) -> Inflated:
        gate, latent = gate_and_latent(signal)
        return Inflated(gate.moments(marginals).mean, self.amount(latent.moments(marginals)))

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
        gate, latent = gate_and_latent(signal)
        on, f = gate.moments(marginals), latent.moments(marginals)
        mean = jnp.exp(f.mean + 0.5 * f.var + self.above)
        return times(on, Moments(mean, mean**2 * jnp.expm1(f.var)))

    def with_exposure(self, f: Moments, exposure: Array) -> Moments:
        return Moments(f.mean + jnp.log(exposure), f.var)


def gate_and_latent(signal: Signal) -> tuple[Gate, Signal]:
    """Return the two factors of a zero-inflated signal."""
    match signal.factors():
        case (Gate() as gate, Latent() as latent):
            return gate, latent
    raise TypeError(f"{signal} is not a gate times a latent, which this likelihood needs.")
