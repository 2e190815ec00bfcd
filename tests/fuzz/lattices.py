"""Lattices with odd axes, odd values, and damaged files."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import numpy as np
import xarray as xr

from .material import Dice, cube, odd_name, put_model
from .tables import _cut, _flipped

__all__ = ["lattice"]

_SMALL = "--steps 1 --quiet --out m.zigp"
_VALUES = (np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 0.0, -1.0)


def lattice(rng: Dice, folder: Path) -> list[str]:
    data = cube().copy(deep=True)
    for spoil in rng.sample(_SPOILT, rng.choice((0, 1, 1, 2))):
        with suppress(Exception):  # two that do not go together
            data = spoil(rng, data)
    path = folder / rng.choice(("data.nc", "data.nc", "data.zarr"))
    try:
        _written(data, path)
    except Exception:  # what cannot be written is no case: the lattice stays sound
        _written(cube(), path)
    if rng.random() < 0.3:
        files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
        one = rng.choice(files)
        one.write_bytes(rng.choice((_flipped, _cut))(rng, one.read_bytes()))
    return _use(rng, folder, path.name)


def _use(rng: Dice, folder: Path, data: str) -> list[str]:
    if rng.random() < 0.45:
        of = "ready" if rng.quick else rng.choice(("cube",) * 3 + ("ready", "class", "hurdle"))
        return [
            "predict",
            put_model(folder, of),
            data,
            "--out",
            rng.choice(("p.nc", "p.zarr", "p.csv", "-")),
        ]
    more = rng.choice(
        (
            [],
            [],
            ["--time", "time"],
            ["--space", "time,x"],
            ["--exposure", "area"],
            ["--inputs", "x"],
        )
    )
    if rng.quick or rng.random() < 0.85:
        return ["evaluate", data, "--target", "rain_mm", *more, "--models", "zero", "--cv", "2"]
    return f"fit {data} --target rain_mm {' '.join(more)} --model gp {_SMALL}".split()


def _written(data: xr.Dataset, path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if path.suffix == ".nc":
            data.to_netcdf(path, engine="h5netcdf")
        else:
            data.to_zarr(path, mode="w", zarr_format=2)


def _cells(rng: Random, data: xr.Dataset) -> xr.Dataset:
    values = data["rain_mm"].values
    values[np.asarray([[rng.random() < 0.5 for _ in row] for row in values])] = rng.choice(_VALUES)
    return data


def _all_cells(rng: Random, data: xr.Dataset) -> xr.Dataset:
    return data.assign(rain_mm=xr.full_like(data["rain_mm"], rng.choice(_VALUES)))


def _axis(rng: Random, data: xr.Dataset) -> xr.Dataset:
    name = rng.choice(("time", "x"))
    size = data.sizes[name]
    made: Callable[[], object] = rng.choice(
        (
            lambda: np.zeros(size),
            lambda: [rng.choice(_VALUES) for _ in range(size)],
            lambda: [odd_name(rng).replace("\0", "") for _ in range(size)],
            lambda: np.arange(size, dtype=rng.choice(("int8", "uint64", "float32", "bool"))),
            lambda: np.arange(size).astype("datetime64[D]"),
            lambda: np.array(["NaT"] * size, "datetime64[ns]"),
            lambda: np.arange(size).astype("timedelta64[h]"),
        )
    )
    return data.assign_coords({name: (name, made())})


def _renamed(rng: Random, data: xr.Dataset) -> xr.Dataset:
    new = rng.choice((odd_name(rng), "mean", "quantile", "_", "output", "lat"))
    return data.rename({rng.choice(("time", "x", "rain_mm")): new})


def _no_axis(rng: Random, data: xr.Dataset) -> xr.Dataset:
    return data.drop_vars(rng.choice(("time", "x")))


def _fewer(rng: Random, data: xr.Dataset) -> xr.Dataset:
    return data.isel({rng.choice(("time", "x")): rng.choice((0, slice(0), slice(1)))})


def _another_dimension(rng: Random, data: xr.Dataset) -> xr.Dataset:
    return data.expand_dims({odd_name(rng): rng.choice((1, 2))})


def _another_type(rng: Random, data: xr.Dataset) -> xr.Dataset:
    of = rng.choice(
        ("int8", "bool", "float32", "str", "datetime64[ns]", "complex128", "timedelta64[ns]")
    )
    return data.assign(rain_mm=data["rain_mm"].fillna(0.0).astype(of))


def _along_places(rng: Random, data: xr.Dataset) -> xr.Dataset:
    odd = [rng.choice((*_VALUES, 60.0, 61.0)) for _ in range(4)]
    return data.drop_vars("x").assign_coords(lat=("x", odd), lon=("x", [20.0, 20.0, 21.0, 21.0]))


def _effort(rng: Random, data: xr.Dataset) -> xr.Dataset:
    return (
        data.assign(area=(("x",), [rng.choice((*_VALUES, 1.0, 1.0)) for _ in range(4)]))
        if "x" in data.sizes
        else data
    )


def _attributes(rng: Random, data: xr.Dataset) -> xr.Dataset:
    data["rain_mm"].attrs.update(units=rng.choice((odd_name(rng), 5, "")), scale=np.nan)
    time = rng.choice(
        ("hours since 2000-01-01", "hours since never", "fortnights since 1 BC", "days")
    )
    data["time"].attrs.update(units=time, calendar=rng.choice(("360_day", "martian", "standard")))
    return data


def _nothing(rng: Random, data: xr.Dataset) -> xr.Dataset:
    return rng.choice(
        (xr.Dataset(), data.drop_vars("rain_mm"), data[[]].drop_vars(list(data.coords)))
    )


_SPOILT: list[Callable[[Random, xr.Dataset], xr.Dataset]] = [
    _cells, _cells, _all_cells, _axis, _axis, _axis, _renamed, _no_axis, _fewer, _another_dimension,
    _another_type, _along_places, _effort, _attributes, _nothing,
]  # fmt: skip
