"""A source as blocks of rows in random order, and a sample of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from zigp.data.streams.filling import Block, Filling
from zigp.data.streams.order import Purpose, Schedule, drawn, shares
from zigp.data.streams.sources import Source
from zigp.data.tables.addresses import locate
from zigp.data.tables.errors import FileError

if TYPE_CHECKING:
    import pandas as pd

    from zigp.data.columns import Table

__all__ = ["Block", "Stream", "open_stream"]

_MEMORY = 2**28  # bytes for the pieces that are read side by side
_CONVERT = {
    "csv": "is text, which is not read in blocks: write it as Parquet first.",
    "netcdf": "is NetCDF, which is not read in blocks: write it as Zarr first, in chunks.",
}


def open_stream(
    source: str | Path,
    *,
    target: str,
    columns: Sequence[str] | None = None,
    categories: Mapping[str, Sequence[str]] | Sequence[str] = (),
    part: tuple[int, int] = (0, 1),
    rows_per_block: int = 2**18,
    pieces_per_block: int = 8,
) -> Stream:
    """Data of any size, to be read block by block; only footers and axes are read here.

    `source` is a Parquet file, a folder of them, or a Zarr lattice: a path, or an address that
    fsspec knows, such as "s3://bucket/rain". `target` is the column, or the lattice's variable, to
    learn, and `columns` are the inputs; without them all other columns, or all axes of the lattice.
    `categories` are the inputs that hold levels, with all of their levels if these are known;
    otherwise those in the sample are all that may come. `part` says which of how many processes
    this is: each has row groups (or chunks) of its own, with as many rows as the others to within a
    row group, and all have the same number of blocks. A block has room for `rows_per_block`; all
    have as many rows, out of `pieces_per_block` row groups (or chunks), fewer where they are large,
    and padding at their ends.

    >>> pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": [0.0, 0.0, 4.0]}).to_parquet("data.parquet")
    >>> stream = open_stream("data.parquet", target="y", rows_per_block=2)
    >>> stream.rows, stream.names, stream.blocks_per_pass
    (3, ('x',), 2)
    """
    if not 0 <= part[0] < part[1]:
        raise ValueError(f"part is {part}: give which process, counted from 0, of how many.")
    for name, value in (("rows_per_block", rows_per_block), ("pieces_per_block", pieces_per_block)):
        if value < 1:
            raise ValueError(f"{name} is {value}: it must be at least 1.")
    if columns is not None and target in columns:
        raise ValueError(f"{target!r} is the target and cannot be an input as well.")
    found = locate(source)
    if found.kind in _CONVERT:
        raise FileError(f"{source} {_CONVERT[found.kind]}")
    if found.kind == "zarr":
        if categories:
            raise FileError(f"{source} is a lattice, which has no levels: leave categories out.")
        from zigp.data.streams.lattice import LatticeSource

        opened: Source = LatticeSource(found.address, target, columns)
    else:
        from zigp.data.streams.parquet import ParquetSource

        opened = ParquetSource(found, target, columns, categories)
    levels = dict(categories) if isinstance(categories, Mapping) else {}
    return Stream(opened, levels, part, rows_per_block, pieces_per_block)


class Stream:
    """A source of rows that need not fit in memory; made by `open_stream`."""

    def __init__(
        self,
        source: Source,
        levels: Mapping[str, Sequence[str]],
        part: tuple[int, int],
        rows_per_block: int,
        pieces_per_block: int,
    ) -> None:
        if not source.names:
            raise FileError(f"{source.address} has no inputs: there is nothing to learn from.")
        self._source, self._levels = source, levels
        self._table: Table | None = None
        self.part = part
        self._lanes = max(1, min(pieces_per_block, _MEMORY // source.held))
        owned = shares(source.sizes, part[1])
        self._pieces = owned[part[0]]
        self._most = max(int(source.sizes[pieces].sum()) for pieces in owned)
        self.rows_per_block = rows_per_block

    @property
    def blocks_per_pass(self) -> int:
        """How many there are for every process, of which some can be padding alone."""
        return -(-self._most // self.rows_per_block)

    @property
    def rows(self) -> int:
        """How many rows, or cells, the whole source has; some may lack a target."""
        return int(self._source.sizes.sum())

    @property
    def names(self) -> tuple[str, ...]:
        """The inputs, in the order of a block's columns."""
        return self._source.names

    @property
    def groups(self) -> dict[str, list[str]] | None:
        """Of a lattice, the inputs along each of its dimensions."""
        return self._source.groups

    def sample(self, n: int, seed: int, gaps: bool = False) -> tuple[pd.DataFrame, np.ndarray]:
        """At most n rows from all over the source, as they stand there, and their targets.

        All rows if there are no more than n; otherwise rows drawn from at least 64 row groups (or
        chunks), if there are as many, in the order of the source. Very large row groups are looked
        at in part. Rows without a target are left out, unless gaps are asked for. Every process
        draws the same.
        """
        import pandas as pd

        rng = np.random.default_rng((seed, Purpose.SAMPLE))
        found = [
            self._source.pick(piece, rows)
            for piece, rows in drawn(self._source.sizes, n, rng, self._source.in_parts)
            if len(rows)
        ]
        if not found:
            raise ValueError(f"n is {n}: a sample needs at least one row.")
        X = pd.concat([frame for frame, _ in found], ignore_index=True)
        y = np.concatenate([values for _, values in found]).astype(float)
        for name, kind in self._source.kinds.items():
            if kind == "category":
                X[name] = pd.Categorical(X[name], self._known(name, X[name]))
        seen = ~np.isnan(y)
        if not seen.any():
            raise FileError(f"No row of a sample of {self._source.address} has a target.")
        if gaps:
            return X, y
        return X[seen].reset_index(drop=True), y[seen]

    def digest(self, *sample: np.ndarray) -> str:
        """What tells these contents from others: a sample of them, and what their source says."""
        found = sha256(self._source.mark())
        for values in (self._source.sizes, *sample):
            found.update(np.ascontiguousarray(values).tobytes())
        return found.hexdigest()

    def _known(self, name: str, values: pd.Series) -> list[str]:
        """All levels of a column: those that were named, or those that there are."""
        found = sorted(set(values))
        known = list(self._levels.get(name, found))
        if new := [level for level in found if level not in known]:
            raise FileError(
                f"{self._source.address}, column {name!r} has levels that were not named: "
                f"{', '.join(new[:5])}. Name all levels in categories."
            )
        return known

    def read_as(self, table: Table) -> Stream:
        """The same stream with times and levels read as a Table has them, one made of a sample."""
        expected = {name: self._source.kinds[name] for name in self.names}
        given = {name: column.kind for name, column in table.columns.items()}
        if given != expected:
            raise ValueError(
                f"The table has the columns {_described(given)}; the stream has "
                f"{_described(expected)}. Make it with Table.of(X) from the stream's sample."
            )
        stream = copy(self)
        stream._table = table
        return stream

    def in_blocks_of(self, rows: int) -> Stream:
        """The same stream in blocks of another size."""
        stream = copy(self)
        stream.rows_per_block = rows
        return stream

    def blocks(self, seed: int, pass_number: int, skip: int = 0) -> Iterator[Block]:
        """This process's rows, each once, in an order that belongs to seed and pass.

        What is random: the order of row groups (or chunks), which of them are read side by side, so
        that a block has slices of several, and the order of the rows of a slice. Within a block
        slices take turns, a few rows each, so that any stretch of it has its share of all of them.

        What is not: rows are never exchanged across the whole source. Rows that are neighbours in a
        row group are in the same block or in two that follow each other closely, a row group is
        read from its first row to its last, and a process has the same row groups in every pass.
        Where neighbouring rows are alike, as in a table sorted by time, many small row groups mix
        better than few large ones.

        The first `skip` blocks are passed over without being read, but for the beginnings of the
        row groups that they had begun.
        """
        if self._table is None and set(self._source.kinds.values()) - {"number"}:
            raise ValueError(
                "There are times or levels among the inputs: make a Table of a sample, and take "
                "the blocks of stream.read_as(table)."
            )
        key = (seed, pass_number, self.part[0])
        order = np.random.default_rng((*key, Purpose.PIECES)).permutation(self._pieces)
        size, many = self.rows_per_block, self.blocks_per_pass
        schedule = Schedule(self._source.sizes, order, self._lanes, size, many)
        return self._blocks(schedule, Filling(self._source, self._table, schedule, key), skip)

    def _blocks(self, schedule: Schedule, filling: Filling, skip: int) -> Iterator[Block]:
        with filling:
            filling.start(skip)
            for number in range(skip, schedule.blocks):
                block = filling.finish()
                filling.start(number + 1)
                yield block
        for _ in range(max(skip, schedule.blocks), self.blocks_per_pass):
            yield self._empty()

    def _empty(self) -> Block:
        """A block of padding alone, whose inputs are those of a row, so that any model takes it."""
        X, y, size = np.empty((1, len(self.names))), np.empty(1), self.rows_per_block
        reader = self._source.reader(0, self._table, 1)
        try:
            reader.fill(X, y)
        finally:
            reader.close()
        return Block(np.repeat(X, size, axis=0), np.zeros(size), np.zeros(size))


def _described(kinds: Mapping[str, str]) -> str:
    return ", ".join(f"{name} ({kind})" for name, kind in kinds.items())
