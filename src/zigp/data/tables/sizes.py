"""How much a file claims to hold, before anything of it is read.

Cells that nobody wrote and values that repeat take hardly any room in a file, so one of a few KB
can claim to be of any size.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path

from zigp.data.tables.addresses import Found
from zigp.data.tables.kinds import begins
from zigp.data.tables.problems import FileError, told

__all__ = [
    "refuse_beyond_memory",
    "refuse_large_chunks",
    "refuse_many_chunks",
    "refuse_many_rows",
]

_SHARE = 0.5  # of the memory: what was read is needed again as numbers of another kind
_MOST_CHUNKS = 10_000_000
_CELL = 8  # bytes of a number of a table, or of what points to a text


def refuse_beyond_memory(found: Found, *, lazy: bool = False) -> None:
    """An error if what is read at once is more than there is room for: axes alone where lazy."""
    sizes: dict[str, int] = {}
    for name, shape, width in _arrays(found):
        if not lazy or len(shape) == 1:
            sizes[name] = sizes.get(name, 0) + prod(shape) * width
    in_blocks = found.kind != "netcdf" and not lazy
    _refuse(found.address, sizes, ", or read it block by block (zigp fit --stream)" * in_blocks)


def refuse_many_rows(address: str, names: Sequence[str], rows: int) -> None:
    """The same of text, whose rows were counted."""
    _refuse(address, dict.fromkeys(names, _CELL * rows), "")


def _refuse(address: str, sizes: Mapping[str, int], advice: str) -> None:
    size, room = sum(sizes.values()), _SHARE * _memory()
    if size <= room:
        return
    name = max(sizes, key=lambda name: sizes[name])
    raise FileError(
        f"{address} claims {_giga(size)} GB, of which {_giga(sizes[name])} GB in {name!r}; "
        f"{_giga(room)} GB is the most that is read at once on this machine. Check whether it is "
        f"meant to be so large, cut out a part{advice}."
    )


def refuse_many_chunks(address: str, count: int) -> None:
    if count > _MOST_CHUNKS:
        raise FileError(
            f"{address} claims {count:.3g} chunks, more than can be kept track of: save it in "
            "fewer and larger ones."
        )


def refuse_large_chunks(address: str, held: int) -> None:
    """An error if a piece takes more room, while it is read, than there is."""
    if held > (room := _SHARE * _memory()):
        raise FileError(
            f"{address} has a chunk that takes {_giga(held)} GB while it is read; {_giga(room)} GB "
            "is the most that is read at once on this machine. Save it in smaller chunks."
        )


def _arrays(found: Found) -> Iterator[tuple[str, tuple[int, ...], int]]:
    """Names, shapes and bytes per cell of columns, or of arrays at the top; nothing is read."""
    if found.kind == "parquet":
        for path in found.files:
            with told("read", path), found.reading(path) as file:
                for name in file.schema_arrow.names:
                    yield name, (file.metadata.num_rows,), _CELL
    elif found.kind == "zarr":
        import zarr

        for name, array in zarr.open_group(found.address, mode="r").arrays():
            yield name, array.shape, array.dtype.itemsize
    elif not begins(Path(found.address), b"CDF"):  # whose cells all have their place in the file
        import h5py  # type: ignore[import-untyped]

        with h5py.File(found.address) as file:
            for name, one in file.items():
                if isinstance(one, h5py.Dataset) and one.shape is not None:
                    yield name, one.shape, one.dtype.itemsize


def _memory() -> float:
    """Of this machine, in bytes, if it can be known."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return float("inf")


def _giga(size: float) -> str:
    return f"{size / 1e9:.3g}"
