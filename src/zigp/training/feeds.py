"""The data of each step: from memory or from a stream of blocks, whole or in minibatches.

A minibatch is a number of places along the longest axis of the inputs: rows, or slabs of a lattice.
Every pass visits all places in a new order.
"""

import hashlib
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from math import prod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from zigp.gp.batch import Batch, Lattice
from zigp.training.devices import Devices


class Resident:
    """Data that fit into memory.

    `rows` is the number of observations. Minibatches and devices divide the axis `along`, of which
    each device has `places`, and takes `batch_size` of them in a step, or all if that is None.
    """

    def __init__(self, data: Batch, batch_size: int | None, devices: Devices | None = None):
        parts = 1 if devices is None else devices.count
        self.rows = max(float(np.count_nonzero(data.weight)), 1.0)
        self.along, self.batch_size = data.longest, None
        if batch_size is None or _has_all(data, batch_size):
            data = filled_up(data, parts)
        else:
            data, self.batch_size = whole_batches(data, batch_size, parts)
        self.places = data.at.shape[self.along] // parts
        self._data = placed(data, devices)

    def block(self, step: int) -> tuple[Batch, int | None]:
        """Return the data in memory at a step, and the number of steps for which they stay."""
        return self._data, None

    def digest(self) -> str:
        """Return a number that identifies the data."""
        return digest_of(self._data)

    def close(self) -> None:
        """Leave the data as they are."""


def _has_all(data: Batch, batch_size: int) -> bool:
    """Return whether a minibatch would hold all data; padded rows need no place in it."""
    if isinstance(data.at, Lattice):
        return batch_size >= prod(data.at.shape)
    observed = np.reshape(data.weight, (-1, *data.at.shape)).any(axis=0)
    return batch_size >= int(np.count_nonzero(observed))


def digest_of(data: Batch) -> str:
    """Return a number that identifies the data."""
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(data):
        digest.update(np.ascontiguousarray(leaf).data)
    return digest.hexdigest()


@dataclass
class Streamed:
    """Data that are read block by block, each of which serves a number of steps.

    The weights in a block make it stand for all rows.

    Attributes
    ----------
    blocks : callable
        Takes the number of a block and yields that one and all that follow, pass after pass.
    rows : float
        The number of rows in all.
    blocks_per_pass : int
        The number of blocks in which every row occurs once.
    places : int
        The rows of a block, on one device.
    batch_size : int
        The rows of a step, on one device: a part of the block.
    name, contents : str
        The inputs, and a hash of what is known of the data without reading all of them.
    devices : Devices, default=None
        The devices that divide each block.
    along : int, default=0
        The axis that steps and devices divide.
    """

    blocks: Callable[[int], Generator[Batch]]
    rows: float
    blocks_per_pass: int
    places: int
    batch_size: int
    name: str
    contents: str
    devices: Devices | None = None
    along: int = 0
    _number: int = field(default=-1, init=False)
    _block: Any = field(default=None, init=False)
    _following: Any = field(default=None, init=False)

    @property
    def steps(self) -> int:
        """The number of steps that a block serves."""
        return self.places // self.batch_size

    @property
    def steps_per_pass(self) -> int:
        """The number of steps in a pass over all blocks."""
        return self.blocks_per_pass * self.steps

    def block(self, step: int) -> tuple[Batch, int | None]:
        """Return the data in memory at a step, and the number of steps for which they stay."""
        number = step // self.steps
        if number != self._number:
            if self._following is None or number != self._number + 1:
                self.close()
                self._following = self.blocks(number)
            self._block, self._number = placed(next(self._following), self.devices), number
        return self._block, self.steps - step % self.steps

    def digest(self) -> str:
        """Return text that identifies the data."""
        size = f"{self.rows:.0f} rows in blocks of {self.places}"
        return f"{self.name}: {size}, {self.contents}"

    def close(self) -> None:
        """Stop reading."""
        if self._following is not None:
            self._following.close()
        self._following = None


Feed = Resident | Streamed


def placed(data: Batch, devices: Devices | None) -> Batch:
    """Return the data as arrays of JAX, divided among the devices if there are several."""
    return jax.tree.map(jnp.asarray, data) if devices is None else devices.divide(data)


def whole_batches(data: Batch, size: int, parts: int = 1) -> tuple[Batch, int]:
    """Fill data up to whole minibatches of about `size` cells; return them and places per part."""
    places = data.at.shape[data.longest]
    across = prod(data.at.shape) // places
    size = min(max(round(size / across / parts), 1), -(-places // parts))
    return filled_up(data, size * parts), size


def filled_up(data: Batch, multiple: int) -> Batch:
    """Add places of weight 0 at the end, so that the number of places is a multiple."""
    places = data.at.shape[data.longest]
    missing = -places % multiple
    return data.part(data.longest, slice(0, places), places + missing) if missing else data


def next_order(order: Array | None, key: Array, step: Array, size: int | None) -> Array | None:
    """Return the order of the places, drawn anew at the start of every pass."""
    if size is None or order is None:
        return None
    batches, places = len(order) // size, len(order)

    def drawn() -> Array:
        number = jax.random.fold_in(key, step // batches)
        return jax.random.permutation(number, places).astype(order.dtype)

    return jax.lax.cond(step % batches == 0, drawn, lambda: order)


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

    part = data.along(along, take)
    return eqx.tree_at(lambda b: b.weight, part, part.weight * batches)
