"""Expectations over a Gaussian of functions that are only known point by point."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

_REACH = 5.5
_TINY = 1e-12


def trapezoid(nodes: int, reach: float = _REACH) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for an expectation under N(0, 1).

    For smooth integrands that decay the trapezoid rule converges fast and, unlike Gauss–Hermite,
    it stays fine-grained where a gate switches sharply.
    """
    xi = np.linspace(-reach, reach, nodes)
    weight = np.exp(-0.5 * xi**2)
    return xi, weight / weight.sum()


def expectation(
    function: Callable[..., Array], mean: Array, var: Array, *args: ArrayLike, nodes: int = 25
) -> Array:
    """E[function(g, *args)] for g ~ N(mean, var), at every input.

    The function works element by element and must be one object from call to call, with
    everything it depends on among its arguments. Value and derivatives come from one pass over the
    nodes.
    """
    sd = jnp.sqrt(jnp.maximum(var, _TINY))
    shape = jnp.broadcast_shapes(mean.shape, *(jnp.shape(a) for a in args))
    dtype = mean.dtype
    whole = tuple(jnp.broadcast_to(jnp.asarray(a, dtype), shape) for a in (mean, sd, *args))
    return _expectation(function, nodes, whole)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _expectation(function: Callable[..., Array], nodes: int, whole: tuple[Array, ...]) -> Array:
    mean, sd, *args = whole
    xi, weight = (jnp.asarray(v, mean.dtype) for v in trapezoid(nodes))

    def add(i: Any, total: Array) -> Array:
        return total + weight[i] * function(mean + sd * xi[i], *args)

    return jax.lax.fori_loop(0, nodes, add, jnp.zeros_like(mean))


def _forward(
    function: Callable[..., Array], nodes: int, whole: tuple[Array, ...]
) -> tuple[Array, tuple[Array, ...]]:
    mean, sd, *args = whole
    xi, weight = (jnp.asarray(v, mean.dtype) for v in trapezoid(nodes))
    ones = jnp.ones_like(mean)

    # A loop, not one long expression: XLA would compute every node once for each of the sums.
    def add(i: Any, sums: tuple[Array, ...]) -> tuple[Array, ...]:
        value, pull = jax.vjp(function, mean + sd * xi[i], *args)
        slope, *slopes = pull(ones)
        terms = (value, slope, xi[i] * slope, *slopes)
        return tuple(s + weight[i] * t for s, t in zip(sums, terms, strict=True))

    start = (jnp.zeros_like(mean),) * (len(whole) + 1)
    value, *derivatives = jax.lax.fori_loop(0, nodes, add, start)
    return value, tuple(derivatives)


def _backward(
    function: Callable[..., Array], nodes: int, derivatives: tuple[Array, ...], ct: Array
) -> tuple[tuple[Array, ...]]:
    return (tuple(ct * d for d in derivatives),)


_expectation.defvjp(_forward, _backward)
