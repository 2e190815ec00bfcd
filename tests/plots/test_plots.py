"""Plots show the numbers that they claim to show, with the names and units of the user."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.figure import Figure
from scipy.stats import norm

from zigp import (
    GPNetworkRegressor,
    HurdleGPRegressor,
    SparseGPClassifier,
    SparseGPRegressor,
    ZeroInflatedGPRegressor,
    diagnostics,
    plots,
)
from zigp.datasets import simulate_rain, simulate_rain_grid
from zigp.diagnostics import scores
from zigp.plots.marks import colour_scale
from zigp.runtime.session import session

PLACES = ["lat", "lon", "hour"]
SMALL = {"steps": 20, "n_inducing": 15}


@pytest.fixture(autouse=True)
def _no_figures_left():
    yield
    plt.close("all")


def one_input(seed=0):
    x = np.linspace(0.0, 10.0, 80)
    y = np.where(x > 5, 2.0 + np.sin(x), 0.0) + np.random.default_rng(seed).normal(0, 0.05, 80)
    return pd.DataFrame({"depth": x}), pd.Series(y, name="catch")


def fitted(model, X, y):
    with session():
        return model.fit(X, y), X, y


@pytest.fixture(scope="module")
def curve():
    """A zero-inflated fit of one input, and its data."""
    return fitted(ZeroInflatedGPRegressor(likelihood="gaussian", **SMALL), *one_input())


@pytest.fixture(scope="module")
def rain():
    """A fit of rain at stations, and its data."""
    table, model = simulate_rain(12, 48), ZeroInflatedGPRegressor(likelihood="gaussian", **SMALL)
    return fitted(model, table[PLACES], table["rain_mm"])


@pytest.fixture(scope="module")
def network():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(0, 5, (40, 2)), columns=["x", "y"])
    Y = pd.DataFrame(rng.gamma(2.0, size=(40, 3)), columns=["cd", "ni", "zn"])
    Y.loc[::4, "cd"] = np.nan
    return fitted(GPNetworkRegressor(2, n_restarts=2, steps=5, n_inducing=5), X, Y)


@pytest.fixture
def ax():
    return Figure().subplots()


def part(ax, gid):
    """Return the one artist on axes with a name."""
    (artist,) = [one for one in ax.get_children() if one.get_gid() == gid]
    return artist


def curves(ax):
    return [line for line in ax.lines if line.get_gid() == "curve"]


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def titles(axes):
    return [one.get_title(loc="left") for one in axes]


def labels(ax):
    return ax.get_xlabel(), ax.get_ylabel()


def colour_bars(ax):
    """Return the labels of all colour bars in the figure."""
    bars = [one for one in ax.figure.axes if one.get_label() == "<colorbar>"]
    return [one.get_ylabel() or one.get_xlabel() for one in bars]


def band(collection):
    """Return the edges of a filled band at each x: lower, then upper."""
    xy = collection.get_paths()[0].vertices
    edges = pd.DataFrame(xy, columns=["x", "edge"]).groupby("x")["edge"]
    return edges.min().to_numpy(), edges.max().to_numpy()


def assert_refused(cases):
    """Check that each call of a function with arguments raises an error with a message."""
    for draw, arguments, options, message in cases:
        with pytest.raises(ValueError, match=message):
            draw(*arguments, **options)


# -- one input ----------------------------------------------------------------------------------


def test_fit_1d_shows_data_signal_and_interval(curve, ax):
    model, X, y = curve
    assert plots.fit_1d(model, X, y, level=0.8, points=50, ax=ax) is ax
    dots, line = ax.lines
    np.testing.assert_array_equal(dots.get_xydata(), np.column_stack([X["depth"], y]))
    grid = pd.DataFrame({"depth": np.linspace(0, 10, 50)})
    parts, inside = model.predict_components(grid), model.predict_interval(grid, 0.8)
    np.testing.assert_allclose(line.get_ydata(), parts["signal"])
    signal, interval = map(band, ax.collections)
    spread = 2 * parts["signal_sd"]
    np.testing.assert_allclose(signal, [parts["signal"] - spread, parts["signal"] + spread])
    np.testing.assert_allclose(interval, inside[["lower", "upper"]].T)
    assert labels(ax) == ("depth", "catch")
    assert legend(ax) == ["data", "signal ± 2 sd", "80 % interval"]


@pytest.mark.slow
def test_fit_1d_subtracts_the_noise_of_plain_regression(curve, ax):
    _, X, y = curve
    model = SparseGPRegressor(**SMALL).fit(X, y)
    plots.fit_1d(model, X, level=None, points=50, ax=ax)
    mean, sd = model.predict(pd.DataFrame({"depth": np.linspace(0, 10, 50)}), return_std=True)
    clean = np.sqrt(sd**2 - model.noise_sd_**2)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), mean)
    np.testing.assert_allclose(band(ax.collections[0])[1], mean + 2 * clean)


@pytest.mark.slow
def test_fits_over_times_have_an_axis_of_times(ax):
    X = pd.DataFrame({"day": pd.date_range("2024-01-01", periods=60, freq="D")})
    y = pd.Series(np.arange(60) // 20, name="count")
    model = ZeroInflatedGPRegressor(likelihood="zip", **SMALL).fit(X, y)
    plots.fit_1d(model, X, y, points=30, ax=ax)
    along = ax.lines[1].get_xdata()
    assert (along[0], along[-1]) == (np.datetime64("2024-01-01"), np.datetime64("2024-02-29"))
    assert band(ax.collections[0])[0].min() >= 0  # counts are not negative
    axes = plots.components_1d(model, X, y, points=30, figure=Figure())
    # The signal of log amounts has no kernel.
    assert (axes[0, 1].axison, axes[1, 0].get_ylabel()) == (False, "log of amount")


@pytest.mark.slow
def test_a_hurdle_is_drawn_by_its_predictions_and_the_bounds_of_its_parts(ax):
    X, y = one_input()
    hurdle = HurdleGPRegressor(**SMALL).fit(X, np.where(y > 0.5, y, 0.0))
    plots.fit_1d(hurdle, X, points=50, ax=ax)
    grid = pd.DataFrame({"depth": np.linspace(0, 10, 50)})
    np.testing.assert_allclose(ax.lines[0].get_ydata(), hurdle.predict(grid))
    progress = plots.bound(hurdle, label="A", ax=Figure().subplots())
    assert legend(progress) == ["A: zero or not", "A: amounts"]
    for line, fitted in zip(curves(progress), hurdle.parts_.values(), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), fitted.bounds_)
    assert_refused(
        [
            (plots.component_maps, (hurdle, X), {}, "needs a ZeroInflatedGPRegressor"),
            (plots.fit_1d, (hurdle.classifier_, X), {"ax": ax}, "SparseGPClassifier predicts"),
        ]
    )


@pytest.mark.slow
def test_components_1d_shows_every_component_and_its_kernel(curve):
    model, X, y = curve
    figure = Figure()
    axes = plots.components_1d(model, X, y, points=40, figure=figure)
    assert [one.figure for one in axes.flat] == 8 * [figure]
    parts = model.predict_components(pd.DataFrame({"depth": np.linspace(0, 10, 40)}))
    for row, name in enumerate(("signal", "latent", "gate")):
        np.testing.assert_allclose(axes[row, 0].lines[-1].get_ydata(), parts[name])
    np.testing.assert_array_equal(axes[0, 0].lines[0].get_ydata(), y)
    signal, latent, pairs, _ = (one.collections[0].get_array() for one in axes[:, 1])
    np.testing.assert_allclose(pairs, np.outer(parts["gate"], parts["gate"]))
    np.testing.assert_allclose(signal, pairs * latent)
    # The prior's variance is on the diagonal, in squared units of y.
    variance = float(model.model_.latents["f"].variance) * model.y_scale_**2
    np.testing.assert_allclose(np.diag(latent), variance, rtol=1e-6)
    g = axes[3, 0].lines[0].get_ydata()
    np.testing.assert_array_equal(g > 0, parts["gate"] > 0.5)
    low, high = band(axes[2, 0].collections[0])
    assert 0 <= low.min() < high.max() <= 1
    assert [labels(one)[0] for one in axes[-1]] == ["depth", "depth"]
    assert [labels(one)[1] for one in axes[:2, 0]] == ["catch", "catch"]


# -- maps ---------------------------------------------------------------------------------------


def test_scatter_map_colours_amounts_and_greys_zeros(ax):
    X = pd.DataFrame({"lat": [60.0, 61, 62, 63], "lon": [20.0, 21, 22, 23]})
    y = pd.Series([0.0, 2.0, np.nan, 1.0], name="rain", index=X.index)
    y.attrs["units"] = "mm"
    assert plots.scatter_map(X, y, ax=ax) is ax
    np.testing.assert_array_equal(part(ax, "zero").get_offsets(), [[20, 60]])
    np.testing.assert_array_equal(part(ax, "missing").get_offsets(), [[22, 62]])
    wet = part(ax, "values")
    np.testing.assert_array_equal(wet.get_offsets(), [[23, 63], [21, 61]])  # the largest on top
    np.testing.assert_array_equal([*wet.get_array(), wet.norm.vmin], [1.0, 2.0, 0.0])
    key = "rain, mm\n(grey: zero, rings: missing)"
    assert (*labels(ax), *colour_bars(ax)) == ("lon, °E", "lat, °N", key)
    assert ax.get_aspect() == pytest.approx(1 / np.cos(np.deg2rad(61.5)))


def test_scatter_map_over_any_two_columns(ax):
    X = np.arange(12.0).reshape(4, 3)
    plots.scatter_map(X, [0.02, -1, 1, 2], columns=(2, 0), label="change", ax=ax)
    dots = part(ax, "values")
    assert dots.norm.vmin == -dots.norm.vmax  # signed, with white at zero
    assert set(map(tuple, dots.get_offsets())) == {(2, 0), (5, 3), (8, 6), (11, 9)}
    assert (*labels(ax), *colour_bars(ax)) == ("column 2", "column 0", "change")
    plain = Figure().subplots()
    plots.scatter_map(X[:, :2], [0.02, 0, 1, 2], tol=0.05, colorbar=False, ax=plain)
    assert (len(part(plain, "zero").get_offsets()), colour_bars(plain)) == (2, [])


@pytest.mark.parametrize(
    ("values", "options", "ends"),
    [
        ([*np.zeros(900), *np.linspace(1, 2, 99), 1000.0], {}, (0.0, 11.98, "max")),
        ([3.0, 4.0, 5.0], {}, (3.0, 4.98, "max")),
        ([0.0, 0.0, 0.0], {}, (0.0, 1.0, "neither")),
        ([-1.0, 0.0, 4.0], {"kind": "share"}, (0.0, 1.0, "neither")),
        ([1.0, 5.0], {"limits": (2.0, 4.0)}, (2.0, 4.0, "both")),
    ],
    ids=["outlier", "no zeros", "zeros", "share", "limits"],
)
def test_colours_end_where_most_values_do(values, options, ends):
    scale = colour_scale(np.array(values), **options)
    assert (scale.low, scale.extend) == ends[::2]
    assert scale.high == pytest.approx(ends[1], rel=0.02)


def test_lattice_map_shows_cells_with_their_coordinates(ax):
    radar = simulate_rain_grid(4, 5, 6).isel(time=2).copy()
    radar[1, 2] = np.nan
    radar[3, 3] = 2.5
    assert plots.lattice_map(radar.transpose("lon", "lat"), ax=ax) is ax  # east is to the right
    shown, dry = (part(ax, gid).get_array() for gid in ("values", "zero"))
    assert shown.shape == (5, 6)
    wet = np.nan_to_num(radar.values) > 0
    np.testing.assert_array_equal(~np.ma.getmaskarray(shown), wet)
    np.testing.assert_array_equal(shown[wet], radar.values[wet])
    np.testing.assert_array_equal(~np.ma.getmaskarray(dry), radar.values == 0)
    key = "rain_mm, mm\n(grey: zero, white: missing)"
    assert (*labels(ax), *colour_bars(ax)) == ("lon, °E", "lat, °N", key)


def test_lattice_map_has_names_as_coordinates(ax):
    values = np.array([[1.0, -2.0, np.nan], [0.0, 4.0, 5.0]])
    coordinates = {"site": ["north", "south"], "hour": [0, 6, 12]}
    plots.lattice_map(xr.DataArray(values, coordinates), label="gain", ax=ax)
    ticks = [text.get_text() for text in ax.get_yticklabels()]
    assert (*labels(ax), *filter(None, ticks)) == ("hour", "site", "north", "south")
    np.testing.assert_array_equal(part(ax, "values").get_array().filled(np.nan), values)
    assert colour_bars(ax) == ["gain\n(hatched: missing)"]  # white is a colour here
    assert ax.patch.get_hatch()


def test_time_slices_of_a_table_share_their_colours():
    table = simulate_rain(20, 12)
    figure = Figure()
    X, y = table[PLACES], table["rain_mm"]
    axes = plots.time_slices(X, y, at=[2, 5, 8], ncols=2, figure=figure)
    assert titles(axes) == ["hour 2", "hour 5", "hour 8"]
    assert [one.figure for one in axes] == 3 * [figure]
    for hour, one in zip((2, 5, 8), axes, strict=True):
        now = table[table["hour"] == hour]
        wet = np.sort(now["rain_mm"][now["rain_mm"] > 0])
        np.testing.assert_array_equal(part(one, "values").get_array(), wet)
        assert len(part(one, "zero").get_offsets()) == (now["rain_mm"] == 0).sum()
    assert len({part(one, "values").norm.vmax for one in axes}) == 1
    assert [one.get_ylabel() for one in axes] == ["lat, °N", "", "lat, °N"]
    assert colour_bars(axes[0]) == ["rain_mm\n(grey: zero)"]


def test_time_slices_of_a_lattice_choose_times_evenly():
    radar = simulate_rain_grid(9, 4, 5)
    axes = plots.time_slices(radar, at=3, figure=Figure())
    assert titles(axes) == ["2018-07-01", "2018-07-01\n04:00", "2018-07-01\n08:00"]
    last, values = part(axes[2], "values").get_array(), radar.isel(time=8).values
    np.testing.assert_array_equal(last.filled(0), np.nan_to_num(values))


def test_component_maps_at_stations(rain):
    model, X, y = rain
    now = X["hour"] == 30
    left, right = Figure(layout="constrained").subfigures(1, 2)
    axes = plots.component_maps(model, X[now], y[now], tol=0.05, figure=right)
    assert titles(axes) == ["observed", "signal", "gate", "latent"]
    assert ({one.figure for one in axes}, left.axes) == ({right}, [])
    parts = model.predict_components(X[now])
    for one, name in zip(axes[2:], ("gate", "latent"), strict=True):
        shown = part(one, "values")
        by_place = dict(zip(map(tuple, shown.get_offsets()), shown.get_array(), strict=True))
        want = dict(zip(zip(X[now]["lon"], X[now]["lat"], strict=True), parts[name], strict=True))
        assert by_place == pytest.approx(want)
    data, signal, gate, latent = (part(one, "values").get_clim() for one in axes)
    assert (data, gate, latent[0]) == (signal, (0, 1), -latent[1])
    dots = part(axes[1], "values").get_array()
    np.testing.assert_allclose(dots, np.sort(parts["signal"][parts["signal"].abs() > 0.05]))
    assert len(plots.component_maps(model, X[now], figure=Figure())) == 3
    assert "0 off, 1 on" in colour_bars(axes[0])


def test_component_maps_on_a_lattice_of_stations_and_hours(rain):
    model, X, y = rain
    stations, hours = X[["lat", "lon"]].drop_duplicates(), np.arange(20, 26)
    table = X.assign(rain=y).pivot(index="hour", columns=["lat", "lon"], values="rain")
    lattice = xr.DataArray(
        table[list(stations.itertuples(index=False, name=None))].reindex(hours).to_numpy().T,
        coords={name: ("station", stations[name]) for name in stations} | {"hour": hours},
        dims=("station", "hour"),
        name="rain",
        attrs={"units": "mm"},
    )
    axes = plots.component_maps(model, lattice, ncols=1, figure=Figure())
    row = pd.DataFrame({name: stations[name].iloc[3] for name in stations} | {"hour": hours})
    np.testing.assert_allclose(part(axes[2], "values").get_array()[3], model.prob_on(row))
    observed, wet = part(axes[0], "values").get_array(), np.nan_to_num(lattice.values) > 0
    np.testing.assert_array_equal(observed[wet], lattice.values[wet])
    assert (*labels(axes[-1]), colour_bars(axes[0])[-1]) == ("hour", "station", "rain, mm")


# -- networks -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_network_panels_show_every_latent_weight_support_and_output(network, curve):
    model, X, Y = network
    axes = plots.network_panels(model, X, observed=(X, Y), figure=Figure())
    # A latent, two weights, two supports, predicted, observed; three outputs, but two latents.
    assert (axes.shape, axes[2, 0].axison) == ((3, 7), False)
    parts, mean = model.predict_network(X), model.predict(X)
    shown = {one.get_title(loc="left"): part(one, "values") for one in axes.flat if one.axison}
    assert len(shown) == 2 + 6 + 6 + 3 + 3
    for title, values in (
        ("latent 2", parts.latents[:, 1]),
        ("ni: weight 2", parts.effective_weights[:, 1, 1]),
        ("zn: support 1", parts.support[:, 0, 2]),
        ("cd: predicted", mean[:, 0]),
        ("cd: observed", Y["cd"].dropna().to_numpy()),
    ):
        np.testing.assert_allclose(np.sort(shown[title].get_array()), np.sort(values))
    assert shown["cd: predicted"].get_clim() == shown["cd: observed"].get_clim()
    assert sum(shown["cd: weight 1"].get_clim()) == 0
    assert (axes[2, 1].get_xlabel(), axes[0, 0].get_ylabel()) == ("x", "y")
    two = {"observed": (X, np.zeros((40, 2)))}
    assert_refused(
        [
            (plots.network_panels, (model, X), two, r"shape \(40, 2\), but there are 3"),
            (plots.network_panels, curve[:2], {}, "network_panels needs a GPNetworkRegressor"),
        ]
    )


@pytest.mark.slow
def test_network_panels_of_one_input_are_curves():
    x = np.linspace(0, 10, 40)[:, None]
    Y = np.column_stack([np.sin(x[:, 0]), np.cos(x[:, 0])])
    model = GPNetworkRegressor(1, n_restarts=1, steps=5, n_inducing=5).fit(x, Y)
    axes = plots.network_panels(model, x, observed=(x, Y), figure=Figure())
    np.testing.assert_allclose(axes[1, 3].lines[0].get_ydata(), model.predict(x)[:, 1])
    np.testing.assert_array_equal(axes[1, 4].lines[0].get_ydata(), Y[:, 1])
    assert (*titles(axes[1, 2:3]), axes[1, 2].get_ylim()) == ("output 1: support 1", (-0.05, 1.05))
    with pytest.raises(ValueError, match=r"one output; this model has 2 \(0, 1\)"):
        plots.fit_1d(model, x, Y[:, 0], ax=axes[0, 0])


# -- amounts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "log"),
    [
        (np.array([0.0, 0.1, 0.1, 0.3, 0.4, 2.0, np.nan]), False),
        (np.append(0.0, np.geomspace(0.01, 100.0, 50)), True),
        (np.append(0.0, np.linspace(-5.0, 500.0, 60)), False),
        (np.array([0.0, 7.0]), False),
        (np.zeros(3), False),
    ],
    ids=["recorded", "wide", "signed", "one", "none"],
)
def test_amount_histogram_counts_every_value_that_is_not_zero(values, log, ax):
    plots.amount_histogram(pd.Series(values, name="catch"), unit="kg", ax=ax)
    counts, edges, _ = ax.patches[0].get_data()
    on = values[np.nan_to_num(values) != 0]
    np.testing.assert_array_equal(counts, np.histogram(on, edges)[0])
    assert counts.sum() == len(on)
    scale = "log" if log else "linear"
    assert (ax.get_xscale(), ax.get_xlabel()) == (scale, "catch, kg (non-zero values)")


def test_means_along_an_input_are_those_of_its_parts_or_levels(ax):
    x, y = pd.Series([0.0, 1.0, 2.0, 9.0, 10.0], name="depth"), np.array([1.0, 2.0, 3.0, 4.0, 6.0])
    plots.means_along(x, pd.Series(y, name="catch"), bins=2, unit="kg", label="observed", ax=ax)
    plots.means_along(x, 2 * y, bins=9, label="predicted", ax=ax)
    first, second = curves(ax)
    np.testing.assert_allclose(first.get_xydata(), [[1.0, 2.0], [9.5, 5.0]])
    np.testing.assert_allclose(second.get_xydata(), np.column_stack([x, 2 * y]))
    assert legend(ax) == ["observed", "predicted"]
    other, times = Figure().subplots(1, 2)
    plots.means_along(pd.Series(list("abbab"), name="gear"), y, bins=1, ax=other)
    assert other.lines[0].get_xdata() == ["b"]  # the most frequent level
    np.testing.assert_allclose(other.lines[0].get_ydata(), np.mean(y[[1, 2, 4]]))
    plots.means_along(pd.date_range("2024-01-01", periods=5), y, ax=times)
    assert times.lines[0].get_xdata()[0] == np.datetime64("2024-01-01")


def test_error_distribution_shows_shares_of_larger_errors(ax):
    y = pd.Series([0.0, 0.0, 1.0, 3.0], name="rain")
    plots.error_distribution(y, [0.0, 0.5, 0.0, 1.0], resolution=0.1, unit="mm", label="a", ax=ax)
    (line,) = curves(ax)
    np.testing.assert_allclose(
        line.get_xydata(), [[0, 1], [0.5, 0.75], [1, 0.5], [2, 0.25], [2, 0]]
    )
    assert ax.get_xlabel() == "absolute error of rain, mm"
    plots.error_distribution(y, np.full(4, 50.0), resolution=0.1, label="b", ax=ax)
    assert len({line.get_linestyle() for line in curves(ax)}) == 2
    assert len({line.get_color() for line in curves(ax)}) == 2
    assert ax.get_xlim()[1] > 50  # the larger errors of the second are on the axes
    assert part(ax, "resolution").get_xdata()[0] == 0.1
    assert legend(ax) == ["a", "b"]


def test_observed_vs_predicted_has_a_dot_for_each_row(ax):
    y, mean = pd.Series([0.0, 3.0, 1.0], name="rain"), np.array([0.5, 2.0, 1.0])
    assert plots.observed_vs_predicted(y, mean, unit="mm", ax=ax) is ax
    np.testing.assert_array_equal(ax.lines[0].get_xydata(), np.column_stack([mean, y]))
    np.testing.assert_array_equal(part(ax, "exact").get_xydata(), [[0, 0], [3, 3]])
    assert labels(ax) == ("predicted rain, mm", "observed rain, mm")


# -- checks -------------------------------------------------------------------------------------


def test_reliability_shows_the_table_of_diagnostics(rain, ax):
    model, X, y = rain
    assert plots.reliability(model, X, y, 0.05, bins=8, ax=ax) is ax
    table = diagnostics.reliability(model, X, y, 0.05, 8)
    (line,) = curves(ax)
    np.testing.assert_array_equal(line.get_xydata(), table[["predicted", "observed"]])
    rows = [one.get_height() for one in ax.patches]
    np.testing.assert_allclose(rows, table["rows"] / len(y))
    assert ax.get_ylabel() == "observed share of non-zero rain_mm"
    plots.reliability(model, X, y, 0.5, ax=ax)
    assert (len(curves(ax)), len(ax.patches)) == (2, len(rows))  # rows of the first alone


@pytest.mark.slow
def test_pit_histogram_counts_predicted_probabilities_of_lower_values(rain, ax):
    model, X, y = rain
    assert plots.pit_histogram(model, X, y, resolution=0.1, bins=5, ax=ax) is ax
    plain = plots.pit_histogram(model, X, y, bins=4, ax=Figure().subplots())
    for one, u, bins in (
        (ax, scores.pit(y.to_numpy(), lambda t: model.prob_below(X, t), 0.1), 5),
        (plain, norm.cdf(model.quantile_residuals(X, y)), 4),
    ):
        heights = part(one, "curve").get_data().values
        np.testing.assert_allclose(heights, np.histogram(u, bins, (0, 1))[0] / (len(y) / bins))
        assert one.get_ylim()[1] > heights.max()


def test_bound_over_steps_and_seconds(curve, ax):
    model = curve[0]
    assert plots.bound(model, ax=ax) is ax
    steps = np.column_stack([np.arange(20), model.bounds_])
    np.testing.assert_array_equal(curves(ax)[0].get_xydata(), steps)
    plain = plots.bound(model, by="seconds", ax=Figure().subplots())
    times = curves(plain)[0].get_xdata()
    np.testing.assert_array_equal(times, model.times_)
    assert np.all(np.diff([*times, model.seconds_]) > 0)
    assert plain.get_xlabel() == "seconds"


@pytest.mark.slow
def test_bound_shows_other_restarts_in_the_background(network, ax):
    model = network[0]
    plots.bound(model, ax=ax)
    *restarts, best = sorted(ax.lines, key=lambda line: line.get_zorder())
    np.testing.assert_array_equal(best.get_ydata(), model.bounds_)
    ends = sorted(line.get_ydata()[-1] for line in restarts)
    assert ends[0] < ends[1] == model.bounds_[-1]


def test_plots_refuse_what_they_cannot_draw(rain, curve, ax):
    model, X, y = rain
    now = X["hour"] == 30
    three, radar, on = np.zeros((4, 3)), simulate_rain_grid(3, 4, 4), {"ax": ax}
    flat = xr.DataArray(np.zeros((2, 3)), dims=("lat", "hour"))
    places = {"columns": (0, 1), **on}
    assert_refused(
        [
            (plots.fit_1d, (model, X, y), on, r"this one has 3 \(lat, lon, hour\)"),
            (plots.fit_1d, (*curve[:2], [1, 2, 3]), on, r"shape \(3,\), but there are 80"),
            (plots.fit_1d, (ZeroInflatedGPRegressor(), X, y), on, "not fitted yet"),
            (plots.components_1d, (model, X, y), {}, "draws a model of one input"),
            (
                plots.scatter_map,
                (three, three[:, 0]),
                on,
                "A map needs two columns of column 0, column 1, column 2",
            ),
            (
                plots.scatter_map,
                (three, three[:, 0]),
                {"columns": [0], **on},
                "across and up; it names 1",
            ),
            (
                plots.scatter_map,
                (three, three[:, 0]),
                {"columns": ["lat", "lon"]},
                "no column 'lat'",
            ),
            (
                plots.scatter_map,
                (three, three[:, 0]),
                {"kind": "rainbow", **places},
                "kind must be 'amount'",
            ),
            (
                plots.scatter_map,
                (three, three[:, 0]),
                {"tol": -1, **places},
                "tol must not be negative",
            ),
            (
                plots.scatter_map,
                (three[:, :2], [1, 2, 3]),
                on,
                r"shape \(3,\), but there are 4 rows",
            ),
            (plots.scatter_map, (three[:, :1], three[:, 0]), on, "there is only column 0"),
            (plots.lattice_map, ([1, 2, 3],), on, "different number of dimensions"),
            (plots.lattice_map, (radar,), on, "2 dimensions; this has time, lat, lon"),
            (
                plots.time_slices,
                (three, [1, 2]),
                {"time": 2},
                r"shape \(2,\), but there are 4 rows",
            ),
            (
                plots.time_slices,
                (three, three[:, 0]),
                {},
                "Which of column 0, column 1, column 2 is the time",
            ),
            (plots.time_slices, (X,), {}, "needs the values to draw beside the table"),
            (plots.time_slices, (radar,), {"at": 0}, "at must be at least 1"),
            (plots.time_slices, (radar,), {"ncols": 0}, "ncols must be at least 1"),
            (plots.time_slices, (radar[0],), {}, "3 dimensions; this has lat, lon"),
            (
                plots.time_slices,
                (radar,),
                {"at": ["2019-01-01"]},
                "nothing at 2019-01-01: times run from 2018-07-01 to 2018-07-01 02:00",
            ),
            (
                plots.component_maps,
                (model, X, y),
                {},
                r"rows at 12 places \(lon, lat\), so a map would hide",
            ),
            (plots.component_maps, (model, X[now], [1.0, 2.0]), {}, r"shape \(2,\), but there are"),
            (plots.component_maps, curve[:2], {}, "there is only depth"),
            (plots.component_maps, (model, flat), {}, "now missing:\n- lon"),
            (
                plots.error_distribution,
                (y, [1, 2, 3]),
                on,
                r"predicted has shape \(3,\), but there are",
            ),
            (plots.error_distribution, (y, y), {"resolution": 0.0}, "resolution must be positive"),
            (plots.reliability, (model, X, y), on, "tol must be positive"),
            (
                plots.pit_histogram,
                (SparseGPClassifier(), X, y),
                on,
                "needs predicted amounts; SparseGPClass",
            ),
            (plots.bound, (model, "hours"), on, "by must be 'steps' or 'seconds', not 'hours'"),
        ]
    )
    assert not ax.has_data()


# -- axes and figures ---------------------------------------------------------------------------


@pytest.mark.slow
def test_pyplots_current_axes_are_the_default(curve):
    model, X, y = curve
    _, (_, right) = plt.subplots(1, 2)
    assert plots.bound(model) is right
    before = plt.get_fignums()
    axes = plots.components_1d(model, X, y, points=20)
    assert plt.get_fignums() == [*before, axes[0, 0].figure.number]
