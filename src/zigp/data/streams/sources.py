"""The two sources of a stream: row groups of Parquet files, and chunks of a Zarr lattice."""

import pickle
from collections.abc import Collection, Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa  # type: ignore[import-untyped]

from zigp.data.columns import Table, column_kind
from zigp.data.grids import axes_of
from zigp.data.tables.addresses import Location
from zigp.data.tables.errors import FileError, check_columns, check_rows, file_errors
from zigp.data.tables.reading import common_schema, open_lattice, refuse_large

_ROWS = 2**16  # decoded at once, few enough for the processor's cache
_MOST_CHUNKS = 10_000_000


class ParquetSource:
    """The row groups of one or several files with the same columns.

    Attributes
    ----------
    address : str
        The path or address, for error messages.
    names : tuple of str
        The inputs.
    kinds : dict
        "number", "time" or "category" for each input.
    groups : None
        A table has no dimensions.
    sizes : ndarray of int
        The number of rows in each row group.
    """

    groups = None

    def __init__(
        self, found: Location, target: str, columns: Sequence[str] | None, levels: Collection[str]
    ) -> None:
        self.address, self._found, self._target = found.address, found, target
        # All are kept: those of a large file take long to read.
        self._footers, schema = common_schema(found)
        types = dict(zip(schema.names, schema.types, strict=True))
        self.names = tuple([n for n in types if n != target] if columns is None else columns)
        check_columns(self.address, types, (target, *self.names, *levels))
        if column_kind(types[target]) != "number":
            raise FileError(
                f"{self.address}, column {target!r} holds {types[target]}, not numbers: name "
                "another target, or write it as numbers."
            )
        kinds = {n: "category" if n in levels else column_kind(types[n]) for n in self.names}
        if unknown := [name for name in self.names if kinds[name] is None]:
            raise FileError(
                f"{self.address}, column {unknown[0]!r} holds {types[unknown[0]]}, not numbers: "
                "name it among the categories if these are levels, write it as numbers or times, "
                "or leave it out."
            )
        self.kinds = {name: str(kind) for name, kind in kinds.items()}
        self._groups = [
            (f, g) for f, one in enumerate(self._footers) for g in range(one.num_row_groups)
        ]
        self.sizes = np.array([self._footers[f].row_group(g).num_rows for f, g in self._groups])

    def fill(self, table: Table, group: int, first: int, out: np.ndarray) -> None:
        """Read rows of a row group, from the first on, as numbers: the inputs, then the target."""
        at = 0
        for batch in self._batches(group, first, first + len(out)):
            self._convert(group, batch, table, out[at : at + len(batch)])
            at += len(batch)

    def pick(self, group: int, rows: np.ndarray) -> tuple[pd.DataFrame, np.ndarray]:
        """Return the inputs, as the file holds them, and the targets of some rows, ascending."""
        batches = self._batches(group, rows[0], rows[-1] + 1)
        picked = pa.Table.from_batches(batches).unify_dictionaries().take(rows - rows[0])
        frame = picked.to_pandas(ignore_metadata=True, date_as_object=False)
        for name, kind in self.kinds.items():
            if kind == "category":
                levels = frame[name].astype(object).map(_text, na_action="ignore")
                frame[name] = levels.astype("category")
            elif frame[name].dtype == object:  # decimals
                frame[name] = frame[name].astype(float)
        X, y = frame[list(self.names)], frame[self._target].to_numpy(float)
        numbers = np.column_stack([Table.of(X).numbers(X), y])
        check_rows(numbers, self._place(group), (*self.names, self._target))
        return X, y

    def fingerprint(self) -> bytes:
        """Return the footers: sizes, and the least and largest values of every column."""
        return b"".join(map(pickle.dumps, self._footers))

    def _place(self, group: int) -> str:
        return f"{self._found.files[self._groups[group][0]]}, row group {self._groups[group][1]}"

    def _batches(self, group: int, first: int, end: int) -> Iterator[Any]:
        """Yield rows of a row group, of which pyarrow decodes a few at a time."""
        file, number = self._groups[group]
        at, columns = 0, [*self.names, self._target]
        with (
            file_errors("read", self._place(group)),
            self._found.parquet(self._found.files[file], self._footers[file]) as opened,
        ):
            for batch in opened.iter_batches(_ROWS, [number], columns, use_threads=False):
                yield batch[max(first - at, 0) : max(end - at, 0)]
                at += len(batch)
                if at >= end:
                    return
        raise FileError(
            f"{self._place(group)} has fewer rows than its footer says: write it again."
        )

    def _convert(self, group: int, batch: Any, table: Table, out: np.ndarray) -> None:
        """Write the inputs, as the numbers that a Table makes of them, and the target to `out`."""
        for place, name in enumerate(self.names):
            column = batch.column(name)
            if self.kinds[name] == "number":
                out[:, place] = column.to_numpy(zero_copy_only=False)
            elif self.kinds[name] == "time":
                times = column.to_pandas(date_as_object=False).to_frame(name)
                out[:, place] = table.numbers(times)[name]
            else:
                out[:, place] = self._codes(group, column, name, table.columns[name].levels)
        out[:, -1] = batch.column(self._target).to_numpy(zero_copy_only=False)
        check_rows(out, self._place(group), (*self.names, self._target))

    def _codes(self, group: int, column: Any, name: str, levels: Sequence[Any]) -> np.ndarray:
        """Return the positions of levels in a Table: each is looked up once, not every row."""
        encoded = column if hasattr(column, "dictionary") else column.dictionary_encode()
        texts = [_text(level) for level in encoded.dictionary.to_pylist()]
        positions = {_text(level): position for position, level in enumerate(levels)}
        codes = np.array([*(positions.get(text, -1) for text in texts), np.nan])
        at = encoded.indices.fill_null(len(texts)).to_numpy()
        if new := sorted({texts[i] for i in np.unique(at[codes[at] < 0])}):
            raise FileError(
                f"{self._place(group)}, column {name!r} has levels that were not in the sample: "
                f"{', '.join(new[:5])}. Name all levels with categories={{{name!r}: [...]}}, or "
                "take a larger sample."
            )
        return codes[at]


