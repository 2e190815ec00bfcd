"""Streams as data for training: their blocks in the model's units, divided among devices."""

from __future__ import annotations

from collections.abc import Callable, Generator
from itertools import count

import numpy as np

from zigp.data.streams import Block, Stream, prefetched
from zigp.gp.batch import Batch, Rows
from zigp.training import Streamed
from zigp.training.devices import Devices


def feed_of(
    stream: Stream,
    contents: str,
    batch: int,
    seed: int,
    dtype: str,
    in_model_units: Callable[[Block], tuple[np.ndarray, np.ndarray, np.ndarray]],
    devices: Devices | None,
) -> Streamed:
    """Return a stream as data for steps of `batch` rows on all devices together."""
    every, here = (1, 1) if devices is None else (devices.count, devices.here)
    block, size = block_and_step(stream.rows_per_block, batch, every, here)
    stream = stream.in_blocks_of(block * here)
    blocks = stream.blocks_per_pass

    def batches(first: int) -> Generator[Batch]:
        skip = first % blocks
        for pass_number in count(first // blocks):
            for some in stream.blocks(seed, pass_number, skip):
                X, y, weight = in_model_units(some)
                weight = weight * blocks  # a block stands for all rows
                yield Batch(Rows(X.astype(dtype)), y.astype(dtype), weight.astype(dtype))
            skip = 0

    return Streamed(
        lambda first: prefetched(batches(first)), stream.rows, blocks, block, size,
        ",".join(stream.names), contents, devices,
    )  # fmt: skip


def block_and_step(rows: int, batch: int, every: int, here: int) -> tuple[int, int]:
    """Return the rows of a block and of a step on one device of all, of which some are here.

    A step has `batch` rows on all devices, or a whole block if that has fewer. Blocks are enlarged
    to whole steps.

    >>> block_and_step(2**18, 2**14, 3, 3)
    (92837, 5461)
    """
    block = -(-rows // here)
    size = min(max(batch // every, 1), block)
    return -(-block // size) * size, size
