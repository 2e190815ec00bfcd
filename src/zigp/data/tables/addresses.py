"""The format of a file at a path or an fsspec address, by its content."""

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from zigp.data.tables.errors import FileError, check_names, file_errors

_ENDINGS = (".parquet", ".parq", ".pq")  # of the files of a table in a folder
_ZARR = ("zarr.json", ".zgroup", ".zmetadata", ".zattrs")  # files that mark a Zarr folder
_MAGIC = {
    b"PAR1": "parquet",
    b"\x89HDF\r\n\x1a\n": "h5netcdf",
    b"CDF\1": "scipy",
    b"CDF\2": "scipy",
}
_GZIP = b"\x1f\x8b"
_ZIP = "a zip archive, as spreadsheets are: export the sheet as CSV, or unpack the file inside."
_PICKLE = "a pickle, which could run code and is not opened: save it as CSV or Parquet."
# What is never read as data, and what to do. The header of a model follows its length.
_REFUSED = {
    **dict.fromkeys((b"PK\3\4", b"PK\5\6"), _ZIP),
    **dict.fromkeys((b"\x80\2", b"\x80\3", b"\x80\4", b"\x80\5"), _PICKLE),
    b"\xd0\xcf\x11\xe0": "a spreadsheet: export it as CSV.",
    b"CDF\5": "NetCDF of the kind CDF-5: convert it with nccopy -k nc4.",
}
_MODEL = b'{"__metadata__"'
_FAR_BUFFER = 2**22  # bytes at once where every request takes its time


@dataclass(frozen=True)
class Location:
    """A lattice, or the files of a table, and how to open these."""

    address: str
    kind: str  # csv, parquet, or xarray's engine for a lattice: h5netcdf, scipy or zarr
    files: tuple[str, ...] = ()
    open: Callable[[str], Any] = str  # pyarrow opens a path by itself
    buffer: int = 2**18  # bytes of each column that are read at once

    def parquet(self, name: str, footer: Any = None) -> Any:
        """Open one of the files; what is in it is read on demand."""
        return pq.ParquetFile(
            self.open(name), metadata=footer, buffer_size=self.buffer, pre_buffer=False
        )

    def footer(self, name: str) -> tuple[Any, Any]:
        """Return the metadata of one of the files, and its columns but for an index of pandas."""
        with file_errors("read", name), self.parquet(name) as opened:
            fields = [f for f in opened.schema_arrow if not f.name.startswith("__index_level_")]
            check_names(name, [field.name for field in fields])
            return opened.metadata, pa.schema(fields)


def locate(source: str | Path) -> Location:
    """Return what is at a path or an address."""
    address = str(source)
    with file_errors("read", address):
        if "://" in address:
            return _remote(address)
        path = Path(source)
        if path.is_dir() and not is_zarr(path):
            files = [str(one) for one in path.rglob("*") if one.is_file()]
            return Location(address, "parquet", _tables(address, files))
        return Location(address, _kind(path), (address,))


def _remote(address: str) -> Location:
    try:
        from fsspec.core import url_to_fs  # type: ignore[import-untyped]
    except ImportError:
        raise FileError(
            f"Cannot read {address}: addresses need fsspec. Install it with pip install fsspec, "
            "and what the address itself needs, such as s3fs for s3://."
        ) from None
    system, root = url_to_fs(address)
    if any(system.exists(f"{root.rstrip('/')}/{name}") for name in _ZARR):
        return Location(address, "zarr")
    if system.isdir(root):
        files = _tables(address, system.find(root))
    elif system.exists(root):
        files = (root,)
        if system.cat_file(root, 0, 4) != b"PAR1":
            raise FileError(f"{address} is no Parquet file: write it as Parquet, or as Zarr.")
    else:
        raise FileError(f"There is nothing at {address}: check the address.")

    def opened(name: str) -> Any:
        # Columns are read in turn from places far apart: reading ahead would fetch in vain.
        return system.open(name, cache_type="none")

    return Location(address, "parquet", files, opened, _FAR_BUFFER)


def _tables(folder: str, files: list[str]) -> tuple[str, ...]:
    """Return the Parquet files of a folder, in the order of their names."""
    tables = [
        name
        for name in files
        if name.lower().endswith(_ENDINGS) and not Path(name).name.startswith((".", "_"))
    ]
    if not tables:
        raise FileError(
            f"{folder} is a folder that has no files that end in {', '.join(_ENDINGS)}, and is no "
            "Zarr lattice: name the folder of a table's files, or one file."
        )
    return tuple(sorted(tables))


def _kind(path: Path) -> str:
    """Return the kind of a file, by its first bytes."""
    if is_zarr(path):
        return "zarr"
    if not path.exists():
        raise FileError(f"There is no file {path}: check its name and folder.")
    if not path.is_file():
        raise FileError(f"{path} is no file on disk: give the file of a table or lattice.")
    with unpacked(path) as file:
        head = file.read(64)
    if head[8:].startswith(_MODEL):
        raise FileError(f"{path} is a model, not a table: give the file of a table here.")
    if refused := [what for magic, what in _REFUSED.items() if head.startswith(magic)]:
        raise FileError(f"{path} is {refused[0]}")
    kind = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), "csv")
    if kind != "csv" and not begins(path, head[:2]):
        raise FileError(f"{path} is {kind} inside gzip: unpack it with gunzip.")
    return kind


def is_zarr(path: Path) -> bool:
    return any((path / name).is_file() for name in _ZARR)


def begins(path: Path, magic: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(magic)) == magic


def unpacked(path: Path) -> IO[bytes]:
    """Open a file, or what is inside if it is gzipped."""
    return gzip.open(path) if begins(path, _GZIP) else path.open("rb")  # type: ignore[return-value]
