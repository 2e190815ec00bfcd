"""Rows of inputs: their column groups, the lattice that they form, and their batch."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Self

import numpy as np

from zigp.gp.batch import Batch, Lattice, Rows, distinct, padded, padded_size

ColumnList = Iterable[int | str] | int | str  # columns by number or name
Group = tuple[int, ...]  # the numbers of the columns of a group
LatticeCells = tuple[Lattice, tuple[np.ndarray, ...]]  # and the cell of each row, along each axis

_LARGEST = {"float64": 1e150, "float32": 1e18}  # numbers whose squares are numbers
_CELLS_PER_ROW = 16
_MOST_SPARSE_CELLS = 2_000_000
_FEWEST_COORDINATES = 8  # along each axis of a lattice, where no column groups are given


class Inputs:
    """Rows of inputs, their distinct coordinates in some of the columns, and their lattice.

    Coordinates and lattices are computed on first use and kept, so that everything that a fit
    decides by them is decided once. `labels` returns, for some columns, integers that are equal
    where rows are equal in these columns, or None where that is not known yet: the cells of a grid
    are known without a search.
    """

    def __init__(
        self, X: np.ndarray, labels: Callable[[Group], np.ndarray | None] = lambda group: None
    ) -> None:
        # In one order in memory, so that sums over rows are rounded alike whatever X came from.
        self.X, self._labels = np.ascontiguousarray(X), labels
        self._along: dict[Group, tuple[np.ndarray, np.ndarray]] = {}
        self._lattices: dict[tuple[Group, ...], LatticeCells | None] = {}

    def only(self, rows: np.ndarray) -> "Inputs":
        """Return the rows of a mask."""
        if rows.all():
            return self
        return Inputs(self.X[rows], lambda group: self.along(group)[1][rows])

    def along(self, group: Group) -> tuple[np.ndarray, np.ndarray]:
        """Return the distinct coordinates in a group's columns, in order, and each row's index."""
        if group not in self._along:
            labels = self._labels(group)
            if labels is None:
                self._along[group] = distinct(self.X[:, group])
            else:
                _, first, label = np.unique(labels, return_index=True, return_inverse=True)
                axis, order = distinct(self.X[first][:, group])
                self._along[group] = axis, order[label]
        return self._along[group]

    def count(self, group: Group) -> int:
        """Return the number of distinct coordinates in a group's columns."""
        return len(self.along(group)[0])

    def once_each(self, groups: tuple[Group, ...]) -> np.ndarray:
        """Return the rows without repetitions; as they are where there are none."""
        if self.lattice(groups) is not None:
            return self.X
        every, _ = self.along(tuple(range(self.X.shape[1])))
        return self.X if len(every) == len(self.X) else every

    def lattice(self, groups: tuple[Group, ...]) -> LatticeCells | None:
        """Return the lattice of column groups that the rows lie on, and their cells, or None.

        Rows form a lattice when no cell holds two of them and they fill enough of all combinations
        of the groups' coordinates: half, or a sixteenth where the lattice is small enough. A single
        row costs more than many empty cells, because its projection serves no other row.
        """
        if groups not in self._lattices:
            self._lattices[groups] = self._find_lattice(groups) if len(groups) > 1 else None
        return self._lattices[groups]

    def _find_lattice(self, groups: tuple[Group, ...]) -> LatticeCells | None:
        N, size = len(self.X), 1
        for group in groups:
            size *= self.count(group)
            if size > max(2 * N, min(_CELLS_PER_ROW * N, _MOST_SPARSE_CELLS)):
                return None
        axes, cells = zip(*map(self.along, groups), strict=True)
        flat = np.ravel_multi_index(cells, [len(axis) for axis in axes])
        return (Lattice(axes, groups), cells) if np.bincount(flat).max() == 1 else None


