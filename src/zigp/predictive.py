"""The distribution of a new observation, as a mixture of normals at every input.

Once its conditioners are known (for the zero-inflated GP: g) a signal is normal, and so is the
observation; integrating over them leaves a mixture whose weights come from a quadrature rule.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float

from zigp.latent import Moments
from zigp.signal import Marginals, Signal
from zigp.special import log_normal_cdf, normal_cdf

__all__ = ["Mixture", "mixture"]

_NODES_ONE = 301
_NODES_MANY = 512
_REACH = 8.0
_BISECTIONS = 60
_ENDLESS = 1e9  # as many standard deviations as infinity


class Mixture(eqx.Module):
    """Σ_j weight_j N(mean_j, var_j): the components run along the first axis."""

    weight: Float[Array, " J"]
    mean: Float[Array, "J ..."]
    var: Float[Array, "J ..."]

    def moments(self) -> Moments:
        mean = jnp.tensordot(self.weight, self.mean, axes=1)
        second = jnp.tensordot(self.weight, self.var + (self.mean - mean) ** 2, axes=1)
        return Moments(mean, second)

    def cdf(self, t: Array) -> Array:
        """P(y ≤ t) at every input."""
        return jnp.tensordot(self.weight, normal_cdf(self._standardised(t)), axes=1)

    def log_between(self, low: Array, high: Array) -> Array:
        """log P(low < y ≤ high) at every input, also where the probability itself underflows."""
        a, b = (jnp.clip(self._standardised(t), -_ENDLESS, _ENDLESS) for t in (low, high))
        # Of Φ(b) − Φ(a) = Φ(−a) − Φ(−b) the side in the left tail loses no digits.
        flip = a + b > 0
        a, b = jnp.where(flip, -b, a), jnp.where(flip, -a, b)
        whole, part = log_normal_cdf(b), log_normal_cdf(a)
        each = whole + jnp.log(-jnp.expm1(jnp.minimum(part - whole, 0.0)))
        weight = self.weight.reshape(-1, *(1,) * (each.ndim - 1))
        return jax.scipy.special.logsumexp(each, axis=0, b=weight)

    def quantile(self, p: Array) -> Array:
        """The t with P(y ≤ t) = p, by bisection between the components' own quantiles."""
        z = jax.scipy.special.ndtri(p)
        own = self.mean + jnp.sqrt(self.var) * z
        low, high = jnp.min(own, axis=0), jnp.max(own, axis=0)

        def halve(_: Array | int, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = bracket
            middle = 0.5 * (low + high)
            above = self.cdf(middle) > p
            return jnp.where(above, low, middle), jnp.where(above, middle, high)

        low, high = jax.lax.fori_loop(0, _BISECTIONS, halve, (low, high))
        return 0.5 * (low + high)

    def _standardised(self, t: Array) -> Array:
        return (t - self.mean) / jnp.sqrt(self.var)


def mixture(
    signal: Signal, marginals: Marginals, noise: Callable[[Callable[[Signal], Array]], Array]
) -> Mixture:
    """An observation's distribution at every input and output, as a mixture of normals.

    `noise` says what variance is added once the conditioners are known: it is given a function that
    tells the value of any part of the signal that they determine, such as a gate. Only marginals
    are asked for, so one set of nodes serves all outputs.
    """
    parts = signal.conditioners()
    moments = signal.moments(marginals)
    shapes = []
    for part in parts:
        sizes = zip(part.axes, part.moments(marginals).mean.shape, strict=False)
        inputs = moments.mean.ndim - len(signal.axes)
        shapes.append([1 if a in signal.axes else n for a, n in sizes] + [1] * inputs)
    xi, weight = _standard_normal_rule(sum(prod(shape) for shape in shapes))
    split = np.split(xi, np.cumsum([prod(shape) for shape in shapes])[:-1], axis=1)
    nodes = [
        jnp.asarray(x.reshape(-1, *shape), moments.mean.dtype)
        for x, shape in zip(split, shapes, strict=False)
    ]

    def given_nodes(at: list[Array]) -> Moments:
        known = dict(zip(parts, at, strict=True))
        given = signal.given(marginals, known)
        added = noise(lambda part: part.given(marginals, known, fixed=True).mean)
        return Moments(given.mean, given.var + added)

    given = jax.vmap(given_nodes, axis_size=len(weight))(nodes)
    return Mixture(jnp.asarray(weight, moments.mean.dtype), given.mean, given.var)


def _standard_normal_rule(dimensions: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes [J, dimensions] and weights [J] for expectations under N(0, I).

    One dimension: the trapezoid rule, which converges fast for smooth integrands that decay and,
    unlike Gauss–Hermite, stays fine-grained where a gate switches sharply. More: a scrambled
    Sobol sequence of fixed seed.
    """
    if dimensions == 0:
        return np.zeros((1, 0)), np.ones(1)
    if dimensions == 1:
        xi = np.linspace(-_REACH, _REACH, _NODES_ONE)
        weight = np.exp(-0.5 * xi**2)
        return xi[:, None], weight / weight.sum()

    from scipy.stats import norm, qmc

    uniform = qmc.Sobol(dimensions, scramble=True, rng=0).random(_NODES_MANY)
    return norm.ppf(uniform), np.full(_NODES_MANY, 1.0 / _NODES_MANY)
