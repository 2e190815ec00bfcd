"""Columns of a table as numbers or times, or an error that names the line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from zigp.files.problems import FileError
from zigp.files.text import line_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["as_numbers", "as_times"]

_DECIMAL_POINT = str.maketrans(",.", ".?")  # where commas are decimal, points are a mistake
_ZONE = r"(Z|[+-]\d\d(?::?\d\d)?)"
_TIME = rf"\d{{4}}-\d\d|\d{{4}}-?\d\d-?\d\d(?:[T ]\d\d(?::?\d\d(?::?\d\d(?:\.\d+)?)?)? ?{_ZONE}?)?"


def as_numbers(frame: pd.DataFrame, columns: Iterable[str]) -> pd.DataFrame:
    """A copy in which these columns are numbers."""
    return frame.assign(**{name: _numbers(frame, name) for name in columns})


def as_times(frame: pd.DataFrame, columns: Iterable[str]) -> pd.DataFrame:
    """A copy in which these columns are numbers or, from ISO 8601, times; mixed zones are UTC."""
    return frame.assign(**{name: _times(frame, name) for name in columns})


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
        return _numbers(frame, name)
    texts = _texts(values)
    found = texts.str.extract(f"^({_TIME})$")
    mixed = bool(found[1][present].nunique(dropna=False) > 1)
    times = pd.to_datetime(found[0], format="ISO8601", errors="coerce", utc=mixed)
    what = "is not a time. Write 2018-07-01 or 2018-07-01T13:00, with Z or +02:00 for a zone."
    _refuse(frame, name, times.isna() & present, what)
    what = "has no zone and others have one. Write all with a zone, such as Z, or none."
    _refuse(frame, name, present & found[1].isna() & bool(found[1].notna().any()), what)
    return times


def _values(frame: pd.DataFrame, name: str) -> pd.Series:
    if name not in frame.columns:
        file, known = frame.attrs.get("file", "The table"), ", ".join(map(str, frame.columns))
        raise FileError(f"{file} has no column {name!r}. Choose among {known}.")
    return frame[name]


def _texts(values: pd.Series) -> pd.Series:
    return values.astype(object).map(lambda value: str(value).strip(), na_action="ignore")


def _refuse(frame: pd.DataFrame, name: str, wrong: pd.Series, what: str) -> None:
    """An error about the first row that is wrong, if one is."""
    if wrong.any():
        at = int(np.argmax(wrong.to_numpy()))
        file, label = frame.attrs.get("file", "The table"), frame.index[at]
        row = int(label) if isinstance(label, (int, np.integer)) else at
        is_csv = "decimal" in frame.attrs
        place = f"line {line_of(Path(file), row)}" if is_csv else f"row {row + 1}"
        text = str(frame[name].iloc[at])[:60]
        raise FileError(f"{file}, {place}, column {name!r}: {text!r} {what}")
