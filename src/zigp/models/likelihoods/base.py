"""What every likelihood answers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import PRNGKeyArray

from zigp.gp.batch import Batch
from zigp.gp.moments import Moments
from zigp.models.distributions import Predictive
from zigp.models.signal import Gate, Latent, Marginals, Signal, times

__all__ = ["Amounts", "Likelihood", "LogAmounts", "gate_and_latent"]


class Likelihood(eqx.Module):
    """What a model assumes of y once the signal is known."""

    # How much faster than the rest its parameters learn where training is stopped early.
    early_pace: ClassVar[float] = 1.0
    # Whether its logarithm is quadratic in a signal that is linear in a latent.
    linear: ClassVar[bool] = False

    @abstractmethod
    def expected(self, signal: Signal, marginals: Marginals, batch: Batch) -> Array:
        """Σ weight · E_q[log p(y | signal)] over the batch."""

    @abstractmethod
    def moments(self, signal: Signal, marginals: Marginals) -> Moments:
        """Mean and variance of a new observation at every input."""

    def exposed(self, f: Moments, exposure: Array) -> Moments:
        """The latent f as it acts where the amount is multiplied by an exposure."""
        return Moments(exposure * f.mean, exposure**2 * f.var)

    def local(self) -> dict[str, Array]:
        """Variances of latents of its own that are drawn anew at every site, by name."""
        return {}

    def whole(self, signal: Signal) -> Signal:
        """The signal with those latents in it."""
        return signal

    def clean(self, signal: Signal, values: Mapping[str, Array]) -> Array:
        """The expected observation where the latents take these values."""
        return jax.vmap(signal.value)(values)

    def clean_moments(self, signal: Signal, marginals: Marginals) -> Moments:
        """Mean and variance of that, over the latents."""
        return signal.moments(marginals)

    @abstractmethod
    def observe(self, key: PRNGKeyArray, signal: Signal, values: Mapping[str, Array]) -> Array:
        """Draw observations where the latents take these values, [draws, leading axes, inputs]."""


class Amounts(Likelihood):
    """A likelihood of amounts, which have a distribution; labels just have a probability."""

    @abstractmethod
    def predictive(self, signal: Signal, marginals: Marginals) -> Predictive:
        """The distribution of a new observation at every input."""


class LogAmounts(Amounts):
    """Amounts or counts that the latent f is the logarithm of.

    The mean amount is exp(f + c), the signal Φ(g) exp(f + c).
    """

    @property
    def above(self) -> Array | float:
        """c, by how much the logarithm of the mean is above f."""
        return 0.0

    def clean(self, signal: Signal, values: Mapping[str, Array]) -> Array:
        gate, latent = gate_and_latent(signal)
        return jax.vmap(gate.value)(values) * jnp.exp(jax.vmap(latent.value)(values) + self.above)

    def clean_moments(self, signal: Signal, marginals: Marginals) -> Moments:
        gate, latent = gate_and_latent(signal)
        on, f = gate.moments(marginals), latent.moments(marginals)
        mean = jnp.exp(f.mean + 0.5 * f.var + self.above)
        return times(on, Moments(mean, mean**2 * jnp.expm1(f.var)))

    def exposed(self, f: Moments, exposure: Array) -> Moments:
        return Moments(f.mean + jnp.log(exposure), f.var)


def gate_and_latent(signal: Signal) -> tuple[Gate, Signal]:
    """The two factors of a zero-inflated signal, for likelihoods that need them apart."""
    match signal.factors():
        case (Gate() as gate, Latent() as latent):
            return gate, latent
    raise TypeError(f"{signal} is not a gate times a latent, which this likelihood needs.")
