"""Columns of a table as numbers or times, or an error that names the line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from zigp.data.tables.problems import FileError
from zigp.data.tables.text import MISSING, line_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["as_levels", "as_numbers", "as_times", "refuse_gaps"]

_DECIMAL_POINT = str.maketrans(",.", ".?")  # where commas are decimal, points are a mistake
_ZONE = r"(Z|[+-]\d\d(?::?\d\d)?)"
_TIME = rf"\d{{4}}-\d\d|\d{{4}}-?\d\d-?\d\d(?:[T ]\d\d(?::?\d\d(?::?\d\d(?:\.\d+)?)?)? ?{_ZONE}?)?"


def as_numbers(frame: pd.DataFrame, columns: Iterable[str]) -> pd.DataFrame:
    """A copy in which these columns are numbers."""
    return _changed(frame, columns, _numbers)


def as_times(frame: pd.DataFrame, columns: Iterable[str]) -> pd.DataFrame:
    """A copy in which these columns are numbers or times; mixed zones are UTC.

    Times are ISO 8601, or whole numbers that are all dates, such as 20180701 or 2018070113.
    """
    return _changed(frame, columns, _times)


def as_levels(frame: pd.DataFrame, columns: Iterable[str]) -> pd.DataFrame:
    """A copy in which these columns are levels, named by their text."""
    return _changed(frame, columns, _levels)


def refuse_gaps(frame: pd.DataFrame, columns: Iterable[str]) -> None:
    """An error that names the first row in which one of these columns is empty, if there is one."""
    for name in columns:
        empty = _values(frame, name).isna()
        if empty.any():
            more = int(empty.sum()) - 1
            also = f", as are {more} rows after it" if more else ""
            raise FileError(
                f"{_place(frame, empty)}, column {name!r} is empty{also}: fill it in, or leave out "
                "these rows or the column."
            )


def _changed(
    frame: pd.DataFrame,
    columns: Iterable[str],
    change: Callable[[pd.DataFrame, str], pd.Series],
) -> pd.DataFrame:
    changed = frame.copy(deep=False)  # `assign` would not take a column named self
    for name in columns:
        changed[name] = change(frame, name)
    return changed


def _levels(frame: pd.DataFrame, name: str) -> pd.Series:
    texts = _texts(_values(frame, name))
    if _is_csv(frame):
        texts = texts.mask(texts.isin(MISSING))
    return texts.astype("category")


def _numbers(frame: pd.DataFrame, name: str) -> pd.Series:
    values = _values(frame, name)
    numbers = _parsed(frame, values)
    what = "is not a number. Correct it, or leave it empty where there is none."
    _refuse(frame, name, numbers.isna() & values.notna(), what)
    what = "is not finite. Correct it, or leave it empty where there is no number."
    _refuse(frame, name, numbers.abs() == np.inf, what)
    return numbers


def _parsed(frame: pd.DataFrame, values: pd.Series) -> pd.Series:
    """The values as numbers, with gaps for what is none."""
    import pandas as pd

    if values.dtype.kind in "biuf":
        return values.astype(float) if values.dtype.kind == "b" else values
    if values.dtype.kind in "mM":  # of missing times pandas would make the smallest whole number
        return pd.Series(np.nan, values.index)
    texts = _texts(values)
    if frame.attrs.get("decimal") == ",":
        texts = texts.map(lambda text: text.translate(_DECIMAL_POINT), na_action="ignore")
    return pd.to_numeric(texts, errors="coerce")


def _times(frame: pd.DataFrame, name: str) -> pd.Series:
    import pandas as pd

    values = _values(frame, name)
    present, kind = values.notna(), values.dtype.kind
    if kind == "M" or all(hasattr(value, "calendar") for value in values[present]):
        return values
    if kind != "b" and 2 * _parsed(frame, values).notna().sum() > present.sum():
        return _dates(_numbers(frame, name))
    texts = _texts(values)
    found = texts.str.extract(f"^({_TIME})$")
    mixed = bool(found[1][present].nunique(dropna=False) > 1)
    times = pd.to_datetime(found[0], format="ISO8601", errors="coerce", utc=mixed)
    what = "is not a time. Write 2018-07-01 or 2018-07-01T13:00, with Z or +02:00 for a zone."
    _refuse(frame, name, times.isna() & present, what)
    what = "has no zone and others have one. Write all with a zone, such as Z, or none."
    _refuse(frame, name, present & found[1].isna() & bool(found[1].notna().any()), what)
    return times


def _dates(numbers: pd.Series) -> pd.Series:
    """Numbers that are all dates, written as 20180701 or 2018070113, as these; or as they are."""
    import pandas as pd

    present = numbers.dropna()
    for form, digits in (("%Y%m%d", 8), ("%Y%m%d%H", 10)):
        first, last = (century * 10 ** (digits - 4) for century in (1800, 2200))
        if len(present) and present.between(first, last).all() and (present % 1 == 0).all():
            times = pd.to_datetime(
                numbers.astype("Int64").astype(str), format=form, errors="coerce"
            )
            if times.notna().equals(numbers.notna()):
                return times
    return numbers


def _values(frame: pd.DataFrame, name: str) -> pd.Series:
    if name not in frame.columns:
        file, known = frame.attrs.get("file", "The table"), ", ".join(map(str, frame.columns))
        raise FileError(f"{file} has no column {name!r}. Choose among {known}.")
    return frame[name]


def _texts(values: pd.Series) -> pd.Series:
    return values.astype(object).map(_text, na_action="ignore")


def _text(value: object) -> str:
    try:
        return str(value).strip()
    except NotImplementedError:  # pandas', of times with a zone
        return "a time outside of the years 1 to 9999"


def _refuse(frame: pd.DataFrame, name: str, wrong: pd.Series, what: str) -> None:
    """An error about the first row that is wrong, if one is."""
    if wrong.any():
        text = _text(frame[name].iloc[_first(wrong)])[:60]
        raise FileError(f"{_place(frame, wrong)}, column {name!r}: {text!r} {what}")


def _place(frame: pd.DataFrame, wrong: pd.Series) -> str:
    """File and line, or row, of the first that is wrong."""
    at = _first(wrong)
    file, label = frame.attrs.get("file", "The table"), frame.index[at]
    row = int(label) if isinstance(label, (int, np.integer)) else at
    return f"{file}, " + (
        f"line {line_of(Path(file), row)}" if _is_csv(frame) else f"row {row + 1}"
    )


def _first(wrong: pd.Series) -> int:
    return int(np.argmax(wrong.to_numpy()))


def _is_csv(frame: pd.DataFrame) -> bool:
    return "decimal" in frame.attrs
