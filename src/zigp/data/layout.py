"""From a user's table to what the bound is evaluated on: groups of columns, lattices, padding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from zigp.gp.batch import Batch, Lattice, Rows, distinct
from zigp.gp.padding import padded, padded_size

__all__ = [
    "Layout",
    "as_batch",
    "column_index",
    "find_lattice",
    "listed",
    "refuse_too_large",
]

ColumnList = Iterable[int | str] | int | str  # columns by number or name

_LARGEST = {"float64": 1e150, "float32": 1e18}  # numbers whose squares are numbers
_CELLS_PER_ROW = 16
_MOST_SPARSE_CELLS = 2_000_000
_FEWEST_COORDINATES = 8  # along each axis of a lattice that nobody named


@dataclass(frozen=True)
class Layout:
    """How input columns fall into groups, and which two of them are places on Earth."""

    groups: tuple[tuple[int, ...], ...]
    names: tuple[str, ...]
    latlon: tuple[int, int] | None
    centre: np.ndarray
    exposure: int | None = None  # a column that no kernel looks at
    categorical: tuple[int, ...] = ()  # columns of levels, without distances between them

    @classmethod
    def of(
        cls,
        X: np.ndarray,
        column_groups: Mapping[str, ColumnList] | Sequence[ColumnList] | None,
        latlon: Sequence[int | str] | None,
        feature_names: Sequence[str] | None,
        exposure: int | str | None = None,
        categorical: tuple[int, ...] = (),
        split: bool = False,
    ) -> Layout:
        """Resolve names to positions, and check that every column is in exactly one group.

        Without groups all columns are together, or `split` where rows form a lattice.
        """
        D = X.shape[1]
        for column in range(D):
            refuse_too_large(f"Column {column} of X", X[:, column])
        aside = None if exposure is None else column_index(exposure, D, feature_names)
        inputs = [c for c in range(D) if c != aside]
        if column_groups is None:
            together = [
                column_index(c, D, feature_names) for c in listed([] if latlon is None else latlon)
            ]
            found = split and _groups_of_a_lattice(X, inputs, together, feature_names)
            column_groups = found or {"all": inputs}
        if not isinstance(column_groups, Mapping):
            column_groups = {str(i): group for i, group in enumerate(column_groups)}
        groups = tuple(
            tuple(column_index(c, D, feature_names) for c in listed(group))
            for group in column_groups.values()
        )
        if sorted(c for group in groups for c in group) != inputs or () in groups:
            raise ValueError(
                f"column_groups must hold each of the {len(inputs)} input columns exactly once; it "
                f"resolves to {[list(group) for group in groups]}."
            )
        pair = None
        if latlon is not None:
            indices = [column_index(c, D, feature_names) for c in listed(latlon)]
            if len(indices) != 2 or not any(set(indices) <= set(group) for group in groups):
                raise ValueError(
                    "latlon must name two columns, latitude then longitude, of one column group."
                )
            pair = (indices[0], indices[1])
            _check_degrees(X, pair)
        centre = X.mean(axis=0)
        if pair is not None:
            centre[list(pair)] = 0.0
        for column in (*categorical, *(() if aside is None else (aside,))):
            centre[column] = 0.0
        return cls(groups, tuple(column_groups), pair, centre, aside, categorical)

    def only(self, columns: Iterable[int]) -> tuple[tuple[int, ...], ...]:
        """The groups, left with just these columns."""
        keep = set(columns)
        kept = (tuple(c for c in group if c in keep) for group in self.groups)
        return tuple(group for group in kept if group)


def column_index(column: int | str, D: int, feature_names: Sequence[str] | None) -> int:
    """The position of a column given by name or by number."""
    if isinstance(column, str):
        if feature_names is None:
            raise ValueError(
                f"Column {column!r} is given by name, but X has no column names: "
                "pass a DataFrame, or give the column's number."
            )
        if column not in list(feature_names):
            raise ValueError(
                f"X has no column {column!r}; it has {', '.join(map(repr, feature_names))}."
            )
        return list(feature_names).index(column)
    if not -D <= int(column) < D:
        raise ValueError(f"There is no column {column}: X has {D}, counted from 0.")
    return int(column) % D


def _groups_of_a_lattice(
    X: np.ndarray, inputs: list[int], together: list[int], names: Sequence[str] | None
) -> dict[str, list[int]] | None:
    """One column apart from the rest where the rows fill at least half a lattice of the two.

    Of several such columns it is the one with the most values: hours rather than stations.
    """
    sizes = {c: len(np.unique(X[:, c])) for c in inputs}
    for column in sorted(set(inputs) - set(together), key=lambda c: -sizes[c]):
        rest = [c for c in inputs if c != column]
        # A lattice has every value of a column many times over.
        if rest and _FEWEST_COORDINATES <= sizes[column] <= len(X) // _FEWEST_COORDINATES:
            found = find_lattice(X, (tuple(rest), (column,)))
            if found is None:
                continue
            shape = found[0].shape
            if min(shape) >= _FEWEST_COORDINATES and prod(shape) <= 2 * len(X):
                called = [str(c) for c in range(X.shape[1])] if names is None else names
                return {",".join(called[c] for c in g): g for g in (rest, [column])}
    return None


def find_lattice(
    X: np.ndarray, groups: tuple[tuple[int, ...], ...]
) -> tuple[Lattice, tuple[np.ndarray, ...]] | None:
    """The lattice that the rows of X lie on and the cell of each, or None.

    Rows make a lattice when no cell holds two of them and they fill enough of all combinations of
    the groups' coordinates: half, or a sixteenth where the lattice is small enough. A row by itself
    costs more than many empty cells, because its projection serves no other row.
    """
    if len(groups) < 2:
        return None
    axes, cells, size = [], [], 1
    for group in groups:
        axis, cell = distinct(X[:, group])
        axes.append(axis)
        cells.append(cell)
        size *= len(axis)
        if size > max(2 * len(X), min(_CELLS_PER_ROW * len(X), _MOST_SPARSE_CELLS)):
            return None
    flat = np.ravel_multi_index(cells, [len(axis) for axis in axes])
    if len(np.unique(flat)) < len(flat):
        return None
    return Lattice(tuple(axes), groups), tuple(cells)


def as_batch(
    X: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    groups: tuple[tuple[int, ...], ...],
    dtype: str,
    exposure: int | None = None,
) -> Batch:
    """Data as a lattice where it is one, otherwise as rows padded to one of a few sizes.

    Rows run along the last axis of y and weight; outputs, if there are several, along the first.
    """
    outputs = y.shape[:-1]
    found = find_lattice(X, groups)
    if found is None:
        more = [(0, 0)] * len(outputs) + [(0, padded_size(len(X)) - len(X))]
        y, weight = np.pad(y, more).astype(dtype), np.pad(weight, more).astype(dtype)
        return Batch(Rows(padded(X, y.shape[-1]).astype(dtype)), y, weight)
    lattice, cells = found
    on_lattice, counted = (np.zeros((*outputs, *lattice.shape), dtype) for _ in range(2))
    where = (slice(None),) * len(outputs) + cells
    on_lattice[where], counted[where] = y, weight
    axes = tuple(axis.astype(dtype) for axis in lattice.axes)
    effort = None
    if exposure is not None:
        effort = np.ones(lattice.shape, dtype)
        effort[cells] = X[:, exposure]
    return Batch(Lattice(axes, lattice.columns, effort, exposure), on_lattice, counted)


def listed(group: ColumnList) -> list[int | str]:
    """Columns as a list, also where only one is given."""
    return [group] if isinstance(group, (int, np.integer, str)) else list(group)


def refuse_too_large(name: str, values: np.ndarray, dtype: str = "float64") -> None:
    """An error where the squares of numbers would not be numbers any more."""
    if (most := float(np.abs(values).max(initial=0.0))) > _LARGEST[dtype]:
        raise ValueError(f"{name} reaches {most:g}, too large to be squared: use a larger unit.")


def _check_degrees(X: np.ndarray, latlon: tuple[int, int]) -> None:
    lat, lon = X[:, latlon[0]], X[:, latlon[1]]
    if np.abs(lat).max() > 90 or np.abs(lon).max() > 360:
        raise ValueError(
            f"latlon names columns {latlon[0]} and {latlon[1]}, whose values reach "
            f"{np.abs(lat).max():g} and {np.abs(lon).max():g}: latitude must lie within ±90 "
            "degrees and longitude within ±360. Are they in another order or unit?"
        )
