"""How much a lattice claims to hold, before anything of it is read.

Cells that nobody wrote take no room in a file, so one of a few KB can claim to be of any size.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from math import prod
from pathlib import Path

from zigp.files.kinds import begins
from zigp.files.problems import FileError

__all__ = ["refuse_beyond_memory", "refuse_many_chunks"]

_SHARE = 0.5  # of the memory: what was read is needed again as numbers of another kind
_MOST_CHUNKS = 10_000_000


def refuse_beyond_memory(address: str, kind: str, *, lazy: bool) -> None:
    """An error if what is read at once is more than there is room for: axes alone where lazy."""
    sizes = {
        name: prod(shape) * width
        for name, shape, width in _arrays(address, kind)
        if not lazy or len(shape) == 1
    }
    size, room = sum(sizes.values()), _SHARE * _memory()
    if size <= room:
        return
    name = max(sizes, key=lambda name: sizes[name])
    advice = "" if kind == "netcdf" or lazy else ", or read it block by block (zigp fit --stream)"
    raise FileError(
        f"{address} claims {_giga(size)} GB, of which {_giga(sizes[name])} GB in {name!r}; "
        f"{_giga(room)} GB is the most that is read at once on this machine. Check its shapes, cut "
        f"out a part{advice}."
    )


def refuse_many_chunks(address: str, count: int) -> None:
    if count > _MOST_CHUNKS:
        raise FileError(
            f"{address} claims {count:.3g} chunks, more than can be kept track of: save it in "
            "fewer and larger ones."
        )


def _arrays(address: str, kind: str) -> Iterator[tuple[str, tuple[int, ...], int]]:
    """Names, shapes and bytes per cell of those at the top, of which nothing is read."""
    if kind == "zarr":
        import zarr

        for name, array in zarr.open_group(address, mode="r").arrays():
            yield name, array.shape, array.dtype.itemsize
    elif not begins(Path(address), b"CDF"):  # whose cells all have their place in the file
        import h5py  # type: ignore[import-untyped]

        with h5py.File(address) as file:
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
