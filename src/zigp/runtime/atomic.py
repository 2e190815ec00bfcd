"""Files and folders that are replaced as a whole."""

import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

_TRIES, _PAUSE = 20, 0.02  # to remove a folder, and seconds in between


@contextmanager
def replacing(path: Path, placing: AbstractContextManager[None] | None = None) -> Iterator[Path]:
    """Provide a temporary path in the same folder, which replaces the path at the end.

    On errors what is there is removed. The context `placing` is that of the replacement.
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
    """Remove a file, or a folder, to which threads of a failed write may still be writing."""
    for _ in range(_TRIES if part.is_dir() else 0):
        shutil.rmtree(part, ignore_errors=True)
        time.sleep(_PAUSE)
    with suppress(OSError):
        part.unlink()


def _put(part: Path, path: Path) -> None:
    """Give the part its final name; an old folder is kept until the new one is in place."""
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
    with suppress(OSError):  # the new name survives a power cut, if the system can see to it
        opened = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
    shutil.rmtree(old, ignore_errors=True)
