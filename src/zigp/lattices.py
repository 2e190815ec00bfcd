"""Lattices as xarray holds them: a table of their cells for a fit, predictions on their axes."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zigp.batch import Lattice
from zigp.runtime import entry_point

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["QUANTILES", "Cells", "as_cells", "as_inputs", "is_lattice", "predict_lattice"]

QUANTILES = (0.05, 0.5, 0.95)
_SAME_UNIT = {"mean": "expected", "sd": "standard deviation of", "quantiles": "quantiles of"}


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
    axes = _coordinates(arrays[0])
    values = np.stack([_numbers(array.transpose(*dims)) for array in arrays], axis=-1)
    if np.isinf(values).any():
        raise ValueError("Some cells are infinite: make them NaN where nothing was observed.")
    seen = np.isfinite(values).any(axis=-1)
    if weight is not None and is_lattice(weight):
        weight = _numbers(weight.broadcast_like(arrays[0]).transpose(*dims))
    columns = {
        name: axis[name].iloc[place].reset_index(drop=True)
        for axis, place in zip(axes.values(), np.nonzero(seen), strict=True)
        for name in axis
    }
    if exposure is not None:
        effort = _variable(X, exposure).broadcast_like(arrays[0]).transpose(*dims)
        columns[str(exposure)] = pd.Series(_numbers(effort)[seen])
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
# To predict


def as_inputs(model: Any, target: Any) -> Lattice:
    """The target's axes as the numbers that a fitted model knows its columns by."""
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    if not names:
        raise ValueError(
            "The model was fitted without column names, so a lattice's coordinates cannot be "
            "matched to its columns. Fit it on a DataFrame or on a lattice."
        )
    exposure = getattr(model, "exposure", None)
    wanted = [name for name in names if name != exposure]
    axes = _coordinates(target, wanted)
    found = [name for axis in axes.values() for name in axis]
    if missing := [name for name in wanted if name not in found]:
        raise ValueError(
            f"The model was fitted with {', '.join(wanted)}, but the lattice has no coordinate "
            f"{missing[0]!r} along its dimensions {', '.join(axes)}."
        )
    coordinates = tuple(model._as_numbers(axis).to_numpy(float) for axis in axes.values())
    columns = tuple(tuple(names.index(str(name)) for name in axis) for axis in axes.values())
    if exposure is None:
        return Lattice(coordinates, columns)
    effort = _variable(target, exposure)
    effort = effort.broadcast_like(target).transpose(*axes)
    return Lattice(coordinates, columns, _numbers(effort), names.index(str(exposure)))


def predict_lattice(model: Any, target: Any, quantiles: Sequence[float] = QUANTILES) -> xr.Dataset:
    """Mean, sd, quantiles and, where there is one, prob_on, in every cell of the target.

    Over a target that dask holds in chunks nothing is predicted here: the answer has the same
    chunks, each computed when it is asked for.
    """
    import xarray as xr

    # Coordinates are small and often in chunks of their own: they are read now.
    along = {name: one.compute() for name, one in target.coords.items() if one.ndim == 1}
    chunks = _chunks(target)
    if not chunks:
        return _predicted(target, model, quantiles)
    import dask.array as da

    sizes = {str(dim): size for dim, size in target.sizes.items()}
    dims, shape = list(sizes), tuple(sizes.values())
    pieces = tuple(chunks.get(dim, (size,)) for dim, size in sizes.items())
    skeleton = xr.Dataset({"_": (dims, da.zeros(shape, chunks=pieces))}, coords=along)
    corner = xr.Dataset({"_": (dims, np.broadcast_to(0.0, shape))}, coords=along)
    corner = corner.isel({dim: slice(1) for dim in dims})
    if (exposure := getattr(model, "exposure", None)) is not None:
        skeleton[exposure] = _variable(target, exposure)
        corner[exposure] = xr.ones_like(corner["_"])
    one = _predicted(corner, model, quantiles)  # mistakes now, not in a worker
    template = xr.Dataset(
        coords={**along, **{n: c for n, c in one.coords.items() if n not in along}}, attrs=one.attrs
    )
    for name, array in one.data_vars.items():
        more = array.shape[len(dims) :]
        values = da.zeros((*shape, *more), chunks=(*pieces, *more), dtype=array.dtype)
        template[name] = (array.dims, values, array.attrs)
    return xr.map_blocks(
        _predicted, skeleton, kwargs={"model": model, "quantiles": quantiles}, template=template
    )


