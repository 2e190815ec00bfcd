"""What every kind of source gives: pieces of known size, and readers that go through them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from zigp.data.tables.errors import FileError

if TYPE_CHECKING:
    import pandas as pd

    from zigp.data.columns import Table

__all__ = ["Reader", "Source", "checked"]


class Reader(Protocol):
    """One piece on its way into blocks, from its first row on."""

    def skip(self, rows: int) -> None:
        """Pass over so many rows."""

    def fill(self, X: np.ndarray, y: np.ndarray) -> None:
        """The next rows, as numbers, into X and y; a missing target is NaN."""

    def close(self) -> None:
        """Let go of files and memory."""


class Source(Protocol):
    """A table or a lattice in pieces."""

    address: str
    names: tuple[str, ...]
    kinds: dict[str, str]  # of each column: number, time or category, as a Table has them
    groups: dict[str, list[str]] | None  # of a lattice: the columns of each dimension
    sizes: np.ndarray  # rows in each piece
    in_parts: bool  # whether to read a part of a piece is faster than to read all of it
    held: int  # bytes in memory while the largest piece is read

    def mark(self) -> bytes:
        """What it says of its contents, without reading them."""

    def reader(self, piece: int, table: Table | None, rows: int) -> Reader:
        """Begin to read a piece, in parts of about so many rows."""

    def pick(self, piece: int, rows: np.ndarray) -> tuple[pd.DataFrame, np.ndarray]:
        """Some rows of a piece, ascending, as they are in the source."""


def checked(values: np.ndarray, place: str, name: str, gaps: bool = False) -> np.ndarray:
    """The values, or an error if some are missing, where none may be, or infinite."""
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        if not gaps and np.isnan(values).any():
            raise FileError(
                f"{place}, column {name!r}: some values are missing. Fill them in, or leave out "
                "these rows or the column."
            )
        if np.isinf(values).any():
            mend = "Make them missing (NaN)" if gaps else "Correct them, or leave out these rows"
            raise FileError(f"{place}, column {name!r}: some values are infinite. {mend}.")
    return values
