"""Files that are the old ones or the new ones, never a part."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

__all__ = ["beside"]

_TRIES, _LOOKS, _PAUSE = 100, 4, 0.02  # how often, how often in a row, and seconds between


@contextmanager
def beside(path: Path, placing: AbstractContextManager[None] | None = None) -> Iterator[Path]:
    """A name in the same folder: what is put there takes the path's place, or goes on errors.

    `placing` surrounds the taking of the place, to tell of its errors.
    """
    whole = path.resolve()
    part = whole.with_name(f".{whole.name}.{os.getpid()}.{secrets.token_hex(4)}.part")
    try:
        yield part
        with placing or nullcontext():
            _put(part, whole)
    finally:
        _remove(part)


def _remove(part: Path) -> None:
    """Take away a file or a folder; of a failed write, threads can still be filling the folder."""
    gone = 0 if part.is_dir() else _LOOKS
    for _ in range(_TRIES):
        shutil.rmtree(part, ignore_errors=True)
        with suppress(OSError):
            part.unlink()
        gone = 0 if part.exists() else gone + 1
        if gone >= _LOOKS:
            return
        time.sleep(_PAUSE)


def _put(part: Path, path: Path) -> None:
    """Give the part its final name; of folders the old one is kept until the new one is there."""
    old = part.with_suffix(".old")
    if part.is_file():
        with part.open("rb") as file:
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, part)
    elif path.exists():
        os.rename(path, old)
    try:
        os.replace(part, path)
    except BaseException:
        if old.exists():
            os.rename(old, path)
        raise
    _settle(path.parent)
    shutil.rmtree(old, ignore_errors=True)


def _settle(folder: Path) -> None:
    """Let new names in a folder outlast a power cut, where the system can."""
    with suppress(OSError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
