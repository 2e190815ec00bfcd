"""Buffers that threads fill ahead of their use, and blocks drawn from them in random order."""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import cycle, pairwise
from typing import Any

import numpy as np

_THREADS = min(os.cpu_count() or 1, 4)
_RUN = (
    16  # neighbours kept together in a large buffer: copying single rows takes four times as long
)
_LARGE = 2**14  # runs: smaller buffers are shuffled row by row


def divided(sizes: np.ndarray, most: int) -> np.ndarray:
    """Return the slices of all pieces, each of at most so many rows: piece, first row and end.

    >>> divided(np.array([3, 5]), most=3).tolist()
    [[0, 0, 3], [1, 0, 2], [1, 2, 5]]
    """
    counts = -(-sizes // most)
    piece = np.repeat(np.arange(len(sizes)), counts)
    number = np.arange(len(piece)) - np.repeat(np.cumsum(counts) - counts, counts)
    first, end = (sizes[piece] * (number + edge) // counts[piece] for edge in (0, 1))
    return np.stack([piece, first, end], axis=1)


def row_counts(slices: np.ndarray) -> np.ndarray:
    return slices[:, 2] - slices[:, 1]


def cut(slices: np.ndarray, edges: np.ndarray) -> list[np.ndarray]:
    """Return the slices between neighbouring edges, which count rows from 0 to the last.

    >>> [some.tolist() for some in cut(np.array([[7, 0, 3], [4, 2, 5]]), np.array([0, 4, 6]))]
    [[[7, 0, 3], [4, 2, 3]], [[4, 3, 5]]]
    """
    ends = np.cumsum(row_counts(slices))
    marks = np.union1d(edges, ends)
    at = np.searchsorted(ends, marks[:-1], side="right")
    within = slices[at, 2] - ends[at]  # takes a row's number to its place in its piece
    parts = np.stack([slices[at, 0], marks[:-1] + within, marks[1:] + within], axis=1)
    return np.split(parts, np.searchsorted(marks, edges[1:-1]))


def filled(
    fill: Callable[[int, int, np.ndarray], None], buffers: Sequence[np.ndarray], width: int
) -> Generator[np.ndarray]:
    """Yield the rows of the slices of each buffer, which threads read.

    Each is overwritten by the next but one: to touch new memory takes longer than to read rows.
    """
    largest = max((row_counts(slices).sum() for slices in buffers), default=0)
    memory = cycle(np.empty((2, largest, width)))
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="zigp-stream") as pool:
        for slices in buffers:
            ends = np.cumsum(row_counts(slices))
            rows = next(memory)[: ends[-1]]
            list(pool.map(fill, slices[:, 0], slices[:, 1], np.split(rows, ends[:-1])))
            yield rows


def shuffled(
    rows: np.ndarray, edges: Sequence[int], room: int, rng: np.random.Generator
) -> Iterator[np.ndarray]:
    """Yield the rows of a buffer in random order, in blocks between the edges.

    Each block is filled up to the room in it with copies of a row that has no target.
    """
    run = min(max(len(rows) // _LARGE, 1), _RUN)
    whole = len(rows) // run * run  # the few rows behind are not shuffled
    runs = rows[:whole].reshape(-1, run * rows.shape[1])
    order = rng.permutation(len(runs))
    padding = np.append(rows[0, :-1], np.nan)
    for first, end in pairwise(edges):
        some = np.take(runs, order[first // run : -(-end // run)], axis=0, mode="clip")
        mixed = some.reshape(-1, rows.shape[1])[first % run :][: end - first]
        rest = rows[max(first, whole) : end]
        yield np.concatenate([mixed, rest, np.tile(padding, (room - (end - first), 1))])


def prefetched[T](items: Generator[T], ahead: int = 2) -> Generator[T]:
    """Yield the same items; a thread makes the next ones while one is used.

    An error in making an item is raised in its place. The thread ends with the last item, or when
    this generator is closed.

    Parameters
    ----------
    items : generator
        Closed at the end.
    ahead : int, default=2
        The number of items that are made before they are needed.

    Yields
    ------
    object
        The next item.

    Examples
    --------
    >>> list(prefetched(number**2 for number in range(3)))
    [0, 1, 4]
    """
    end: Any = object()
    with closing(items):
        pool = ThreadPoolExecutor(1, thread_name_prefix="zigp-prefetch")
        try:
            ready = deque(pool.submit(next, items, end) for _ in range(ahead))
            while (item := ready.popleft().result()) is not end:
                ready.append(pool.submit(next, items, end))
                yield item
        finally:
            pool.shutdown(cancel_futures=True)
