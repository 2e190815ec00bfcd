"""Lattices of xarray are fitted on their axes and predicted cell by cell, lazily with dask."""

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from sklearn.base import clone

from zigp import GPNetworkRegressor, HurdleGPRegressor, SparseGPRegressor, ZeroInflatedGPRegressor
from zigp.models.predictions import block_shape

QUICK = {"steps": 15, "n_inducing": {"time": 6, "lat": 4, "lon": 3}}


def cube(times=12, lats=5, lons=4) -> xr.DataArray:
    rng = np.random.default_rng(0)
    t, north, east = np.arange(times), np.linspace(60, 64, lats), np.linspace(20, 23, lons)
    wet = np.sin(t[:, None, None] / 2 + north[None, :, None]) > 0.3
    rain = wet * rng.gamma(2.0, 1.0, (times, lats, lons)).round(1)
    rain[rng.random(rain.shape) < 0.1] = np.nan
    when = pd.date_range("2024-03-01", periods=times, freq="h")
    return xr.DataArray(
        rain,
        coords={"time": when, "lat": north, "lon": east},
        dims=("time", "lat", "lon"),
        name="rain",
        attrs={"units": "mm"},
    )


@pytest.fixture(scope="module")
def fitted():
    return ZeroInflatedGPRegressor(**QUICK).fit(cube())


def test_a_cube_is_a_lattice_of_its_dimensions(fitted):
    assert fitted.on_lattice_
    assert fitted.layout_.names == ("time", "lat", "lon")
    assert list(fitted.feature_names_in_) == ["time", "lat", "lon"]
    assert fitted.n_rows_ == int(cube().notnull().sum())


