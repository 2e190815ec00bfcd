"""Tables in Parquet files, row group by row group."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np

from zigp.data.streams.sources import checked
from zigp.data.tables.addresses import Location
from zigp.data.tables.errors import FileError, check_names, file_errors

if TYPE_CHECKING:
    import pandas as pd

    from zigp.data.columns import Table

__all__ = ["ParquetSource"]

_UNPACKED = 2**21  # bytes of each column in memory besides its buffer: a page, a dictionary
_PICKED = 2**16  # rows at once, of which a sample keeps some
_AT_ONCE = 8  # footers of files far away


class ParquetSource:
    """The row groups of one or several files with the same columns."""

    groups: dict[str, list[str]] | None = None
    in_parts = True

    def __init__(
        self, found: Location, target: str, columns: Sequence[str] | None, levels: Collection[str]
    ) -> None:
        self.address, self._found, self._target = found.address, found, target
        # All are kept: those of a large file take long to read, and rows come from every file.
        self._footer = cache(self._read_footer)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            contents = list(pool.map(self._contents, range(len(found.files))))
        types = contents[0][0]
        _check_columns(found.files[0], types, target, [*(columns or ()), *levels])
        self.names = tuple([n for n in types if n != target] if columns is None else columns)
        self.kinds = self._kinds(0, types, levels)
        for file, (others, _) in enumerate(contents[1:], 1):
            _check_columns(found.files[file], others, target, self.names)
            if (now := self._kinds(file, others, levels)) != self.kinds:
                name = next(name for name in self.names if now[name] != self.kinds[name])
                raise FileError(
                    f"{found.files[file]}, column {name!r} holds {others[name]}, but "
                    f"{types[name]} in {found.files[0]}: write all files with the same types."
                )
        pieces = [
            (file, group, size)
            for file, (_, sizes) in enumerate(contents)
            for group, size in enumerate(sizes)
            if size
        ]
        if not pieces:
            raise FileError(f"{self.address} has columns but no rows: there is nothing to use.")
        self._pieces = [(file, group) for file, group, _ in pieces]
        self.sizes = np.array([size for *_, size in pieces])
        self.held = (found.buffer + _UNPACKED) * (len(self.names) + 1)

    def mark(self) -> bytes:
        """The footers: sizes, and the least and largest values, of every column and row group."""
        return b"".join(self._footer_bytes(file) for file in range(len(self._found.files)))

    def _footer_bytes(self, file: int) -> bytes:
        import pyarrow as pa  # type: ignore[import-untyped]

        written = pa.BufferOutputStream()
        with file_errors("read", self._found.files[file]):
            self._footer(file).write_metadata_file(written)
        return sha256(written.getvalue()).digest()

    def reader(self, piece: int, table: Table | None, rows: int) -> _Reader:
        return _Reader(self, piece, table, rows)

    def pick(self, piece: int, rows: np.ndarray) -> tuple[pd.DataFrame, np.ndarray]:
        import pyarrow as pa  # type: ignore[import-untyped]

        kept, begin = [], 0
        reader = self.reader(piece, None, _PICKED)
        try:
            while begin <= rows[-1]:
                batch = reader.take(_PICKED)
                here = rows[(rows >= begin) & (rows < begin + len(batch))] - begin
                kept.append(batch.take(pa.array(here)))
                begin += len(batch)
        finally:
            reader.close()
        found, place = pa.Table.from_batches(kept), self.place(piece)
        y = checked(_as_floats(found.column(self._target)), place, self._target, gaps=True)
        for name in self.names:
            _refuse_nulls(found.column(name), place, name)
        frame = found.to_pandas(ignore_metadata=True, date_as_object=False)[list(self.names)]
        for name, kind in self.kinds.items():
            if kind == "category":
                frame[name] = [_named(value) for value in frame[name].astype(object)]
            elif kind == "number":
                if frame[name].dtype == object:  # decimals
                    frame[name] = frame[name].astype(float)
                checked(frame[name].to_numpy(), place, name)
        return frame, y

    def place(self, piece: int) -> str:
        """Where a piece is, for errors."""
        file, group = self._pieces[piece]
        return f"{self._found.files[file]}, row group {group}"

    def batches(self, piece: int, rows: int) -> tuple[Any, Any]:
        """An open file, and the batches of one of its row groups."""
        file, group = self._pieces[piece]
        opened = self._found.parquet(self._found.files[file], self._footer(file))
        wanted = [*self.names, self._target]
        return opened, opened.iter_batches(rows, [group], wanted, use_threads=False)

    def _read_footer(self, file: int) -> Any:
        with self._found.reading(self._found.files[file]) as opened:
            return opened.metadata

    def _contents(self, file: int) -> tuple[dict[str, Any], list[int]]:
        """The types of a file's columns, and the rows of its row groups."""
        with file_errors("read", self._found.files[file]):
            footer = self._footer(file)
            schema = footer.schema.to_arrow_schema()
            names = [name for name in schema.names if not name.startswith("__index_level_")]
            check_names(self._found.files[file], names)
            groups = range(footer.num_row_groups)
            types = {name: schema.field(name).type for name in names}
            return types, [footer.row_group(i).num_rows for i in groups]

    def _kinds(self, file: int, types: dict[str, Any], levels: Collection[str]) -> dict[str, str]:
        """What the inputs hold, as a Table calls it."""
        place = f"{self._found.files[file]}, row group 0"
        if _kind(types[self._target]) != "number":
            raise FileError(
                f"{place}, column {self._target!r} holds {types[self._target]}, not numbers: name "
                "another target, or write it as numbers."
            )
        kinds = {name: "category" if name in levels else _kind(types[name]) for name in self.names}
        if strange := next((n for n in self.names if kinds[n] == ""), None):
            raise FileError(
                f"{place}, column {strange!r} holds {types[strange]}, not numbers: name it among "
                "the categories if these are levels, write it as numbers or times, or leave it out."
            )
        return kinds


