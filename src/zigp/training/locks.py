"""A folder for one fit at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["LOCK", "locked", "remove_empty"]

LOCK = ".zigp-lock"
_TRIES = 100  # in each of which somebody else came and went


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """While this lasts no other fit has the folder; an empty one is gone afterwards."""
    path = folder / LOCK
    with _taken(path):
        try:
            yield
        finally:  # before it is let go: nobody else's is ever removed
            with suppress(OSError):
                path.unlink()
            remove_empty(folder)


def remove_empty(folder: Path) -> None:
    """Remove a folder if nothing is in it."""
    with suppress(OSError):
        folder.rmdir()


def _taken(path: Path) -> IO[str]:
    """The lock, open and held for as long as it is open."""
    for _ in range(_TRIES):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            file = path.open("a")
        except FileNotFoundError:  # who had the folder has just removed it
            continue
        try:
            _lock(file.fileno())
        except BlockingIOError as error:
            file.close()
            raise ValueError(
                f"Another fit is running that keeps its checkpoints in {path.parent}: wait for "
                "it, or choose another place."
            ) from error
        # Who had it before may have removed it after it was opened here: then others see no lock.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        file.close()
    raise ValueError(f"{path} cannot be locked: choose another place for checkpoints.")


def _lock(file: int) -> None:
    """Lock an open file for as long as it is; the system unlocks it for a process that dies."""
    if fcntl is None:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # some file systems have no locks
        return
