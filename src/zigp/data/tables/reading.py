"""Tables as frames, whole or in parts, and lattices as datasets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa  # type: ignore[import-untyped]

from zigp.data.tables.addresses import Location, begins, locate
from zigp.data.tables.csv import csv_parts
from zigp.data.tables.errors import FileError, check_names, file_errors
from zigp.data.tables.sizes import refuse_beyond_memory, refuse_large

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["LATTICE_KINDS", "read", "read_parts"]

LATTICE_KINDS = ("netcdf", "zarr")

_ROWS = 1 << 16  # of CSV that are parsed at once
_CELL = 8  # bytes of a number, or of a pointer to a text
# The types of Parquet that pandas' older ones cannot hold beside gaps, which a later part can have.
_DTYPES: tuple[Any, ...] = (
    *(pd.BooleanDtype(), pd.Int8Dtype(), pd.Int16Dtype(), pd.Int32Dtype(), pd.Int64Dtype()),
    *(pd.UInt8Dtype(), pd.UInt16Dtype(), pd.UInt32Dtype(), pd.UInt64Dtype()),
)
_NULLABLE = {pa.from_numpy_dtype(dtype.numpy_dtype): dtype for dtype in _DTYPES}


def read(path: Path | str, lazy: bool = False) -> pd.DataFrame | xr.Dataset:
    """Return the whole of a table as a frame, or of a lattice as a dataset, which may be lazy.

    Columns of CSV are text, as it stands in the file.
    """
    location = locate(path)
    with file_errors("read", path):
        if location.kind in LATTICE_KINDS:
            return _dataset(location, lazy)
        parts, sizes = list[pd.DataFrame](), Counter[Any]()
        for part in _parts(location, None):
            parts.append(part)
            sizes.update(part.memory_usage(index=False).to_dict())
            refuse_large(location.address, sizes)
        table = pd.concat(parts, ignore_index=True) if parts[1:] else parts[0]
        table.attrs = parts[-1].attrs | {"file": location.address} if parts[1:] else table.attrs
        return table


def read_parts(path: Path | str, rows: int) -> Iterator[pd.DataFrame]:
    """Return a table in frames of so many rows, each column of one type in all of them.

    A folder of Parquet files is read one after the other, in the order of their names. Columns of
    CSV are text, as it stands in the file.
    """
    location = locate(path)
    if location.kind in LATTICE_KINDS:
        raise FileError(f"{path} is a lattice ({location.kind}), which has no rows: give a table.")
    return _parts(location, rows)


def _dataset(location: Location, lazy: bool) -> xr.Dataset:
    import xarray as xr

    address = location.address
    engine = None if location.kind == "zarr" else _engine(Path(address))
    refuse_beyond_memory(location, lazy=lazy)
    # Without dask a lazy dataset is at least not read before it is used.
    chunks: Any = {} if lazy and find_spec("dask") else None
    if engine is None:
        dataset = xr.open_zarr(address, chunks=chunks, consolidated=False)
    else:
        dataset = xr.open_dataset(Path(address), engine=engine, chunks=chunks)
    if not dataset.variables:
        dataset.close()
        raise FileError(f"{address} has no variables outside of groups: save them at top.")
    if lazy:
        return dataset
    with dataset:
        return dataset.load()


def _engine(path: Path) -> Any:
    """Return the engine that opens a NetCDF file."""
    if begins(path, b"CDF\5"):
        raise FileError(f"{path} is NetCDF of the kind CDF-5: convert it with nccopy -k nc4.")
    if begins(path, b"CDF"):
        return "scipy"
    import h5py  # type: ignore[import-untyped]

    with h5py.File(path) as file:  # raises an error if it is damaged; h5netcdf would raise two
        list(file.values())
    return "h5netcdf"


def _parts(location: Location, rows: int | None) -> Iterator[pd.DataFrame]:
    """Return a table in parts of so many rows; if None, of those that are best read at once."""
    if location.kind == "csv":
        return csv_parts(Path(location.address), rows or _ROWS)
    return _parquet_parts(location, rows)


def _parquet_parts(location: Location, rows: int | None) -> Iterator[pd.DataFrame]:
    schema, count = _common_schema(location)
    if not count:
        raise FileError(f"{location.address} has columns but no rows: there is nothing to use.")
    if rows is None:
        in_blocks = ", or read it block by block (zigp fit --stream)"
        refuse_large(location.address, dict.fromkeys(schema.names, _CELL * count), in_blocks)
    for name in location.files:
        start = 0
        with location.reading(name) as file:
            for batch in [file.read()] if rows is None else file.iter_batches(batch_size=rows):
                part = (
                    pa.table(batch)
                    .select(schema.names)
                    .cast(schema)
                    .to_pandas(
                        ignore_metadata=True, date_as_object=False, types_mapper=_NULLABLE.get
                    )
                )
                part.index += start
                part.attrs.update(file=name)
                start += len(part)
                if len(part):
                    yield part


def _common_schema(location: Location) -> tuple[Any, int]:
    """Return the names and types of a table's columns, common to its files, and count its rows."""
    schemas, count = list[Any](), 0
    for name in location.files:
        with location.reading(name) as file:
            names = [n for n in file.schema_arrow.names if not n.startswith("__index_level_")]
            check_names(name, names)
            schemas.append(pa.schema([file.schema_arrow.field(n) for n in names]))
            count += file.metadata.num_rows
        if differ := sorted({*names} ^ {*schemas[0].names}):
            raise FileError(
                f"{name} and {location.files[0]} differ in column {differ[0]!r}: write all files "
                "with the same columns."
            )
    try:
        return pa.unify_schemas(schemas, promote_options="permissive"), count
    except pa.ArrowTypeError as error:
        raise FileError(
            f"{location.address}: {error}. Write all files with the same types."
        ) from error
