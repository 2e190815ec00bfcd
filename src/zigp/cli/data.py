"""From a file and the names of its columns to what an estimator is fitted on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zigp.files import FileError, as_numbers, as_times, read

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Columns", "Data", "as_fitted", "read_data"]

_LATITUDES = ("lat", "latitude")
_LONGITUDES = ("lon", "lng", "long", "longitude")


@dataclass(frozen=True)
class Columns:
    """Which columns of a table are what."""

    target: str
    space: Sequence[str] = ()
    time: str | None = None
    inputs: Sequence[str] = ()
    categories: Sequence[str] = ()
    exposure: str | None = None

    @property
    def named(self) -> list[str]:
        """All that a model looks at, each once, in the order they were named."""
        time = [self.time] if self.time else []
        effort = [self.exposure] if self.exposure else []
        every = [*self.space, *time, *self.inputs, *self.categories, *effort]
        return list(dict.fromkeys(every))

    def of_group(self, name: str) -> list[str]:
        """The columns that a group's name stands for: space, time, or the columns themselves."""
        known = {"space": list(self.space), "time": [self.time] if self.time else []}
        return known.get(name) or [part.strip() for part in name.split(",")]

    @property
    def latlon(self) -> list[str] | None:
        """Latitude and longitude, if that is what the two columns of space are called."""
        by_name = {name.lower(): name for name in self.space}
        north = [by_name[n] for n in _LATITUDES if n in by_name]
        east = [by_name[n] for n in _LONGITUDES if n in by_name]
        return [north[0], east[0]] if len(self.space) == 2 and north and east else None


@dataclass(frozen=True)
class Data:
    """What `fit` takes, and what was noticed on the way there."""

    X: Any
    y: Any
    notes: tuple[str, ...] = ()
    groups: dict[str, list[str]] | None = None  # of the cells of a lattice, its dimensions


def read_data(path: Path, columns: Columns) -> Data:
    """A table's columns as numbers, times and levels, or a lattice as it is."""
    import pandas as pd

    found = read(path)
    if not isinstance(found, pd.DataFrame):
        return _from_lattice(path, found, columns)
    _check_names(path, list(found.columns), columns)
    names = columns.named or [str(c) for c in found.columns if c != columns.target]
    if not names:
        raise FileError(f"{path} has no column but {columns.target!r}: there is nothing to learn.")
    table = as_numbers(found, [columns.target])
    table = _typed(table, [n for n in names if n != columns.time], columns.categories)
    if columns.time:
        table = as_times(table, [columns.time])
    _refuse_gaps(path, table, names)
    seen = table[columns.target].notna()
    if not seen.any():
        raise FileError(f"Column {columns.target!r} of {path} has no values at all.")
    notes = []
    if not columns.named:
        notes.append(f"No inputs were named: all other columns are used, {', '.join(names)}.")
    if gaps := int((~seen).sum()):
        notes.append(f"{gaps} rows without {columns.target} are left out.")
    return Data(table.loc[seen, names], table.loc[seen, columns.target].to_numpy(), tuple(notes))


def _typed(table: pd.DataFrame, names: Sequence[str], categories: Sequence[str]) -> pd.DataFrame:
    numbers = [name for name in names if name not in categories]
    return as_numbers(table, numbers).assign(
        **{name: table[name].astype(str).astype("category") for name in categories}
    )


def as_fitted(path: Path, part: pd.DataFrame, model: Any) -> pd.DataFrame:
    """The columns that a model was fitted with, read as they were then."""
    import pandas as pd

    known = model.table_.columns
    if missing := [name for name in known if name not in part.columns]:
        raise FileError(
            f"{path} has no column {missing[0]!r}, which the model was fitted with. It has "
            f"{', '.join(map(str, part.columns))}."
        )
    kinds = {kind: [n for n, c in known.items() if c.kind == kind] for kind in ("number", "time")}
    table = as_times(as_numbers(part, kinds["number"]), kinds["time"])
    for name, column in known.items():
        if column.kind == "category":
            text = table[name].astype(str)
            levels = sorted({*map(str, column.levels), *text})
            table[name] = pd.Categorical(text, categories=levels)
    _refuse_gaps(path, table, list(known))
    return table[list(known)]


def _check_names(path: Path, found: Sequence[Any], columns: Columns) -> None:
    for name in (columns.target, *columns.named):
        if name not in found:
            raise FileError(f"{path} has no column {name!r}. It has {', '.join(map(str, found))}.")
    if columns.target in columns.named:
        raise FileError(f"{columns.target!r} is the target and cannot be an input as well.")


def _refuse_gaps(path: Path, table: pd.DataFrame, names: Sequence[str]) -> None:
    for name in names:
        gaps = np.flatnonzero(table[name].isna())
        if len(gaps):
            raise FileError(
                f"Column {name!r} of {path} is empty in row {gaps[0] + 1} and {len(gaps) - 1} "
                "more: fill these in, or leave the rows or the column out."
            )


def _from_lattice(path: Path, found: Any, columns: Columns) -> Data:
    if columns.target not in found.data_vars:
        raise FileError(
            f"{path} has no variable {columns.target!r}. It has {', '.join(found.data_vars)}."
        )
    dims = [str(dim) for dim in found[columns.target].dims]
    if columns.inputs or columns.categories:
        raise FileError(
            "A lattice is learned from its own axes: leave --inputs and --category out."
        )
    inner = [name for name in columns.named if name not in found.variables]
    if inner:
        raise FileError(f"{path} has no coordinate {inner[0]!r}. It has {', '.join(dims)}.")
    sizes = " × ".join(f"{dim} {size}" for dim, size in found[columns.target].sizes.items())
    return Data(found, columns.target, (f"A lattice of {sizes}.",))
