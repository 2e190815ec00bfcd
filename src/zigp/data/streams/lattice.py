"""Lattices in Zarr, chunk by chunk: every cell a row of coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from zigp.data.grids import axes_of
from zigp.data.streams.sources import checked
from zigp.data.tables.addresses import Location
from zigp.data.tables.errors import FileError, file_errors
from zigp.data.tables.sizes import refuse_beyond_memory, refuse_large_chunks, refuse_many_chunks

if TYPE_CHECKING:
    import pandas as pd

    from zigp.data.columns import Table

__all__ = ["LatticeSource"]


class LatticeSource:
    """The chunks of one variable of a Zarr lattice."""

    groups: dict[str, list[str]] | None
    in_parts = False

    def __init__(self, address: str, target: str, columns: Sequence[str] | None) -> None:
        self.address, self._target = address, target
        with file_errors("read", address):
            self._array = _opened(address, target, columns)
            axes = axes_of(self._array, columns)
        # Stores list their arrays in any order, which must not differ between processes.
        self._axes = {dim: axis[sorted(axis, key=str)] for dim, axis in axes.items()}
        self.groups = {dim: [str(name) for name in axis] for dim, axis in self._axes.items()}
        found = [str(name) for axis in self._axes.values() for name in axis]
        self.names = tuple(found if columns is None else columns)
        if strange := [name for name in self.names if name not in found]:
            raise FileError(
                f"{address} has no axis {strange[0]!r}: {target} runs along {', '.join(found)}."
            )
        self.kinds = {
            str(name): "time" if axis[name].dtype.kind in "MO" else "number"
            for axis in self._axes.values()
            for name in axis
        }
        lengths, sides = _sides(self._array)
        count = prod(-(-n // side) for n, side in zip(lengths, sides, strict=True))
        refuse_many_chunks(address, count)
        self._pieces = list(product(*map(_chunks, lengths, sides)))
        self.sizes = np.array([prod(s.stop - s.start for s in piece) for piece in self._pieces])
        self.held = 2 * int(self.sizes.max()) * max(self._array.dtype.itemsize, 4)
        refuse_large_chunks(address, self.held)

    def mark(self) -> bytes:
        """Its axes: metadata of a lattice say nothing of the values in it."""
        return repr([axis.to_dict("list") for axis in self._axes.values()]).encode()

    def reader(self, piece: int, table: Table | None, rows: int) -> _Reader:
        return _Reader(self, piece, table)

    def pick(self, piece: int, rows: np.ndarray) -> tuple[pd.DataFrame, np.ndarray]:
        import pandas as pd

        columns = {
            name: axis[name].iloc[place].reset_index(drop=True)
            for axis, place in zip(self._axes.values(), self.places(piece, rows), strict=True)
            for name in axis
        }
        return pd.DataFrame(columns)[list(self.names)], self.values(piece)[rows].astype(float)

    def values(self, piece: int) -> np.ndarray:
        """What was observed in a chunk's cells."""
        at = dict(zip(self._array.dims, self._pieces[piece], strict=True))
        place = f"{self.address}, chunk " + ", ".join(
            f"{d} {s.start}:{s.stop}" for d, s in at.items()
        )
        with file_errors("read", place):
            values = self._array.isel(at).values.ravel()
        return checked(values, place, self._target, gaps=True)

    def places(self, piece: int, rows: Any) -> list[np.ndarray]:
        """Where cells of a chunk, by their number, lie along every dimension."""
        within = self._pieces[piece]
        steps = np.unravel_index(rows, [s.stop - s.start for s in within])
        return [s.start + step for s, step in zip(within, steps, strict=True)]

    def axes(self, table: Table | None) -> list[tuple[list[int], np.ndarray]]:
        """Which columns run along each dimension, and the coordinates there as numbers."""
        found = []
        for axis in self._axes.values():
            numbers = (axis if table is None else table.numbers(axis)).to_numpy(float)
            for name, values in zip(axis, numbers.T, strict=True):
                checked(values, self.address, str(name))
            found.append(([self.names.index(str(name)) for name in axis], numbers))
        return found


class _Reader:
    """The cells of one chunk, in turn."""

    def __init__(self, source: LatticeSource, piece: int, table: Table | None) -> None:
        self._source, self._piece, self._axes = source, piece, source.axes(table)
        self._values: np.ndarray | None = None
        self._at = 0

    def skip(self, rows: int) -> None:
        self._at += rows

    def fill(self, X: np.ndarray, y: np.ndarray) -> None:
        if self._values is None:
            self._values = self._source.values(self._piece)
        rows = np.arange(self._at, self._at + len(y))
        y[:] = self._values[rows[0] : rows[-1] + 1]
        places = self._source.places(self._piece, rows)
        for (columns, numbers), place in zip(self._axes, places, strict=True):
            X[:, columns] = numbers[place]
        self._at += len(y)

    def close(self) -> None:
        self._values = None


def _opened(address: str, target: str, columns: Sequence[str] | None) -> Any:
    """The target, of which nothing is read before it is looked at."""
    import xarray as xr

    refuse_beyond_memory(Location(address, "zarr"), lazy=True)
    dataset = xr.open_zarr(address, chunks=None, consolidated=False)
    if target not in dataset.data_vars:
        have = ", ".join(map(str, dataset.data_vars)) or "only axes"
        raise FileError(f"{address} has no variable {target!r}. It has {have}.")
    array = dataset.set_coords([n for n in columns or () if n in dataset.data_vars])[target]
    if array.dtype.kind not in "biuf":
        raise FileError(
            f"{address}: {target} holds {array.dtype}, not numbers: name another target."
        )
    return array


def _sides(array: Any) -> tuple[Sequence[int], Sequence[int]]:
    """The lengths of an array's dimensions, and of its chunks along them."""
    preferred = array.encoding.get("preferred_chunks", {})
    return array.shape, [preferred.get(d, n) for d, n in array.sizes.items()]


def _chunks(length: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, length)) for start in range(0, length, size)]