def _chunks(target: Any) -> dict[str, tuple[int, ...]]:
    """The chunks of the target, or of the variable in it with the most dimensions, if any."""
    arrays = list(target.data_vars.values()) if hasattr(target, "data_vars") else [target]
    lazy = [array for array in arrays if array.chunks is not None]
    if not lazy:
        return {}
    main = max(lazy, key=lambda array: array.ndim)
    return dict(zip(map(str, main.dims), main.chunks, strict=True))


@entry_point  # dask calls it in threads of its own
def _predicted(target: Any, model: Any, quantiles: Sequence[float]) -> xr.Dataset:
    """Everything that is predicted, with the target's coordinates."""
    import xarray as xr

    lattice = as_inputs(model, target)
    mean, sd = model.predict(lattice, return_std=True)
    found = {"mean": mean, "sd": sd}
    if hasattr(model, "prob_on"):
        found["prob_on"] = model.prob_on(lattice)
    if quantiles:
        found["quantiles"] = np.stack([model._quantile(lattice, q) for q in quantiles], axis=-1)
    dims = [str(dim) for dim in target.sizes]
    outputs = model._output_names
    trailing = {"output": list(outputs)} if outputs is not None else {}
    variables = {}
    for name, values in found.items():
        more = [*trailing, *(["quantile"] if name == "quantiles" else [])]
        shaped = values.reshape(*lattice.shape, *values.shape[1:])
        variables[name] = ([*dims, *more], shaped, _attributes(model, name))
    coords = {dim: target.coords[dim] for dim in target.coords if target.coords[dim].ndim == 1}
    coords |= trailing | ({"quantile": list(quantiles)} if quantiles else {})
    return xr.Dataset(variables, coords=coords, attrs={"Conventions": "CF-1.11", "source": "zigp"})


def _attributes(model: Any, name: str) -> dict[str, str]:
    """CF attributes: what a variable is, and its unit where the observations had one."""
    units: Mapping[str, str] = getattr(model, "units_", {})
    target = " and ".join(units) or "y"
    if name not in _SAME_UNIT:
        return {"long_name": f"how far {target} is switched on", "units": "1"}
    unit = next(iter(units.values()), "") if len(set(units.values())) == 1 else ""
    return {"long_name": f"{_SAME_UNIT[name]} {target}"} | ({"units": unit} if unit else {})


# ---------------------------------------------------------------------------------------------
# Coordinates


def _coordinates(array: Any, wanted: Sequence[str] | None = None) -> dict[str, pd.DataFrame]:
    """For each dimension, the coordinates along it: all that are wanted or, to begin with, its own.

    A dimension of text, or of whole numbers that only count, is known by what else runs along it,
    such as the latitudes and longitudes of stations.
    """
    import pandas as pd

    found = {}
    for dim in map(str, array.sizes):
        along = {
            str(name): pd.Series(one.to_index() if name == dim else one.values)
            for name, one in array.coords.items()
            if one.dims == (dim,)
        }
        usable = {name: one for name, one in along.items() if _is_coordinate(one)}
        others = [name for name in usable if name != dim]
        if wanted is not None:
            names = [name for name in usable if name in wanted]
        elif dim in usable and not (others and pd.api.types.is_integer_dtype(usable[dim])):
            names = [dim]
        else:
            names = others
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
        found[dim] = axis
    return found


def _is_coordinate(values: pd.Series) -> bool:
    """Whether values are numbers or times, of any calendar."""
    import pandas as pd

    kinds = pd.api.types
    if kinds.is_numeric_dtype(values) or kinds.is_datetime64_any_dtype(values):
        return not kinds.is_bool_dtype(values)
    return len(values) > 0 and hasattr(values.iloc[0], "calendar")


def _variable(X: Any, name: Any) -> xr.DataArray:
    if not hasattr(X, "data_vars") or name not in X.variables:
        raise ValueError(f"exposure names {name!r}: give a Dataset that has it as a variable.")
    return X[name]


def _numbers(array: xr.DataArray) -> np.ndarray:
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{array.name!r} holds {array.dtype}, not numbers.")
    return np.asarray(array.values, float)
