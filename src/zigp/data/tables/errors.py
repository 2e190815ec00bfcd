"""Errors with files, in one sentence each."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import numpy as np

_ADVICE = {
    "read": "Check that the file is whole and that you may read it.",
    "write": "Choose another --out, or make it possible there.",
}
_GRIDS = ("dask", "zarr")  # the packages of the extra of that name


class FileError(ValueError):
    """An error in a file: what is wrong, where it is, and what to do."""


@contextmanager
def file_errors(doing: str, path: Path | str) -> Iterator[None]:
    """Turn every error of the libraries that read or write a file into a FileError."""
    try:
        yield
    except (FileError, BrokenPipeError):
        raise
    except Exception as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        reason = (reason or type(error).__name__).rstrip(".")
        raise FileError(f"Cannot {doing} {path}: {reason}. {_advice(doing, error)}") from error


def _advice(doing: str, error: Exception) -> str:
    text = str(error).lower()
    # xarray reports missing packages by errors of many types.
    if any(name in text and not find_spec(name) for name in _GRIDS):
        return "Install what is missing with pip install 'zigp[grids]'."
    if "calendar" in text:
        return "Convert its times with xarray's .convert_calendar('standard')."
    missing = isinstance(error, ImportError)
    return "Install what is missing with pip." if missing else _ADVICE[doing]


def check_names(place: str, names: Sequence[str]) -> None:
    """Raise an error if a column has no name, or the name of another column."""
    if "" in names:
        raise FileError(f"{place}: column {names.index('') + 1} has no name. Name it or remove it.")
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise FileError(f"{place}: there are two columns {twice[0]!r}. Rename or remove one.")


def check_columns(
    place: Path | str, names: Collection[str], needed: Iterable[str], role: str = ""
) -> None:
    """Raise an error if a table lacks a column that is needed."""
    for name in needed:
        if name not in names:
            comma = any("," in str(one) for one in names)
            raise FileError(
                f"{place} has no column {name!r}{role}. It has {', '.join(map(str, names))}."
                + " Rename columns with a comma in their name to use them." * comma
            )


def check_rows(rows: np.ndarray, place: str, names: Sequence[str]) -> None:
    """Refuse missing inputs and infinite values; the target, in the last column, may be missing."""
    if np.isfinite(rows).all():
        return
    for name, values in zip(names, rows.T, strict=True):
        if name != names[-1] and np.isnan(values).any():
            raise FileError(
                f"{place}, column {name!r}: some values are missing. Fill them in, or leave out "
                "these rows or the column."
            )
        if np.isinf(values).any():
            raise FileError(
                f"{place}, column {name!r}: some values are infinite. "
                + ("Make them missing (NaN)" if name == names[-1] else "Correct them")
                + ", or leave out these rows."
            )
