"""What goes wrong with files, in plain words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

__all__ = ["FileError", "told"]

_ADVICE = {
    "read": "Check that the file is whole and that you may read it.",
    "write": "Choose another --out, or make it possible there.",
}


_GRIDS = ("dask", "zarr", "cftime")  # of the extra of that name


class FileError(ValueError):
    """What is wrong with a file, where in it, and what to do."""


@contextmanager
def told(doing: str, path: Path | str) -> Iterator[None]:
    """Whatever the libraries that read and write run into becomes a FileError."""
    try:
        yield
    except (FileError, BrokenPipeError):
        raise
    except Exception as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        reason = (reason or type(error).__name__).rstrip(".")
        raise FileError(f"Cannot {doing} {path}: {reason}. {_advice(doing, error)}") from error


def _advice(doing: str, error: Exception) -> str:
    # xarray tells of what it lacks in errors of many kinds.
    if any(name in str(error).lower() and not find_spec(name) for name in _GRIDS):
        return "Install what is missing with pip install 'zigp[grids]'."
    missing = isinstance(error, ImportError)
    return "Install what is missing with pip." if missing else _ADVICE[doing]