class _Reader:
    """The rows of one row group, in turn."""

    def __init__(self, source: ParquetSource, piece: int, table: Table | None, rows: int) -> None:
        self._source, self._piece, self._table = source, piece, table
        with file_errors("read", source.place(piece)):
            self._file, self._batches = source.batches(piece, rows)
        self._left: Any = None

    def take(self, rows: int) -> Any:
        """The next rows, at most so many."""
        while not self._left:
            with file_errors("read", self._source.place(self._piece)):
                if (batch := next(self._batches, None)) is None:
                    raise FileError("it has fewer rows than its footer says")
                self._left = batch
        taken, self._left = self._left.slice(0, rows), self._left.slice(rows)
        return taken

    def skip(self, rows: int) -> None:
        while rows:
            rows -= len(self.take(rows))

    def fill(self, X: np.ndarray, y: np.ndarray) -> None:
        done = 0
        while done < len(y):
            batch = self.take(len(y) - done)
            into = slice(done, done + len(batch))
            for column, name in enumerate(self._source.names):
                X[into, column] = self._numbers(batch.column(name), name)
            self._fill_target(batch, y[into])
            done += len(batch)

    def close(self) -> None:
        self._left = self._batches = None
        self._file.close(force=True)

    def _fill_target(self, batch: Any, y: np.ndarray) -> None:
        name = self._source._target
        y[:] = checked(_as_floats(batch.column(name)), self._place, name, gaps=True)

    def _numbers(self, column: Any, name: str) -> np.ndarray:
        """A column as the numbers that the Table makes of it."""
        _refuse_nulls(column, self._place, name)
        if self._source.kinds[name] == "number":
            return checked(_as_floats(column), self._place, name)
        assert self._table is not None
        if self._source.kinds[name] == "category":
            return self._codes(column, name, self._table.columns[name].levels)
        frame = column.to_pandas(date_as_object=False).to_frame(name)
        return self._table.numbers(frame)[name].to_numpy()

    def _codes(self, column: Any, name: str, levels: Sequence[Any]) -> np.ndarray:
        """The places of levels among those of the Table: each is looked up once, not every row."""
        known = {_named(level): code for code, level in enumerate(levels)}
        counted = column if hasattr(column, "dictionary") else column.dictionary_encode()
        texts = [_named(value) for value in counted.dictionary.to_pylist()]
        codes = np.array([known.get(text, -1) for text in texts])[counted.indices.to_numpy()]
        if (codes < 0).any():
            new = sorted({texts[i] for i in np.unique(counted.indices.to_numpy()[codes < 0])})
            raise FileError(
                f"{self._place}, column {name!r} has levels that were not in the sample: "
                f"{', '.join(new[:5])}. Name all levels with categories={{{name!r}: [...]}}, or "
                "take a larger sample."
            )
        return codes

    @property
    def _place(self) -> str:
        return self._source.place(self._piece)


def _check_columns(file: str, types: dict[str, Any], target: str, names: Sequence[str]) -> None:
    for name in (target, *names):
        if name not in types:
            raise FileError(f"{file} has no column {name!r}. It has {', '.join(types)}.")


def _kind(type_: Any) -> str:
    """Number, time or category; nothing where a column is none of these by itself."""
    import pyarrow as pa

    of = pa.types
    if any(is_(type_) for is_ in (of.is_integer, of.is_floating, of.is_boolean, of.is_decimal)):
        return "number"
    if of.is_timestamp(type_) or of.is_date(type_):
        return "time"
    return "category" if of.is_dictionary(type_) else ""


def _as_floats(column: Any) -> np.ndarray:
    """Numbers of any kind, with NaN where there are none."""
    import pyarrow as pa

    plain = pa.types.is_floating(column.type) or pa.types.is_integer(column.type)
    if not plain:
        column = column.cast(pa.float64())
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return array.to_numpy(zero_copy_only=False)


def _refuse_nulls(column: Any, place: str, name: str) -> None:
    if column.null_count:
        checked(np.array([np.nan]), place, name)


def _named(level: Any) -> str:
    return str(level).strip()
