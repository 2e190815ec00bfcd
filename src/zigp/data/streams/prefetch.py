"""Items made on another thread while the current one is used."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any


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
