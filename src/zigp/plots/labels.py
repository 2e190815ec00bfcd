"""Names and units of inputs and outputs, as axes show them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from sklearn.utils.validation import check_is_fitted

from zigp.data.columns import degrees, is_globe, is_time, places_among
from zigp.data.layout import column_index, listed

_WRITTEN = {"degrees_north": "°N", "degrees_east": "°E", "1": ""}  # units as CF spells them


def with_unit(name: str, unit: str) -> str:
    """Return a label such as "rain, mm".

    >>> with_unit("rain", "mm"), with_unit("lat", "degrees_north"), with_unit("y", "")
    ('rain, mm', 'lat, °N', 'y')
    """
    unit = _WRITTEN.get(unit, unit)
    return f"{name}, {unit}" if unit else name


def input_names(model: Any) -> list[str]:
    """Return the names of a fitted model's input columns."""
    count = model.n_features_in_
    numbered = ["x"] if count == 1 else [f"column {c}" for c in range(count)]
    return [str(name) for name in getattr(model, "feature_names_in_", numbered)]


def check_can(model: Any, method: str, message: str) -> None:
    """Raise an error if a model lacks a method, or is not fitted; {} stands for its class."""
    if not hasattr(model, method):
        raise ValueError(message.format(type(model).__name__))
    check_is_fitted(model)


def output_names(model: Any) -> list[str]:
    """Return the names of a model's outputs if it has several, otherwise nothing."""
    return list(getattr(model, "_output_names", None) or [])


def target_label(model: Any = None, y: Any = None, unit: str | None = None) -> str:
    """Return the name of the target with its unit, as far as the data or the model have them."""
    units: Mapping[str, str] = getattr(model, "units_", None) or {}
    default = next(iter(units)) if len(units) == 1 else "y"
    name = str(getattr(y, "name", None) or default)
    own = getattr(y, "attrs", {}).get("units", units.get(name, ""))
    return with_unit(name, own if unit is None else unit)


def as_table(X: Any, model: Any = None) -> pd.DataFrame:
    """Return inputs as a table; columns without a name have that of the model, or a number."""
    if hasattr(X, "columns"):
        return X.set_axis([str(name) for name in X.columns], axis=1)
    array = np.asarray(X)
    named = model is not None and model.n_features_in_ == array.shape[1]
    names = input_names(model) if named else [f"column {c}" for c in range(array.shape[1])]
    return pd.DataFrame(array, columns=names)


def rows_of(grid: Any, ndim: int, what: str) -> tuple[pd.DataFrame, pd.Series, list[str]]:
    """Return the cells of a DataArray as rows with its coordinates, values, and dimensions."""
    if isinstance(grid, xr.Dataset) or grid.ndim != ndim:
        raise ValueError(
            f"{what} draws a DataArray of {ndim} dimensions; this has "
            f"{', '.join(map(str, grid.dims))}. Choose one value of others, for example with "
            ".isel(time=0)."
        )
    table = grid.rename("_values").to_dataframe().reset_index()
    values = table.pop("_values").astype(float).rename(grid.name)
    values.attrs = dict(grid.attrs)
    table.attrs["units"] = {dim: grid[dim].attrs.get("units", "") for dim in grid.dims}
    return table, values, list(grid.dims)


def across_and_up(table: pd.DataFrame, dims: Sequence[str]) -> tuple[str, str]:
    """Return the dimensions that run across and up a map: longitudes and times run across."""
    up, across = dims
    turned = is_globe(up, across) or is_time(up, table[up].dtype)
    return (up, across) if turned else (across, up)


def one_per_row(values: Any, rows: Any, name: str) -> np.ndarray:
    """Return values as numbers, or raise an error if they are not one for each row."""
    numbers = np.asarray(values, float)
    if numbers.shape != (len(rows),):
        raise ValueError(f"{name} has shape {numbers.shape}, but there are {len(rows)} rows.")
    return numbers


def place_columns(
    names: Sequence[str], columns: Sequence[int | str] | None, model: Any = None
) -> tuple[int, int]:
    """Return the positions of the columns that run across and up a map.

    These are the columns given, or those that the model treats as latitude and longitude, or
    those named like places, or the only two there are.
    """
    if columns is not None:
        given = [column_index(c, len(names), names) for c in listed(columns)]
        if len(given) != 2 or given[0] == given[1]:
            raise ValueError(
                f"columns must name two columns, across and up; it names {len(set(given))}."
            )
        return given[0], given[1]
    if (pair := degrees_of(model) or places_among(names)) is not None:
        return names.index(pair[0]), names.index(pair[1])
    if len(names) == 2:
        return 0, 1
    raise ValueError(
        f"A map needs two columns of {', '.join(names)}: name those that run across and up, for "
        f"example columns=({names[0]!r}, {names[-1]!r})."
        if len(names) > 2
        else f"A map needs two columns; there is only {names[0]}."
    )


def degrees_of(model: Any) -> tuple[str, str] | None:
    """Return the columns of longitude and latitude if the model measures distances on Earth."""
    parts = getattr(model, "parts_", {}).values()
    latlon = [part.layout_.latlon for part in parts if hasattr(part, "layout_")]
    if not latlon or latlon[-1] is None:
        return None
    names, (lat, lon) = input_names(model), latlon[-1]
    return names[lon], names[lat]


def place_label(name: str, units: Mapping[str, str]) -> str:
    """Return the label of a column on a map with its unit; degrees have their direction."""
    return with_unit(name, units.get(name) or degrees(name))


def value_text(value: Any) -> str:
    """Return an input as text: numbers with eight digits, times to the minute if they are whole.

    >>> value_text(20240101.0), value_text(np.datetime64("2024-01-01T06:00"))
    ('20240101', '2024-01-01 06:00')
    """
    if isinstance(value, (int, float, np.number)):
        return f"{value:.8g}"
    if isinstance(value, (np.datetime64, datetime)):
        stamp = pd.Timestamp(value)
        whole = stamp == stamp.floor("min")
        return stamp.isoformat(" ", "minutes" if whole else "auto").removesuffix(" 00:00")
    return str(value)


def time_label(name: str, moment: Any, between: str = " ") -> str:
    """Return a time as text: a date, `between` it and its hour if it has one, or a named number."""
    if isinstance(moment, (int, float, np.number)):
        return f"{name} {value_text(moment)}"
    return value_text(moment).replace(" ", between)
