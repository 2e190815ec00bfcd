"""The data of each step: from memory, or from a stream of blocks of one size."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from zigp.gp.batch import Batch, Lattice
from zigp.training.devices import Devices
from zigp.training.minibatches import filled_up, longest, whole_batches


class Resident:
    """Data that fit into memory.

    `rows` is the number of observations. Minibatches and devices divide the axis `along`, of which
    each device has `places`, and takes `batch_size` of them in a step, or all if that is None.
    """

    def __init__(self, data: Batch, batch_size: int | None, devices: Devices | None = None):
        parts = 1 if devices is None else devices.count
        data = jax.tree.map(jnp.asarray, data)
        self.rows = max(float(jnp.count_nonzero(data.weight)), 1.0)
        self.along, self.batch_size = longest(data.at), None
        if batch_size is None or _has_all(data, batch_size):
            data = filled_up(data, parts)
        else:
            data, self.batch_size = whole_batches(data, batch_size, parts)
        self.places = data.at.shape[self.along] // parts
        self._data = data if devices is None else devices.divide(data)

    def block(self, step: int) -> tuple[Batch, int | None]:
        """Return the data in memory at a step, and the number of steps for which they stay."""
        return self._data, None

    def digest(self) -> str:
        """Return a number that identifies the data."""
        return digest_of(self._data)


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
    places: int  # rows of a block, for one device
    batch_size: int  # rows of a step, for one device
    name: str
    contents: str  # a number that identifies as much of the data as is known without a pass
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
            data, devices = next(self._following), self.devices
            self._block = (
                jax.tree.map(jnp.asarray, data) if devices is None else devices.divide(data)
            )
            self._number = number
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
