"""Lattices with odd axes, odd values and damaged files."""

import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
import xarray as xr

from .material import NAMES, Dice, cube

_VALUES = (np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 0.0, -1.0)
_DAMAGE = (
    "some cells", "some cells", "all cells", "type", "effort", "attributes", "nothing",
    *("axis",) * 3, "renamed", "no coordinate", "fewer", "another axis", "places",
)  # fmt: skip
_CALENDARS = ("360_day", "martian", "standard")
_DTYPES = ("int8", "bool", "float32", "str", "datetime64[ns]", "complex128", "timedelta64[ns]")
_UNITS = ("hours since 2000-01-01", "hours since never", "fortnights since 1 BC", "days")


def lattice(rng: Dice, folder: Path) -> Path:
    """Write a lattice that is wrong in its values or its axes, as NetCDF or Zarr."""
    data = cube().copy(deep=True)
    for _ in range(rng.choice((0, 1, 1, 2))):
        with suppress(Exception):  # two kinds of damage that do not go together
            data = _spoiled(rng, data)
    path = folder / rng.choice(("data.nc", "data.nc", "data.zarr"))
    for one in (cube(), data):  # the second one cannot always be written
        with suppress(Exception), warnings.catch_warnings(action="ignore"):
            if path.suffix == ".nc":
                one.to_netcdf(path, engine="h5netcdf")
            else:
                one.to_zarr(path, mode="w", zarr_format=2)
    return path


def _spoiled(rng: Dice, data: xr.Dataset) -> xr.Dataset:
    """Change what the cells hold, or an axis."""
    rain, name = data["rain_mm"], rng.choice(("time", "x"))
    match rng.choice(_DAMAGE):
        case "some cells":
            chosen = np.random.default_rng(rng.randrange(99)).random(rain.shape) < 0.5
            return data.assign(rain_mm=rain.where(~chosen, rng.choice(_VALUES)))
        case "all cells":
            return data.assign(rain_mm=xr.full_like(rain, rng.choice(_VALUES)))
        case "type":
            return data.assign(rain_mm=rain.fillna(0.0).astype(rng.choice(_DTYPES)))
        case "effort":
            return data.assign(area=("x", [rng.choice((*_VALUES, 1.0, 1.0)) for _ in range(4)]))
        case "attributes":
            rain.attrs.update(units=rng.choice((*NAMES, 5, "")), scale=np.nan)
            data["time"].attrs.update(units=rng.choice(_UNITS), calendar=rng.choice(_CALENDARS))
            return data
        case "nothing":
            empty = data[[]].drop_vars(list(data.coords))
            return rng.choice((xr.Dataset(), data.drop_vars("rain_mm"), empty))
        case "axis":
            return data.assign_coords({name: (name, rng.choice(_coordinates(rng, data[name])))})
        case "renamed":
            new = rng.choice((*NAMES, "mean", "quantile", "_", "output", "lat"))
            return data.rename({rng.choice((name, "rain_mm")): new})
        case "no coordinate":
            return data.drop_vars(name)
        case "fewer":
            return data.isel({name: rng.choice((0, slice(0), slice(1)))})
        case "another axis":
            return data.expand_dims({rng.choice(NAMES): rng.choice((1, 2))})
    odd = [rng.choice((*_VALUES, 60.0, 61.0)) for _ in range(4)]
    return data.drop_vars("x").assign_coords(lat=("x", odd), lon=("x", [20.0, 20.0, 21.0, 21.0]))


def _coordinates(rng: Dice, axis: xr.DataArray) -> tuple:
    """Return odd coordinates of the length of an axis."""
    count = np.arange(axis.size)
    return (
        np.zeros(axis.size),
        [rng.choice(_VALUES) for _ in count],
        [rng.choice(NAMES).replace("\0", "") for _ in count],
        count.astype(rng.choice(("int8", "uint64", "float32", "bool"))),
        count.astype("datetime64[D]"),
        np.full(axis.size, "NaT", "datetime64[ns]"),
        count.astype("timedelta64[h]"),
    )
