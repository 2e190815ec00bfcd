"""The size of what a file holds, before all of it is read.

Cells that were never written, and values that repeat, take hardly any room in a file: one of a few
KB can be of any size when it is read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from math import prod
from pathlib import Path

from zigp.data.tables.addresses import Location, begins
from zigp.data.tables.errors import FileError

__all__ = ["refuse_beyond_memory", "refuse_large", "refuse_large_chunks", "refuse_many_chunks"]

_SHARE = 0.5  # of the memory: data are needed again as numbers of another type
_MOST_CHUNKS = 10_000_000


def refuse_large(address: str, sizes: Mapping[str, int], advice: str = "") -> None:
    """Raise an error if columns, or arrays, of so many bytes do not fit into memory together."""
    if (total := sum(sizes.values())) > (room := _room()):
        name = max(sizes, key=lambda name: sizes[name])
        raise FileError(
            f"{address} takes {_giga(total)} GB or more, of which {_giga(sizes[name])} GB in "
            f"{name!r}; {_giga(room)} GB is the most that is read at once on this machine. Check "
            f"whether it is meant to be so large, or cut out a part{advice}."
        )


def refuse_beyond_memory(location: Location, *, lazy: bool = False) -> None:
    """Raise an error if a lattice does not fit into memory; of a lazy one, its axes."""
    sizes = {
        name: prod(shape) * width
        for name, (shape, width) in _arrays(location).items()
        if not lazy or len(shape) == 1
    }
    in_blocks = ", or read it block by block (zigp fit --stream)"
    refuse_large(location.address, sizes, in_blocks * (location.kind == "zarr" and not lazy))


def refuse_many_chunks(address: str, count: int) -> None:
    if count > _MOST_CHUNKS:
        raise FileError(
            f"{address} claims {count:.3g} chunks, more than can be kept track of: save it in "
            "fewer and larger ones."
        )


def refuse_large_chunks(address: str, held: int) -> None:
    """Raise an error if a chunk takes more memory, while it is read, than there is."""
    if held > (room := _room()):
        raise FileError(
            f"{address} has a chunk that takes {_giga(held)} GB while it is read; {_giga(room)} GB "
            "is the most that is read at once on this machine. Save it in smaller chunks."
        )


def _arrays(location: Location) -> dict[str, tuple[tuple[int, ...], int]]:
    """Return the shape, and the bytes of a cell, of each array at the top of a lattice."""
    if location.kind == "zarr":
        import zarr

        arrays = zarr.open_group(location.address, mode="r").arrays()
        return {name: (one.shape, one.dtype.itemsize) for name, one in arrays}
    if begins(Path(location.address), b"CDF"):  # in which every cell takes its room
        return {}
    import h5py  # type: ignore[import-untyped]

    with h5py.File(location.address) as file:
        return {
            name: (one.shape, one.dtype.itemsize)
            for name, one in file.items()
            if isinstance(one, h5py.Dataset) and one.shape is not None
        }


def _room() -> float:
    """Return the bytes that data may take, a share of the machine's memory, if it is known."""
    try:
        return _SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return float("inf")


def _giga(size: float) -> str:
    return f"{size / 1e9:.3g}"
