"""Tables and lattices from files into pandas and xarray, and back; problems in plain words."""

from zigp.data.tables.addresses import find
from zigp.data.tables.kinds import kind_of
from zigp.data.tables.output import LATTICES, TABLES, Output, check_writable, write_dataset, writing
from zigp.data.tables.problems import FileError
from zigp.data.tables.reading import LATTICE_KINDS, read, read_parts
from zigp.data.tables.values import as_levels, as_numbers, as_times, refuse_gaps
from zigp.runtime.atomic import replacing

__all__ = [
    "LATTICES",
    "LATTICE_KINDS",
    "TABLES",
    "FileError",
    "Output",
    "as_levels",
    "as_numbers",
    "as_times",
    "check_writable",
    "find",
    "kind_of",
    "read",
    "read_parts",
    "refuse_gaps",
    "replacing",
    "write_dataset",
    "writing",
]
