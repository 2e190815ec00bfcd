"""Tables as frames, whole or in parts, and lattices as datasets."""

import codecs
import csv
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from itertools import chain, islice
from math import prod
from pathlib import Path
from typing import IO, Any

import h5py  # type: ignore[import-untyped]
import pandas as pd
import pyarrow as pa  # type: ignore[import-untyped]
import xarray as xr

from zigp.data.tables.addresses import Location, locate, unpacked
from zigp.data.tables.errors import FileError, check_names, file_errors

LATTICE_KINDS = ("h5netcdf", "scipy", "zarr")

_ROWS = 1 << 16  # of CSV that are parsed at once, or searched for decimal commas
_FOOTERS_AT_ONCE = 8  # of files that may be far away
_LONGEST_LINE = 1 << 26  # bytes: a small gzipped file could fill all memory
_NOT_TEXT = re.compile("[\0\udc80-\udcff]")  # a NUL, or a byte that is not UTF-8
_TEXT = {pa.string(): pd.StringDtype()}
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
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
        if location.kind in LATTICE_KINDS and lazy:
            # Without dask a lazy dataset is at least not read before it is used.
            return open_lattice(location, {} if find_spec("dask") else None)
        if location.kind in LATTICE_KINDS:
            _refuse_beyond_memory(location)
            with open_lattice(location) as dataset:
                return dataset.load()
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
    return _csv_parts(Path(location.address), rows or _ROWS)


def open_lattice(location: Location, chunks: Any = None) -> xr.Dataset:
    """Return a lattice, of which only the axes are read yet; it must be closed."""
    _refuse_beyond_memory(location, lazy=True)
    how: dict[str, Any] = {"consolidated": False} if location.kind == "zarr" else {}
    dataset = xr.open_dataset(location.address, engine=location.kind, chunks=chunks, **how)
    if not dataset.variables:
        dataset.close()
        raise FileError(f"{location.address} has no variables outside of groups: save them at top.")
    return dataset


def _parquet_parts(location: Location, rows: int | None) -> Iterator[pd.DataFrame]:
    """Yield the files of a table in parts of so many rows; if None, each file as a whole."""
    footers, schema = common_schema(location)
    if rows is None:
        count = sum(footer.num_rows for footer in footers)
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


def common_schema(location: Location) -> tuple[tuple[Any, ...], Any]:
    """Return the footers of a table's files, and the names and types common to its columns."""
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        footers, schemas = zip(*pool.map(location.footer, location.files), strict=True)
    if not any(footer.num_rows for footer in footers):
        raise FileError(f"{location.address} has columns but no rows: there is nothing to use.")
    for name, schema in zip(location.files, schemas, strict=True):
        if differ := sorted({*schema.names} ^ {*schemas[0].names}):
            raise FileError(
                f"{name} and {location.files[0]} differ in column {differ[0]!r}: write all files "
                "with the same columns."
            )
    try:
        return footers, pa.unify_schemas(schemas, promote_options="permissive")
    except pa.ArrowTypeError as error:
        raise FileError(
            f"{location.address}: {error}. Write all files with the same types."
        ) from error


# ---------------------------------------------------------------------------------------------
# CSV, parsed once


def _csv_parts(path: Path, rows: int) -> Iterator[pd.DataFrame]:
    """Yield a CSV file as frames of text of at most so many rows, every field as it stands.

    The index holds the lines on which rows begin. `attrs` name the file and the sign of decimals,
    which is a comma if some of the first rows have one and fields end in semicolons.
    """
    with file_errors("read", path), unpacked(path) as file:
        lines = _lines(path, file)
        numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
        first, header = next(numbered, (1, ""))
        outside = re.sub(r'"[^"]*("|$)', "", header)
        delimiter = max(",;\t", key=outside.count)
        records = _records(path, delimiter, chain([header], lines), first)
        if not (head := list(islice(records, 1))):
            raise FileError(f"{path} is empty: it needs a line of column names, and rows.")
        line, *fields = head[0]
        names = [name.strip() for name in fields]
        check_names(f"{path}, line {line}", names)
        head = list(islice(records, _ROWS if delimiter == ";" else 1))
        if not head:
            raise FileError(f"{path} has a header but no rows: there is nothing to use.")
        texts = chain.from_iterable(fields for _, *fields in head)
        is_comma = delimiter == ";" and any(map(_DECIMAL_COMMA.fullmatch, texts))
        records, width = chain(head, records), 1 + len(names)
        while cells := list(chain.from_iterable(islice(records, rows))):
            begin, *columns = (pa.array(cells[i::width]) for i in range(width))
            frame = pa.table(columns, names).to_pandas(types_mapper=_TEXT.get)
            frame.index = pd.Index(begin)
            frame.attrs.update(file=str(path), decimal="," if is_comma else ".")
            yield frame


def _records(path: Path, delimiter: str, lines: Iterator[str], line: int) -> Iterator[list[Any]]:
    """Yield rows of one width, behind the line that each begins on; skip blank lines."""
    before, width = line - 1, 0
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)
    try:
        for fields in reader:
            if fields and (width == 1 or fields != [""]):
                width = width or len(fields)
                if len(fields) != width:
                    raise FileError(
                        f"{path}, line {line}: {len(fields)} fields where the header has {width}. "
                        f"Mend the line, or quote text that has a {delimiter!r} in it."
                    )
                yield [line, *fields]
            line = before + reader.line_num + 1
    except csv.Error as error:
        what = (
            f"a field has more than {csv.field_size_limit():,} characters, which no number, time "
            "or level has. Leave its column out, or look for a quote that is not closed."
            if "field limit" in str(error)
            else "a quote is not closed, or text follows it, or lines end in a lone carriage "
            "return. Mend the line, or export the file again."
        )
        raise FileError(f"{path}, line {line}: {what}") from None


def _lines(path: Path, file: IO[bytes]) -> Iterator[str]:
    """Yield the lines of a text in UTF-8, or raise an error that names the wrong byte."""
    for number, raw in enumerate(iter(lambda: file.readline(_LONGEST_LINE + 1), b""), 1):
        if len(raw) > _LONGEST_LINE:
            raise FileError(
                f"{path}, line {number} has more than {_LONGEST_LINE:,} bytes, which no row of a "
                "table has. Export the file again as CSV."
            )
        raw = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
        line = raw.decode(errors="surrogateescape")
        if wrong := _NOT_TEXT.search(line):
            at = len(line[: wrong.start()].encode())
            raise FileError(
                f"{path}, line {number}, byte {at + 1}: 0x{raw[at]:02x} is not text in UTF-8. Save "
                "the file as UTF-8, not as UTF-16 or Latin-1."
            )
        yield line


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


def _refuse_beyond_memory(location: Location, *, lazy: bool = False) -> None:
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
