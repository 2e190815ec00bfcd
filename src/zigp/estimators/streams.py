"""Streams as data for training: their blocks in the model's units, divided among devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from zigp.data.streams.prefetch import prefetched
from zigp.gp.batch import Batch, Rows
from zigp.training import Streamed
from zigp.training.devices import Devices

if TYPE_CHECKING:
    from zigp.data.streams import Block, Stream

__all__ = ["block_and_step", "feed_of"]

InModelUnits = Callable[["Block"], tuple[np.ndarray, np.ndarray, np.ndarray]]


def feed_of(
    stream: Stream,
    contents: str,
    batch: int,
    seed: int,
    dtype: str,
    in_model_units: InModelUnits,
    devices: Devices | None,
) -> Streamed:
    """What a stream has, ready for steps of `batch` rows on all devices together."""
    every, here = (1, 1) if devices is None else (devices.count, devices.here)
    block, size = block_and_step(stream.rows_per_block, batch, every, here)
    stream = stream.in_blocks_of(block * here)

    def blocks(first: int) -> Iterator[Batch]:
        number, skip = divmod(first, stream.blocks_per_pass)
        while True:
            for found in prefetched(stream.blocks(seed, number, skip)):
                rows, y, weight = in_model_units(found)
                weight = weight * stream.blocks_per_pass  # a block stands for all rows
                yield Batch(Rows(rows.astype(dtype)), y.astype(dtype), weight.astype(dtype))
            number, skip = number + 1, 0

    def ahead(first: int) -> Iterator[Batch]:
        return prefetched(blocks(first), depth=1)

    return Streamed(
        ahead, stream.rows, stream.blocks_per_pass, block, size, ",".join(stream.names),
        contents, devices,
    )  # fmt: skip


def block_and_step(rows: int, batch: int, every: int, here: int) -> tuple[int, int]:
    """Rows of a block and of a step, of one device of `every`, as many of them here as `here`.

    A step has what was asked for, unless a block has less; a block is enlarged to whole steps.

    >>> block_and_step(2**18, 2**14, 3, 3)
    (92837, 5461)
    """
    block = -(-rows // here)
    size = min(max(batch // every, 1), block)
    return -(-block // size) * size, size
