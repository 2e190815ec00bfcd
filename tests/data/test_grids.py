"""The axes of a lattice of xarray, and its observed cells as a table."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from zigp.data.grids import as_cells, axes_of


def cube(times: int = 12, lats: int = 5) -> xr.DataArray:
    rain = np.random.default_rng(0).gamma(2.0, 1.0, (times, lats, 4)).round(1)
    rain[rain < 0.4] = np.nan
    when = pd.date_range("2024-03-01", periods=times, freq="h")
    coords = {"time": when, "lat": np.linspace(60, 64, lats), "lon": np.arange(20.0, 24.0)}
    return xr.DataArray(rain, coords, ("time", "lat", "lon"), "rain", {"units": "mm"})


def test_observed_cells_are_rows_whose_places_on_the_axes_are_known():
    weight = xr.DataArray(np.arange(12.0), dims="time")
    data = cube().to_dataset().assign(hours=("time", np.arange(1.0, 13.0)))
    cells = as_cells(data, "rain", weight, "hours")
    rows = data.to_dataframe().dropna().reset_index()
    pd.testing.assert_frame_equal(cells.X, rows[["time", "lat", "lon", "hours"]])
    np.testing.assert_array_equal(cells.y, rows["rain"])
    np.testing.assert_array_equal(cells.weight, rows["hours"] - 1.0)
    assert cells.groups == {"time": ["time"], "lat": ["lat"], "lon": ["lon"]}
    assert cells.units == {"rain": "mm"}
    for (column,), places in cells.places.items():
        name = cells.X.columns[column]
        np.testing.assert_array_equal(cube()[name].to_numpy()[places], cells.X[name])


def test_cells_of_several_outputs_have_one_of_them_at_least():
    data = cube().to_dataset().assign(snow=cube().transpose("lon", "lat", "time").where(False, 0.5))
    data["snow"][0] = np.nan
    cells = as_cells(data, ["rain", "snow"])
    assert list(cells.y) == ["rain", "snow"]
    assert len(cells.X) == int((data["rain"].notnull() | data["snow"].notnull()).sum())
    assert cells.y["rain"].sum() == pytest.approx(data["rain"].sum().item())


@pytest.mark.parametrize(
    ("own", "other", "identified_by"),
    [
        ([2001, 2002, 2003], ["enso"], ["year"]),  # a time, whatever else is known of it
        ([2001, 2004, 2003], ["enso"], ["year"]),
        ([0, 1, 2], ["depth"], ["depth"]),  # a count
        ([1, 2, 3], ["depth"], ["depth"]),
        ([1, 2, 3], [], ["year"]),
        ([2830, 9012, 407], ["Lat", "lon"], ["Lat", "lon"]),  # names of places
        ([2830, 9012, 407], ["x", "y"], ["x", "y"]),
        (["s1", "s2", "s3"], ["lat", "lon"], ["lat", "lon"]),
        ([0.0, 1.0, 2.0], ["lat", "lon"], ["year"]),
    ],
)
def test_integers_and_text_are_no_axis_where_they_count_or_name(own, other, identified_by):
    more = {name: ("year", [0.5, 0.1, 0.7]) for name in other}
    more["is_land"] = ("year", [True, False, True])
    series = xr.DataArray(np.zeros(3), coords={"year": own, **more}, dims="year")
    assert list(axes_of(series)["year"]) == identified_by


def test_stacked_dimensions_are_identified_by_their_levels():
    assert list(axes_of(cube().stack(place=("lat", "lon")))["place"]) == ["lat", "lon"]


@pytest.mark.parametrize("calendar", ["standard", "proleptic_gregorian"])
def test_times_of_the_standard_calendar_are_times_of_pandas(calendar):
    when = xr.date_range("2001-02-26", periods=3, calendar=calendar, use_cftime=True)
    series = xr.DataArray(np.zeros(3), {"step": [0, 1, 2], "time": ("step", when)}, "step")
    expected = pd.date_range("2001-02-26", periods=3)
    assert axes_of(series)["step"]["time"].tolist() == expected.tolist()


def sites(**coords: object) -> xr.DataArray:
    return xr.DataArray(np.zeros((2, 2)), {"time": [0.0, 1.0], **coords}, ("time", "site"))


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        (sites(site=["a", "b"]), None, "Dimension 'site' has text, not numbers or times"),
        (sites(), None, "Dimension 'site' has no coordinates"),
        (sites(site=[1.0, 1.0]), None, "Dimension 'site' has the place 1.0 more than once"),
        (sites(site=[1.0, np.nan]), None, "Dimension 'site' has coordinates that are missing"),
        (sites(site=[1.0, 2.0]), np.zeros(4), "holds the observations itself"),
        (cube().to_dataset(), None, "y must name what to fit, of 'rain'"),
        (cube().to_dataset(), "snow", "y must name what to fit, of 'rain'"),
        (
            cube().to_dataset().assign(snow=("lat", np.zeros(5))),
            ["rain", "snow"],
            "'snow' has the dimensions lat, 'rain' has time, lat, lon: they must agree",
        ),
        (cube().astype(str), None, "'rain' holds .*, not numbers"),
        (cube() / 0.0, None, "Some cells are infinite"),
        (cube() * np.nan, None, "Nothing was observed in any cell"),
        (cube(times=0), None, "Dimension 'time' is empty"),
        (cube()[0, 0, 0], None, "The array has no dimensions"),
        (cube().rename(lat="mean"), None, "called 'mean', as are predictions"),
        (sites(site=["a", "b"], sd=("site", [1.0, 2.0])), None, "called 'sd'"),
    ],
)
def test_what_cannot_be_fitted_is_an_error(X, y, words):
    with pytest.raises(ValueError, match=words):
        as_cells(X, y)


@pytest.mark.parametrize(
    ("hours", "words"),
    [
        (("time", np.where(np.arange(12) == 3, -1.0, 1.0)), "'hours' is -1 at time 2024-03-01T03"),
        (("time", np.where(np.arange(12) == 3, np.nan, 1.0)), "is nan at time 2024-03-01T03.*lat"),
        (("time", np.where(np.arange(12) == 3, np.inf, 1.0)), "is inf at time 2024-03-01T03.*lat"),
        (("gear", [1.0, 2.0]), "Exposure 'hours' has a dimension 'gear' that the cells lack"),
        (("time", ["a"] * 12), "'hours' holds .*, not numbers"),
    ],
)
def test_a_wrong_exposure_is_an_error_with_its_place(hours, words):
    data = cube().to_dataset().assign(hours=hours)
    with pytest.raises(ValueError, match=words):
        as_cells(data, "rain", exposure="hours")
    with pytest.raises(ValueError, match="exposure names 'hours': give a Dataset that has it"):
        as_cells(cube(), None, exposure="hours")
