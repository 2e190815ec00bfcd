"""The algebra of signals: sums and products of random functions.

A signal is built from latents by name,

    Gate("g") * Latent("f")                                    the zero-inflated GP
    Total("q", Latent("W", "qp") * Latent("f", "q"))           the GP network

and does not depend on how their marginals are computed. A name may denote a family of latents, with
a letter for each of its axes: W has one for every q and p. Products align families by their
letters, and a total sums along one of them. Under the variational posterior the latents are
jointly normal at every input, and means and variances compose exactly:

    product    mean = m_a m_b,    var = m_a² v_b + m_b² v_a + v_a v_b
    sum        mean = Σ m,        var = Σ v
    gate Φ(g)  the probit moments of zigp.special

These rules hold for independent parts. If two latents have a covariance c,

    product of latents    mean = m_a m_b + c,    var grows by 2 m_a m_b c + c²
    sum of latents        var grows by 2 c
    Φ(g) f                the gated moments of zigp.special

Dependent parts of other kinds have no closed form and are refused, and so is a signal in which a
latent enters an output twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, product
from operator import add, mul

import jax
import jax.numpy as jnp
from jax import Array

from zigp.gp.moments import Moments
from zigp.math.special import gated_moments, normal_cdf, probit_moments

Marginals = Mapping[str, Moments]
Nodes = Mapping["Signal", Array]


class Signal(ABC):
    """A random function of the input, composed of latents."""

    @property
    @abstractmethod
    def leaves(self) -> tuple[Latent, ...]:
        """The latents of the signal."""

    @property
    @abstractmethod
    def axes(self) -> str:
        """The letters of the leading axes, which are in front of those of the inputs."""

    @property
    def gaussian(self) -> bool:
        """True if the distribution at an input is exactly normal."""
        return False

    @property
    def linear(self) -> frozenset[str]:
        """The latents in which the signal is linear given the others: those outside gates."""
        return frozenset(leaf.name for leaf in self.leaves)

    @abstractmethod
    def moments(self, marginals: Marginals) -> Moments:
        """Return the exact mean and variance at every input."""

    @abstractmethod
    def value(self, values: Mapping[str, Array]) -> Array:
        """Return the signal at these values of the latents."""

    @abstractmethod
    def conditioners(self, *, fixed: bool = False) -> tuple[Signal, ...]:
        """Return the Gaussian parts given which the signal is normal (`fixed`: is a number)."""

    @abstractmethod
    def given(self, marginals: Marginals, nodes: Nodes, *, fixed: bool = False) -> Moments:
        """Return mean and variance given each conditioner at its node, in standard deviations."""

    def factors(self) -> tuple[Signal, ...]:
        """Return the factors of a product, for likelihoods that need gate and latent apart."""
        return (self,)

    def __mul__(self, other: Signal) -> Product:
        return Product((*self.factors(), *other.factors()))

    def __add__(self, other: Signal) -> Sum:
        return Sum((*_terms(self), *_terms(other)))


@dataclass(frozen=True)
class Latent(Signal):
    """A Gaussian process."""

    name: str
    letters: str = ""

    @property
    def axes(self) -> str:
        return self.letters

    @property
    def leaves(self) -> tuple[Latent, ...]:
        return (self,)

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
        return (_at_node if fixed else _given)(self, marginals, nodes)


@dataclass(frozen=True)
class Gate(Signal):
    """The on-off switch Φ(g), between 0 and 1, of a latent g or of a sum of latents."""

    of: Signal

    def __init__(self, of: Signal | str, letters: str = ""):
        of = Latent(of, letters) if isinstance(of, str) else of
        if not of.gaussian:
            raise ValueError(
                f"A gate needs a latent or a sum of latents inside, not {type(of).__name__}: "
                "only for a Gaussian are its moments known in closed form."
            )
        object.__setattr__(self, "of", of)

    @property
    def axes(self) -> str:
        return self.of.axes

    @property
    def leaves(self) -> tuple[Latent, ...]:
        return self.of.leaves

    @property
    def linear(self) -> frozenset[str]:
        return frozenset()

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
class _Several(Signal):
    """A combination of signals."""

    parts: tuple[Signal, ...]

    def __post_init__(self) -> None:
        names = [leaf.name for leaf in self.leaves]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(
                f"Latent {', '.join(map(repr, twice))} enters a {type(self).__name__.lower()} "
                "twice. The rules for means and variances need independent parts: use two latents, "
                "or rewrite the signal so that each appears once."
            )

    @property
    def axes(self) -> str:
        return _union(self.parts)

    @property
    def leaves(self) -> tuple[Latent, ...]:
        return tuple(leaf for part in self.parts for leaf in part.leaves)

    @property
    def linear(self) -> frozenset[str]:
        return frozenset().union(*(part.linear for part in self.parts))

    def _of_each[T: (Array, Moments)](self, function: Callable[[Signal], T]) -> Iterator[T]:
        """Apply a function to each part, and align the axes of the results."""
        return (_aligned(function(part), part.axes, self.axes) for part in self.parts)


@dataclass(frozen=True)
class Product(_Several):
    """A product of signals, independent or dependent in pairs."""

    def factors(self) -> tuple[Signal, ...]:
        return self.parts

    def moments(self, marginals: Marginals) -> Moments:
        factors = []
        for pair in _pairs(self.parts, marginals):
            moments = _pair_moments(pair, marginals)
            factors.append(_aligned(moments, _union(pair), self.axes))
        return reduce(times, factors)

    def value(self, values: Mapping[str, Array]) -> Array:
        return reduce(mul, self._of_each(lambda part: part.value(values)))

    def _fixes(self, part: Signal) -> bool:
        """True if the product is normal only given this factor: all but one that is normal."""
        return part is not max(self.parts, key=lambda factor: factor.gaussian)

    def conditioners(self, *, fixed: bool = False) -> tuple[Signal, ...]:
        return tuple(
            leaf
            for part in self.parts
            for leaf in part.conditioners(fixed=fixed or self._fixes(part))
        )

    def given(self, marginals: Marginals, nodes: Nodes, *, fixed: bool = False) -> Moments:
        def of(part: Signal) -> Moments:
            return part.given(marginals, nodes, fixed=fixed or self._fixes(part))

        return reduce(times, self._of_each(of))


@dataclass(frozen=True)
class Sum(_Several):
    """A sum of signals, of which only latents and their sums may be dependent."""

    @property
    def gaussian(self) -> bool:
        return all(part.gaussian for part in self.parts)

    def moments(self, marginals: Marginals) -> Moments:
        total = reduce(_plus, self._of_each(lambda part: part.moments(marginals)))
        for a, b in combinations(self.parts, 2):
            if (c := covariance(a, b, marginals)) is not None:
                both = _aligned(c, _union((a, b)), self.axes)
                total = Moments(total.mean, total.var + 2.0 * both)
        return total

    def value(self, values: Mapping[str, Array]) -> Array:
        return reduce(add, self._of_each(lambda part: part.value(values)))

    def conditioners(self, *, fixed: bool = False) -> tuple[Signal, ...]:
        return tuple(leaf for part in self.parts for leaf in part.conditioners(fixed=fixed))

    def given(self, marginals: Marginals, nodes: Nodes, *, fixed: bool = False) -> Moments:
        if self.gaussian and not fixed:
            return _given(self, marginals, nodes)
        return reduce(_plus, self._of_each(lambda part: part.given(marginals, nodes, fixed=fixed)))


@dataclass(frozen=True)
class Total(Signal):
    """The sum of a family of signals, independent of one another, along one of its axes."""

    letter: str
    of: Signal

    def __post_init__(self) -> None:
        if without := [leaf.name for leaf in self.of.leaves if self.letter not in leaf.axes]:
            raise ValueError(
                f"A total over {self.letter!r} would count latent {', '.join(map(repr, without))}, "
                f"which has no axis {self.letter!r}, more than once in one output."
            )

    @property
    def axes(self) -> str:
        return self.of.axes.replace(self.letter, "")

    @property
    def leaves(self) -> tuple[Latent, ...]:
        return self.of.leaves

    @property
    def gaussian(self) -> bool:
        return self.of.gaussian

    @property
    def linear(self) -> frozenset[str]:
        return self.of.linear

    def moments(self, marginals: Marginals) -> Moments:
        return self._added(self.of.moments(marginals))

    def value(self, values: Mapping[str, Array]) -> Array:
        return jnp.sum(self.of.value(values), axis=self.of.axes.index(self.letter))

    def conditioners(self, *, fixed: bool = False) -> tuple[Signal, ...]:
        return self.of.conditioners(fixed=fixed)

    def given(self, marginals: Marginals, nodes: Nodes, *, fixed: bool = False) -> Moments:
        return self._added(self.of.given(marginals, nodes, fixed=fixed))

    def _added(self, terms: Moments) -> Moments:
        axis = self.of.axes.index(self.letter)
        return Moments(jnp.sum(terms.mean, axis), jnp.sum(terms.var, axis))


def covariance(a: Signal, b: Signal, marginals: Marginals) -> Array | None:
    """Return the covariance of two latents or sums of latents, None if they are independent.

    Parts of other kinds must be independent.
    """
    pairs = [
        (one, other, c)
        for one, other in product(a.leaves, b.leaves)
        if (c := _entry(one, other, marginals)) is not None
    ]
    if not pairs:
        return None
    if not (a.gaussian and b.gaussian):
        names = " and ".join(f"{leaf.name!r}" for leaf in pairs[0][:2])
        raise ValueError(
            f"Latents {names} are dependent, and enter {a} and {b}. The moments have a closed form "
            "only for sums and products of two latents, and for a gate times a latent: use "
            "independent latents here."
        )
    axes = _union((a, b))
    return reduce(add, (_aligned(c, _union((one, other)), axes) for one, other, c in pairs))


def _entry(a: Latent, b: Latent, marginals: Marginals) -> Array | None:
    """Return the covariance of two latents, which stands in the moments of either."""
    return marginals[a.name].cov.get(b.name, marginals[b.name].cov.get(a.name))


def _pairs(parts: tuple[Signal, ...], marginals: Marginals) -> list[tuple[Signal, ...]]:
    """Return the factors of a product, those that are dependent in pairs."""

    def dependent(a: Signal, b: Signal) -> bool:
        leaves = product(a.leaves, b.leaves)
        return any(_entry(one, other, marginals) is not None for one, other in leaves)

    groups: list[tuple[Signal, ...]] = []
    for part in parts:
        ties = [i for i, group in enumerate(groups) if any(dependent(part, one) for one in group)]
        if ties and (len(ties) > 1 or len(groups[ties[0]]) > 1):
            raise ValueError(
                f"{part} depends on more than one other factor of a product, whose moments then "
                "have no closed form: use independent latents here."
            )
        if ties:
            groups[ties[0]] = (*groups[ties[0]], part)
        else:
            groups.append((part,))
    return groups


def _pair_moments(pair: tuple[Signal, ...], marginals: Marginals) -> Moments:
    """Return the moments of a signal, or of the product of two dependent ones."""
    if len(pair) == 1:
        return pair[0].moments(marginals)
    a, b = sorted(pair, key=lambda part: isinstance(part, Gate))  # the gate last
    inside = b.of if isinstance(b, Gate) else b
    c, axes = covariance(a, inside, marginals), _union((a, b))
    assert c is not None
    f, g = (_aligned(part.moments(marginals), part.axes, axes) for part in (a, inside))
    if isinstance(b, Gate):
        return Moments(*gated_moments(f.mean, f.var, g.mean, g.var, c))
    whole = times(f, g)
    return Moments(whole.mean + c, whole.var + 2.0 * f.mean * g.mean * c + c**2)


def times(a: Moments, b: Moments) -> Moments:
    """Return the moments of a product of independent signals."""
    var = a.mean**2 * b.var + b.mean**2 * a.var + a.var * b.var
    return Moments(a.mean * b.mean, var)


def _plus(a: Moments, b: Moments) -> Moments:
    return Moments(a.mean + b.mean, a.var + b.var)


def _union(parts: tuple[Signal, ...]) -> str:
    """Return the axes of a combination: those of its largest part, with the others' in order."""
    axes = max((part.axes for part in parts), key=len)
    for part in parts:
        if "".join(letter for letter in axes if letter in part.axes) != part.axes:
            raise ValueError(f"Axes {part.axes!r} do not line up with {axes!r} in one signal.")
    return axes


