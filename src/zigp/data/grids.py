"""Lattices held by xarray: their axes, and their cells as a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from zigp.data.columns import column_kind, places_among

# Names of predictions and of their own axes, and of the cells to predict.
_RESERVED = {"mean", "sd", "prob_on", "prob_below", "quantiles", "quantile", "output", "_"}
_STANDARD = ("standard", "gregorian", "proleptic_gregorian")  # calendars that pandas has


@dataclass(frozen=True)
class Cells:
    """The cells of a lattice in which something was observed, as a table."""

    X: pd.DataFrame
    y: Any  # one output [cells], or a frame of several
    weight: np.ndarray | None
    groups: dict[str, list[str]]  # the columns of each dimension
    places: dict[tuple[int, ...], np.ndarray]  # by their numbers: the place of each cell on it
    units: dict[str, str]  # of each output


def is_lattice(X: Any) -> bool:
    """Return whether X is a DataArray or a Dataset."""
    return isinstance(X, (xr.DataArray, xr.Dataset))


def as_cells(X: Any, y: Any, weight: Any = None, exposure: Any = None) -> Cells:
    """Return the observed cells of a DataArray, or of the variables of a Dataset that y names."""
    arrays = _outputs(X, y)
    dims = arrays[0].dims
    axes = axes_of(arrays[0])
    groups = {dim: [str(name) for name in axis] for dim, axis in axes.items()}
    names = [name for group in groups.values() for name in group]
    refuse_reserved([*axes, *names])
    values = np.stack([_numbers(array.transpose(*dims)) for array in arrays], axis=-1)
    if np.isinf(values).any():
        raise ValueError("Some cells are infinite: make them NaN where nothing was observed.")
    observed = np.isfinite(values).any(axis=-1)
    if not observed.any():
        raise ValueError("Nothing was observed in any cell: all are NaN.")
    if weight is not None and is_lattice(weight):
        weight = _numbers(weight.broadcast_like(arrays[0]).transpose(*dims))
    places = dict(zip(axes, np.nonzero(observed), strict=True))
    columns = {
        name: axis[name].iloc[places[dim]].reset_index(drop=True)
        for dim, axis in axes.items()
        for name in axis
    }
    if exposure is not None:
        efforts = exposure_of_cells(X, exposure, arrays[0], observed)
        columns[str(exposure)] = pd.Series(efforts[observed])
    outputs = [str(array.name or "y") for array in arrays]
    several = y is not None and not isinstance(y, str)
    return Cells(
        X=pd.DataFrame(columns),
        y=pd.DataFrame(values[observed], columns=outputs) if several else values[observed][:, 0],
        weight=None if weight is None else np.broadcast_to(weight, values.shape[:-1])[observed],
        groups=groups,
        places={tuple(map(names.index, group)): places[dim] for dim, group in groups.items()},
        units={n: str(a.attrs.get("units", "")) for n, a in zip(outputs, arrays, strict=True)},
    )


def _outputs(X: Any, y: Any) -> list[xr.DataArray]:
    if not hasattr(X, "data_vars"):
        if y is not None:
            raise ValueError("X is a DataArray, which holds the observations itself: leave y out.")
        return [X]
    names = [y] if isinstance(y, str) else list(() if y is None else y)
    if not names or any(name not in X.data_vars for name in names):
        have = ", ".join(map(repr, X.data_vars))
        raise ValueError(f"X is a Dataset: y must name what to fit, of {have}; it is {y!r}.")
    arrays = [X[name] for name in names]
    for array in arrays:
        if set(array.dims) != set(arrays[0].dims):
            raise ValueError(
                f"{array.name!r} has the dimensions {', '.join(map(str, array.dims))}, "
                f"{arrays[0].name!r} has {', '.join(map(str, arrays[0].dims))}: they must agree."
            )
    return arrays


def axes_of(array: Any, wanted: Sequence[str] | None = None) -> dict[str, pd.DataFrame]:
    """Return the coordinates along each dimension: those wanted, or those that identify a place.

    A dimension of text, or of integers that only count or name places, is identified by the other
    coordinates along it, such as the latitudes and longitudes of stations.
    """
    if not array.sizes:
        raise ValueError("The array has no dimensions: there are no places in it.")
    if empty := [dim for dim, size in array.sizes.items() if not size]:
        raise ValueError(f"Dimension {empty[0]!r} is empty: it has no places.")
    axes = {}
    for dim in array.sizes:
        along = {
            str(name): _coordinate(one)
            for name, one in array.coords.items()
            if one.dims == (dim,) and (wanted is None or name in wanted or name == dim)
        }
        usable = {
            name: one
            for name, one in along.items()
            if one.dtype != bool and column_kind(one.dtype) in ("number", "time")
        }
        names = _own(str(dim), usable) if wanted is None else [n for n in usable if n in wanted]
        if not names:
            have = "text" if dim in along and dim not in usable else "no coordinates"
            sought = "numbers or times" if wanted is None else f"any of {', '.join(wanted)}"
            raise ValueError(
                f"Dimension {dim!r} has {have}, not {sought}. Give it coordinates, for example "
                f"with .assign_coords(lat=({dim!r}, …)), or drop it."
            )
        axis = pd.DataFrame({name: usable[name] for name in names})
        if axis.isna().any(axis=None):
            raise ValueError(f"Dimension {dim!r} has coordinates that are missing: drop them.")
        if axis.duplicated().any():
            place = ", ".join(str(v) for v in axis[axis.duplicated()].iloc[0])
            raise ValueError(f"Dimension {dim!r} has the place {place} more than once: drop one.")
        axes[str(dim)] = axis
    return axes


def _coordinate(array: Any) -> pd.Series:
    """Return the values along a dimension; dates of cftime become times of pandas."""
    index = array.variable.to_index_variable().to_index()
    if hasattr(index, "to_datetimeindex"):
        if index.calendar not in _STANDARD:
            raise ValueError(
                f"Coordinate {array.name!r} has times of the calendar {index.calendar!r}: convert "
                "them with xarray's .convert_calendar('standard')."
            )
        index = index.to_datetimeindex(unsafe=True, time_unit="us")
    return pd.Series(index.to_numpy())


def _own(dim: str, usable: Mapping[str, pd.Series]) -> list[str]:
    """Return the coordinates that identify a place: the dimension's own, or the others."""
    others = [name for name in usable if name != dim]
    if dim not in usable:
        return others
    if not others or not pd.api.types.is_integer_dtype(usable[dim]):
        return [dim]
    values = usable[dim].to_numpy()
    counts = values[0] in (0, 1) and np.array_equal(values, values[0] + np.arange(len(values)))
    return others if counts or places_among(others) else [dim]


