"""Parts of the data for a step each: rows, or slabs of a lattice, in a new order every pass."""

from __future__ import annotations

from math import prod

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from zigp.gp.batch import Batch, Lattice, Rows

__all__ = ["filled_up", "longest", "minibatch", "next_order", "order_of_pass", "whole_batches"]


def whole_batches(data: Batch, size: int, parts: int = 1) -> tuple[Batch, int]:
    """Data that divide into minibatches of about so many cells, and how many places each has.

    Minibatches take rows, or slabs across the longest axis of a lattice, filled up to whole ones
    with places of weight 0. Where several devices have a part of the data each, the places are
    those of one.
    """
    places = data.at.shape[longest(data.at)]
    across = prod(data.at.shape) // places
    size = min(max(round(size / across / parts), 1), -(-places // parts))
    return filled_up(data, size * parts), size


def filled_up(data: Batch, multiple: int) -> Batch:
    """Data with places of weight 0 at the end, so that their number divides evenly."""
    along = longest(data.at)
    places = data.at.shape[along]
    missing = -places % multiple
    if not missing:
        return data
    filled = _places(data, jnp.concatenate([jnp.arange(places), jnp.zeros(missing, int)]), along)
    shape = [-1 if axis == along else 1 for axis in range(len(data.at.shape))]
    real = (jnp.arange(places + missing) < places).reshape(shape)
    return eqx.tree_at(lambda b: b.weight, filled, filled.weight * real)


def longest(at: Rows | Lattice) -> int:
    """The axis that minibatches and devices divide."""
    return int(np.argmax(at.shape))


def next_order(order: Array | None, key: Array, step: Array, size: int | None) -> Array | None:
    """The order of the places, drawn anew at the start of every pass and keyed by the pass."""
    if size is None or order is None:
        return None
    batches, places = len(order) // size, len(order)
    return jax.lax.cond(
        step % batches == 0,
        lambda: order_of_pass(key, step // batches, places).astype(order.dtype),
        lambda: order,
    )


def order_of_pass(key: Array, number: Array, places: int) -> Array:
    """The order in which a pass over the data goes."""
    return jax.random.permutation(jax.random.fold_in(key, number), places)


def minibatch(data: Batch, order: Array | None, step: Array, size: int | None, along: int) -> Batch:
    """The step's part of the pass, its weights raised by N/B; all of it without an order."""
    if size is None or order is None:
        return data
    batches = len(order) // size
    part = _places(data, jax.lax.dynamic_slice(order, ((step % batches) * size,), (size,)), along)
    return eqx.tree_at(lambda b: b.weight, part, part.weight * batches)


def _places(data: Batch, indices: Array, along: int) -> Batch:
    """Some places along an axis, with all that lies across them."""
    at = data.at
    behind = along - len(at.shape)
    y, weight = (jnp.take(v, indices, axis=behind) for v in (data.y, data.weight))
    if isinstance(at, Rows):
        return Batch(Rows(jnp.asarray(at.X)[indices]), y, weight)
    axes = list(at.axes)
    axes[along] = jnp.asarray(axes[along])[indices]
    effort = None if at.exposure is None else jnp.take(at.exposure, indices, axis=along)
    return Batch(Lattice(tuple(axes), at.columns, effort, at.exposure_column), y, weight)
