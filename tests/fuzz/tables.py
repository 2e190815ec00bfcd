"""Tables and lattices with wrong cells, columns, axes and types."""

import warnings
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import xarray as xr

from .material import NAMES, Dice, cube, hauls, odd_text, rain

_HUGE = tuple(text * count for text in ("x", "9", "ä ") for count in (10_000, 300_000))


def csv(rng: Dice, folder: Path) -> Path:
    """Write a CSV file that is wrong in its cells or columns."""
    table = (rain() if rng.random() < 0.9 else hauls()).astype(str).astype(object)
    for _ in range(rng.choice((0, 1, 1, 2))):
        with suppress(ValueError, IndexError):  # nothing is left to spoil
            table = _spoiled_table(rng, table)
    text = table.to_csv(
        index=False,
        sep=rng.choice(",,,,;\t|"),
        lineterminator=rng.choice(("\n", "\n", "\n", "\r\n", "\r")),
        quoting=rng.choice((0, 0, 1)),  # where needed, or everywhere
    )
    raw = (text + rng.choice(("", "", "\n\n\n\n"))).encode("utf-8", "surrogatepass")
    (folder / "data.csv").write_bytes(raw if rng.random() < 0.9 else raw.replace(b'"', b""))
    return folder / "data.csv"


def _spoiled_table(rng: Dice, table: pd.DataFrame) -> pd.DataFrame:
    """Change cells of a column; add, rename or remove columns; or remove rows."""
    names, rows, column = list(table), range(len(table)), rng.randrange(table.shape[1])
    match rng.choice((*["cells"] * 6, "added", "renamed", "removed", "many", "few rows")):
        case "cells":
            same = rng.choice(_HUGE) if rng.random() < 0.05 else odd_text(rng)
            for row in rows if rng.random() < 0.4 else rng.choices(rows, k=rng.choice((1, 3, 9))):
                table.iloc[row, column] = same if rng.random() < 0.9 else odd_text(rng)
            return table
        case "added":
            name = rng.choice((*NAMES, "", names[0], "mean", "note"))
            more = pd.DataFrame({name: [odd_text(rng) for _ in rows]})
            return pd.concat([table, more], axis=1)
        case "renamed":
            names[column] = rng.choice(NAMES)
            return table.set_axis(names, axis=1)
        case "removed":
            return table.iloc[:, [i for i in range(len(names)) if i != column]]
        case "many":
            more = pd.DataFrame("1", table.index, [f"c{k}" for k in range(1000)])
            return pd.concat([table, more], axis=1)
    return table.head(rng.choice((0, 1, 2)))


_TYPES = (
    (pa.float64(), (0.5, float("nan"), float("inf"), 1e308, -0.0, 5e-324)),
    (pa.float16(), (0.5, float("inf"), 65504.0)),
    (pa.int8(), (0, -128, 127)),
    (pa.int64(), (0, 2**63 - 1, -(2**63), 20200101)),
    (pa.uint64(), (0, 2**64 - 1)),
    (pa.bool_(), (True, False)),
    (pa.binary(), (b"", b"\0", b"\xff\xfe", b"wet")),
    (pa.decimal128(20, 3), (Decimal(0), Decimal("999.999"))),
    (pa.decimal256(60, 3), (Decimal(1), Decimal(10) ** 39)),
    (pa.date32(), (0, 18_000, 10**6, -(10**6))),
    (pa.timestamp("ns"), (0, 2**62, -(2**62))),
    (pa.timestamp("s", "UTC"), (0, 10**11, -(10**11))),
    (pa.timestamp("us", "+07:30"), (0, 10**15)),
    (pa.time64("us"), (0, 10**10)),
    (pa.duration("ms"), (0, 10**6, -(10**6))),
    (pa.list_(pa.float64()), ([], [1.0], [1.0, 1.0])),
    (pa.struct([("a", pa.int64())]), ({"a": 1},)),
    (pa.map_(pa.string(), pa.int64()), ([("a", 1)],)),
    (pa.dictionary(pa.int8(), pa.string()), ("a", "b", "c")),
    (pa.dictionary(pa.int8(), pa.float64()), (1.0, 2.5)),
    (pa.null(), (None,)),
    *((kind, ()) for kind in (pa.string(), pa.large_string(), pa.string_view())),
)
_PANDAS = ("{}", "[", '{"columns": 3}', "null")


