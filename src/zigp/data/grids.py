"""Lattices held by xarray: their axes, and their cells as a table."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zigp.data.names import places_among

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = [
    "Cells",
    "as_cells",
    "axes_of",
    "exposure_of_cells",
    "exposure_variable",
    "is_lattice",
    "refuse_reserved",
]

# Names of predictions and of their own axes, and of the cells to predict.
_RESERVED = {"mean", "sd", "prob_on", "prob_below", "quantiles", "quantile", "output", "_"}


@dataclass(frozen=True)
class Cells:
    """The cells of a lattice in which something was observed, as a table."""

    X: pd.DataFrame
    y: Any  # one output [cells], or a frame of several
    weight: np.ndarray | None
    groups: dict[str, list[str]]  # the columns that each dimension's coordinates became
    units: dict[str, str]  # of each output


def is_lattice(X: Any) -> bool:
    """Whether X is a DataArray or a Dataset."""
    xr = sys.modules.get("xarray")  # without it nobody can have made one
    return xr is not None and isinstance(X, (xr.DataArray, xr.Dataset))


# ---------------------------------------------------------------------------------------------
# To fit


def as_cells(X: Any, y: Any, weight: Any = None, exposure: Any = None) -> Cells:
    """The cells of X: a DataArray of observations, or a Dataset with y naming one or several."""
    import pandas as pd

    arrays = _outputs(X, y)
    dims = arrays[0].dims
    axes = axes_of(arrays[0])
    refuse_reserved([*axes, *(str(name) for axis in axes.values() for name in axis)])
    values = np.stack([_numbers(array.transpose(*dims)) for array in arrays], axis=-1)
    if np.isinf(values).any():
        raise ValueError("Some cells are infinite: make them NaN where nothing was observed.")
    seen = np.isfinite(values).any(axis=-1)
    if not seen.any():
        raise ValueError("Nothing was observed in any cell: all are NaN.")
    if weight is not None and is_lattice(weight):
        weight = _numbers(weight.broadcast_like(arrays[0]).transpose(*dims))
    columns = {
        name: axis[name].iloc[place].reset_index(drop=True)
        for axis, place in zip(axes.values(), np.nonzero(seen), strict=True)
        for name in axis
    }
    if exposure is not None:
        columns[str(exposure)] = pd.Series(exposure_of_cells(X, exposure, arrays[0], seen)[seen])
    names = [str(array.name or "y") for array in arrays]
    several = y is not None and not isinstance(y, str)
    return Cells(
        X=pd.DataFrame(columns),
        y=pd.DataFrame(values[seen], columns=names) if several else values[seen][:, 0],
        weight=None if weight is None else np.broadcast_to(weight, values.shape[:-1])[seen],
        groups={dim: [str(name) for name in axis] for dim, axis in axes.items()},
        units={n: str(a.attrs.get("units", "")) for n, a in zip(names, arrays, strict=True)},
    )


def _outputs(X: Any, y: Any) -> list[xr.DataArray]:
    if not hasattr(X, "data_vars"):
        if y is not None:
            raise ValueError("X is a DataArray, which holds the observations itself: leave y out.")
        return [X]
    names = [y] if isinstance(y, str) else list(() if y is None else y)
    known = ", ".join(map(repr, X.data_vars))
    if not names or any(name not in X.data_vars for name in names):
        raise ValueError(f"X is a Dataset: y must name what to fit, of {known}; it is {y!r}.")
    arrays = [X[name] for name in names]
    for array in arrays:
        if set(array.dims) != set(arrays[0].dims):
            raise ValueError(
                f"{array.name!r} has the dimensions {', '.join(map(str, array.dims))}, "
                f"{arrays[0].name!r} has {', '.join(map(str, arrays[0].dims))}: they must agree."
            )
    return arrays


# ---------------------------------------------------------------------------------------------
# Coordinates


def axes_of(array: Any, wanted: Sequence[str] | None = None) -> dict[str, pd.DataFrame]:
    """For each dimension, the coordinates along it: all that are wanted or, to begin with, its own.

    A dimension of text, or of whole numbers that only name things, is known by what else runs along
    it, such as the latitudes and longitudes of stations.
    """
    import pandas as pd

    if not array.sizes:
        raise ValueError("The array has no dimensions: there are no places in it.")
    found = {}
    for dim, size in array.sizes.items():
        along = {
            str(name): pd.Series(one.to_index() if name == dim else one.values)
            for name, one in array.coords.items()
            if one.dims == (dim,)
        }
        usable = {name: one for name, one in along.items() if _is_coordinate(one)}
        names = _own(str(dim), usable) if wanted is None else [n for n in usable if n in wanted]
        if not size:
            raise ValueError(f"Dimension {dim!r} is empty: it has no places.")
        if not names:
            held = "text" if dim in along and not _is_coordinate(along[dim]) else "no coordinates"
            sought = "numbers or times" if wanted is None else f"any of {', '.join(wanted)}"
            raise ValueError(
                f"Dimension {dim!r} has {held}, not {sought}. Give it coordinates, for example "
                f"with .assign_coords(lat=({dim!r}, …)), or drop it."
            )
        axis = pd.DataFrame({name: usable[name] for name in names})
        if axis.isna().any(axis=None):
            raise ValueError(f"Dimension {dim!r} has coordinates that are missing: drop them.")
        if axis.duplicated().any():
            place = ", ".join(str(v) for v in axis[axis.duplicated()].iloc[0])
            raise ValueError(f"Dimension {dim!r} has the place {place} more than once: drop one.")
        found[str(dim)] = axis
    return found


def _own(dim: str, usable: Mapping[str, pd.Series]) -> list[str]:
    """What a dimension is known by: itself, or the others if it only counts or names places."""
    import pandas as pd

    others = [name for name in usable if name != dim]
    if dim not in usable:
        return others
    if not others or not pd.api.types.is_integer_dtype(usable[dim]):
        return [dim]
    counted = usable[dim].to_numpy()
    counts = counted[0] in (0, 1) and np.array_equal(counted, counted[0] + np.arange(len(counted)))
    return others if counts or places_among(others) else [dim]


def refuse_reserved(names: Sequence[str]) -> None:
    if taken := [name for name in names if name in _RESERVED]:
        raise ValueError(
            f"A dimension or coordinate is called {taken[0]!r}, as are predictions or their axes: "
            f"rename it, for example with .rename({{{taken[0]!r}: ...}})."
        )


def _is_coordinate(values: pd.Series) -> bool:
    """Whether values are numbers or times, of any calendar."""
    import pandas as pd

    kinds = pd.api.types
    if kinds.is_numeric_dtype(values) or kinds.is_datetime64_any_dtype(values):
        return not kinds.is_bool_dtype(values)
    return len(values) > 0 and hasattr(values.iloc[0], "calendar")


def exposure_variable(X: Any, name: Any) -> xr.DataArray:
    if not hasattr(X, "data_vars") or name not in X.variables:
        raise ValueError(f"exposure names {name!r}: give a Dataset that has it as a variable.")
    return X[name]


def exposure_of_cells(X: Any, name: Any, like: Any, seen: Any = True) -> np.ndarray:
    """The exposure in every cell of an array, positive in those that were seen."""
    effort, dims = exposure_variable(X, name), list(like.sizes)
    if more := [dim for dim in effort.dims if dim not in dims]:
        raise ValueError(f"Exposure {name!r} has a dimension {more[0]!r} that the cells lack.")
    values = _numbers(effort.broadcast_like(like).transpose(*dims))
    if np.any(bad := seen & ~(np.isfinite(values) & (values > 0))):
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
