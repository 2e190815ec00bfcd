"""Predictions in every cell of a lattice held by xarray."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from zigp.data.grids import axes_of, exposure_of_cells, exposure_variable, refuse_reserved
from zigp.gp.batch import Lattice
from zigp.runtime.session import entry_point

QUANTILES = (0.05, 0.5, 0.95)
_CELLS = "_"  # the variable of the cells to predict
_SAME_UNIT = {"mean": "expected", "sd": "standard deviation of", "quantiles": "quantiles of"}


def predict_lattice(
    model: Any,
    target: xr.DataArray | xr.Dataset,
    quantiles: Sequence[float] = QUANTILES,
    below: float | None = None,
) -> xr.Dataset:
    """Return mean, sd, quantiles and, where there is one, prob_on, in every cell of the target.

    Over a target that dask holds in chunks nothing is predicted here: the answer has the same
    chunks, each computed when it is asked for.
    """
    grid, single = _grid(model, target)
    asked = {"model": model, "quantiles": quantiles, "below": below}
    # Coordinates have chunks of their own, which do not count.
    chunks = target.reset_coords(drop=True).unify_chunks().chunksizes
    if not chunks:
        return _predicted(grid, **asked).squeeze(single)
    import dask.array as da

    cells = grid[_CELLS]
    corner = grid.isel({dim: slice(1) for dim in cells.dims})
    if (exposure := getattr(model, "exposure", None)) is not None:
        corner[exposure] = xr.ones_like(corner[_CELLS])
    one = _predicted(corner, **asked)  # mistakes now, not in a worker
    pieces = tuple(chunks.get(dim, -1) for dim in cells.dims)
    lazy = cells.copy(data=da.zeros(cells.shape, chunks=pieces))
    template = one.isel(dict.fromkeys(cells.dims, 0), drop=True).assign_coords(grid.coords)
    for name, values in template.data_vars.items():
        template[name] = (xr.zeros_like(lazy, values.dtype) + values).assign_attrs(values.attrs)
    return xr.map_blocks(
        _predicted, grid.assign({_CELLS: lazy}), kwargs=asked, template=template
    ).squeeze(single)


def _axis_names(model: Any) -> list[str]:
    """Return the columns that a model was fitted with, except for the exposure."""
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    if not names:
        raise ValueError(
            "The model was fitted without column names, so a lattice's coordinates cannot be "
            "matched to its columns. Fit it on a DataFrame or on a lattice."
        )
    return [name for name in names if name != getattr(model, "exposure", None)]


def _grid(model: Any, target: xr.DataArray | xr.Dataset) -> tuple[xr.Dataset, list[str]]:
    """Return the cells to predict, with exposures, and the axes of one place alone.

    Those are coordinates that belong to no dimension, as in one hour of a cube. A Dataset can have
    other dimensions, such as those of bounds, which are left aside.
    """
    exposure, names = getattr(model, "exposure", None), _axis_names(model)
    main, dims = target, list(target.dims)
    if isinstance(target, xr.Dataset):
        target = target.set_coords([name for name in names if name in target.data_vars])
        main = max(target.data_vars.values(), key=lambda array: array.ndim, default=target)
        along = {dim for name in names if name in target.coords for dim in target[name].dims}
        # If no dimension has a coordinate of the model, all are refused by name later.
        dims = [d for d in dict.fromkeys([*main.dims, *target.dims]) if d in along] or list(
            main.dims
        )
    single = [name for name in names if name in target.coords and target[name].ndim == 0]
    # Coordinates are small and often in chunks of their own: they are read now.
    coords = {
        name: one.reset_coords(drop=True).compute()
        for name, one in target.coords.items()
        if name in single or (one.ndim == 1 and one.dims[0] in dims)
    }
    refuse_reserved([*map(str, dims), *map(str, coords)])
    shape = tuple(target.sizes[dim] for dim in dims)
    grid = xr.Dataset({_CELLS: (dims, np.broadcast_to(0.0, shape))}, coords).expand_dims(single)
    if exposure is not None:
        grid[exposure] = exposure_variable(target, exposure).reset_coords(drop=True)
    return grid, single


@entry_point  # dask calls it in threads of its own
def _predicted(
    grid: xr.Dataset, model: Any, quantiles: Sequence[float], below: float | None
) -> xr.Dataset:
    """Return everything that is predicted, with the grid's coordinates."""
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
    trailing = {} if model._output_names is None else {"output": list(model._output_names)}
    variables = {}
    for name, values in found.items():
        more = [*trailing, *(["quantile"] if name == "quantiles" else [])]
        shaped = values.reshape(*lattice.shape, *values.shape[1:])
        variables[name] = ([*cells.dims, *more], shaped, _attributes(model, name, below))
    coords = dict(grid.coords) | trailing | ({"quantile": list(quantiles)} if quantiles else {})
    return xr.Dataset(variables, coords=coords, attrs={"Conventions": "CF-1.11", "source": "zigp"})


def _as_inputs(model: Any, grid: xr.Dataset) -> Lattice:
    """Return the grid's axes as the numbers that a fitted model knows its columns by."""
    wanted, exposure = _axis_names(model), getattr(model, "exposure", None)
    axes = axes_of(grid[_CELLS], wanted)
    found = [name for axis in axes.values() for name in axis]
    if missing := [name for name in wanted if name not in found]:
        raise ValueError(
            f"The model was fitted with {', '.join(wanted)}, but the lattice has no coordinate "
            f"{missing[0]!r} along its dimensions {', '.join(axes)}."
        )
    coordinates = tuple(model._as_numbers(axis).to_numpy(float) for axis in axes.values())
    names = list(map(str, model.feature_names_in_))
    columns = tuple(tuple(names.index(str(name)) for name in axis) for axis in axes.values())
    if exposure is None:
        return Lattice(coordinates, columns)
    effort = exposure_of_cells(grid, exposure, grid[_CELLS])
    return Lattice(coordinates, columns, effort, names.index(str(exposure)))


def _attributes(model: Any, name: str, below: float | None) -> dict[str, str]:
    """Return CF attributes: what a variable is, and its unit where the observations had one."""
    units: Mapping[str, str] = getattr(model, "units_", {})
    target = " and ".join(units) or "y"
    unit = next(iter(units.values()), "") if len(set(units.values())) == 1 else ""
    if name == "prob_below":
        most = f"{below:g} {unit}".strip()
        return {"long_name": f"probability that {target} is at most {most}", "units": "1"}
    if name not in _SAME_UNIT:
        return {"long_name": f"how far {target} is switched on", "units": "1"}
    return {"long_name": f"{_SAME_UNIT[name]} {target}"} | ({"units": unit} if unit else {})