def _text(level: Any) -> str:
    return str(level).strip()


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

    def __init__(self, found: Location, target: str, columns: Sequence[str] | None) -> None:
        self.address, self._target = found.address, target
        with file_errors("read", self.address):
            self._array = _variable(found, target, columns)
            axes = axes_of(self._array, columns)
        # Stores list their arrays in any order, which must not differ between processes.
        self.groups = {dim: sorted(map(str, axis)) for dim, axis in axes.items()}
        self._axes = [axes[dim][group] for dim, group in self.groups.items()]
        names = [name for group in self.groups.values() for name in group]
        self.names = tuple(names if columns is None else columns)
        if unknown := [name for name in self.names if name not in names]:
            raise FileError(
                f"{self.address} has no axis {unknown[0]!r}: {target} runs along "
                f"{', '.join(names)}."
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
                f"{self.address} claims {count:.3g} chunks, more than can be kept track of: save "
                "it in fewer and larger ones."
            )
        self._chunks = list(product(*within))
        self.sizes = np.array([prod(s.stop - s.start for s in chunk) for chunk in self._chunks])
        # A chunk is held twice while it is unpacked.
        largest = 2 * int(self.sizes.max()) * max(self._array.dtype.itemsize, 4)
        refuse_large(self.address, {"one chunk": largest}, ", or save it in smaller chunks")

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


def _variable(found: Location, target: str, columns: Sequence[str] | None) -> Any:
    """Return the target, of which no values are read yet."""
    address, dataset = found.address, open_lattice(found)
    if target not in dataset.data_vars:
        have = ", ".join(map(str, dataset.data_vars)) or "only axes"
        raise FileError(f"{address} has no variable {target!r}. It has {have}.")
    array = dataset.set_coords([n for n in columns or () if n in dataset.data_vars])[target]
    if array.dtype.kind not in "biuf":
        raise FileError(
            f"{address}: {target} holds {array.dtype}, not numbers: name another target."
        )
    return array