def parquet(rng: Dice, folder: Path) -> Path:
    """Write a Parquet file with columns of odd types and names."""
    table = pa.Table.from_pandas(rain() if rng.random() < 0.8 else hauls(), preserve_index=False)
    columns = dict(zip(table.column_names, table.columns, strict=True))
    for _ in range(rng.choice((0, 1, 1, 2))):
        kind, values = rng.choice(_TYPES)
        gaps = rng.choice((0.0, 0.0, 0.3, 1.0))
        cells = [rng.choice(values or (odd_text(rng),)) for _ in range(len(table))]
        cells = [None if rng.random() < gaps else cell for cell in cells]
        columns[rng.choice((*columns, rng.choice(NAMES), "note"))] = pa.array(cells, kind)
    names = list(columns)
    if rng.random() < 0.1:
        odd = ("", names[0], rng.choice(NAMES), "__index_level_0__")
        names[rng.randrange(len(names))] = rng.choice(odd)
    made = pa.table(list(columns.values()), names=names)
    rows = rng.choice((0, 1, 2)) if rng.random() < 0.1 else len(table)
    metadata = {"pandas": rng.choice(_PANDAS)} if rng.random() < 0.1 else made.schema.metadata
    path = folder / "data.parquet"
    pq.write_table(made.slice(0, rows).replace_schema_metadata(metadata), path)
    return path


# -- lattices -------------------------------------------------------------------------------------

_EXTREMES = (np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 0.0, -1.0)
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
            data = _spoiled_lattice(rng, data)
    path = folder / rng.choice(("data.nc", "data.nc", "data.zarr"))
    for one in (cube(), data):  # the second one cannot always be written
        with suppress(Exception), warnings.catch_warnings(action="ignore"):
            if path.suffix == ".nc":
                one.to_netcdf(path, engine="h5netcdf")
            else:
                one.to_zarr(path, mode="w", zarr_format=2)
    return path


def _spoiled_lattice(rng: Dice, data: xr.Dataset) -> xr.Dataset:
    """Change what the cells hold, or an axis."""
    rain, name = data["rain_mm"], rng.choice(("time", "x"))
    match rng.choice(_DAMAGE):
        case "some cells":
            chosen = np.random.default_rng(rng.randrange(99)).random(rain.shape) < 0.5
            return data.assign(rain_mm=rain.where(~chosen, rng.choice(_EXTREMES)))
        case "all cells":
            return data.assign(rain_mm=xr.full_like(rain, rng.choice(_EXTREMES)))
        case "type":
            return data.assign(rain_mm=rain.fillna(0.0).astype(rng.choice(_DTYPES)))
        case "effort":
            return data.assign(area=("x", [rng.choice((*_EXTREMES, 1.0, 1.0)) for _ in range(4)]))
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
    odd = [rng.choice((*_EXTREMES, 60.0, 61.0)) for _ in range(4)]
    return data.drop_vars("x").assign_coords(lat=("x", odd), lon=("x", [20.0, 20.0, 21.0, 21.0]))


def _coordinates(rng: Dice, axis: xr.DataArray) -> tuple:
    """Return odd coordinates of the length of an axis."""
    count = np.arange(axis.size)
    return (
        np.zeros(axis.size),
        [rng.choice(_EXTREMES) for _ in count],
        [rng.choice(NAMES).replace("\0", "") for _ in count],
        count.astype(rng.choice(("int8", "uint64", "float32", "bool"))),
        count.astype("datetime64[D]"),
        np.full(axis.size, "NaT", "datetime64[ns]"),
        count.astype("timedelta64[h]"),
    )