def _aligned[T: (Array, Moments)](values: T, have: str, want: str) -> T:
    """Insert an axis of length 1 for every letter of `want` that is not in `have`."""
    new = [i for i, letter in enumerate(want) if letter not in have]
    return jax.tree.map(lambda array: jnp.expand_dims(array, new), values)


def _given(of: Signal, marginals: Marginals, nodes: Nodes) -> Moments:
    """Return the moments of a latent, or a sum of latents, given the conditioners before it.

    For a conditioner at x standard deviations √s from its mean, with which it has the covariance c,

        mean = m + x c/√s          var = v − c²/s
    """
    moments = of.moments(marginals)
    mean, var = moments.mean, moments.var
    for part, node in nodes.items():
        if part == of:
            break
        if (c := covariance(of, part, marginals)) is not None:
            axes = _union((of, part))
            s = _aligned(part.moments(marginals).var, part.axes, axes)
            slope = c / jnp.sqrt(jnp.maximum(s, jnp.finfo(s.dtype).tiny))
            mean, var = mean + slope * node, jnp.maximum(var - slope**2, 0.0)
    return Moments(mean, var)


def _at_node(of: Signal, marginals: Marginals, nodes: Nodes) -> Moments:
    g = _given(of, marginals, nodes)
    value = g.mean + jnp.sqrt(g.var) * nodes[of]
    return Moments(value, jnp.zeros_like(value))


def _terms(signal: Signal) -> tuple[Signal, ...]:
    return signal.parts if isinstance(signal, Sum) else (signal,)
