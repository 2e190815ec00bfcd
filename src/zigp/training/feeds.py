"""Where a step's data come from: memory, or a stream of blocks of one size."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from math import prod
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from zigp.gp.batch import Batch, Lattice
from zigp.training.devices import Devices
from zigp.training.minibatches import filled_up, longest, whole_batches

__all__ = ["Feed", "Resident", "Streamed", "digest_of"]


class Feed(Protocol):
    """Data for training."""

    @property
    def rows(self) -> float:
        """How many observations there are in all."""

    @property
    def batch_size(self) -> int | None:
        """Places in a minibatch, of one device."""

    @property
    def along(self) -> int:
        """The axis that minibatches divide."""

    @property
    def places(self) -> int:
        """How many there are along it, of one device."""

    def block(self, step: int) -> tuple[Batch, int | None]:
        """What is in memory at a step, and for how many more steps it will be."""

    def digest(self) -> str:
        """What tells these data from others."""


class Resident:
    """Data that are all in memory."""

    def __init__(self, data: Batch, batch_size: int | None, devices: Devices | None = None):
        parts = devices.count if devices is not None and devices.split == "data" else 1
        data = jax.tree.map(jnp.asarray, data)
        self.rows = max(float(jnp.count_nonzero(data.weight)), 1.0)
        self.along, self.batch_size = longest(data.at), None
        if batch_size is None or _has_all(data, batch_size):
            data = filled_up(data, parts)
        else:
            data, self.batch_size = whole_batches(data, batch_size, parts)
        self.places = data.at.shape[self.along] // parts
        self._data = data if devices is None else devices.put(data, devices.data_specs(data))

    def block(self, step: int) -> tuple[Batch, int | None]:
        return self._data, None

    def digest(self) -> str:
        return digest_of(self._data)


def _has_all(data: Batch, batch_size: int) -> bool:
    """Whether minibatches of so many would hold everything; padded rows need no room in them."""
    if isinstance(data.at, Lattice):
        return batch_size >= prod(data.at.shape)
    seen = np.reshape(data.weight, (-1, *data.at.shape)).any(axis=0)
    return batch_size >= int(np.count_nonzero(seen))


def digest_of(data: Batch) -> str:
    """A number of all that is in the data."""
    found = hashlib.sha256()
    for leaf in jax.tree.leaves(data):
        found.update(np.ascontiguousarray(leaf).data)
    return found.hexdigest()


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
    block_rows : int
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
    block_rows: int
    batch_size: int
    name: str
    contents: str
    devices: Devices | None = None
    along: int = 0
    _current: tuple[int, Any] = field(default=(-1, None), init=False)
    _following: Generator[Batch] | None = field(default=None, init=False)

    @property
    def places(self) -> int:
        return self.block_rows

    @property
    def steps(self) -> int:
        """The number of steps that a block serves."""
        return self.block_rows // self.batch_size

    @property
    def steps_per_pass(self) -> int:
        return self.blocks_per_pass * self.steps

    def block(self, step: int) -> tuple[Batch, int | None]:
        number, last = step // self.steps, self._current[0]
        if number != last:
            if self._following is None or number != last + 1:
                self.close()
                self._following = self.blocks(number)
            data, devices = next(self._following), self.devices
            self._current = (
                number,
                (
                    jax.tree.map(jnp.asarray, data)
                    if devices is None
                    else devices.put(data, devices.data_specs(data))
                ),
            )
        return self._current[1], self.steps - step % self.steps

    def digest(self) -> str:
        size = f"{self.rows:.0f} rows in blocks of {self.block_rows}"
        return f"{self.name}: {size}, {self.contents}"

    def close(self) -> None:
        """Stop reading."""
        if self._following is not None:
            self._following.close()
        self._following = None
