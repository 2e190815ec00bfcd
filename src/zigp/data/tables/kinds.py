"""What a file is, by its content."""

from __future__ import annotations

import gzip
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import IO

from zigp.data.tables.problems import FileError, told

__all__ = ["begins", "is_zarr", "kind_of", "unpacked"]

_MAGIC = {b"PAR1": "parquet", b"\x89HDF\r\n\x1a\n": "netcdf"} | {
    b"CDF" + version: "netcdf" for version in (b"\1", b"\2", b"\5")
}
_GZIP = b"\x1f\x8b"
_SPREADSHEET = {"xl/workbook.xml", "xl/workbook.bin", "content.xml"}


def kind_of(path: Path | str) -> str:
    """Whether a file is csv, parquet, netcdf or zarr, by its content."""
    path = Path(path)
    with told("read", path):
        if is_zarr(path):
            return "zarr"
        if not path.exists():
            raise FileError(f"There is no file {path}: check its name and folder.")
        if not path.is_file():
            what = "a folder" if path.is_dir() else "no file on disk"
            raise FileError(f"{path} is {what}: give the file of a table or lattice.")
        with unpacked(path) as file:
            head = file.read(64)
        if what := _refused(path, head):
            raise FileError(f"{path} is {what}")
        kind = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), "csv")
        if kind != "csv" and not begins(path, head[:2]):
            raise FileError(f"{path} is {kind} inside gzip: unpack it with gunzip.")
        return kind


def is_zarr(path: Path) -> bool:
    return any((path / f).is_file() for f in ("zarr.json", ".zgroup", ".zmetadata", ".zattrs"))


def begins(path: Path, magic: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(magic)) == magic


def unpacked(path: Path) -> IO[bytes]:
    """The file, or what is inside if it is gzipped."""
    return gzip.open(path) if begins(path, _GZIP) else path.open("rb")  # type: ignore[return-value]


def _refused(path: Path, head: bytes) -> str:
    """What a file is that is never read as data, and what to do; nothing for all others."""
    if head[8:].startswith(b'{"__metadata__"'):
        return "a model, not a table: give the file of a table here."
    if head[:1] == b"\x80" and head[1:2] in (b"\2", b"\3", b"\4", b"\5"):
        return "a pickle, which could run code and is not opened: save it as CSV or Parquet."
    names: list[str] = []
    if is_zip := head.startswith((b"PK\3\4", b"PK\5\6")):
        with suppress(zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    if head.startswith(b"\xd0\xcf\x11\xe0") or _SPREADSHEET.intersection(names):
        return "a spreadsheet: export it as CSV."
    return "a zip archive: unpack it and name the file inside." if is_zip else ""
