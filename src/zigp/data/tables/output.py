"""Tables and lattices into files, whole or not at all."""

from __future__ import annotations

import gzip
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from zigp.data.tables.kinds import is_zarr
from zigp.data.tables.problems import FileError, told
from zigp.runtime.atomic import replacing

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["LATTICES", "TABLES", "Output", "check_writable", "write_dataset", "writing"]

TABLES = (".csv", ".csv.gz", ".tsv", ".parquet")
LATTICES = (".nc", ".zarr")
_ROWS = 1 << 16  # at once, where nobody says


class Output:
    """A table on its way to a file, part by part."""

    def __init__(self, path: Path, ending: str, file: IO[bytes]) -> None:
        self._path, self._ending, self._columns = path, ending, list[Any]()
        self._files: list[Any] = [file]  # each writes to the one before
        if ending == ".csv.gz":
            self._files.append(gzip.GzipFile("", "wb", 6, file, mtime=0))

    def add(self, frame: pd.DataFrame) -> None:
        """Write these rows, of the same columns as those before."""
        write = self._add_parquet if self._ending == ".parquet" else self._add_csv
        with told("write", self._path):
            for start in range(0, len(frame) or 1, _ROWS):
                if self._columns not in ([], list(frame.columns)):
                    raise FileError(f"Cannot write {self._path}: its parts differ in columns.")
                write(frame.iloc[start : start + _ROWS].copy(deep=False))
                self._columns = list(frame.columns)

    def _add_csv(self, part: pd.DataFrame) -> None:
        sep, header = "\t" if self._ending == ".tsv" else ",", not self._columns
        for name in part.columns[[dtype.kind in "MO" for dtype in part.dtypes]]:
            part[name] = part[name].map(_iso, na_action="ignore")
        text = part.to_csv(None, sep=sep, index=False, header=header, lineterminator="\n")
        self._files[-1].write(text.encode())

    def _add_parquet(self, part: pd.DataFrame) -> None:
        import pyarrow as pa  # type: ignore[import-untyped]
        import pyarrow.parquet as pq  # type: ignore[import-untyped]

        part.attrs = {}
        schema = self._files[-1].schema if self._columns else None
        table = pa.Table.from_pandas(part, schema, preserve_index=False)
        if not self._columns:
            self._files.append(pq.ParquetWriter(self._files[0], table.schema))
        self._files[-1].write_table(table)

    def _close(self) -> None:
        with told("write", self._path):
            if not self._columns:
                raise FileError(f"There is nothing to write to {self._path}: no rows came.")
            while self._files:
                self._files.pop().close()

    def _abandon(self) -> None:
        for file in reversed(self._files):
            with suppress(Exception):
                file.close()


def _iso(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value


@contextmanager
def writing(path: Path | str, force: bool = False) -> Iterator[Output]:
    """An output that becomes the file when all went well, and leaves nothing when not."""
    path = Path(path)
    check_writable(path, force, TABLES)
    if str(path) == "-":
        yield Output(path, ".csv", sys.stdout.buffer)
        with told("write", path):
            sys.stdout.buffer.flush()
        return
    with replacing(path, told("write", path)) as part:
        with told("write", path):
            out = Output(path, _ending(path, TABLES), part.open("xb"))
        try:
            yield out
            out._close()
        finally:
            out._abandon()


def write_dataset(dataset: xr.Dataset, path: Path | str, force: bool = False) -> None:
    """Write a dataset as NetCDF-4 or Zarr, whole or not at all, and in full precision."""
    path = Path(path)
    check_writable(path, force, LATTICES)
    with replacing(path, told("write", path)) as part, told("write", path):
        if _ending(path, LATTICES) == ".nc":
            dataset.drop_encoding().to_netcdf(part, engine="h5netcdf")
        else:
            dataset.drop_encoding().to_zarr(part, mode="w-", consolidated=True, zarr_format=2)


def check_writable(
    path: Path | str, force: bool = False, endings: tuple[str, ...] = TABLES + LATTICES
) -> None:
    """An error now if a file with one of these endings, or any, could not be written later."""
    if str(path) == "-":
        return _check_standard_output(endings)
    if str(path).endswith("/") and not str(path).endswith(".zarr/"):
        raise FileError(f"{path} is a folder: choose a file in it as --out.")
    path = Path(path)
    folder = bool(endings) and _ending(path, endings) == ".zarr"
    is_ours = is_zarr if folder else Path.is_file
    with told("write", path):
        if not path.parent.is_dir():
            raise FileError(
                f"There is no folder {path.parent}: create it, or choose another --out."
            )
        if path.exists() and not is_ours(path):
            raise FileError(f"{path} exists and is of another kind. Choose another --out.")
        if path.exists() and not force:
            raise FileError(f"{path} exists. Choose another --out, or add --force.")
        tempfile.TemporaryFile(dir=path.resolve().parent).close()


def _check_standard_output(endings: tuple[str, ...]) -> None:
    if ".csv" not in endings:
        kinds = f" that ends in {' or '.join(endings)}" if endings else ""
        raise FileError(f"This cannot go to standard output: choose a file{kinds} as --out.")
    if sys.stdout is None:
        raise FileError("Standard output is closed: choose a file as --out.")


def _ending(path: Path, known: tuple[str, ...]) -> str:
    for ending in known:
        if path.name.lower().endswith(ending):
            return ending
    raise FileError(f"{path} does not end in {', '.join(known)}: choose another --out.")
