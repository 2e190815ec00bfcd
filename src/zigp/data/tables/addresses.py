"""Files that lie on this machine, or at any address that fsspec knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zigp.data.tables.kinds import is_zarr, kind_of
from zigp.data.tables.problems import FileError, told

__all__ = ["ENDINGS", "Found", "find"]

ENDINGS = (".parquet", ".parq", ".pq")  # of the files of a table in a folder
_ZARR = ("zarr.json", ".zgroup", ".zmetadata", ".zattrs")
_FAR_BUFFER = 2**22  # bytes at once where every request takes its time


@dataclass(frozen=True)
class Found:
    """What was found at an address: a lattice, or the files of a table, and how to open these."""

    address: str
    kind: str  # csv, parquet, netcdf or zarr; far away parquet or zarr
    files: tuple[str, ...] = ()
    open: Callable[[str], Any] = str  # pyarrow opens a path by itself
    buffer: int = 2**18  # bytes of each column that are read at once

    def parquet(self, name: str, footer: Any = None) -> Any:
        """One of the files, of which nothing is read before it is asked for."""
        import pyarrow.parquet as pq  # type: ignore[import-untyped]

        return pq.ParquetFile(
            self.open(name), metadata=footer, buffer_size=self.buffer, pre_buffer=False
        )

    @contextmanager
    def reading(self, name: str) -> Iterator[Any]:
        """The same, until it is no longer needed."""
        file = self.parquet(name)
        try:
            yield file
        finally:
            file.close(force=True)


def find(source: str | Path) -> Found:
    """What there is at a path or an address."""
    address = str(source)
    with told("read", address):
        return _remote(address) if "://" in address else _local(Path(source))


def _local(path: Path) -> Found:
    if path.is_dir() and not is_zarr(path):
        files = [str(one) for one in path.rglob("*") if one.is_file()]
        return Found(str(path), "parquet", _tables(str(path), files))
    return Found(str(path), kind_of(path), (str(path),))


def _remote(address: str) -> Found:
    try:
        from fsspec.core import url_to_fs  # type: ignore[import-untyped]
    except ImportError:
        raise FileError(
            f"Cannot read {address}: addresses need fsspec. Install it with pip install fsspec, "
            "and what the address itself needs, such as s3fs for s3://."
        ) from None
    system, root = url_to_fs(address)
    if any(system.exists(f"{root.rstrip('/')}/{name}") for name in _ZARR):
        return Found(address, "zarr")
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

    return Found(address, "parquet", files, opened, _FAR_BUFFER)


def _tables(folder: str, files: list[str]) -> tuple[str, ...]:
    """The Parquet files among those of a folder, in the order of their names."""
    found = [
        name
        for name in files
        if name.lower().endswith(ENDINGS) and not Path(name).name.startswith((".", "_"))
    ]
    if not found:
        raise FileError(
            f"{folder} is a folder that has no files that end in {', '.join(ENDINGS)}, and is no "
            "Zarr lattice: name the folder of a table's files, or one file."
        )
    return tuple(sorted(found))
