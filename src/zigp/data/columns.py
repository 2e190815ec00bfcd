"""The columns of a table: their roles by name, their types, and the numbers a model reads."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import permutations
from typing import Any, Self

import numpy as np
import pandas as pd

_KINDS = dict.fromkeys("biuf", "number") | {"M": "time"}  # by NumPy's letter for a type
_DEGREES = {
    **dict.fromkeys(("lat", "latitude"), "degrees_north"),
    **dict.fromkeys(("lon", "lng", "long", "longitude"), "degrees_east"),
}
_PLANES = (("x", "y"), ("east", "north"), ("easting", "northing"), ("xloc", "yloc"))
_TIMES = ("time", "date", "datetime", "timestamp", "year", "month", "week", "day", "hour")


def degrees(name: str) -> str:
    """Return the unit of a column that is named like latitudes or longitudes, otherwise nothing.

    >>> degrees("Lat"), degrees("longitude"), degrees("depth")
    ('degrees_north', 'degrees_east', '')
    """
    return _DEGREES.get(name.lower(), "")


def is_globe(across: str, up: str) -> bool:
    """Return whether two columns are longitude and latitude, by their names."""
    return (degrees(across), degrees(up)) == ("degrees_east", "degrees_north")


def is_plane(across: str, up: str) -> bool:
    """Return whether two columns are places on a plane, by their names."""
    return (across.lower(), up.lower()) in _PLANES


def is_time(name: str, dtype: Any = None) -> bool:
    """Return whether a column or a dimension holds times, by its type or its name."""
    return getattr(dtype, "kind", "") == "M" or name.lower() in _TIMES


def places_among(names: Iterable[str]) -> tuple[str, str] | None:
    """Return the only two columns that run across and up a map, degrees if there are some.

    >>> places_among(["lat", "lon", "depth"])
    ('lon', 'lat')
    """
    pairs = list(permutations(names, 2))
    for is_pair in (is_globe, is_plane):
        if len(places := [pair for pair in pairs if is_pair(*pair)]) == 1:
            return places[0]
    return None


def column_kind(dtype: Any) -> str | None:
    """Return what a column of this type holds: "number", "time", "category", or None.

    Parameters
    ----------
    dtype : NumPy, pandas or Arrow data type
        The type of the column. Truth values and decimals are numbers, dates are times, and
        dictionaries are categories. Text, durations, complex numbers and nested types are None.

    Examples
    --------
    >>> column_kind(np.dtype("int8")), column_kind(np.dtype("datetime64[s]"))
    ('number', 'time')
    """
    if isinstance(dtype, pd.CategoricalDtype) or hasattr(dtype, "index_type"):
        return "category"
    dtype = getattr(dtype, "pyarrow_dtype", dtype)
    if hasattr(dtype, "scale"):  # a decimal
        return "number"
    kind = (pd.ArrowDtype(dtype) if hasattr(dtype, "to_pandas_dtype") else dtype).kind
    return _KINDS.get(kind)


@dataclass(frozen=True)
class Column:
    """One column as it was when the model was fitted."""

    kind: str  # number, time or category
    origin: str = ""  # of times: the first, as text
    zone: str | None = None  # of times that have one; hours are then counted in UTC
    levels: tuple[Any, ...] = ()  # of categories, in their order

    def __str__(self) -> str:
        if self.kind != "time":
            return self.kind
        return f"time in {self.zone}" if self.zone else "time without zone"


@dataclass(frozen=True)
class Table:
    """The columns of a frame: numbers as they are, times in hours since the first, levels counted.

    It keeps what a model was fitted with, so that new rows are read in the same way.
    """

    columns: dict[str, Column]

    @classmethod
    def of(cls, frame: pd.DataFrame) -> Self:
        """Return the columns of the rows that a model is fitted to."""
        _refuse_duplicates(frame)
        return cls({str(name): _column(str(name), frame[name]) for name in frame})

    @property
    def categories(self) -> tuple[int, ...]:
        """The positions of the columns that hold levels."""
        kinds = [column.kind for column in self.columns.values()]
        return tuple(i for i, kind in enumerate(kinds) if kind == "category")

    def numbers(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return a frame as numbers; scikit-learn reports missing and unknown columns."""
        _refuse_duplicates(frame)
        parts = {
            name: _numbers(str(name), frame[name], self.columns.get(str(name)))
            for name in frame.columns
        }
        return pd.DataFrame(parts, index=frame.index, columns=frame.columns)


def _refuse_duplicates(frame: pd.DataFrame) -> None:
    if twice := frame.columns[frame.columns.duplicated()].tolist():
        raise ValueError(f"X has the column {twice[0]!r} more than once: rename or drop one.")


def _column(name: str, values: pd.Series) -> Column:
    """Return what a column holds, or raise an error that says what to do about it."""
    dtype, kind = values.dtype, column_kind(values.dtype)
    if isinstance(dtype, pd.CategoricalDtype):
        levels = tuple(dtype.categories.tolist())
        if not all(isinstance(level, (str, int, float)) for level in levels):
            raise ValueError(
                f"Column {name!r} has levels that are neither text nor numbers. Name them, for "
                "example with .cat.rename_categories(str)."
            )
        return Column("category", levels=levels)
    if kind == "time":
        first, zone = values.min(), getattr(dtype, "tz", None)
        first = first if zone is None else first.tz_convert("UTC")
        return Column(kind, str(first), None if zone is None else str(zone))
    if dtype.kind == "c":
        raise ValueError(f"Column {name!r} holds complex numbers. Complex data not supported.")
    if kind == "number":
        return Column(kind)
    present = values.dropna()
    if values.dtype.kind == "O" and all(isinstance(v, (int, float, np.number)) for v in present):
        return Column("number")
    what = "text" if all(isinstance(v, str) for v in present) else f"values of type {dtype}"
    raise ValueError(
        f"Column {name!r} holds {what}. Give numbers, times (pandas.to_datetime), or levels "
        "(astype('category')), or leave it out."
    )


def _numbers(name: str, values: pd.Series, known: Column | None) -> np.ndarray:
    now = _column(name, values)
    if known is None:
        return np.zeros(len(values))
    if (now.kind, now.zone is None) != (known.kind, known.zone is None):
        raise ValueError(f"Column {name!r} was {known} when the model was fitted and is now {now}.")
    if known.kind == "category":
        codes = pd.Index(known.levels, dtype=object).get_indexer(values.astype(object))
        new = sorted(values[(codes < 0) & values.notna()].astype(str).unique())
        if new:
            raise ValueError(
                f"Column {name!r} has levels that the model was not fitted with: {', '.join(new)}. "
                f"It knows {', '.join(map(str, known.levels))}."
            )
        return np.where(codes < 0, np.nan, codes).astype(float)
    if known.kind == "number":
        try:
            return values.to_numpy(float, na_value=np.nan)
        except OverflowError:
            raise ValueError(f"Column {name!r} has numbers that are too large to use.") from None
    times = values if known.zone is None else values.dt.tz_convert("UTC")
    return ((times - pd.Timestamp(known.origin)) / pd.Timedelta(hours=1)).to_numpy(float)