@pytest.mark.parametrize("weighted", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_cube_is_fitted_as_its_table_is_and_weights_follow_their_dimensions(fitted, weighted):
    table = cube().to_dataframe().dropna().reset_index()
    hours = (table["time"] - table["time"].min()) / pd.Timedelta(hours=1)
    model, weight = fitted, None
    if weighted:
        by_hour = xr.DataArray(np.arange(12.0), dims="time")
        model, weight = clone(fitted).fit(cube(), sample_weight=by_hour), hours
    groups = {name: [name] for name in ("time", "lat", "lon")}
    same = ZeroInflatedGPRegressor(column_groups=groups, **QUICK)
    same.fit(table[["time", "lat", "lon"]], table["rain"], sample_weight=weight)
    np.testing.assert_allclose(same.bounds_, model.bounds_, rtol=1e-9)


def test_a_dataset_answers_cell_by_cell_what_rows_answer(fitted):
    target = cube().assign_coords(lat=[60.3, 61.1, 62.2, 63.0, 64.5])
    answer = fitted.predict_lattice(target, below=1.5)
    assert answer["mean"].dims == ("time", "lat", "lon")
    assert answer["quantiles"].dims == ("time", "lat", "lon", "quantile")
    rows = target.to_dataframe().reset_index()[["time", "lat", "lon"]]
    mean, sd = fitted.predict(rows, return_std=True)
    little = fitted.prob_below(rows, 1.5)
    expected = {"mean": mean, "sd": sd, "prob_on": fitted.prob_on(rows), "prob_below": little}
    for name, values in expected.items():
        np.testing.assert_allclose(answer[name].values.ravel(), values, rtol=1e-9)
    quantiles = fitted.predict_quantiles(rows).to_numpy()
    np.testing.assert_allclose(answer["quantiles"].values.reshape(-1, 3), quantiles, atol=1e-9)
    assert answer["prob_below"].attrs["long_name"] == "probability that rain is at most 1.5 mm"
    xr.testing.assert_equal(answer["time"], target["time"])
    assert answer["mean"].attrs == {"long_name": "expected rain", "units": "mm"}
    assert answer["prob_on"].attrs["units"] == "1"
    assert answer.attrs["Conventions"].startswith("CF-")


@pytest.mark.parametrize(
    ("shape", "cells", "block"),
    [
        ((12, 5, 4), 100, (5, 5, 4)),
        ((12, 5, 4), 7, (1, 1, 4)),
        ((1, 1000, 1000), 24_576, (1, 24, 1000)),
        ((3, 1000), 50, (1, 50)),
        ((2, 3), 100, (2, 3)),
    ],
)
def test_blocks_hold_no_more_cells_than_asked_for(shape, cells, block):
    assert block_shape(shape, cells) == block


@pytest.mark.slow
def test_blocks_are_put_together_in_order(fitted, monkeypatch):
    whole = fitted.predict_lattice(cube(), (0.5,))
    monkeypatch.setattr(
        "zigp.models.predictions._CELLS_AT_ONCE", 13
    )  # an hour, three latitudes at a time
    xr.testing.assert_allclose(fitted.predict_lattice(cube(), (0.5,)), whole, rtol=1e-9)


@pytest.mark.slow
def test_a_single_hour_is_a_slice_of_the_cube(fitted):
    whole = fitted.predict_lattice(cube(), ())
    hour = fitted.predict_lattice(cube().isel(time=3), ())
    assert hour["mean"].dims == ("lat", "lon")
    xr.testing.assert_allclose(hour, whole.isel(time=3), rtol=1e-9)
    lazy = fitted.predict_lattice(cube().isel(time=3).chunk({"lat": 5}), ())
    xr.testing.assert_allclose(lazy.compute(), hour, rtol=1e-9)
    kept = fitted.predict_lattice(cube().isel(time=[3]), ())
    assert kept["mean"].dims == ("time", "lat", "lon")


@pytest.mark.slow
def test_a_dataset_is_predicted_on_the_axes_that_the_model_knows(fitted):
    whole = fitted.predict_lattice(cube(), ())
    axes = cube().coords.to_dataset()
    xr.testing.assert_allclose(fitted.predict_lattice(axes, ()), whole, rtol=1e-9)
    messy = (
        cube()
        .to_dataset()
        .assign(
            time_bnds=(("time", "nv"), np.zeros((12, 2))),
            orography=(("lat", "lon"), np.zeros((5, 4))),
            crs=((), 0),
        )
    )
    messy = messy.assign_coords(height=2.0, quarter=("nv", [0, 1]))
    xr.testing.assert_allclose(fitted.predict_lattice(messy, ()), whole, rtol=1e-9)
    lazy = fitted.predict_lattice(messy.chunk({"time": 12}), ())
    xr.testing.assert_allclose(lazy.compute(), whole, rtol=1e-9)
    plain = messy.reset_index("lat").reset_coords("lat").rename_dims(lat="row")
    assert fitted.predict_lattice(plain, ())["mean"].dims == ("time", "row", "lon")


@pytest.mark.slow
def test_over_dask_nothing_runs_before_it_is_asked_for(fitted):
    target = cube().chunk({"time": 6, "lat": 5, "lon": 2})
    # The observations of the target are never looked at.
    unread = target.data.map_blocks(pytest.fail, dtype=float, meta=np.empty((0, 0, 0)))
    target = target.copy(data=unread)
    tasks = []
    with dask.config.set(scheduler="synchronous"):
        with dask.callbacks.Callback(pretask=lambda key, *_: tasks.append(key)):
            answer = fitted.predict_lattice(target, quantiles=(0.5,))
            built = len(tasks)
            assert answer["mean"].chunks == target.chunks
            assert isinstance(answer["quantiles"].data, da.Array)
            part = answer["mean"].isel(time=slice(0, 6), lon=slice(0, 2)).compute()
        assert built == 0
        assert len(tasks) > built
    whole = answer.compute(scheduler="threads")
    expected = fitted.predict_lattice(cube(), quantiles=(0.5,))
    xr.testing.assert_allclose(whole, expected, rtol=1e-9)
    assert whole["mean"].attrs == expected["mean"].attrs
    xr.testing.assert_allclose(part, expected["mean"].isel(time=slice(0, 6), lon=slice(0, 2)))
    other = target.assign_coords(height=("time", da.zeros(12, chunks=3)))  # in chunks of its own
    lazy = fitted.predict_lattice(other, quantiles=(0.5,))["mean"]
    assert lazy.chunks == target.chunks
    xr.testing.assert_allclose(lazy.drop_vars("height").compute(), expected["mean"])


@pytest.mark.slow
def test_stations_are_known_by_their_coordinates():
    rng = np.random.default_rng(1)
    rain = xr.DataArray(
        rng.random((10, 9)),
        coords={
            "hour": np.arange(10.0),
            "station": [f"s{i}" for i in range(9)],
            "lat": ("station", rng.uniform(60, 65, 9)),
            "lon": ("station", rng.uniform(20, 25, 9)),
        },
        dims=("hour", "station"),
    )
    sizes = {"hour": 5, "station": 4}
    model = SparseGPRegressor(latlon=["lat", "lon"], n_inducing=sizes, steps=10).fit(rain)
    assert model.layout_.names == ("hour", "station")
    assert list(model.feature_names_in_) == ["hour", "lat", "lon"]
    answer = model.predict(rain.isel(station=[2, 0]))
    assert list(answer["station"].values) == ["s2", "s0"]
    np.testing.assert_allclose(answer["mean"].isel(station=1), model.predict(rain)["mean"][:, 0])
    counted = rain.assign_coords(station=np.arange(9))
    again = SparseGPRegressor(latlon=["lat", "lon"], n_inducing=sizes, steps=10).fit(counted)
    assert list(again.feature_names_in_) == ["hour", "lat", "lon"]


@pytest.mark.slow
def test_several_outputs_and_an_exposure():
    data = cube().to_dataset().assign(snow=0.5 * cube(), hours=("time", np.full(12, 2.0)))
    network = GPNetworkRegressor(1, n_restarts=1, steps=5)
    answer = network.fit(data, ["rain", "snow"]).predict(data["rain"])
    assert answer["mean"].dims == ("time", "lat", "lon", "output")
    assert list(answer["output"].values) == ["rain", "snow"]
    shared = [axis.offset.shape[-2] for axis in network.model_.latents["f"].inducing]
    assert shared == [2, 2, 2]  # the ten points that it has by itself, shared out
    rows = cube().to_dataframe().reset_index()[["time", "lat", "lon"]]
    little = network.predict_lattice(data["rain"], (), below=1.0)["prob_below"]
    np.testing.assert_allclose(little.values.reshape(-1, 2), network.prob_below(rows, 1.0))
    catch = ZeroInflatedGPRegressor(exposure="hours", **QUICK).fit(data, "rain")
    doubled = data.assign(hours=2 * data["hours"])
    once, twice = (catch.predict_lattice(d, ())["mean"] for d in (data, doubled))
    np.testing.assert_allclose(twice, 2 * once, rtol=1e-9)
    lazy = catch.predict_lattice(doubled.chunk({"time": 4}), ())
    np.testing.assert_allclose(lazy["mean"].compute(), twice, rtol=1e-9)
    wrong = data.assign(hours=data["hours"].where(data["time"] != data["time"][3], -1.0))
    with pytest.raises(ValueError, match=r"'hours' is -1 at time 2024-03-01T03.*lat 60"):
        catch.predict(wrong)


@pytest.mark.slow
def test_a_hurdle_takes_lattices_too():
    model = HurdleGPRegressor(combine="expectation", **QUICK).fit(cube())
    assert model.classifier_.on_lattice_
    rows = cube().to_dataframe().reset_index()[["time", "lat", "lon"]]
    answer = model.predict(cube())
    np.testing.assert_allclose(answer["mean"].values.ravel(), model.predict(rows), rtol=1e-9)
    little = model.predict_lattice(cube(), (), below=0.0)["prob_below"]
    np.testing.assert_allclose(little.values.ravel(), model.prob_below(rows, 0.0), atol=1e-12)


def test_what_cannot_be_predicted_is_named(fitted):
    bare = SparseGPRegressor(steps=2).fit(np.arange(6.0)[:, None], np.arange(6.0))
    taken = cube().assign_coords(quantile=("lon", list("abcd")))
    for ask, target, message in (
        (fitted.prob_on, cube(), "takes rows; use predict_lattice for a lattice"),
        (
            fitted.predict,
            cube().isel(lon=0, drop=True),
            "no coordinate 'lon' along its dimensions time, lat",
        ),
        (fitted.predict, cube(lons=0), "Dimension 'lon' is empty"),
        (fitted.predict, taken, "called 'quantile', as are predictions"),
        (fitted.predict, cube().expand_dims(depth=2), "'depth' has no coordinates, not any of"),
        (bare.predict, cube(), "fitted without column names"),
    ):
        with pytest.raises(ValueError, match=message):
            ask(target)
