"""Lattices as xarray holds them: a table of their cells for a fit, predictions on their axes."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zigp.data.names import places_among
from zigp.gp.batch import Lattice
from zigp.runtime.session import entry_point

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = [
    "QUANTILES",
    "Cells",
    "as_cells",
    "axes_of",
    "is_lattice",
    "predict_lattice",
]

QUANTILES = (0.05, 0.5, 0.95)
# What predictions and their own axes are called, and the cells before there are any.
_CELLS = "_"
_TAKEN = {"mean", "sd", "prob_on", "prob_below", "quantiles", "quantile", "output", _CELLS}
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
    axes = axes_of(arrays[0])
    _refuse_taken([*axes, *(str(name) for axis in axes.values() for name in axis)])
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
        columns[str(exposure)] = pd.Series(_efforts(X, exposure, arrays[0], seen)[seen])
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


def predict_lattice(
    model: Any,
    target: Any,
    quantiles: Sequence[float] = QUANTILES,
    below: float | None = None,
) -> xr.Dataset:
    """Mean, sd, quantiles and, where there is one, prob_on, in every cell of the target.

    Over a target that dask holds in chunks nothing is predicted here: the answer has the same
    chunks, each computed when it is asked for.
    """
    import xarray as xr

    grid, single = _grid(model, target)
    asked = {"model": model, "quantiles": quantiles, "below": below}
    chunks = _chunks(target)
    if not chunks:
        return _predicted(grid, **asked).squeeze(single)
    import dask.array as da

    dims, shape = grid[_CELLS].dims, grid[_CELLS].shape
    pieces = tuple(chunks.get(str(d), (n,)) for d, n in zip(dims, shape, strict=True))
    corner = grid.isel({dim: slice(1) for dim in dims})
    if (exposure := getattr(model, "exposure", None)) is not None:
        corner[exposure] = xr.ones_like(corner[_CELLS])
    one = _predicted(corner, **asked)  # mistakes now, not in a worker
    template = xr.Dataset(
        coords={**grid.coords, **{n: c for n, c in one.coords.items() if n not in grid.coords}},
        attrs=one.attrs,
    )
    for name, array in one.data_vars.items():
        more = array.shape[len(dims) :]
        values = da.zeros((*shape, *more), chunks=(*pieces, *more), dtype=array.dtype)
        template[name] = (array.dims, values, array.attrs)
    grid[_CELLS] = (dims, da.zeros(shape, chunks=pieces))
    return xr.map_blocks(_predicted, grid, kwargs=asked, template=template).squeeze(single)


def _names(model: Any) -> list[str]:
    """The columns that a model was fitted with."""
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    if not names:
        raise ValueError(
            "The model was fitted without column names, so a lattice's coordinates cannot be "
            "matched to its columns. Fit it on a DataFrame or on a lattice."
        )
    return names


def _grid(model: Any, target: Any) -> tuple[xr.Dataset, list[str]]:
    """The cells to predict with what the model looks at there, and axes of one place alone.

    Those are coordinates that belong to no dimension, as in one hour of a cube. A Dataset can have
    other dimensions, such as those of bounds, which are left aside.
    """
    import xarray as xr

    exposure = getattr(model, "exposure", None)
    names = [name for name in _names(model) if name != exposure]
    if hasattr(target, "data_vars"):
        target = target.set_coords([name for name in names if name in target.data_vars])
    known = [target.coords[name] for name in names if name in target.coords]
    single = [str(one.name) for one in known if one.ndim == 0]
    dims = _order(target)
    if hasattr(target, "data_vars"):
        along = {dim for one in known if one.ndim == 1 for dim in one.dims}
        dims = [dim for dim in dims if dim in along]
    # Coordinates are small and often in chunks of their own: they are read now.
    coords = {
        name: one.reset_coords(drop=True).compute()
        for name, one in target.coords.items()
        if one.ndim == 1 and one.dims[0] in dims
    }
    _refuse_taken([*map(str, dims), *map(str, coords), *single])
    shape = tuple(target.sizes[dim] for dim in dims)
    grid = xr.Dataset({_CELLS: (dims, np.broadcast_to(0.0, shape))}, coords=coords)
    grid = grid.assign_coords({name: target.coords[name].compute() for name in single})
    grid = grid.expand_dims(single)
    if exposure is not None:
        grid[exposure] = _variable(target, exposure).reset_coords(drop=True)
    return grid, single


def _order(target: Any) -> list[Any]:
    """The dimensions in the order that the target's largest variable has them in."""
    arrays = target.data_vars.values() if hasattr(target, "data_vars") else [target]
    main = max(arrays, key=lambda array: array.ndim, default=None)
    return list(dict.fromkeys([*(() if main is None else main.dims), *target.sizes]))


