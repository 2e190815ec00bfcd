"""The next items, made on another thread while the current one is used."""

from __future__ import annotations

import atexit
from collections.abc import Iterable, Iterator
from queue import Empty, Queue
from threading import Event, Thread

__all__ = ["prefetched"]


def prefetched[T](items: Iterable[T], depth: int = 2) -> Iterator[T]:
    """The same items, of which up to `depth` are ready before they are asked for.

    An error in making them is raised here, after the items before it. The thread begins with the
    first item that is asked for, and ends with the last one, when this iterator is closed or
    forgotten, or with the program.

    >>> list(prefetched(range(3)))
    [0, 1, 2]
    """
    if depth < 1:
        raise ValueError(f"depth is {depth}: at least one item must have room.")
    return _prefetched(items, depth)


def _prefetched[T](items: Iterable[T], depth: int) -> Iterator[T]:
    ready: Queue[tuple[list[T], BaseException | None]] = Queue(depth)
    stop = Event()
    thread = Thread(target=_make, args=(items, ready, stop), name="zigp-prefetch", daemon=True)

    def end() -> None:
        stop.set()
        while thread.is_alive():  # there can be one more item that waits for room
            _empty(ready)
            thread.join(0.01)

    atexit.register(end)
    thread.start()
    try:
        while True:
            found, error = ready.get()
            if error is not None:
                raise error
            if not found:
                return
            yield found.pop()
    finally:
        end()
        atexit.unregister(end)


def _make[T](
    items: Iterable[T], ready: Queue[tuple[list[T], BaseException | None]], stop: Event
) -> None:
    """Put every item, or the error in making it, and then nothing, where they are waited for."""
    try:
        for item in items:
            ready.put(([item], None))
            del item  # it is the reader's now
            if stop.is_set():
                break
        ready.put(([], None))
    except BaseException as error:
        ready.put(([], error))
    finally:
        if (close := getattr(items, "close", None)) is not None:
            close()


def _empty[T](ready: Queue[T]) -> None:
    try:
        while True:
            ready.get_nowait()
    except Empty:
        return