@dataclass(frozen=True)
class Layout:
    """The groups of input columns, and the two columns that are places on Earth."""

    groups: tuple[Group, ...]
    names: tuple[str, ...]
    latlon: tuple[int, int] | None
    centre: np.ndarray
    exposure: int | None = None  # a column that no kernel looks at
    categorical: tuple[int, ...] = ()  # columns of levels, without distances between them

    @classmethod
    def of(
        cls,
        inputs: Inputs,
        column_groups: Mapping[str, ColumnList] | Sequence[ColumnList] | None,
        latlon: Sequence[int | str] | None,
        feature_names: Sequence[str] | None,
        exposure: int | str | None = None,
        categorical: tuple[int, ...] = (),
        split: bool = False,
    ) -> Self:
        """Resolve names to numbers, and check that each column is in exactly one group.

        Without groups all columns are together; with `split`, a column whose coordinates form a
        lattice with those of the others is a group of its own.
        """
        X, D = inputs.X, inputs.X.shape[1]
        for column in range(D):
            refuse_too_large(f"Column {column} of X", X[:, column])
        aside = [] if exposure is None else [column_index(exposure, D, feature_names)]
        used = [c for c in range(D) if c not in aside]
        pair = [column_index(c, D, feature_names) for c in listed(() if latlon is None else latlon)]
        if column_groups is None:
            named = [str(c) for c in range(D)] if feature_names is None else feature_names
            found = _lattice_groups(inputs, used, pair) if split else None
            split_groups = {",".join(named[c] for c in group): group for group in found or ()}
            column_groups = split_groups or {"all": used}
        if not isinstance(column_groups, Mapping):
            column_groups = {str(i): group for i, group in enumerate(column_groups)}
        groups = tuple(
            tuple(column_index(c, D, feature_names) for c in listed(group))
            for group in column_groups.values()
        )
        if sorted(c for group in groups for c in group) != used or () in groups:
            raise ValueError(
                f"column_groups must hold each of the {len(used)} input columns exactly once; it "
                f"resolves to {[list(group) for group in groups]}."
            )
        if latlon is not None:
            if len(pair) != 2 or not any(set(pair) <= set(group) for group in groups):
                raise ValueError(
                    "latlon must name two columns, latitude then longitude, of one column group."
                )
            north, east = np.abs(X[:, pair]).max(axis=0)
            if north > 90 or east > 360:
                raise ValueError(
                    f"latlon names columns {pair[0]} and {pair[1]}, whose values reach {north:g} "
                    f"and {east:g}: latitude must lie within ±90 degrees and longitude within "
                    "±360. Are they in another order or unit?"
                )
        centre = X.mean(axis=0)
        centre[[*pair, *categorical, *aside]] = 0.0
        on_earth = (pair[0], pair[1]) if pair else None
        return cls(
            groups, tuple(column_groups), on_earth, centre, next(iter(aside), None), categorical
        )

    def only(self, columns: Iterable[int]) -> tuple[Group, ...]:
        """Return the groups, left with these columns alone."""
        keep = set(columns)
        kept = (tuple(c for c in group if c in keep) for group in self.groups)
        return tuple(group for group in kept if group)


def column_index(column: int | str, D: int, feature_names: Sequence[str] | None) -> int:
    """Return the position of a column given by name or by number."""
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


def _lattice_groups(
    inputs: Inputs, columns: Sequence[int], together: Sequence[int]
) -> tuple[Group, Group] | None:
    """Return one column and the rest as groups, if rows fill at least half a lattice of the two.

    Of several such columns it is the one with the most values: hours rather than stations.
    """
    N, sizes = len(inputs.X), {c: inputs.count((c,)) for c in columns}
    for column in sorted({*columns} - {*together}, key=lambda c: -sizes[c]):
        rest = tuple(c for c in columns if c != column)
        # On a lattice every value of a column occurs many times.
        if rest and _FEWEST_COORDINATES <= sizes[column] <= N // _FEWEST_COORDINATES:
            found = inputs.lattice((rest, (column,)))
            shape = (0,) if found is None else found[0].shape
            if min(shape) >= _FEWEST_COORDINATES and prod(shape) <= 2 * N:
                return rest, (column,)
    return None


def as_batch(
    inputs: Inputs, y: np.ndarray, weight: np.ndarray, layout: Layout, dtype: str
) -> Batch:
    """Return the data, centred, as a lattice, or as rows padded to one of a few sizes.

    Rows run along the last axis of y and weight; outputs, if there are several, along the first.
    """
    outputs, centre = y.shape[:-1], layout.centre
    found = inputs.lattice(layout.groups)
    if found is None:
        more = [(0, 0)] * len(outputs) + [(0, padded_size(y.shape[-1]) - y.shape[-1])]
        y, weight = np.pad(y, more).astype(dtype), np.pad(weight, more).astype(dtype)
        return Batch(Rows(padded(inputs.X - centre, y.shape[-1]).astype(dtype)), y, weight)
    lattice, cells = found
    at_cells = (slice(None),) * len(outputs) + cells
    values, weights = (np.zeros((*outputs, *lattice.shape), dtype) for _ in range(2))
    values[at_cells], weights[at_cells] = y, weight
    axes = tuple(
        (axis - centre[list(group)]).astype(dtype)
        for axis, group in zip(lattice.axes, layout.groups, strict=True)
    )
    effort = None
    if layout.exposure is not None:
        effort = np.ones(lattice.shape, dtype)
        effort[cells] = inputs.X[:, layout.exposure]
    return Batch(Lattice(axes, layout.groups, effort, layout.exposure), values, weights)


def listed(group: ColumnList) -> list[int | str]:
    """Return columns as a list, also where only one is given."""
    return [group] if isinstance(group, (int, np.integer, str)) else list(group)


def refuse_too_large(name: str, values: np.ndarray, dtype: str = "float64") -> None:
    """Raise an error where the square of a number exceeds the range of the dtype."""
    if (most := float(np.abs(values).max(initial=0.0))) > _LARGEST[dtype]:
        raise ValueError(f"{name} reaches {most:g}, too large to be squared: use a larger unit.")
