"""A source of any size as blocks of rows in random order, and a sample of it."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import pandas as pd

from zigp.data.columns import Column, Table
from zigp.data.streams.buffers import cut, divided, filled, prefetched, row_counts, shuffled
from zigp.data.streams.sources import ParquetSource, ZarrSource
from zigp.data.tables.addresses import locate
from zigp.data.tables.errors import FileError

_BUFFER = 2**28  # bytes of rows that are shuffled together; as many are read ahead
_SLICES = 4  # at least, in a buffer
# A sample comes from 64 slices: fewer where they are large, more where they are small.
_SAMPLED_SLICES, _MOST_READ, _READ_PER_SAMPLED = 64, 2**25, 4


class Block(NamedTuple):
    """Rows as numbers; those of weight 0 are padding, at the end, or have no target.

    Attributes
    ----------
    X : ndarray of shape (rows_per_block, n_inputs)
        The inputs.
    y : ndarray of shape (rows_per_block,)
        The targets; 0 where the weight is 0.
    weight : ndarray of shape (rows_per_block,)
        1 or 0.
    """

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray


def open_stream(
    source: str | Path,
    *,
    target: str,
    columns: Sequence[str] | None = None,
    categories: Mapping[str, Sequence[str]] | Sequence[str] = (),
    part: tuple[int, int] = (0, 1),
    rows_per_block: int = 2**18,
) -> "Stream":
    """Open data of any size, to be read block by block.

    Only the footers of Parquet files, or the axes of a lattice, are read here.

    Parameters
    ----------
    source : str or Path
        A Parquet file, a folder of them, or a Zarr lattice: a path, or an address that fsspec
        knows, such as "s3://bucket/rain".
    target : str
        The column, or the variable of the lattice, to learn.
    columns : sequence of str, default=None
        The inputs. By default all other columns, or all axes of the lattice.
    categories : mapping or sequence of str, default=()
        The inputs that hold levels. A mapping names all levels of each; without it, the sample
        that training starts from must contain all levels.
    part : tuple of (int, int), default=(0, 1)
        The number of this process, from 0, and the number of processes. Each reads rows of its
        own, nearly as many as the others, and all have the same number of blocks.
    rows_per_block : int, default=2**18
        The room in a block. The blocks of a pass have equally many rows, with padding at the end.

    Returns
    -------
    Stream
        The data, for `fit_stream` of an estimator.

    Examples
    --------
    >>> pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": [0.0, 0.0, 4.0]}).to_parquet("data.parquet")
    >>> stream = open_stream("data.parquet", target="y", rows_per_block=2)
    >>> stream.rows, stream.names, stream.blocks_per_pass
    (3, ('x',), 2)
    """
    if not 0 <= part[0] < part[1]:
        raise ValueError(f"part is {part}: give the number of this process, from 0, and of all.")
    if rows_per_block < 1:
        raise ValueError(f"rows_per_block is {rows_per_block}: it must be at least 1.")
    if columns is not None and target in columns:
        raise ValueError(f"{target!r} is the target and cannot be an input as well.")
    place = locate(source)
    if place.kind == "parquet":
        opened: ParquetSource | ZarrSource = ParquetSource(place, target, columns, categories)
    elif place.kind != "zarr":
        raise FileError(
            f"{source} is text or NetCDF, which cannot be streamed: write it as Parquet first, or "
            "a lattice as Zarr in chunks."
        )
    elif categories:
        raise FileError(f"{source} is a lattice, which has no levels: leave categories out.")
    else:
        opened = ZarrSource(place, target, columns)
    if not opened.names:
        raise FileError(f"{source} has no inputs: there is nothing to learn from.")
    if (rows := int(opened.sizes.sum())) < part[1]:
        raise FileError(f"{source} has {rows} rows: too few for {part[1]} processes.")
    buffer = max(_BUFFER // (8 * len(opened.names) + 8), _SLICES)
    slices = divided(opened.sizes, min(buffer // _SLICES, rows // part[1]))
    return Stream(
        rows=rows,
        names=opened.names,
        groups=opened.groups,
        part=part,
        rows_per_block=rows_per_block,
        _source=opened,
        _levels=categories if isinstance(categories, Mapping) else {},
        _slices=slices,
        _buffer=buffer,
        _table=Table({name: Column("number") for name in opened.names}),
    )


@dataclass(eq=False, repr=False)
class Stream:
    """Rows that need not fit in memory; made by `open_stream`.

    Attributes
    ----------
    rows : int
        The number of rows, or cells, of the whole source; some may lack a target.
    names : tuple of str
        The inputs, in the order of a block's columns.
    groups : dict or None
        The inputs along each dimension of a lattice; None for a table.
    part : tuple of (int, int)
        The number of this process, and the number of processes.
    rows_per_block : int
        The room in a block.
    blocks_per_pass : int
        The number of blocks of a pass, the same for every process.
    """

    rows: int
    names: tuple[str, ...]
    groups: dict[str, list[str]] | None
    part: tuple[int, int]
    rows_per_block: int
    _source: ParquetSource | ZarrSource
    _levels: Mapping[str, Sequence[str]]
    _slices: np.ndarray  # of row groups or chunks: which one, first row and end
    _buffer: int  # rows
    _table: Table

    @property
    def blocks_per_pass(self) -> int:
        """The number of blocks of a pass, the same for every process."""
        return int(-(-row_counts(self._share(0)).sum() // self.rows_per_block))

    def _share(self, process: int) -> np.ndarray:
        """Return the slices of a process, whose rows differ from the others' by one slice at most.

        The slices are dealt in order of size, so that process 0 has the most rows.
        """
        order = np.argsort(-row_counts(self._slices), kind="stable")
        return self._slices[order[process :: self.part[1]]]

    def sample(self, n: int, seed: int, gaps: bool = False) -> tuple[pd.DataFrame, np.ndarray]:
        """Return rows from all over the source, in its order and with its types.

        Every process draws the same rows.

        Parameters
        ----------
        n : int
            The number of rows to draw. A source with no more than that is returned whole.
        seed : int
            The seed of the random numbers.
        gaps : bool, default=False
            Whether to keep rows without a target.

        Returns
        -------
        X : DataFrame
            The inputs.
        y : ndarray
            The targets.
        """
        if n < 1:
            raise ValueError(f"n is {n}: a sample needs at least one row.")
        rng = np.random.default_rng(seed)
        slices = self._some_slices(n, rng)
        ends = np.cumsum(row_counts(slices))
        rows = np.sort(rng.choice(ends[-1], min(n, ends[-1]), replace=False, shuffle=False))
        at = np.searchsorted(ends, rows, side="right")
        within = rows + (slices[:, 2] - ends)[at]
        parts = [self._source.pick(slices[i, 0], within[at == i]) for i in np.unique(at)]
        X = pd.concat([frame for frame, _ in parts], ignore_index=True)
        y = np.concatenate([target for _, target in parts])
        for name, kind in self._source.kinds.items():
            if kind == "category":
                X[name] = self._as_levels(X[name])
        observed = ~np.isnan(y)
        if not observed.any():
            raise FileError(f"No row of a sample of {self._source.address} has a target.")
        return (X, y) if gaps else (X[observed].reset_index(drop=True), y[observed])

    def _some_slices(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return slices from all over the source, for a sample of n rows."""
        mean = self.rows / len(self._slices)
        wanted = max(min(_SAMPLED_SLICES, _MOST_READ / mean), _READ_PER_SAMPLED * n / mean)
        count = min(int(np.ceil(wanted)), len(self._slices))
        strata = len(self._slices) * np.arange(count + 1) // count
        return self._slices[rng.integers(strata[:-1], strata[1:])]

    def _as_levels(self, values: pd.Series) -> pd.Series:
        """Return a column with the levels that the user named, or those that are present."""
        present = set(values)
        levels = self._levels.get(str(values.name), sorted(present))
        if new := sorted(present.difference(levels)):
            raise FileError(
                f"{self._source.address}, column {values.name!r} has levels that were not named: "
                f"{', '.join(new[:5])}. Name all levels in categories."
            )
        return values.astype("category").cat.set_categories(list(levels))

    def digest(self, *sample: np.ndarray) -> str:
        """Return a hash of the metadata and of a sample, which differs where the contents do."""
        values = [values.tobytes() for values in (self._source.sizes, *sample)]
        return sha256(b"".join([self._source.fingerprint(), *values])).hexdigest()

    def read_as(self, table: Table) -> Self:
        """Return the same stream with times and levels as the numbers that a Table makes of them.

        Parameters
        ----------
        table : Table
            Made of a sample, with `Table.of(X)`.
        """
        expected = ", ".join(f"{name} ({self._source.kinds[name]})" for name in self.names)
        given = ", ".join(f"{name} ({column.kind})" for name, column in table.columns.items())
        if given != expected:
            raise ValueError(
                f"The table has the columns {given}; the stream has {expected}. Make it with "
                "Table.of(X) from the stream's sample."
            )
        return replace(self, _table=table)

    def in_blocks_of(self, rows: int) -> Self:
        """Return the same stream in blocks of another size."""
        return replace(self, rows_per_block=rows)

    def blocks(self, seed: int, pass_number: int, skip: int = 0) -> Generator[Block]:
        """Yield the rows of this process, each once, in blocks of equally many.

        Row groups (or chunks) come in random order. A buffer of 256 MB is filled with as many as
        fit, shuffled, and divided into blocks while threads fill the next one: every block is a
        random sample of what was in the buffer. A buffer of more than 16,384 rows keeps runs of
        up to 16 neighbours together. The order depends on the seed, the pass and the part alone.

        Where rows are sorted, as by time, small row groups mix better than large ones, for more of
        them fit in the buffer.

        Parameters
        ----------
        seed : int
            The seed of the order.
        pass_number : int
            The number of the pass, from 0.
        skip : int, default=0
            The number of blocks to leave out. Buffers that held only those are not read.

        Yields
        ------
        Block
            The next rows.
        """
        if {n: column.kind for n, column in self._table.columns.items()} != self._source.kinds:
            raise ValueError(
                "There are times or levels among the inputs: make a Table of a sample, and take "
                "the blocks of stream.read_as(table)."
            )
        rng = np.random.default_rng((seed, 1 + pass_number, self.part[0]))
        slices, blocks = rng.permutation(self._share(self.part[0])), self.blocks_per_pass
        buffers = -(-blocks // max(self._buffer // self.rows_per_block, 1))
        first = blocks * np.arange(buffers + 1) // buffers  # block of each buffer
        edges = row_counts(slices).sum() * np.arange(blocks + 1) // blocks  # rows of each block
        start = int(np.searchsorted(first, skip, side="right")) - 1
        within = [edges[max(a, skip) : b + 1] - edges[a] for a, b in pairwise(first[start:])]
        filling = filled(
            partial(self._source.fill, self._table),
            cut(slices, edges[first])[start:],
            len(self.names) + 1,
        )
        with closing(prefetched(filling, ahead=1)) as ready:
            for buffer, at, order in zip(ready, within, rng.spawn(buffers)[start:], strict=True):
                for block in shuffled(buffer, at, self.rows_per_block, order):
                    missing = np.isnan(block[:, -1])
                    block[missing, -1] = 0.0
                    yield Block(block[:, :-1], block[:, -1], 1.0 - missing)
