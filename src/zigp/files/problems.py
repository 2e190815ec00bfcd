"""What goes wrong with files, in plain words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["FileError", "told"]

_ADVICE = {
    "read": "Check that the file is whole and that you may read it.",
    "write": "Choose another --out, or make it possible there.",
}


class FileError(ValueError):
    """What is wrong with a file, where in it, and what to do."""


@contextmanager
def told(doing: str, path: Path) -> Iterator[None]:
    """Whatever the libraries that read and write run into becomes a FileError."""
    try:
        yield
    except (FileError, BrokenPipeError):
        raise
    except Exception as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        missing = isinstance(error, ImportError)
        advice = "Install what is missing with pip." if missing else _ADVICE[doing]
        reason = (reason or type(error).__name__).rstrip(".")
        raise FileError(f"Cannot {doing} {path}: {reason}. {advice}") from error
