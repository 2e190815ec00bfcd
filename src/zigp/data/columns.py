"""What the columns of a user's table hold, and the numbers that a model sees of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Table", "column_kind"]

_KINDS = dict.fromkeys("biuf", "number") | {"M": "time"}  # by NumPy's letter for a type
_CALENDAR_TIME = "%Y-%m-%d %H:%M:%S"


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
    import pandas as pd

    dtype = getattr(dtype, "pyarrow_dtype", dtype)
    if isinstance(dtype, pd.CategoricalDtype) or hasattr(dtype, "index_type"):
        return "category"
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
    calendar: str = "standard"
    levels: tuple[Any, ...] = ()  # of categories, in their order

    @property
    def alike(self) -> tuple[str, bool, str]:
        """What must be the same in new rows: of times, any zone can be taken to any other."""
        return self.kind, self.zone is None, self.calendar

    @property
    def described(self) -> str:
        if self.kind != "time":
            return self.kind
        return f"time in {self.zone}" if self.zone else f"time without zone ({self.calendar})"


@dataclass(frozen=True)
class Table:
    """The columns of a frame: numbers as they are, times in hours since the first, levels counted.

    What a model was fitted with is remembered, so that new rows are read in the same way.
    """

    columns: dict[str, Column]

    @classmethod
    def of(cls, frame: pd.DataFrame) -> Table:
        _refuse_twice(frame)
        return cls({str(name): _column(str(name), frame[name]) for name in frame})

    @property
    def categories(self) -> tuple[int, ...]:
        """The positions of the columns that hold levels."""
        kinds = [column.kind for column in self.columns.values()]
        return tuple(i for i, kind in enumerate(kinds) if kind == "category")

    def numbers(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The frame as numbers; columns that are missing or unknown are left to scikit-learn."""
        import pandas as pd

        _refuse_twice(frame)
        parts = {
            name: _numbers(str(name), frame[name], self.columns.get(str(name)))
            for name in frame.columns
        }
        return pd.DataFrame(parts, index=frame.index, columns=frame.columns)


def _refuse_twice(frame: pd.DataFrame) -> None:
    if twice := frame.columns[frame.columns.duplicated()].tolist():
        raise ValueError(f"X has the column {twice[0]!r} more than once: rename or drop one.")


def _column(name: str, values: pd.Series) -> Column:
    """What a column holds, or an error that says what to do about it."""
    import pandas as pd

    dtype = values.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        levels = tuple(dtype.categories.tolist())
        if not all(isinstance(level, (str, int, float)) for level in levels):
            raise ValueError(
                f"Column {name!r} has levels that are neither text nor numbers. Name them, for "
                "example with .cat.rename_categories(str)."
            )
        return Column("category", levels=levels)
    if pd.api.types.is_datetime64_any_dtype(dtype):
        zone = getattr(dtype, "tz", None)
        return Column("time", _first(values), None if zone is None else str(zone))
    present, anything = values.dropna(), pd.api.types.is_object_dtype(dtype)
    if anything and len(present) and all(hasattr(v, "calendar") for v in present):
        first = min(present).strftime(_CALENDAR_TIME)
        return Column("time", first, calendar=f"cftime {present.iloc[0].calendar}")
    if pd.api.types.is_bool_dtype(dtype) or pd.api.types.is_numeric_dtype(dtype):
        if pd.api.types.is_complex_dtype(dtype):
            raise ValueError(f"Column {name!r} holds complex numbers. Complex data not supported.")
        return Column("number")
    if anything and all(isinstance(v, (int, float, np.number)) for v in present):
        return Column("number")
    what = "text" if all(isinstance(v, str) for v in present) else f"values of type {dtype}"
    raise ValueError(
        f"Column {name!r} holds {what}. Give numbers, times (pandas.to_datetime), or levels "
        "(astype('category')), or leave it out."
    )


def _first(values: pd.Series) -> str:
    """The earliest time, in UTC where there is a zone."""
    first = values.min()
    return str(first if getattr(values.dtype, "tz", None) is None else first.tz_convert("UTC"))


def _numbers(name: str, values: pd.Series, known: Column | None) -> np.ndarray:
    import pandas as pd

    now = _column(name, values)
    if known is None:
        return np.zeros(len(values))
    if now.alike != known.alike:
        raise ValueError(
            f"Column {name!r} was {known.described} when the model was fitted and is now "
            f"{now.described}."
        )
    if known.kind == "category":
        codes = pd.Index(known.levels, dtype=object).get_indexer(values.astype(object))
        new = sorted({str(v) for v, code in zip(values, codes, strict=True) if code < 0 and v == v})
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
    if known.calendar != "standard":
        import cftime  # these times are made of it

        calendar = known.calendar.removeprefix("cftime ")
        start = cftime.datetime.strptime(known.origin, _CALENDAR_TIME, calendar=calendar)
        missing = values.isna()
        hours = [
            np.nan if no else (v - start).total_seconds() / 3600.0
            for v, no in zip(values, missing, strict=True)
        ]
        return np.array(hours)
    times = values if known.zone is None else values.dt.tz_convert("UTC")
    return ((times - pd.Timestamp(known.origin)) / pd.Timedelta(hours=1)).to_numpy(float)
