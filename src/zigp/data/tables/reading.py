"""Tables as frames, whole or in parts, and lattices as datasets."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

import h5py  # type: ignore[import-untyped]
import pandas as pd
import pyarrow as pa  # type: ignore[import-untyped]
import xarray as xr

from zigp.data.tables.addresses import Location, locate
from zigp.data.tables.csv import csv_parts
from zigp.data.tables.errors import FileError, file_errors

LATTICE_KINDS = ("h5netcdf", "scipy", "zarr")

_ROWS = 1 << 16  # of CSV that are parsed at once
_CELL = 8  # bytes of a number, or of a pointer to a text
_SHARE = 0.5  # of the memory: data are needed again as numbers of another type
_IN_BLOCKS = ", or read it block by block (zigp fit --stream)"
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
        if len(parts) == 1:
            return parts[0]
        table = pd.concat(parts, ignore_index=location.kind == "parquet")
        table.attrs = parts[-1].attrs | {"file": location.address}
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


def _parts(location: Location, rows: int | None) -> Iterator[pd.DataFrame]:
    if location.kind == "parquet":
        return _parquet_parts(location, rows)
    return csv_parts(Path(location.address), rows or _ROWS)


def _dataset(location: Location, lazy: bool) -> xr.Dataset:
    _refuse_beyond_memory(location, lazy)
    # Without dask a lazy dataset is at least not read before it is used.
    chunks: Any = {} if lazy and find_spec("dask") else None
    how: dict[str, Any] = {"consolidated": False} if location.kind == "zarr" else {}
    dataset = xr.open_dataset(location.address, engine=location.kind, chunks=chunks, **how)
    if not dataset.variables:
        dataset.close()
        raise FileError(f"{location.address} has no variables outside of groups: save them at top.")
    if lazy:
        return dataset
    with dataset:
        return dataset.load()


def _parquet_parts(location: Location, rows: int | None) -> Iterator[pd.DataFrame]:
    """Yield the files of a table in parts of so many rows; if None, each file as a whole."""
    schema, count = _common_schema(location)
    if not count:
        raise FileError(f"{location.address} has columns but no rows: there is nothing to use.")
    if rows is None:
        refuse_large(location.address, dict.fromkeys(schema.names, _CELL * count), _IN_BLOCKS)
    for name in location.files:
        start = 0
        with file_errors("read", name), location.parquet(name) as file:
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
    footers, schemas = zip(*map(location.footer, location.files), strict=True)
    count = sum(footer.num_rows for footer in footers)
    for name, schema in zip(location.files, schemas, strict=True):
        if differ := sorted({*schema.names} ^ {*schemas[0].names}):
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


# ---------------------------------------------------------------------------------------------
# Sizes. Cells that were never written, and values that repeat, take hardly any room in a file: one
# of a few KB can be of any size when it is read.


def refuse_large(address: str, sizes: Mapping[str, int], advice: str = "") -> None:
    """Raise an error if columns, or arrays, of so many bytes do not fit into memory together."""
    if (total := sum(sizes.values())) > (room := _room()):
        name = max(sizes, key=sizes.__getitem__)
        raise FileError(
            f"{address} takes {total / 1e9:.3g} GB or more, of which {sizes[name] / 1e9:.3g} GB in "
            f"{name!r}; {room / 1e9:.3g} GB is the most that is read at once on this machine. "
            f"Check whether it is meant to be so large, or cut out a part{advice}."
        )


def _refuse_beyond_memory(location: Location, lazy: bool) -> None:
    """Raise an error if a lattice does not fit into memory; of a lazy one, its axes."""
    sizes = {
        name: prod(shape) * width
        for name, (shape, width) in _arrays(location).items()
        if not lazy or len(shape) == 1
    }
    refuse_large(location.address, sizes, _IN_BLOCKS * (location.kind == "zarr" and not lazy))


def _arrays(location: Location) -> dict[str, tuple[tuple[int, ...], int]]:
    """Return the shape, and the bytes of a cell, of each array at the top of a lattice."""
    if location.kind == "zarr":
        import zarr

        arrays = zarr.open_group(location.address, mode="r").arrays()
        return {name: (one.shape, one.dtype.itemsize) for name, one in arrays}
    if location.kind == "scipy":  # in its format every cell takes its room
        return {}
    with h5py.File(location.address) as file:  # raises one error if it is damaged, h5netcdf two
        return {
            name: (one.shape, one.dtype.itemsize)
            for name, one in file.items()
            if isinstance(one, h5py.Dataset) and one.shape is not None
        }


def _room() -> float:
    """Return the bytes that data may take, a share of the machine's memory, if it is known."""
    try:
        return _SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return float("inf")
