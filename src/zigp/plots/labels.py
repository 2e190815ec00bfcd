"""What inputs and outputs are called on the axes, and in which units they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from zigp.data.layout import column_index, listed
from zigp.data.names import is_latitude, is_longitude, places_among
from zigp.data.names import is_time as names_a_time

__all__ = [
    "column",
    "input_names",
    "is_time",
    "names_of",
    "outputs_of",
    "place_columns",
    "place_label",
    "target_label",
    "with_unit",
]

_WRITTEN = {"degrees_north": "°N", "degrees_east": "°E", "1": ""}  # units as CF spells them


def with_unit(name: str, unit: str) -> str:
    """A label such as "rain, mm".

    >>> with_unit("rain", "mm"), with_unit("lat", "degrees_north"), with_unit("y", "")
    ('rain, mm', 'lat, °N', 'y')
    """
    unit = _WRITTEN.get(unit, unit)
    return f"{name}, {unit}" if unit else name


def input_names(model: Any) -> list[str]:
    """The columns that a fitted model looks at, as it was given them."""
    check_is_fitted(model)
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        return [str(name) for name in names]
    count = model.n_features_in_
    return ["x"] if count == 1 else [f"column {c}" for c in range(count)]


def outputs_of(model: Any) -> list[str]:
    """The names of a model's outputs where it has several, otherwise nothing."""
    return list(getattr(model, "_output_names", None) or [])


def target_label(model: Any = None, y: Any = None, unit: str | None = None) -> str:
    """What was observed, with its unit, as far as the data or the model know it."""
    units: Mapping[str, str] = getattr(model, "units_", None) or {}
    name = getattr(y, "name", None)
    if name is None:
        name = next(iter(units)) if len(units) == 1 else "y"
    found = getattr(y, "attrs", {}).get("units", units.get(str(name), ""))
    return with_unit(str(name), found if unit is None else unit)


def column(X: Any, which: int | str) -> Any:
    """One column of a table or an array, in the user's own values."""
    if hasattr(X, "columns"):
        return X.iloc[:, column_index(which, X.shape[1], list(map(str, X.columns)))]
    array = np.asarray(X)
    return array[:, column_index(which, array.shape[1], None)]


def names_of(X: Any, model: Any = None) -> list[str]:
    """What the columns of a table are called, or were when the model was fitted."""
    if hasattr(X, "columns"):
        return [str(name) for name in X.columns]
    if model is not None:
        return input_names(model)
    return [f"column {c}" for c in range(np.asarray(X).shape[1])]


def place_columns(
    X: Any, columns: Sequence[int | str] | None, model: Any = None
) -> tuple[int, int]:
    """The positions of the columns that run across and up a map.

    Those given, or those that the model was told are latitude and longitude, or places by their
    names, or the only two there are.
    """
    names = names_of(X, model)
    if columns is not None:
        found = [column_index(c, len(names), names) for c in listed(columns)]
        if len(found) != 2 or found[0] == found[1]:
            raise ValueError(
                f"columns must name two columns, across and up; it names {len(set(found))}."
            )
        return found[0], found[1]
    layout = getattr(model, "layout_", None)
    if layout is not None and layout.latlon is not None:
        lat, lon = layout.latlon
        return lon, lat
    if (pair := places_among(names)) is not None:
        return names.index(pair[0]), names.index(pair[1])
    if len(names) == 2:
        return 0, 1
    raise ValueError(
        f"A map needs two columns of {', '.join(names)}: name those that run across and up, for "
        f"example columns=({names[0]!r}, {names[-1]!r})."
        if len(names) > 2
        else f"A map needs two columns; there is only {names[0]}."
    )


def is_time(name: str, dtype: Any) -> bool:
    """Whether a column or a dimension holds times, by its type or its name."""
    return getattr(dtype, "kind", "") == "M" or names_a_time(name)


def place_label(name: str) -> str:
    """The label of a column on a map: degrees say which way they run."""
    if is_latitude(name):
        return with_unit(name, "degrees_north")
    return with_unit(name, "degrees_east") if is_longitude(name) else name
