"""Tables and lattices from files into pandas and xarray, and back; problems in plain words."""

from zigp.files.addresses import find
from zigp.files.atomic import beside
from zigp.files.kinds import kind_of
from zigp.files.output import LATTICES, TABLES, Output, check_writable, write_dataset, writing
from zigp.files.problems import FileError
from zigp.files.reading import LATTICE_KINDS, read, read_parts
from zigp.files.values import as_levels, as_numbers, as_times, refuse_gaps

__all__ = [
    "LATTICES",
    "LATTICE_KINDS",
    "TABLES",
    "FileError",
    "Output",
    "as_levels",
    "as_numbers",
    "as_times",
    "beside",
    "check_writable",
    "find",
    "kind_of",
    "read",
    "read_parts",
    "refuse_gaps",
    "write_dataset",
    "writing",
]
