"""The algebra of signals: sums and products of independent random functions.

A signal is built from latents by name,

    Gate("g") * Latent("f")                        the zero-inflated GP
    Latent("w1") * Latent("f1") + Latent("w2") * Latent("f2")

and knows nothing of where their marginals come from. Under the variational posterior the
latents are independent at every input, so means and variances compose exactly:

    product    mean = m_a m_b,    var = m_a² v_b + m_b² v_a + v_a v_b
    sum        mean = Σ m,        var = Σ v
    gate Φ(g)  the probit moments of zigp.special

This holds while no latent enters one output twice; a signal in which one does is refused.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add, mul

import jax.numpy as jnp
from jax import Array

from zigp.latent import Moments
from zigp.special import normal_cdf, probit_moments

__all__ = ["Gate", "Latent", "Product", "Signal", "Sum"]

Marginals = Mapping[str, Moments]
Nodes = Mapping["Signal", Array]


class Signal(ABC):
    """A random function of the input, composed of latents."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The latents in it."""

    @property
    def gaussian(self) -> bool:
        """Whether its distribution at an input is exactly normal."""
        return False

    @abstractmethod
    def moments(self, marginals: Marginals) -> Moments:
        """Exact mean and variance at every input."""

    @abstractmethod
    def value(self, values: Mapping[str, Array]) -> Array:
        """The signal where the latents take these values."""

    @abstractmethod
    def conditioners(self, *, fixed: bool = False) -> tuple[Signal, ...]:
        """The Gaussian parts that, once known, leave the rest normal (`fixed`: leave nothing)."""

    @abstractmethod
    def given(self, marginals: Marginals, nodes: Nodes, *, fixed: bool = False) -> Moments:
        """Mean and variance once every conditioner sits at its node, in standard deviations."""

    def factors(self) -> tuple[Signal, ...]:
        """What it is a product of, for likelihoods that need gate and latent apart."""
        return (self,)

    def __mul__(self, other: Signal) -> Product:
        return Product((*self.factors(), *other.factors()))

    def __add__(self, other: Signal) -> Sum:
        return Sum((*_terms(self), *_terms(other)))


@dataclass(frozen=True)
class Latent(Signal):
    """A Gaussian process as it is."""

    name: str

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def gaussian(self) -> bool:
        return True

    def moments(self, marginals: Marginals) -> Moments:
        return marginals[self.name]

    def value(self, values: Mapping[str, Array]) -> Array:
        return values[self.name]

    def conditioners(self, *, fixed: bool = False) -> tuple[Signal, ...]:
        return (self,) if fixed else ()

    def given(self, marginals: Marginals, nodes: Nodes, *, fixed: bool = False) -> Moments:
        return _at_node(self, marginals, nodes) if fixed else marginals[self.name]


@dataclass(frozen=True)
class Gate(Signal):
    """The on-off switch Φ(g), between 0 and 1, of a latent g or of a sum of latents."""

    of: Signal

    def __init__(self, of: Signal | str):
        of = Latent(of) if isinstance(of, str) else of
        if not of.gaussian:
            raise ValueError(
                f"A gate needs a latent or a sum of latents inside, not {type(of).__name__}: "
                "only for a Gaussian are its moments known in closed form."
            )
        object.__setattr__(self, "of", of)

    @property
    def names(self) -> tuple[str, ...]:
        return self.of.names

    def moments(self, marginals: Marginals) -> Moments:
        g = self.of.moments(marginals)
        return Moments(*probit_moments(g.mean, g.var))

    def value(self, values: Mapping[str, Array]) -> Array:
        return normal_cdf(self.of.value(values))

    def conditioners(self, *, fixed: bool = False) -> tuple[Signal, ...]:
        return (self.of,)

    def given(self, marginals: Marginals, nodes: Nodes, *, fixed: bool = False) -> Moments:
        g = _at_node(self.of, marginals, nodes)
        return Moments(normal_cdf(g.mean), g.var)


@dataclass(frozen=True)
class Product(Signal):
    """A product of independent signals."""

    parts: tuple[Signal, ...]

    def __post_init__(self) -> None:
        _refuse_repeats(self, self.parts)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for part in self.parts for name in part.names)

    def factors(self) -> tuple[Signal, ...]:
        return self.parts

    def moments(self, marginals: Marginals) -> Moments:
        return reduce(_times, (part.moments(marginals) for part in self.parts))

    def value(self, values: Mapping[str, Array]) -> Array:
        return reduce(mul, (part.value(values) for part in self.parts))

    @property
    def _free(self) -> int:
        """The one factor that may stay random: a product of constants and one normal is normal."""
        return max(range(len(self.parts)), key=lambda i: self.parts[i].gaussian)

    def conditioners(self, *, fixed: bool = False) -> tuple[Signal, ...]:
        return tuple(
            leaf
            for i, part in enumerate(self.parts)
            for leaf in part.conditioners(fixed=fixed or i != self._free)
        )

    def given(self, marginals: Marginals, nodes: Nodes, *, fixed: bool = False) -> Moments:
        parts = (
            part.given(marginals, nodes, fixed=fixed or i != self._free)
            for i, part in enumerate(self.parts)
        )
        return reduce(_times, parts)


@dataclass(frozen=True)
class Sum(Signal):
    """A sum of independent signals."""

    parts: tuple[Signal, ...]

    def __post_init__(self) -> None:
        _refuse_repeats(self, self.parts)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for part in self.parts for name in part.names)

    @property
    def gaussian(self) -> bool:
        return all(part.gaussian for part in self.parts)

    def moments(self, marginals: Marginals) -> Moments:
        return reduce(_plus, (part.moments(marginals) for part in self.parts))

    def value(self, values: Mapping[str, Array]) -> Array:
        return reduce(add, (part.value(values) for part in self.parts))

    def conditioners(self, *, fixed: bool = False) -> tuple[Signal, ...]:
        return tuple(leaf for part in self.parts for leaf in part.conditioners(fixed=fixed))

    def given(self, marginals: Marginals, nodes: Nodes, *, fixed: bool = False) -> Moments:
        return reduce(_plus, (part.given(marginals, nodes, fixed=fixed) for part in self.parts))


def _times(a: Moments, b: Moments) -> Moments:
    var = a.mean**2 * b.var + b.mean**2 * a.var + a.var * b.var
    return Moments(a.mean * b.mean, var)


def _plus(a: Moments, b: Moments) -> Moments:
    return Moments(a.mean + b.mean, a.var + b.var)


def _at_node(of: Signal, marginals: Marginals, nodes: Nodes) -> Moments:
    g = of.moments(marginals)
    value = g.mean + jnp.sqrt(g.var) * nodes[of]
    return Moments(value, jnp.zeros_like(value))


def _terms(signal: Signal) -> tuple[Signal, ...]:
    return signal.parts if isinstance(signal, Sum) else (signal,)


def _refuse_repeats(signal: Signal, parts: tuple[Signal, ...]) -> None:
    names = [name for part in parts for name in part.names]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"Latent {', '.join(map(repr, twice))} enters a {type(signal).__name__.lower()} "
            "twice. The rules for means and variances need independent parts: use two latents, "
            "or rewrite the signal so that each appears once."
        )
