"""Who reads which pieces of a source, and in which order: decided from their sizes alone.

A piece is what can be read by itself: a row group of a Parquet file, a chunk of a lattice.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

__all__ = ["Cut", "Orders", "Purpose", "Schedule", "drawn", "shares", "turns"]

_FEWEST_PIECES = 64  # that a sample comes from, if there are as many
_ROWS_PER_SAMPLED = 4  # that those pieces hold, at least
_MOST_ROWS = 2**25  # that are looked at for a sample: a few seconds


class Purpose(IntEnum):
    """What random numbers are for, the last part of a key: no two draw the same ones.

    None is 0, for NumPy takes a key with zeros at its end for the same key without them.
    """

    SAMPLE = 1
    PIECES = 2
    STARTS = 3
    ROWS = 4


def shares(sizes: np.ndarray, among: int) -> list[np.ndarray]:
    """The pieces of each reader: every piece once, and rows equal to within the largest piece.

    The largest go first, each to the reader that has the fewest rows; pieces of one size are dealt
    out in turn, so that every reader has some from everywhere.

    >>> [share.tolist() for share in shares(np.array([5, 5, 5, 5, 2]), 2)]
    [[0, 2, 4], [1, 3]]
    """
    loads = [(0, reader) for reader in range(among)]
    owner = np.zeros(len(sizes), int)
    for piece in np.argsort(-sizes, kind="stable"):
        load, owner[piece] = loads[0]
        heapq.heapreplace(loads, (load + int(sizes[piece]), int(owner[piece])))
    return [np.flatnonzero(owner == reader) for reader in range(among)]


@dataclass(frozen=True)
class Cut:
    """Rows of a piece, from start to stop."""

    piece: int
    start: int
    stop: int


class Schedule:
    """The rows of one pass in the order in which they are read.

    Pieces, in the order given, are dealt to a few lanes. Lanes are read side by side, slice by
    slice, each at the pace at which all end together: a block then has rows of about as many pieces
    as there are lanes, and of a piece no more than a slice needs to be in memory. Every block has
    as many rows as the others: one with hardly any would say the least with the most weight.
    """

    def __init__(
        self, sizes: np.ndarray, order: np.ndarray, lanes: int, rows: int, blocks: int
    ) -> None:
        """At most `rows` in a block, of which each lane gives about as many as the others."""
        self.rows, self.lanes = rows, max(min(lanes, len(order)), 1)
        self.total = int(sizes[order].sum())
        self.blocks = min(blocks, self.total)
        self.slice = max(-(-self.total // max(self.blocks * self.lanes, 1)), 1)
        dealt = (order[lane :: self.lanes] for lane in range(self.lanes))
        parts = [_slices(sizes, pieces, self.slice) for pieces in dealt]
        which = np.repeat(np.arange(self.lanes), [len(part[0]) for part in parts])
        piece, start, stop, when = (np.concatenate(values) for values in zip(*parts, strict=True))
        turn = np.argsort(when, kind="stable")
        self._lane, self._piece, self._start = which[turn], piece[turn], start[turn]
        self._ends = np.cumsum((stop - start)[turn])

    def block(self, number: int) -> list[list[Cut]]:
        """For each lane, what it gives to a block, in order."""
        first, last = (edge * self.total // self.blocks for edge in (number, number + 1))
        given: list[list[Cut]] = [[] for _ in range(self.lanes)]
        at = int(np.searchsorted(self._ends, first, side="right"))
        while first < last:
            before = int(self._ends[at - 1]) if at else 0
            end = min(int(self._ends[at]), last)
            start = int(self._start[at]) + first - before
            given[self._lane[at]].append(Cut(int(self._piece[at]), start, start + end - first))
            first, at = end, at + 1
        return given


def _slices(
    sizes: np.ndarray, pieces: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The slices of a lane: of which piece, from where to where, and how far along the lane."""
    counts = -(-sizes[pieces] // size)
    piece = np.repeat(pieces, counts)
    start = size * (np.arange(len(piece)) - np.repeat(np.cumsum(counts) - counts, counts))
    stop = np.minimum(start + size, sizes[piece])
    middle = np.cumsum(stop - start) - (stop - start) / 2
    return piece, start, stop, middle / max(sizes[pieces].sum(), 1)


class Orders:
    """Random orders of rows. To draw each anew would take a third of the time of reading them.

    For every length, rounded up by an eighth at most, one order is drawn. It is begun at another
    place each time, and numbers that are too large are left out.
    """

    def __init__(self, key: tuple[int, ...]) -> None:
        self._key = key
        self._drawn: dict[int, np.ndarray] = {}

    def order(self, rows: int, start: float) -> np.ndarray:
        """The numbers of so many rows, in the order that begins at a place between 0 and 1."""
        step = 1 << max(rows.bit_length() - 4, 0)
        size = -(-rows // step) * step
        if (twice := self._drawn.get(size)) is None:
            twice = np.tile(
                np.random.default_rng((*self._key, size, Purpose.ROWS)).permutation(size), 2
            )
            self._drawn[size] = twice
        turned = twice[int(start * size) :][:size]
        return turned if rows == size else turned[turned < rows]


def turns(counts: np.ndarray, run: int) -> list[tuple[np.ndarray, slice]]:
    """Where in a block the rows of each lane go: runs of so many rows, and what is left over.

    Lanes take turns, each as often as its count demands. What is left comes after all runs.

    >>> [(runs.tolist(), rest) for runs, rest in turns(np.array([4, 9]), 2)]
    [([1, 4], slice(12, 12, None)), ([0, 2, 3, 5], slice(12, 13, None))]
    """
    runs = counts // run
    when = [(np.arange(n) + 0.5) / n for n in runs]
    place = np.empty(runs.sum(), int)
    place[np.argsort(np.concatenate(when), kind="stable")] = np.arange(len(place))
    ends = run * len(place) + np.cumsum(counts % run)
    return [
        (runs_of_lane, slice(int(end - left), int(end)))
        for runs_of_lane, end, left in zip(
            np.split(place, np.cumsum(runs)[:-1]), ends, counts % run, strict=True
        )
    ]


def drawn(
    sizes: np.ndarray, rows: int, rng: np.random.Generator, in_parts: bool = True
) -> Iterator[tuple[int, np.ndarray]]:
    """Pieces from all over a source, and in each the rows, ascending, of a sample of so many.

    Where pieces are so large that looking at all rows of those chosen would take long, and can be
    read in parts, rows come from a window in each, at a place that is drawn as well.
    """
    total = int(sizes.sum())
    if total <= rows:
        yield from ((piece, np.arange(size)) for piece, size in enumerate(sizes))
        return
    wanted = max(_FEWEST_PIECES, -(-_ROWS_PER_SAMPLED * rows * len(sizes) // total))
    count = min(wanted, len(sizes))
    among = np.floor((np.arange(count) + rng.random(count)) * len(sizes) / count).astype(int)
    chosen = (
        np.unique(np.minimum(among, len(sizes) - 1)) if count < len(sizes) else np.arange(count)
    )
    held = np.cumsum(sizes[chosen])
    rows = min(rows, int(held[-1]))
    quotas = np.diff(rows * held // held[-1], prepend=0)
    seen = min(1.0, max(_MOST_ROWS, rows) / held[-1]) if in_parts else 1.0
    for piece, quota in zip(chosen, quotas, strict=True):
        size = int(sizes[piece])
        window = max(min(int(np.ceil(size * seen)), size), int(quota))
        first = int(rng.integers(size - window + 1))
        within = rng.choice(window, int(quota), replace=False, shuffle=False)
        yield int(piece), first + np.sort(within)
