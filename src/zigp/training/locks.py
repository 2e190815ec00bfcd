"""Locks, by which a folder belongs to one fit at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

LOCK = ".zigp-lock"
_TRIES = 100  # during each of which another fit came and went


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder against other fits, and remove it afterwards if it is empty."""
    path = folder / LOCK
    with _acquired(path):
        try:
            yield
        finally:  # before the lock is released, so that no other fit's is removed
            with suppress(OSError):
                path.unlink()
            remove_empty(folder)


def remove_empty(folder: Path) -> None:
    """Remove a folder if it is empty."""
    with suppress(OSError):
        folder.rmdir()


def _acquired(path: Path) -> IO[str]:
    """Return an open lock file, which is locked for as long as it is open."""
    for _ in range(_TRIES):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            file = path.open("a")
        except FileNotFoundError:  # the fit before has just removed the folder
            continue
        try:
            _lock(file.fileno())
        except BlockingIOError as error:
            file.close()
            raise ValueError(
                f"Another fit is running that keeps its checkpoints in {path.parent}: wait for "
                "it, or choose another place."
            ) from error
        # The fit before may have removed the file after it was opened here, and nobody else would
        # see this lock.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        file.close()
    raise ValueError(f"{path} cannot be locked: choose another place for checkpoints.")


def _lock(file: int) -> None:
    """Lock an open file; the system releases the lock of a process that dies."""
    if fcntl is None:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # some file systems have no locks
        return
