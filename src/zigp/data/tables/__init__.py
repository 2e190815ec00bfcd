"""Tables and lattices from files into pandas and xarray, and back; errors in one sentence."""

from zigp.data.tables.addresses import locate
from zigp.data.tables.errors import FileError, check_columns
from zigp.data.tables.reading import LATTICE_KINDS, read, read_parts
from zigp.data.tables.values import as_dates, typed
from zigp.data.tables.writing import (
    LATTICES,
    TABLES,
    TableWriter,
    check_writable,
    write_dataset,
    writing,
)

__all__ = [
    "LATTICES",
    "LATTICE_KINDS",
    "TABLES",
    "FileError",
    "TableWriter",
    "as_dates",
    "check_columns",
    "check_writable",
    "locate",
    "read",
    "read_parts",
    "typed",
    "write_dataset",
    "writing",
]
