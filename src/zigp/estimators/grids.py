"""Predictions in every cell of a lattice held by xarray."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from zigp.data.grids import axes_of, exposure_of_cells, exposure_variable, refuse_reserved
from zigp.gp.batch import Lattice
from zigp.runtime.session import entry_point

if TYPE_CHECKING:
    import xarray as xr

QUANTILES = (0.05, 0.5, 0.95)
_CELLS = "_"  # the variable of the cells to predict
_SAME_UNIT = {"mean": "expected", "sd": "standard deviation of", "quantiles": "quantiles of"}


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
    refuse_reserved([*map(str, dims), *map(str, coords), *single])
    shape = tuple(target.sizes[dim] for dim in dims)
    grid = xr.Dataset({_CELLS: (dims, np.broadcast_to(0.0, shape))}, coords=coords)
    grid = grid.assign_coords({name: target.coords[name].compute() for name in single})
    grid = grid.expand_dims(single)
    if exposure is not None:
        grid[exposure] = exposure_variable(target, exposure).reset_coords(drop=True)
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
    distribution = model.predict_distribution(lattice)
    found = {"mean": distribution.point, "sd": distribution.sd}
    if distribution.prob_on is not None:
        found["prob_on"] = distribution.prob_on
    if below is not None:
        found["prob_below"] = distribution.probability(-np.inf, below)
    if quantiles:
        levels = [distribution.quantile(q) for q in quantiles]
        found["quantiles"] = np.stack(levels, axis=-1)
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
    effort = exposure_of_cells(grid, exposure, grid[_CELLS])
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
