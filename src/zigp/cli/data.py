"""The data and the estimator of a command, from its options."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import jax
import numpy as np
import pandas as pd

from zigp import HurdleGPRegressor, SparseGPRegressor, ZeroInflatedGPRegressor
from zigp.cli.options import listed
from zigp.data.columns import column_kind, is_globe, places_among
from zigp.data.grids import axes_of
from zigp.data.streams import Stream, open_stream
from zigp.data.tables import FileError, as_dates, check_columns, read, typed

MODELS: dict[str, Any] = {
    "gp": SparseGPRegressor,
    "hurdle": HurdleGPRegressor,
    "zigp": ZeroInflatedGPRegressor,
}
# A default that differs from Python's, as that of --likelihood does.
_COMBINE = {"hurdle": {"combine": "expectation"}}
_LARGE = 5_000_000  # rows, or cells, from which on a file is streamed by default
_BLOCK = (2**8, 2**18)  # smallest and largest


@dataclass(frozen=True)
class ColumnRoles:
    """The roles of the columns of a table."""

    target: str
    space: Sequence[str] = ()
    time: str | None = None
    inputs: Sequence[str] = ()
    categories: Sequence[str] = ()
    exposure: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Return the roles that the options of a command give."""
        space, inputs, levels = (listed(options[name]) for name in ("space", "inputs", "category"))
        return cls(options["target"], space, options["time"], inputs, levels, options["exposure"])

    @property
    def named(self) -> list[str]:
        """The columns that a model looks at, each once, in the order of the options."""
        every = [*self.space, self.time, *self.inputs, *self.categories, self.exposure]
        return list(dict.fromkeys(name for name in every if name))

    def of_group(self, name: str) -> list[str]:
        """Return the columns of a group: of space, of time, or those that its name lists."""
        roles = {"space": list(self.space), "time": [self.time] if self.time else []}
        return roles.get(name) or [part.strip() for part in name.split(",")]

    @property
    def latlon(self) -> list[str] | None:
        """Latitude and longitude, if the two columns of space have such names."""
        pair = places_among(self.space) if len(self.space) == 2 else None
        return [pair[1], pair[0]] if pair and is_globe(*pair) else None


@dataclass(frozen=True)
class Data:
    """The data for a fit, and notes on how they were read."""

    X: Any
    y: Any
    notes: tuple[str, ...] = ()
    groups: dict[str, list[str]] | None = None  # of a lattice: the columns of each dimension


def read_data(path: Path | str, roles: ColumnRoles, like: Any = None) -> Data:
    """Return a table's columns as numbers, times and levels, or a lattice as it is.

    The columns are those of the fitted model `like`, or those named, or all but the target.
    """
    table = read(path)
    if not isinstance(table, pd.DataFrame):
        return _from_lattice(path, table, roles)
    check_columns(path, table.columns, (roles.target, *roles.named))
    if roles.target in roles.named:
        raise FileError(f"{roles.target!r} is the target and cannot be an input as well.")
    y, notes = typed(table, {roles.target: "number"})[roles.target], []
    if like is not None:
        X = as_fitted(path, table, like)
    else:
        names = roles.named or [str(c) for c in table.columns if c != roles.target]
        if not roles.named:
            notes.append(f"No inputs were named: all other columns are used, {', '.join(names)}.")
        if not names:
            raise FileError(
                f"{path} has no column but {roles.target!r}: there is nothing to learn."
            )
        kinds = {roles.time: "time"} | dict.fromkeys(roles.categories, "category")
        X = typed(table, {name: kinds.get(name, "number") for name in names}, gaps=False)
        notes += _notes_on_dates(table, X)
    observed = y.notna()
    if not observed.any():
        raise FileError(f"Column {roles.target!r} of {path} has no values at all.")
    if gaps := int((~observed).sum()):
        notes.append(f"{gaps:,} rows without {roles.target} are left out.")
    values = y[observed].to_numpy()
    if len(values) > 1 and np.ptp(values) == 0:
        notes.append(
            f"Every {roles.target} is {values[0]:g}: there is nothing to tell rows apart by."
        )
    return Data(X[observed], values, tuple(notes))


