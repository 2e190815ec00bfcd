"""Tables as frames, whole or in parts, and lattices as datasets."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zigp.data.tables.addresses import Found, find
from zigp.data.tables.kinds import begins, unpacked
from zigp.data.tables.problems import FileError, told
from zigp.data.tables.sizes import refuse_beyond_memory, refuse_many_rows
from zigp.data.tables.text import MISSING, check_names, layout_of

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["LATTICE_KINDS", "read", "read_parts"]

LATTICE_KINDS = ("netcdf", "zarr")

_ROWS = 1 << 16  # at once, where nobody says


def _nothing(name: str) -> bool:
    return False


def read(
    path: Path | str, lazy: bool = False, text: Callable[[str], bool] = _nothing
) -> pd.DataFrame | xr.Dataset:
    """The whole of a table as a frame, or of a lattice as a dataset, which can be lazy (dask).

    Columns of CSV for which `text` holds stay as they stand in the file.
    """
    import pandas as pd

    found = find(path)
    with told("read", path):
        if found.kind in LATTICE_KINDS:
            return _dataset(found, lazy)
        whole = list(_table(found, text)(None, {}))
        if len(whole) == 1:
            return whole[0]
        table = pd.concat(whole, ignore_index=True)
        table.attrs.update(file=found.address)
        return table


def read_parts(
    path: Path | str, rows: int, text: Callable[[str], bool] = _nothing
) -> Iterator[pd.DataFrame]:
    """A table in frames of so many rows and of one type per column, checked before the first.

    A folder of Parquet files is read one after the other, in the order of their names. Columns of
    CSV for which `text` holds stay as they stand in the file.
    """
    found = find(path)
    if found.kind in LATTICE_KINDS:
        raise FileError(f"{path} is a lattice ({found.kind}), which has no rows: give a table.")
    with told("read", path):
        parts = _table(found, text)
        return parts(rows, _types(parts(_ROWS, {})))


def _dataset(found: Found, lazy: bool) -> xr.Dataset:
    import xarray as xr

    # Without dask what is lazy is at least not read before it is looked at.
    chunks: Any = {} if lazy and find_spec("dask") else None
    engine = None if found.kind == "zarr" else _engine(Path(found.address))
    refuse_beyond_memory(found, lazy=lazy)
    if engine is None:
        dataset = xr.open_zarr(found.address, chunks=chunks, consolidated=False)
    else:
        dataset = xr.open_dataset(Path(found.address), engine=engine, chunks=chunks)
    if not dataset.variables:
        dataset.close()
        raise FileError(f"{found.address} has no variables outside of groups: save them at top.")
    if lazy:
        return dataset
    with dataset:
        return dataset.load()


def _engine(path: Path) -> Any:
    """What opens a NetCDF file."""
    if begins(path, b"CDF\5"):
        raise FileError(f"{path} is NetCDF of the kind CDF-5: convert it with nccopy -k nc4.")
    if begins(path, b"CDF"):
        return "scipy"
    _check_hdf5(path)
    return "h5netcdf"


def _check_hdf5(path: Path) -> None:
    """An error if the file is damaged, which h5netcdf would trip over again as it is cleared up."""
    import h5py  # type: ignore[import-untyped]

    with h5py.File(path) as file:
        list(file.values())


def _table(
    found: Found, text: Callable[[str], bool]
) -> Callable[[int | None, dict[str, Any]], Iterator[pd.DataFrame]]:
    """A table, as a function that reads it in parts and with the types that it is given."""
    if found.kind == "parquet":
        return partial(_parquet_parts, found)
    path = Path(found.address)
    return partial(_csv_parts, path, *layout_of(path), text)


def _parquet_parts(found: Found, rows: int | None, types: dict[str, Any]) -> Iterator[pd.DataFrame]:
    names, empty = list[str](), True
    if rows is None:
        refuse_beyond_memory(found)
    for name in found.files:
        with told("read", name), found.reading(name) as file:
            here = [n for n in file.schema_arrow.names if not n.startswith("__index_level_")]
            check_names(name, here)
            names = names or here
            if differ := sorted({*names} ^ {*here}):
                raise FileError(
                    f"{name} and {found.files[0]} differ in column {differ[0]!r}: write all files "
                    "with the same columns."
                )
            start = 0
            for batch in [file.read()] if rows is None else file.iter_batches(batch_size=rows):
                part = batch.to_pandas(ignore_metadata=True, date_as_object=False)[names]
                part.index += start
                start += len(part)
                if len(part):
                    empty = False
                    yield _tidy(part, file=name).astype(types)
    if empty:
        raise FileError(f"{found.address} has columns but no rows: there is nothing to use.")


def _csv_parts(
    path: Path,
    layout: dict[str, Any],
    count: int,
    text: Callable[[str], bool],
    rows: int | None,
    types: dict[str, Any],
) -> Iterator[pd.DataFrame]:
    import pandas as pd

    kept = [name for name in layout["names"] if text(name)]
    if rows is None:
        refuse_many_rows(str(path), layout["names"], count)
    with told("read", path), unpacked(path) as file:
        reader = pd.read_csv(
            file,
            **layout,
            header=0,
            index_col=False,
            dtype=types | dict.fromkeys(kept, str),
            chunksize=rows or sys.maxsize,
            encoding="utf-8-sig",
            keep_default_na=False,
            na_values={name: MISSING for name in layout["names"] if name not in kept},
            skipinitialspace=True,
            low_memory=False,
        )
        with reader:
            for part in reader:
                yield _tidy(part, file=str(path), decimal=layout["decimal"])


def _tidy(part: pd.DataFrame, **source: str) -> pd.DataFrame:
    """The part, which knows its source, with gaps among truths in a type of their own."""
    from pandas.api.types import infer_dtype

    objects = [name for name, dtype in part.dtypes.items() if dtype == "object"]
    truths = [name for name in objects if infer_dtype(part[name]) == "boolean"]
    part = part.astype(dict.fromkeys(truths, "boolean"))
    part.attrs.update(source)
    return part


def _types(parts: Iterable[pd.DataFrame]) -> dict[str, Any]:
    """The types that columns have over all parts, as if they were read at once."""
    found: dict[str, list[Any]] = {}
    gaps: set[str] = set()
    for part in parts:
        missing = part.isna()
        gaps.update(part.columns[missing.any()])
        for name in part.columns[~missing.all()]:
            found.setdefault(name, []).append(part[name].dtype)
    return {name: _common(types, name in gaps) for name, types in found.items()}


def _common(types: list[Any], gaps: bool) -> Any:
    import pandas as pd

    kinds = {dtype.kind for dtype in types}
    if kinds == {"b"}:
        return "boolean" if gaps else "bool"
    if kinds <= set("iuf"):
        common = np.result_type(*types)
        return np.dtype(float) if gaps and common.kind in "iu" else common
    if isinstance(types[0], pd.CategoricalDtype):
        levels = dict.fromkeys(level for dtype in types for level in dtype.categories)
        return pd.CategoricalDtype(list(levels), types[0].ordered)
    return types[0] if len(set(types)) == 1 else str
