"""Blocks filled from several pieces at once, each one ahead of its use."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zigp.data.streams.order import Cut, Orders, Purpose, Schedule, turns
from zigp.data.streams.sources import Reader, Source

if TYPE_CHECKING:
    from zigp.data.columns import Table

__all__ = ["Block", "Filling"]

_LONGEST_RUN = 64  # rows: in longer ones memory is copied no faster
_FEWEST_RUNS = 2**12  # in a block, if it has as many rows


class Block(NamedTuple):
    """Rows as numbers, always as many; those of weight 0 are padding or have no target."""

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray


class Filling:
    """The blocks of a schedule, in order; the next one is read while the last one is used.

    Each lane is read by one thread at a time. It shuffles what it has for a block, little enough
    for the processor's cache, and puts it into the block in runs of rows between those of others.
    """

    def __init__(
        self, source: Source, table: Table | None, schedule: Schedule, key: tuple[int, ...]
    ) -> None:
        self._source, self._table, self._schedule = source, table, schedule
        self._run = min(max(schedule.rows // _FEWEST_RUNS, 1), _LONGEST_RUN)
        self._orders = Orders(key)
        rng = np.random.default_rng((*key, Purpose.STARTS))
        self._starts = rng.random((schedule.blocks, schedule.lanes))
        self._readers: dict[int, Reader] = {}
        self._tasks: list[Future[None]] = []

    def __enter__(self) -> Filling:
        threads = min(self._schedule.lanes, os.cpu_count() or 1)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="zigp-stream")
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        for reader in self._readers.values():
            reader.close()

    def start(self, number: int) -> None:
        """Begin to read a block, if there is one of this number."""
        if number >= self._schedule.blocks:
            return
        rows, lanes = self._schedule.rows, self._schedule.block(number)
        self._block = Block(
            np.empty((rows, len(self._source.names))), np.zeros(rows), np.zeros(rows)
        )
        counts = np.array([sum(cut.stop - cut.start for cut in cuts) for cuts in lanes])
        self._filled = int(counts.sum())
        self._block.weight[: self._filled] = 1.0
        places = turns(counts, self._run)
        self._tasks = [
            self._pool.submit(self._fill, self._block, cuts, place, self._starts[number, lane])
            for lane, (cuts, place) in enumerate(zip(lanes, places, strict=True))
            if cuts
        ]

    def finish(self) -> Block:
        """The block that was begun."""
        for task in self._tasks:
            task.result()
        self._block.X[self._filled :] = self._block.X[0]
        return self._block

    def _fill(
        self, block: Block, cuts: list[Cut], place: tuple[np.ndarray, slice], start: float
    ) -> None:
        """Put a lane's rows in random order into its places of a block."""
        X, y = self._read(cuts)
        order = self._orders.order(len(y), start)
        X, y = np.take(X, order, axis=0, mode="clip"), np.take(y, order, mode="clip")
        runs, rest = place
        _put(block.X, X, runs, rest, self._run)
        if (gone := np.isnan(y)).any():
            y[gone] = 0.0
            _put(block.weight, ~gone, runs, rest, self._run)
        _put(block.y, y, runs, rest, self._run)

    def _read(self, cuts: list[Cut]) -> tuple[np.ndarray, np.ndarray]:
        total = sum(cut.stop - cut.start for cut in cuts)
        X, y = np.empty((total, len(self._source.names))), np.empty(total)
        done = 0
        for cut in cuts:
            rows = slice(done, done + cut.stop - cut.start)
            if (reader := self._readers.get(cut.piece)) is None:
                reader = self._source.reader(cut.piece, self._table, self._schedule.slice)
                self._readers[cut.piece] = reader
                reader.skip(cut.start)
            reader.fill(X[rows], y[rows])
            if cut.stop == self._source.sizes[cut.piece]:
                self._readers.pop(cut.piece).close()
            done = rows.stop
        return X, y


def _put(array: np.ndarray, values: np.ndarray, runs: np.ndarray, rest: slice, run: int) -> None:
    """Values into a block's array: into these runs of rows, and what is left into the rest."""
    every, whole = len(array) // run, len(runs) * run
    by_run = array[: every * run].reshape(every, -1)
    by_run[runs] = values[:whole].reshape(len(runs), by_run.shape[1])
    array[rest] = values[whole:]
