"""Files that are read block by block."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from zigp.cli.data import ColumnRoles
from zigp.cli.processes import Process
from zigp.data.tables import FileError

if TYPE_CHECKING:
    from zigp.data.streams import Stream

__all__ = ["open_if_large"]

_LARGE = 5_000_000  # rows, or cells
_BLOCK, _SMALLEST = 2**18, 2**8


def open_if_large(
    path: Path | str, columns: ColumnRoles, asked: bool | None, process: Process
) -> Stream | None:
    """A stream of the file, if that was asked for or, where nothing was said, if it is large.

    What lies at an address is taken to be large.
    """
    if asked is None and isinstance(path, str):
        asked = True
    if asked is False or (asked is None and not _can_be_large(path)):
        return None
    from zigp.data.streams import open_stream

    opened = partial(
        open_stream,
        path,
        target=columns.target,
        columns=columns.named or None,
        categories=columns.categories,
        part=(process.number, process.of),
    )
    try:
        found = opened()
    except (ValueError, OSError):
        if asked is None:  # whatever is wrong, reading it whole says it better
            return None
        raise
    if asked is None and found.rows < _LARGE:
        return None
    if found.rows < 2 * process.of:
        raise FileError(f"{path} has {found.rows} rows: too few for {process.of} processes.")
    block = _BLOCK
    while block > _SMALLEST and block // 2 >= found.rows / process.of:
        block //= 2
    return found if block == _BLOCK else opened(rows_per_block=block)


def _can_be_large(path: Path | str) -> bool:
    from zigp.data.tables.addresses import ENDINGS, begins, is_zarr

    path = Path(path)
    if path.is_file():
        return begins(path, b"PAR1")
    if not path.is_dir():
        return False
    return is_zarr(path) or any(one.name.lower().endswith(ENDINGS) for one in path.rglob("*"))