def refuse_reserved(names: Sequence[str]) -> None:
    """Raise an error if a dimension or coordinate has the name of a prediction."""
    if reserved := [name for name in names if name in _RESERVED]:
        raise ValueError(
            f"A dimension or coordinate is called {reserved[0]!r}, as are predictions or their "
            f"axes: rename it, for example with .rename({{{reserved[0]!r}: ...}})."
        )


def exposure_variable(X: Any, name: Any) -> xr.DataArray:
    """Return the variable of a Dataset that holds the exposure."""
    if not hasattr(X, "data_vars") or name not in X.variables:
        raise ValueError(f"exposure names {name!r}: give a Dataset that has it as a variable.")
    return X[name]


def exposure_of_cells(X: Any, name: Any, like: Any, observed: Any = True) -> np.ndarray:
    """Return the exposure in every cell of an array, positive in the observed ones."""
    effort, dims = exposure_variable(X, name), list(like.sizes)
    if more := [dim for dim in effort.dims if dim not in dims]:
        raise ValueError(f"Exposure {name!r} has a dimension {more[0]!r} that the cells lack.")
    values = _numbers(effort.broadcast_like(like).transpose(*dims))
    if np.any(bad := observed & ~(np.isfinite(values) & (values > 0))):
        at = tuple(int(i[0]) for i in np.nonzero(bad))
        place = ", ".join(f"{d} {like[d].values[i]}" for d, i in zip(dims, at, strict=True))
        raise ValueError(
            f"Exposures must be positive; {name!r} is {values[at]:g} at {place}. Make cells "
            "without any effort NaN to fit, or fill the effort in to predict."
        )
    return values


def _numbers(array: xr.DataArray) -> np.ndarray:
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{array.name!r} holds {array.dtype}, not numbers.")
    return np.asarray(array.values, float)
