"""From tables to batches: lattices found, groups resolved, sizes padded."""

from __future__ import annotations

import numpy as np
import pytest

from zigp.data.layout import Layout, as_batch, column_index, find_lattice
from zigp.gp.batch import Lattice, Rows
from zigp.gp.padding import chunks, padded_size

GROUPS = ((0, 1), (2,))


def table(missing: float, seed: int = 0):
    """Stations × hours as rows in random order, some missing."""
    rng = np.random.default_rng(seed)
    stations, hours = rng.normal(size=(6, 2)), np.arange(9.0)
    s, h = np.meshgrid(np.arange(6), np.arange(9), indexing="ij")
    keep = rng.permutation(np.flatnonzero(rng.random(54) >= missing))
    return np.column_stack([stations[s.ravel()], hours[h.ravel()]])[keep]


def test_rows_that_fill_a_lattice_become_one():
    X = table(missing=0.2)
    lattice, cells = find_lattice(X, GROUPS)
    assert lattice.shape == (6, 9)
    back = np.column_stack([lattice.axes[0][cells[0]], lattice.axes[1][cells[1]]])
    np.testing.assert_array_equal(back, X)


def sparse(per_row: int):
    """One of `per_row` cells of a lattice of 60 × 60, at least one in each line."""
    rng = np.random.default_rng(1)
    cells = np.concatenate([np.arange(60) * 61, rng.choice(3600, 3600 // per_row - 60)])
    s, h = np.divmod(np.unique(cells), 60)
    return np.column_stack([s, -s, h]).astype(float)


def test_a_sparse_lattice_is_worth_it_while_it_is_small():
    X = sparse(per_row=12)
    lattice, _ = find_lattice(X, GROUPS)
    assert lattice.shape == (60, 60)


def test_scattered_sparse_or_repeated_rows_stay_rows():
    assert find_lattice(np.random.default_rng(0).normal(size=(30, 3)), GROUPS) is None
    assert find_lattice(sparse(per_row=20), GROUPS) is None
    X = table(missing=0.1)
    assert find_lattice(np.concatenate([X, X[:1]]), GROUPS) is None
    assert find_lattice(X, ((0, 1, 2),)) is None


def test_a_lattice_batch_holds_every_value_in_its_cell():
    X = table(missing=0.2)
    y, weight = np.arange(1.0, len(X) + 1), np.full(len(X), 2.0)
    batch = as_batch(X, y, weight, GROUPS, "float64")
    assert isinstance(batch.at, Lattice)
    assert batch.weight.sum() == weight.sum()
    assert sorted(batch.y[batch.weight > 0]) == sorted(y)
    flat = batch.at.rows().X
    for x, value in zip(X, y, strict=True):
        cell = np.flatnonzero((flat == x).all(axis=1))
        assert batch.y.ravel()[cell] == value


def test_rows_are_padded_with_weight_zero():
    X = np.random.default_rng(0).normal(size=(70, 3))
    batch = as_batch(X, np.ones(70), np.ones(70), ((0, 1, 2),), "float32")
    assert isinstance(batch.at, Rows)
    assert batch.at.X.shape == (256, 3)
    assert batch.at.X.dtype == batch.y.dtype == np.float32
    assert batch.weight.sum() == 70
    assert np.all(batch.weight[70:] == 0)


def test_sizes_are_few_and_never_too_small():
    sizes = {padded_size(n) for n in range(1, 5000)}
    assert all(padded_size(n) >= n for n in range(1, 5000))
    assert len(sizes) < 16
    assert padded_size(1) == 256
    assert all(padded_size(n) <= 1.5 * n for n in range(256, 5000))


def test_chunks_cover_all_rows_at_one_size():
    X = np.arange(1000.0)[:, None]
    parts = list(chunks(X, 384))
    assert {len(part) for _, part in parts} == {384}
    np.testing.assert_array_equal(
        np.concatenate([part[: rows.stop - rows.start] for rows, part in parts]), X
    )


def test_columns_by_name_and_number():
    names = ["lat", "lon", "hour"]
    assert column_index("hour", 3, names) == 2
    assert column_index(-1, 3, None) == 2
    with pytest.raises(ValueError, match="X has no column 'time'; it has 'lat', 'lon', 'hour'"):
        column_index("time", 3, names)
    with pytest.raises(ValueError, match="pass a DataFrame"):
        column_index("hour", 3, None)
    with pytest.raises(ValueError, match="no column 3"):
        column_index(3, 3, None)


def test_layout_resolves_groups_and_leaves_degrees_uncentred():
    X = np.array([[60.0, 20.0, 5.0], [62.0, 22.0, 7.0]])
    layout = Layout.of(
        X, {"space": ["lat", "lon"], "time": "h"}, ["lat", "lon"], ["lat", "lon", "h"]
    )
    assert layout.groups == GROUPS
    assert layout.latlon == (0, 1)
    np.testing.assert_array_equal(layout.centre, [0.0, 0.0, 6.0])
    assert layout.only([0, 2]) == ((0,), (2,))


@pytest.mark.parametrize(
    ("groups", "latlon", "message"),
    [
        ([[0, 1]], None, "each of the 3 input columns exactly once"),
        ([[0, 1], [1, 2]], None, "exactly once"),
        ([[0, 1, 2]], [0], "latlon must name two columns"),
        ([[0], [1], [2]], [0, 1], "of one column group"),
        ([[0, 1, 2]], [2, 0], "latitude must lie within"),
    ],
)
def test_wrong_groups_are_named(groups, latlon, message):
    X = np.array([[60.0, 20.0, 500.0], [62.0, 22.0, 700.0]])
    with pytest.raises(ValueError, match=message):
        Layout.of(X, groups, latlon, None)


def test_columns_are_split_where_rows_form_a_lattice():
    rng = np.random.default_rng(0)
    places = rng.uniform(60, 68, (9, 2))
    station, hour = np.divmod(rng.permutation(9 * 30)[:250], 30)  # some cells are missing
    X = np.column_stack([places[station], hour])
    layout = Layout.of(X, None, None, ["lat", "lon", "hour"], split=True)
    assert layout.names == ("lat,lon", "hour")
    assert layout.groups == ((0, 1), (2,))
    exposed = np.column_stack([X[:, :2], np.ones(250), X[:, 2]])
    assert Layout.of(exposed, None, None, None, exposure=2, split=True).groups == ((0, 1), (3,))


@pytest.mark.parametrize(
    "X",
    [
        np.random.default_rng(1).normal(size=(300, 3)),  # scattered
        np.random.default_rng(2).integers(0, 9, size=(300, 2)),  # cells that hold several rows
        np.indices((5, 60)).reshape(2, -1).T,  # too few along one side to be worth it
        np.arange(40.0)[:, None],
        sparse(per_row=12),
    ],
)
def test_other_rows_are_left_together(X):
    layout = Layout.of(np.asarray(X, float), None, None, None, split=True)
    assert layout.names == ("all",)
    assert layout.groups == (tuple(range(X.shape[1])),)


def test_latitude_and_longitude_stay_together():
    grid = np.stack(np.meshgrid(np.arange(30.0), np.arange(9.0), np.arange(12.0)), -1).reshape(
        -1, 3
    )
    assert Layout.of(grid, None, None, None, split=True).groups == ((1, 2), (0,))
    assert Layout.of(grid, None, [0, 1], None, split=True).groups == ((0, 1), (2,))