def open_if_large(path: str, columns: ColumnRoles, wanted: bool | None) -> Stream | None:
    """Return a stream of the file if that is wanted or, by default, if it is large.

    An address is taken to be large.
    """
    if wanted is False:
        return None
    required = wanted or "://" in path
    try:
        stream = open_stream(
            path,
            target=columns.target,
            columns=columns.named or None,
            categories=columns.categories,
            part=(jax.process_index(), jax.process_count()),
        )
    except (ValueError, OSError):
        if required:
            raise
        return None  # reading the whole file gives the better error
    if not required and stream.rows < _LARGE:
        return None
    rows = -(-stream.rows // jax.process_count())
    return stream.in_blocks_of(int(np.clip(1 << (rows - 1).bit_length(), *_BLOCK)))


def _notes_on_dates(table: pd.DataFrame, X: pd.DataFrame) -> list[str]:
    """Return notes on integers that are read as dates, or could be."""
    notes = []
    for name, kind in zip(X, map(column_kind, X.dtypes), strict=True):
        first = str(table[name].iloc[0]).strip().removesuffix(".0")
        if kind == "time" and first.isdecimal():
            notes.append(f"{name} is read as dates: {first} is {X[name].iloc[0]}.")
        elif kind == "number" and column_kind(as_dates(X[name]).dtype) == "time":
            notes.append(
                f"{name} is read as plain numbers, though {first} looks like a date: name it with "
                "--time if it is one."
            )
    return notes


def as_fitted(path: Path | str, table: pd.DataFrame, model: Any) -> pd.DataFrame:
    """Return the columns that a model was fitted with, read as they were then."""
    if model.table_ is None:
        raise FileError("The model was fitted without column names: use it in Python.")
    kinds = {name: column.kind for name, column in model.table_.columns.items()}
    check_columns(path, table.columns, kinds, ", which the model was fitted with")
    return typed(table, kinds, gaps=False)


def with_columns(
    path: Path | str,
    table: pd.DataFrame,
    X: pd.DataFrame,
    columns: Mapping[str, np.ndarray],
    model: Any,
    out: str,
) -> pd.DataFrame:
    """Return a table with new columns, one for each output of the model.

    In Parquet, what a model reads as numbers is numbers.
    """
    if (outputs := getattr(model, "_output_names", None)) is not None:
        columns = {
            f"{name}_{output}": values[:, p]
            for name, values in columns.items()
            for p, output in enumerate(outputs)
        }
    if taken := [name for name in columns if name in table.columns]:
        raise FileError(
            f"{path} has a column {taken[0]!r} already, which the prediction would be called: "
            "rename it, or put a --prefix before what is predicted."
        )
    if out.lower().endswith(".parquet") and "decimal" in table.attrs:
        table = pd.DataFrame({**table, **X.select_dtypes("number")})
    return pd.concat([table, pd.DataFrame(dict(columns), table.index)], axis=1)


def _from_lattice(path: Path | str, dataset: Any, roles: ColumnRoles) -> Data:
    if roles.target not in dataset.data_vars:
        have = ", ".join(map(str, dataset.data_vars)) or "only axes"
        raise FileError(f"{path} has no variable {roles.target!r}. It has {have}.")
    if roles.inputs or roles.categories:
        raise FileError(
            "A lattice is learned from its own axes: leave --inputs and --category out."
        )
    places = [name for name in roles.named if name != roles.exposure]
    dataset = dataset.set_coords([name for name in places if name in dataset.data_vars])
    axes = axes_of(dataset[roles.target])
    groups = {dim: [str(name) for name in axis] for dim, axis in axes.items()}
    names = [name for group in groups.values() for name in group]
    if strange := [name for name in places if name not in names]:
        raise FileError(
            f"{path} has no axis {strange[0]!r}: {roles.target} runs along {', '.join(names)}."
        )
    shape = " × ".join(
        f"{dim} {len(axis)}" + (f" ({', '.join(groups[dim])})" if groups[dim] != [dim] else "")
        for dim, axis in axes.items()
    )
    return Data(dataset, roles.target, (f"A lattice of {shape}.",), groups)


def new_estimator(model: str, columns: ColumnRoles, settings: Mapping[str, Any]) -> Any:
    """Return an estimator with those of the settings that it has."""
    names = MODELS[model]().get_params()
    own = {name: value for name, value in settings.items() if name in names}
    return MODELS[model](latlon=columns.latlon, **own, **_COMBINE.get(model, {}))


def grouped(estimator: Any, columns: ColumnRoles, data: Data) -> Any:
    """Return the estimator with the column groups of a lattice, or of --inducing."""
    sizes, groups = estimator.n_inducing, data.groups
    if isinstance(sizes, dict):
        named = {name: columns.of_group(name) for name in sizes}
        if groups is None:
            have = [column for group in named.values() for column in group]
            groups, wanted = named, [c for c in data.X.columns if c != columns.exposure]
        else:  # dimensions may be named by what runs along them
            dims = {frozenset(group): dim for dim, group in groups.items()}
            sizes = {dims.get(frozenset(named[name]), name): n for name, n in sizes.items()}
            have, wanted = list(sizes), list(groups)
        if set(have) != set(wanted):
            raise ValueError(
                f"--inducing names {', '.join(have)}, but inputs are {', '.join(wanted)}: give a "
                f"number for each, such as {','.join(f'{name}=20' for name in wanted)}, or one "
                "number for all."
            )
    together = [{*(columns.latlon or ())} <= {*group} for group in (data.groups or {}).values()]
    if together and not any(together):  # along axes of their own they have no common distance
        estimator.set_params(latlon=None)
    return estimator.set_params(column_groups=groups, n_inducing=sizes)
