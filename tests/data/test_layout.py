"""Column groups are resolved, lattices are found once, and batches are padded."""

import numpy as np
import pytest
import xarray as xr

import zigp
from zigp.data.layout import Inputs, Layout, as_batch, column_index
from zigp.gp.batch import Lattice, Rows, distinct

GROUPS, NAMES = ((0, 1), (2,)), ["lat", "lon", "hour"]


def table(missing: float = 0.2, seed: int = 0):
    """Return stations × hours as rows in random order, some of them missing."""
    rng = np.random.default_rng(seed)
    stations, hours = rng.normal(size=(6, 2)), np.arange(9.0)
    s, h = np.meshgrid(np.arange(6), np.arange(9), indexing="ij")
    keep = rng.permutation(np.flatnonzero(rng.random(54) >= missing))
    return np.column_stack([stations[s.ravel()], hours[h.ravel()]])[keep]


def sparse(per_row: int):
    """Return one of `per_row` cells of a lattice of 60 × 60, at least one in each line."""
    rng = np.random.default_rng(1)
    cells = np.concatenate([np.arange(60) * 61, rng.choice(3600, 3600 // per_row - 60)])
    s, h = np.divmod(np.unique(cells), 60)
    return np.column_stack([s, -s, h]).astype(float)


@pytest.mark.parametrize(
    ("X", "groups", "shape"),
    [
        (table(), GROUPS, (6, 9)),
        (sparse(per_row=12), GROUPS, (60, 60)),  # worth it while it is small
        (sparse(per_row=20), GROUPS, None),
        (np.random.default_rng(0).normal(size=(30, 3)), GROUPS, None),
        (table()[[*range(40), 0]], GROUPS, None),  # a cell with two rows
        (table(), ((0, 1, 2),), None),
    ],
)
def test_rows_that_fill_enough_of_a_lattice_become_one(X, groups, shape):
    found = Inputs(X).lattice(groups)
    assert (found and found[0].shape) == shape
    for axis, cell, group in zip(found[0].axes, found[1], groups, strict=True) if found else ():
        np.testing.assert_array_equal(axis[cell], X[:, group])


def test_some_of_the_rows_have_the_coordinates_that_they_have_by_themselves():
    X = table()
    whole, rows = Inputs(X), np.arange(len(X)) % 7 == 0
    assert whole.only(np.ones(len(X), bool)) is whole
    for group in (*GROUPS, (0, 2)):
        found, alone = whole.only(rows).along(group), Inputs(X[rows]).along(group)
        np.testing.assert_equal(found, alone)


@pytest.mark.parametrize("kind", ["table", "grid"])
def test_a_fit_looks_for_equal_rows_once(kind, monkeypatch):
    """However many latents there are; the cells of a grid are known without a search."""
    looks = []

    def counted(X):
        looks.append(len(X))
        return distinct(X)

    monkeypatch.setattr("zigp.data.layout.distinct", counted)
    cube = xr.DataArray(
        np.random.default_rng(0).random((12, 9)),
        coords={"hour": np.arange(12.0), "lat": np.arange(9.0)},
        dims=("hour", "lat"),
        name="rain",
    )
    model = zigp.ZeroInflatedGPRegressor(steps=1)
    if kind == "grid":
        model.fit(cube)
        assert sorted(looks) == [9, 12]  # along the axes alone
    else:
        frame = cube.to_dataframe().reset_index()
        model.fit(frame[["hour", "lat"]], frame["rain"])
        assert looks == [108, 108]  # once for each column
    assert model.on_lattice_


def test_a_lattice_batch_holds_every_value_in_its_cell():
    X = table()
    y, weight = np.arange(1.0, len(X) + 1), np.full(len(X), 2.0)
    layout = Layout.of(Inputs(X), GROUPS, None, None)
    batch = as_batch(Inputs(X), y, weight, layout, "float64")
    assert isinstance(batch.at, Lattice)
    assert batch.weight.sum() == weight.sum()
    assert sorted(batch.y[batch.weight > 0]) == sorted(y)
    flat = batch.at.rows().X
    for x, value in zip(X - layout.centre, y, strict=True):
        cell = np.flatnonzero((flat == x).all(axis=1))
        assert batch.y.ravel()[cell] == value


def test_rows_are_padded_with_weight_zero():
    X = np.random.default_rng(0).normal(size=(70, 3))
    layout = Layout.of(Inputs(X), None, None, None)
    batch = as_batch(Inputs(X), np.ones(70), np.ones(70), layout, "float32")
    assert isinstance(batch.at, Rows)
    assert batch.at.X.shape == (256, 3)
    assert batch.at.X.dtype == batch.y.dtype == np.float32
    assert batch.weight.sum() == 70
    assert np.all(batch.weight[70:] == 0)


@pytest.mark.parametrize(
    ("column", "names", "message"),
    [
        ("time", NAMES, "X has no column 'time'; it has 'lat', 'lon', 'hour'"),
        ("hour", None, "pass a DataFrame"),
        (3, None, "no column 3"),
    ],
)
def test_columns_that_are_missing_are_errors(column, names, message):
    with pytest.raises(ValueError, match=message):
        column_index(column, 3, names)


def test_a_layout_resolves_groups_and_leaves_degrees_uncentred():
    X = Inputs(np.array([[60.0, 20.0, 5.0], [62.0, 22.0, 7.0]]))
    layout = Layout.of(X, {"space": ["lat", "lon"], "time": -1}, ["lat", "lon"], NAMES)
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
def test_wrong_groups_are_errors(groups, latlon, message):
    X = Inputs(np.array([[60.0, 20.0, 500.0], [62.0, 22.0, 700.0]]))
    with pytest.raises(ValueError, match=message):
        Layout.of(X, groups, latlon, None)


GRID = np.stack(np.meshgrid(*map(np.arange, (9.0, 30.0, 12.0)), indexing="ij"), -1).reshape(-1, 3)
SCATTERED = np.random.default_rng(1).normal(size=(300, 3))
REPEATED = np.random.default_rng(2).integers(0, 9, size=(300, 2)).astype(float)


def stations(missing: float = 0.1):
    """Return rows of nine stations with degrees and thirty hours."""
    rng = np.random.default_rng(0)
    station, hour = np.divmod(np.flatnonzero(rng.random(270) >= missing), 30)
    return np.column_stack([rng.uniform(60, 68, (9, 2))[station], hour])


@pytest.mark.parametrize(
    ("X", "how", "groups"),
    [
        (stations(), {}, ((0, 1), (2,))),
        (np.insert(stations(), 2, 1.0, axis=1), {"exposure": 2}, ((0, 1), (3,))),
        (GRID, {}, ((0, 2), (1,))),  # the column with the most values
        (GRID, {"latlon": [0, 1]}, ((0, 1), (2,))),  # these two stay together
        (SCATTERED, {}, ((0, 1, 2),)),
        (REPEATED, {}, ((0, 1),)),  # cells that hold several rows
        (np.indices((5, 60)).reshape(2, -1).T, {}, ((0, 1),)),  # too few along one side
        (np.arange(40.0)[:, None], {}, ((0,),)),
        (sparse(per_row=12), {}, ((0, 1, 2),)),
    ],
)
def test_columns_are_split_where_rows_form_a_lattice(X, how, groups):
    how = {"latlon": None, "column_groups": None, "feature_names": None} | how
    layout = Layout.of(Inputs(X.astype(float)), split=True, **how)
    assert layout.groups == groups
    names = ["all"] if len(groups) == 1 else [",".join(map(str, group)) for group in groups]
    assert list(layout.names) == names


def test_a_layout_follows_the_rows_that_count():
    """A row that is there twice forms no lattice, unless one of the two has weight zero."""
    X = np.indices((10, 16)).reshape(2, -1).T
    twice = Inputs(np.concatenate([X, X[:1]]).astype(float))
    split = Layout.of(twice.only(np.arange(161) < 160), None, None, ["place", "hour"], split=True)
    assert split.names == ("place", "hour")
    assert twice.lattice(split.groups) is None
    assert Layout.of(twice, None, None, None, split=True).names == ("all",)
