"""Tables and lattices into files, whole or not at all."""

import gzip
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import xarray as xr

from zigp.data.columns import column_kind
from zigp.data.tables.addresses import is_zarr
from zigp.data.tables.errors import FileError, file_errors
from zigp.runtime.atomic import replacing

TABLES = (".csv", ".csv.gz", ".tsv", ".parquet")
LATTICES = (".nc", ".zarr")


class TableWriter:
    """A table that is written to a file, part by part."""

    def __init__(self, path: Path, ending: str, file: Any, files: ExitStack) -> None:
        self._path, self._ending, self._file, self._files = path, ending, file, files
        self.columns = list[Any]()  # of what was written so far

    def add(self, frame: pd.DataFrame) -> None:
        """Write rows, of the same columns as those before."""
        write = self._add_parquet if self._ending == ".parquet" else self._add_csv
        with file_errors("write", self._path):
            if self.columns not in ([], list(frame.columns)):
                raise FileError(f"Cannot write {self._path}: its parts differ in columns.")
            write(frame.copy(deep=False))
            self.columns = list(frame.columns)

    def _add_csv(self, part: pd.DataFrame) -> None:
        sep, header = "\t" if self._ending == ".tsv" else ",", not self.columns
        for name in part.columns[[column_kind(dtype) == "time" for dtype in part.dtypes]]:
            part[name] = part[name].map(pd.Timestamp.isoformat, na_action="ignore")
        part.to_csv(self._file, mode="wb", sep=sep, index=False, header=header, lineterminator="\n")

    def _add_parquet(self, part: pd.DataFrame) -> None:
        part.attrs = {}
        if not self.columns:
            fields = map(_widened, pa.Schema.from_pandas(part, preserve_index=False))
            writer = pq.ParquetWriter(self._file, pa.schema(list(fields)))
            self._file = self._files.enter_context(writer)
        self._file.write_table(pa.Table.from_pandas(part, self._file.schema, preserve_index=False))


def _widened(field: Any) -> Any:
    """Return a column of levels that has room for more of them in later parts."""
    if not pa.types.is_dictionary(field.type):
        return field
    return field.with_type(pa.dictionary(pa.int32(), field.type.value_type, field.type.ordered))


@contextmanager
def writing(path: Path | str, force: bool = False) -> Iterator[TableWriter]:
    """Yield a writer whose file takes its place if all goes well, and leaves nothing otherwise."""
    path, files = Path(path), ExitStack()  # each file writes to the one before
    check_writable(path, force, TABLES)
    if str(path) == "-":
        yield TableWriter(path, ".csv", sys.stdout.buffer, files)
        with file_errors("write", path):
            sys.stdout.buffer.flush()
        return
    ending = _ending(path, TABLES)
    with replacing(path, file_errors("write", path)) as part:
        try:
            with file_errors("write", path):
                file: Any = files.enter_context(part.open("xb"))
                if ending == ".csv.gz":
                    file = files.enter_context(gzip.GzipFile("", "wb", 6, file, mtime=0))
            table = TableWriter(path, ending, file, files)
            yield table
            with file_errors("write", path):
                if not table.columns:
                    raise FileError(f"There is nothing to write to {path}: no rows came.")
                files.close()
        finally:
            with suppress(Exception):
                files.close()


def write_dataset(dataset: xr.Dataset, path: Path | str, force: bool = False) -> None:
    """Write a dataset as NetCDF-4 or Zarr, whole or not at all, and in full precision."""
    path = Path(path)
    check_writable(path, force, LATTICES)
    with replacing(path, file_errors("write", path)) as part, file_errors("write", path):
        if _ending(path, LATTICES) == ".nc":
            dataset.drop_encoding().to_netcdf(part, engine="h5netcdf")
        else:
            dataset.drop_encoding().to_zarr(part, mode="w-", consolidated=True, zarr_format=2)


def check_writable(
    path: Path | str, force: bool = False, endings: tuple[str, ...] = TABLES + LATTICES
) -> None:
    """Raise an error now if a file with one of these endings, or any, cannot be written later."""
    if str(path) == "-":
        if ".csv" not in endings:
            kinds = f" that ends in {' or '.join(endings)}" if endings else ""
            raise FileError(f"This cannot go to standard output: choose a file{kinds} as --out.")
        if sys.stdout is None:
            raise FileError("Standard output is closed: choose a file as --out.")
        return
    if str(path).endswith("/") and not str(path).endswith(".zarr/"):
        raise FileError(f"{path} is a folder: choose a file in it as --out.")
    path = Path(path)
    folder = bool(endings) and _ending(path, endings) == ".zarr"
    is_ours = is_zarr if folder else Path.is_file
    with file_errors("write", path):
        if not path.parent.is_dir():
            raise FileError(
                f"There is no folder {path.parent}: create it, or choose another --out."
            )
        if path.exists() and not is_ours(path):
            raise FileError(f"{path} exists and is of another kind. Choose another --out.")
        if path.exists() and not force:
            raise FileError(f"{path} exists. Choose another --out, or add --force.")
        tempfile.TemporaryFile(dir=path.resolve().parent).close()


def _ending(path: Path, known: tuple[str, ...]) -> str:
    for ending in known:
        if path.name.lower().endswith(ending):
            return ending
    raise FileError(f"{path} does not end in {', '.join(known)}: choose another --out.")
