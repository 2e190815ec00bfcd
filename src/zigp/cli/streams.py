"""Files that are read block by block."""

from __future__ import annotations

from pathlib import Path

from zigp.cli.data import ColumnRoles
from zigp.cli.processes import Process
from zigp.data.streams import Stream, open_stream

_LARGE = 5_000_000  # rows, or cells
_LARGEST_BLOCK, _SMALLEST_BLOCK = 2**18, 2**8


def open_if_large(
    path: Path | str, columns: ColumnRoles, wanted: bool | None, process: Process
) -> Stream | None:
    """Return a stream of the file if that is wanted or, by default, if it is large.

    An address is taken to be large.
    """
    if wanted is False:
        return None
    required = wanted or isinstance(path, str)
    try:
        stream = open_stream(
            path,
            target=columns.target,
            columns=columns.named or None,
            categories=columns.categories,
            part=(process.number, process.of),
        )
    except (ValueError, OSError):
        if required:
            raise
        return None  # reading the whole file gives the better error
    if not required and stream.rows < _LARGE:
        return None
    rows = -(-stream.rows // process.of)
    return stream.in_blocks_of(
        min(max(1 << (rows - 1).bit_length(), _SMALLEST_BLOCK), _LARGEST_BLOCK)
    )
