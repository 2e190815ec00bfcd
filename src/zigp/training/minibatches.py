"""Parts of the data for a step each: rows, or slabs of a lattice, in a new order every pass."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from zigp.gp.batch import Batch, Lattice, Rows


def whole_batches(data: Batch, size: int, parts: int = 1) -> tuple[Batch, int]:
    """Fill data up to whole minibatches of about `size` cells; return them and places per part.

    A place is a row, or a slab across the longest axis of a lattice. Added places have weight 0.
    """
    places = data.at.shape[longest(data.at)]
    across = prod(data.at.shape) // places
    size = min(max(round(size / across / parts), 1), -(-places // parts))
    return filled_up(data, size * parts), size


def filled_up(data: Batch, multiple: int) -> Batch:
    """Add places of weight 0 at the end, so that the number of places is a multiple."""
    along = longest(data.at)
    places = data.at.shape[along]
    missing = -places % multiple
    if not missing:
        return data
    indices = jnp.concatenate([jnp.arange(places), jnp.zeros(missing, int)])
    filled = map_along(lambda values, axis: jnp.take(values, indices, axis), data, along)
    shape = [-1 if axis == along else 1 for axis in range(len(data.at.shape))]
    real = (jnp.arange(places + missing) < places).reshape(shape)
    return eqx.tree_at(lambda b: b.weight, filled, filled.weight * real)


def longest(at: Rows | Lattice) -> int:
    """Return the axis that minibatches and devices divide."""
    return int(np.argmax(at.shape))


def next_order(order: Array | None, key: Array, step: Array, size: int | None) -> Array | None:
    """Return the order of the places, drawn anew at the start of every pass."""
    if size is None or order is None:
        return None
    batches, places = len(order) // size, len(order)
    return jax.lax.cond(
        step % batches == 0,
        lambda: order_of_pass(key, step // batches, places).astype(order.dtype),
        lambda: order,
    )


def order_of_pass(key: Array, number: Array, places: int) -> Array:
    """Return the order of the places in a pass of this number."""
    return jax.random.permutation(jax.random.fold_in(key, number), places)


def minibatch(
    data: Batch, order: Array | None, step: Array, size: int | None, along: int, parts: int = 1
) -> Batch:
    """Return the part of the data for a step, its weights times N/B; all of it without an order.

    Data in several parts, one per device, give `size` places of each part.
    """
    if size is None or order is None:
        return data
    batches = len(order) // size
    chosen = jax.lax.dynamic_slice(order, ((step % batches) * size,), (size,))

    def take(values: Array, axis: int) -> Array:
        before, after = values.shape[:axis], values.shape[axis:][1:]
        split = jnp.reshape(values, (*before, parts, len(order), *after))
        return jnp.take(split, chosen, axis + 1).reshape(*before, parts * size, *after)

    part = map_along(take, data, along)
    return eqx.tree_at(lambda b: b.weight, part, part.weight * batches)


def map_along(function: Callable[[Any, int], Array], data: Batch, along: int) -> Batch:
    """Apply a function of an array and its axis to the arrays that run along one of the inputs."""
    at, axis = data.at, along - len(data.at.shape)
    if isinstance(at, Rows):
        inputs: Rows | Lattice = Rows(function(jnp.asarray(at.X), 0))
    else:
        axes = tuple(
            function(jnp.asarray(a), 0) if i == along else a for i, a in enumerate(at.axes)
        )
        exposure = None if at.exposure is None else function(jnp.asarray(at.exposure), along)
        inputs = Lattice(axes, at.columns, exposure, at.exposure_column)
    return Batch(inputs, *(function(v, axis % v.ndim) for v in (data.y, data.weight)))
