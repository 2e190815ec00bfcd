"""What every likelihood answers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

import equinox as eqx
import jax.numpy as jnp
from jax import Array
from jaxtyping import PRNGKeyArray

from zigp.batch import Batch
from zigp.latent import Moments
from zigp.predictive import Predictive
from zigp.signal import Gate, Latent, Marginals, Signal

__all__ = ["Amounts", "Likelihood", "LogAmounts", "gate_and_latent"]


class Likelihood(eqx.Module):
    """What a model assumes of y once the signal is known."""

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

    @abstractmethod
    def observe(self, key: PRNGKeyArray, signal: Signal, values: Mapping[str, Array]) -> Array:
        """Draw observations where the latents take these values, [draws, leading axes, inputs]."""


class Amounts(Likelihood):
    """A likelihood of amounts, which have a distribution; labels just have a probability."""

    @abstractmethod
    def predictive(self, signal: Signal, marginals: Marginals) -> Predictive:
        """The distribution of a new observation at every input."""


class LogAmounts(Amounts):
    """Amounts or counts that the latent f is the logarithm of."""

    def exposed(self, f: Moments, exposure: Array) -> Moments:
        return Moments(f.mean + jnp.log(exposure), f.var)


def gate_and_latent(signal: Signal) -> tuple[Gate, Signal]:
    """The two factors of a zero-inflated signal, for likelihoods that need them apart."""
    match signal.factors():
        case (Gate() as gate, Latent() as latent):
            return gate, latent
    raise TypeError(f"{signal} is not a gate times a latent, which this likelihood needs.")