def _chunks(target: Any) -> dict[str, tuple[int, ...]]:
    """The chunks of the target, or of the variable in it with the most dimensions, if any."""
    arrays = list(target.data_vars.values()) if hasattr(target, "data_vars") else [target]
    lazy = [array for array in arrays if array.chunks is not None]
    if not lazy:
        return {}
    main = max(lazy, key=lambda array: array.ndim)
    return dict(zip(map(str, main.dims), main.chunks, strict=True))


@entry_point  # dask calls it in threads of its own
def _predicted(
    grid: xr.Dataset, model: Any, quantiles: Sequence[float], below: float | None
) -> xr.Dataset:
    """Everything that is predicted, with the grid's coordinates."""
    import xarray as xr

    cells = grid[_CELLS]
    lattice = _as_inputs(model, grid)
    mean, sd = model.predict(lattice, return_std=True)
    found = {"mean": mean, "sd": sd}
    if hasattr(model, "prob_on"):
        found["prob_on"] = model.prob_on(lattice)
    if below is not None:
        found["prob_below"] = model.prob_below(lattice, below)
    if quantiles:
        found["quantiles"] = np.stack([model._quantile(lattice, q) for q in quantiles], axis=-1)
    outputs = model._output_names
    trailing = {"output": list(outputs)} if outputs is not None else {}
    variables = {}
    for name, values in found.items():
        more = [*trailing, *(["quantile"] if name == "quantiles" else [])]
        shaped = values.reshape(*lattice.shape, *values.shape[1:])
        variables[name] = ([*cells.dims, *more], shaped, _attributes(model, name, below))
    coords = dict(grid.coords) | trailing | ({"quantile": list(quantiles)} if quantiles else {})
    return xr.Dataset(variables, coords=coords, attrs={"Conventions": "CF-1.11", "source": "zigp"})


def _as_inputs(model: Any, grid: xr.Dataset) -> Lattice:
    """The grid's axes as the numbers that a fitted model knows its columns by."""
    names, exposure = _names(model), getattr(model, "exposure", None)
    wanted = [name for name in names if name != exposure]
    axes = axes_of(grid[_CELLS], wanted)
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
    effort = _efforts(grid, exposure, grid[_CELLS])
    return Lattice(coordinates, columns, effort, names.index(str(exposure)))


def _attributes(model: Any, name: str, below: float | None) -> dict[str, str]:
    """CF attributes: what a variable is, and its unit where the observations had one."""
    units: Mapping[str, str] = getattr(model, "units_", {})
    target = " and ".join(units) or "y"
    unit = next(iter(units.values()), "") if len(set(units.values())) == 1 else ""
    if name == "prob_below":
        most = f"{below:g} {unit}".strip()
        return {"long_name": f"probability that {target} is at most {most}", "units": "1"}
    if name not in _SAME_UNIT:
        return {"long_name": f"how far {target} is switched on", "units": "1"}
    return {"long_name": f"{_SAME_UNIT[name]} {target}"} | ({"units": unit} if unit else {})


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


def _refuse_taken(names: Sequence[str]) -> None:
    if taken := [name for name in names if name in _TAKEN]:
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


def _variable(X: Any, name: Any) -> xr.DataArray:
    if not hasattr(X, "data_vars") or name not in X.variables:
        raise ValueError(f"exposure names {name!r}: give a Dataset that has it as a variable.")
    return X[name]


def _efforts(X: Any, name: Any, like: Any, seen: Any = True) -> np.ndarray:
    """The exposure in every cell of an array, positive in those that were seen."""
    effort, dims = _variable(X, name), list(like.sizes)
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
