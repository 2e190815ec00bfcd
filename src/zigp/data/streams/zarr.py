"""Lattices in Zarr, chunk by chunk: every cell a row with its coordinates."""

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from zigp.data.columns import Table, column_kind
from zigp.data.grids import axes_of
from zigp.data.tables.addresses import Location
from zigp.data.tables.errors import FileError, check_rows, file_errors
from zigp.data.tables.reading import refuse_beyond_memory, refuse_large

_MOST_CHUNKS = 10_000_000


class ZarrSource:
    """The chunks of one variable of a Zarr lattice.

    Attributes
    ----------
    address : str
        The path or address, for error messages.
    names : tuple of str
        The inputs.
    kinds : dict
        "number" or "time" for each input.
    groups : dict
        The inputs along each dimension.
    sizes : ndarray of int
        The number of cells in each chunk.
    """

    def __init__(self, address: str, target: str, columns: Sequence[str] | None) -> None:
        self.address, self._target = address, target
        with file_errors("read", address):
            self._array = _variable(address, target, columns)
            axes = axes_of(self._array, columns)
        # Stores list their arrays in any order, which must not differ between processes.
        self.groups = {dim: sorted(map(str, axis)) for dim, axis in axes.items()}
        self._axes = [axes[dim][group] for dim, group in self.groups.items()]
        names = [name for group in self.groups.values() for name in group]
        self.names = tuple(names if columns is None else columns)
        if unknown := [name for name in self.names if name not in names]:
            raise FileError(
                f"{address} has no axis {unknown[0]!r}: {target} runs along {', '.join(names)}."
            )
        self.kinds = {
            name: str(column_kind(axis[name].dtype)) for axis in self._axes for name in axis
        }
        sides = self._array.encoding.get("preferred_chunks", {})
        within = [
            [slice(start, min(start + side, length)) for start in range(0, length, side)]
            for length, side in ((n, sides.get(dim, n)) for dim, n in self._array.sizes.items())
        ]
        if (count := prod(map(len, within))) > _MOST_CHUNKS:
            raise FileError(
                f"{address} claims {count:.3g} chunks, more than can be kept track of: save it in "
                "fewer and larger ones."
            )
        self._chunks = list(product(*within))
        self.sizes = np.array([prod(s.stop - s.start for s in chunk) for chunk in self._chunks])
        # A chunk is held twice while it is unpacked.
        largest = 2 * int(self.sizes.max()) * max(self._array.dtype.itemsize, 4)
        refuse_large(address, {"one chunk": largest}, ", or save it in smaller chunks")

    def fill(self, table: Table, chunk: int, first: int, out: np.ndarray) -> None:
        """Read cells of a chunk, from the first on, as numbers: coordinates, then the target."""
        frame, out[:, -1] = self.pick(chunk, np.arange(first, first + len(out)))
        out[:, :-1] = table.numbers(frame)
        check_rows(out, self._place(chunk), (*self.names, self._target))

    def pick(self, chunk: int, cells: np.ndarray) -> tuple[pd.DataFrame, np.ndarray]:
        """Return the coordinates, as the lattice holds them, and the targets of some cells."""
        within = self._chunks[chunk]
        with file_errors("read", self._place(chunk)):
            values = self._array.isel(dict(zip(self._array.dims, within, strict=True))).values
        y = values.ravel()[cells].astype(float)
        check_rows(y[:, None], self._place(chunk), [self._target])
        columns = {
            name: axis[name].array[side.start + at]
            for axis, side, at in zip(
                self._axes, within, np.unravel_index(cells, values.shape), strict=True
            )
            for name in axis
        }
        return pd.DataFrame(columns, columns=list(self.names)), y

    def fingerprint(self) -> bytes:
        """Return the axes: the metadata of a lattice say nothing about its values."""
        return repr([axis.to_dict("list") for axis in self._axes]).encode()

    def _place(self, chunk: int) -> str:
        sides = zip(self._array.dims, self._chunks[chunk], strict=True)
        return f"{self.address}, chunk " + ", ".join(f"{d} {s.start}:{s.stop}" for d, s in sides)


def _variable(address: str, target: str, columns: Sequence[str] | None) -> Any:
    """Return the target, of which no values are read yet."""
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
