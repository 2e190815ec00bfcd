"""From a file and the names of its columns to what an estimator is fitted on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zigp.cli.options import listed
from zigp.data.names import is_globe, places_among
from zigp.data.tables import FileError, as_levels, as_numbers, as_times, read, refuse_gaps

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Columns", "Data", "as_fitted", "read_data", "taken_as_text"]


@dataclass(frozen=True)
class Columns:
    """Which columns of a table are what."""

    target: str
    space: Sequence[str] = ()
    time: str | None = None
    inputs: Sequence[str] = ()
    categories: Sequence[str] = ()
    exposure: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Columns:
        """Those that the options of a command name."""
        space, inputs, levels = (listed(options[name]) for name in ("space", "inputs", "category"))
        return cls(options["target"], space, options["time"], inputs, levels, options["exposure"])

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
        pair = places_among(self.space) if len(self.space) == 2 else None
        return [pair[1], pair[0]] if pair and is_globe(*pair) else None


@dataclass(frozen=True)
class Data:
    """What `fit` takes, and what was noticed on the way there."""

    X: Any
    y: Any
    notes: tuple[str, ...] = ()
    groups: dict[str, list[str]] | None = None  # of a lattice: what runs along its dimensions


def read_data(path: Path | str, columns: Columns, like: Any = None) -> Data:
    """A table's columns as numbers, times and levels, or a lattice as it is.

    Where no columns are named those of a fitted model are read, as they were then, if there is one.
    """
    import pandas as pd

    known = like is not None and not columns.named
    levels = partial(taken_as_text, like) if known else columns.categories.__contains__
    found = read(path, text=lambda name: name != columns.target and levels(name))
    if not isinstance(found, pd.DataFrame):
        return _from_lattice(path, found, columns)
    _check_names(path, list(found.columns), columns)
    table = as_numbers(found, [columns.target])
    notes = []
    if known:
        inputs = as_fitted(path, found, like)
    else:
        names = columns.named or [str(c) for c in found.columns if c != columns.target]
        if not columns.named:
            notes.append(f"No inputs were named: all other columns are used, {', '.join(names)}.")
        inputs = _typed(path, found, names, columns)
        notes += _notes_on_dates(found, inputs)
    seen = table[columns.target].notna()
    if not seen.any():
        raise FileError(f"Column {columns.target!r} of {path} has no values at all.")
    if gaps := int((~seen).sum()):
        notes.append(f"{gaps:,} rows without {columns.target} are left out.")
    y = table.loc[seen, columns.target].to_numpy()
    if len(y) > 1 and np.ptp(y) == 0:
        notes.append(f"Every {columns.target} is {y[0]:g}: there is nothing to tell rows apart by.")
    return Data(inputs[seen], y, tuple(notes))


def _typed(
    path: Path | str, found: pd.DataFrame, names: list[str], columns: Columns
) -> pd.DataFrame:
    if not names:
        raise FileError(f"{path} has no column but {columns.target!r}: there is nothing to learn.")
    times = [columns.time] if columns.time else []
    numbers = [name for name in names if name not in (*times, *columns.categories)]
    _refuse_text(path, found, numbers)
    table = as_levels(as_times(as_numbers(found, numbers), times), columns.categories)
    refuse_gaps(table, names)
    return table[names]


def _refuse_text(path: Path | str, table: pd.DataFrame, names: Sequence[str]) -> None:
    """An error that says what to do about a column in which nothing is a number."""
    import pandas as pd

    for name in names:
        values = table[name].dropna()
        if values.dtype.kind == "M":
            raise FileError(f"Column {name!r} of {path} holds times: name it with --time.")
        if len(values) and not pd.api.types.is_numeric_dtype(values):
            numbers = pd.to_numeric(values.astype(str).str.replace(",", "."), errors="coerce")
            if numbers.isna().all():
                raise FileError(
                    f"Column {name!r} of {path} holds no numbers but, for example, "
                    f"{str(values.iloc[0])[:60]!r}. Name it with --time if these are times, with "
                    "--category if they are levels, or name the columns to learn from."
                )


def _notes_on_dates(found: pd.DataFrame, table: pd.DataFrame) -> list[str]:
    """What was written as numbers and is, or could be, dates."""
    notes = []
    for name in table.columns[[dtype.kind in "iufM" for dtype in table.dtypes]]:
        if found[name].dtype.kind not in "iuf":
            continue
        first = f"{found[name].dropna().iloc[0]:.0f}"
        if table[name].dtype.kind == "M":
            notes.append(f"{name} is read as dates: {first} is {table[name].dropna().iloc[0]}.")
        elif as_times(found[[name]], [name])[name].dtype.kind == "M":
            notes.append(
                f"{name} is read as plain numbers, though {first} looks like a date: name it with "
                "--time if it is one."
            )
    return notes


def as_fitted(path: Path | str, part: pd.DataFrame, model: Any) -> pd.DataFrame:
    """The columns that a model was fitted with, read as they were then."""
    import pandas as pd

    if model.table_ is None:
        raise FileError("The model was fitted without column names: use it in Python.")
    known = model.table_.columns
    if missing := [name for name in known if name not in part.columns]:
        raise FileError(
            f"{path} has no column {missing[0]!r}, which the model was fitted with. It has "
            f"{', '.join(map(str, part.columns))}."
        )
    numbers, times, levels = (
        [name for name, column in known.items() if column.kind == kind]
        for kind in ("number", "time", "category")
    )
    table = as_levels(as_times(as_numbers(part, numbers), times), levels)
    refuse_gaps(table, list(known))
    for name in levels:  # what is new among them is the model's to tell of
        every = sorted({*map(str, known[name].levels), *table[name]})
        table[name] = pd.Categorical(table[name], categories=every)
    return table[list(known)]


def taken_as_text(model: Any, name: str) -> bool:
    """Whether a column holds levels for a model, or nothing that it looks at."""
    columns = {} if model.table_ is None else model.table_.columns
    return name not in columns or columns[name].kind == "category"


def _check_names(path: Path | str, found: Sequence[Any], columns: Columns) -> None:
    for name in (columns.target, *columns.named):
        if name not in found:
            comma = any("," in str(one) for one in found)
            raise FileError(
                f"{path} has no column {name!r}. It has {', '.join(map(str, found))}."
                + " Rename columns with a comma in their name to use them." * comma
            )
    if columns.target in columns.named:
        raise FileError(f"{columns.target!r} is the target and cannot be an input as well.")


def _from_lattice(path: Path | str, found: Any, columns: Columns) -> Data:
    from zigp.data.grids import axes_of

    if columns.target not in found.data_vars:
        have = ", ".join(map(str, found.data_vars)) or "only axes"
        raise FileError(f"{path} has no variable {columns.target!r}. It has {have}.")
    if columns.inputs or columns.categories:
        raise FileError(
            "A lattice is learned from its own axes: leave --inputs and --category out."
        )
    places = [name for name in columns.named if name != columns.exposure]
    found = found.set_coords([name for name in places if name in found.data_vars])
    axes = axes_of(found[columns.target])
    groups = {dim: [str(name) for name in axis] for dim, axis in axes.items()}
    known = [name for group in groups.values() for name in group]
    if strange := [name for name in places if name not in known]:
        raise FileError(
            f"{path} has no axis {strange[0]!r}: {columns.target} runs along {', '.join(known)}."
        )
    if columns.exposure and columns.exposure not in found.variables:
        raise FileError(f"{path} has no variable {columns.exposure!r} for --exposure.")
    called = (
        f"{dim} {len(axis)}" + (f" ({', '.join(groups[dim])})" if groups[dim] != [dim] else "")
        for dim, axis in axes.items()
    )
    return Data(found, columns.target, (f"A lattice of {' × '.join(called)}.",), groups)
