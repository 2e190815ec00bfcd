"""Columns of a table as numbers, times or levels, or an error that names the line."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from zigp.data.columns import column_kind
from zigp.data.tables.errors import FileError

_MISSING = ["", "NA", "NaN", "nan", "null", "None"]  # the texts of CSV that stand for gaps
_TRUTHS = {"true": 1.0, "false": 0.0}
_DECIMAL_POINT = str.maketrans(",.", ".?")  # where commas are decimal, points are an error
_ZONE = r"(Z|[+-]\d\d(?::?\d\d)?)"
_TIME = rf"\d{{4}}-\d\d|\d{{4}}-?\d\d-?\d\d(?:[T ]\d\d(?::?\d\d(?::?\d\d(?:\.\d+)?)?)? ?{_ZONE}?)?"


def typed(frame: pd.DataFrame, kinds: Mapping[str, str], *, gaps: bool = True) -> pd.DataFrame:
    """Return columns of a table as the kinds given: "number", "time" or "category".

    Times are ISO 8601, numbers, or integers that are all dates, such as 20180701 or 2018070113;
    those of mixed zones are in UTC. Levels are named by their text. Unless `gaps` are allowed, an
    empty cell is an error.
    """
    columns = {}
    for name, kind in kinds.items():
        columns[name] = _CONVERSIONS[kind](frame, name)
        empty = columns[name].isna() & (not gaps)
        also = f", as are {empty.sum() - 1} rows after it" if empty.sum() > 1 else ""
        what = f" is empty{also}: fill it in, or leave out these rows or the column."
        _refuse(frame, name, empty, what)
    return pd.DataFrame(columns, index=frame.index)


def as_dates(numbers: pd.Series) -> pd.Series:
    """Return integers that are all dates as times; other numbers as they are."""
    present = numbers.dropna()
    for form, digits in (("%Y%m%d", 8), ("%Y%m%d%H", 10)):
        first, last = (century * 10 ** (digits - 4) for century in (1800, 2200))
        if len(present) and present.between(first, last).all() and (present % 1 == 0).all():
            texts = numbers.astype("Int64").astype(str)
            times = pd.to_datetime(texts, format=form, errors="coerce")
            if times.notna().equals(numbers.notna()):
                return times
    return numbers


def _levels(frame: pd.DataFrame, name: str) -> pd.Series:
    return _texts(_values(frame, name)).astype(object).astype("category")


def _numbers(frame: pd.DataFrame, name: str) -> pd.Series:
    values = _values(frame, name)
    numbers, present = _parsed(frame, values), values.notna()
    what = ": {!r} is not a number. Correct it, or leave it empty where there is none."
    if present.any() and numbers.isna().all():
        numbers = _texts(values).str.lower().map(_TRUTHS).astype(float)
        if numbers.isna().all() and present.sum() > 1:
            what = (
                f": {{!r}} is not a number, nor is any other of {present.sum():,} values. Correct "
                "them, leave the column out, or name it with --time if they are times, with "
                "--category if they are levels."
            )
    _refuse(frame, name, numbers.isna() & present, what)
    what = ": {!r} is not finite. Correct it, or leave it empty where there is no number."
    _refuse(frame, name, numbers.abs() == np.inf, what)
    return numbers


def _times(frame: pd.DataFrame, name: str) -> pd.Series:
    values = _values(frame, name)
    if column_kind(values.dtype) == "time":
        return values
    present = values.notna()
    if values.dtype.kind != "b" and 2 * _parsed(frame, values).notna().sum() > present.sum():
        return as_dates(_numbers(frame, name))
    parts = _texts(values).str.extract(f"^({_TIME})$")
    zones = parts[1][present]
    mixed = bool(zones.nunique(dropna=False) > 1)
    times = pd.to_datetime(parts[0], format="ISO8601", errors="coerce", utc=mixed)
    what = (
        ": {!r} is not a time. Write 2018-07-01 or 2018-07-01T13:00, with Z or +02:00 for a zone."
    )
    _refuse(frame, name, times.isna() & present, what)
    what = ": {!r} has no zone and others have one. Write all with a zone, such as Z, or none."
    _refuse(frame, name, present & parts[1].isna() & bool(zones.notna().any()), what)
    return times


_CONVERSIONS = {"number": _numbers, "time": _times, "category": _levels}


def _values(frame: pd.DataFrame, name: str) -> pd.Series:
    """Return a column, with gaps where the text of a CSV file stands for one."""
    values = frame[name]
    return values.mask(values.str.strip().isin(_MISSING)) if "decimal" in frame.attrs else values


def _parsed(frame: pd.DataFrame, values: pd.Series) -> pd.Series:
    """Return values as numbers, with gaps for what is none."""
    if column_kind(values.dtype) != "number":
        values = _texts(values)
        if frame.attrs.get("decimal") == ",":
            values = values.str.translate(_DECIMAL_POINT)
        values = pd.to_numeric(values.astype(object), errors="coerce")
    return pd.Series(values.to_numpy(float, na_value=np.nan), values.index)


def _texts(values: pd.Series) -> pd.Series:
    if isinstance(values.dtype, pd.StringDtype):
        return values.str.strip()
    return values.astype(object).map(_text, na_action="ignore").astype("string")


def _text(value: object) -> str:
    try:
        return str(value).strip()
    except NotImplementedError:  # by pandas, for times with a zone
        return "a time outside of the years 1 to 9999"


def _refuse(frame: pd.DataFrame, name: str, wrong: pd.Series, what: str) -> None:
    """Raise an error about the first row that is wrong, if one is."""
    if wrong.any():
        at = int(wrong.to_numpy().argmax())
        file, label = frame.attrs.get("file", "The table"), frame.index[at]
        row = label if isinstance(label, (int, np.integer)) else at
        place = f"line {label}" if "decimal" in frame.attrs else f"row {row + 1}"
        text = _text(frame[name].iloc[at])[:60]
        raise FileError(f"{file}, {place}, column {name!r}{what.format(text)}")
