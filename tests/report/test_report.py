"""The report: its sentences against known numbers, and the page in a real browser."""

import base64
import json
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from zigp import (
    GPNetworkRegressor,
    HurdleGPRegressor,
    SparseGPRegressor,
    ZeroInflatedGPRegressor,
)
from zigp.datasets import simulate_rain, simulate_rain_grid
from zigp.gp.kernels import Categorical, Linear, Matern12, Periodic
from zigp.plots.canvas import value_text
from zigp.report import Roles, Trial, write_report
from zigp.report.charts import chosen_rows, map_data
from zigp.report.trial import evaluate
from zigp.report.words import amount, learned

HOSTILE = "<script>alert(1)</script>"
ROLES = Roles("rain_mm", ("lon", "lat"), "hour", "mm")
INPUTS = ["lat", "lon", "hour"]


@pytest.fixture(scope="module")
def rain():
    return simulate_rain(8, 16, seed=1)


@pytest.fixture(scope="module")
def model(rain):
    groups = [["lat", "lon"], ["hour"]]
    kind = ZeroInflatedGPRegressor(latlon=["lat", "lon"], steps=30, column_groups=groups)
    return kind.fit(rain[INPUTS], rain["rain_mm"])


@pytest.fixture(scope="module")
def page(rain, model, tmp_path_factory):
    X, y = rain[INPUTS], rain["rain_mm"].to_numpy()
    out = tmp_path_factory.mktemp("report") / "report.html"
    trial = Trial.of(model, X, y, refit=False)
    command = ["zigp", "report", "a b.zigp"]
    return write_report(model, X, y, out, roles=ROLES, trial=trial, command=command)


# -- words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (12345.6, "12,300"), (-0.0012349, "-0.00123"), (99.96, "100"), (7.0, "7")],
)
def test_amounts_have_three_significant_digits(value, text):
    assert amount(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1000239.0, "1000239"),
        (20240101, "20240101"),
        (pd.Timestamp("2024-03-31 01:00", tz="Europe/Helsinki"), "2024-03-31 01:00+02:00"),
        (pd.Timestamp("2024-03-31 01:00:07"), "2024-03-31 01:00:07"),
        (np.datetime64("2024-03-31"), "2024-03-31"),
    ],
)
def test_inputs_keep_all_their_digits(value, text):
    assert value_text(value) == text


def test_lengthscales_are_worded_as_distances_of_half_the_correlation(model):
    X = pd.DataFrame({"depth": np.linspace(0.0, 10.0, 20), "hour": np.tile([0.0, 6.0], 10)})
    y = np.where(X["depth"] > 5, 2.0, 0.0)
    kernel = Matern12([2.0, 3.0])
    fitted = SparseGPRegressor(kernel=kernel, steps=2, fixed=("kernel",), n_inducing=8).fit(X, y)
    half = np.log(2.0)  # exp(−r) = ½
    sentences = [
        f"{amount(2.0 * half)} apart in depth the correlation is one half.",
        f"{amount(3.0 * half)} hours apart the correlation is one half.",
    ]
    assert learned(fitted, Roles("catch", time="hour")) == [("How catch varies", sentences)]
    on_earth = learned(model, ROLES)
    headings = ["Where rain_mm is switched on", "How rain_mm varies where it is on"]
    assert [heading for heading, _ in on_earth] == headings
    for _, (distance, hours) in on_earth:
        assert distance.endswith(" km apart the correlation is one half.")
        assert hours.endswith(" hours apart the correlation is one half.")


@pytest.mark.slow
def test_other_kernels_and_times_have_sentences_of_their_own():
    when = pd.date_range("2020-01-01", periods=24, freq="6h")
    gear = pd.Categorical(np.tile(["net", "line"], 12))
    X = pd.DataFrame({"when": when, "gear": gear, "x": np.linspace(0.0, 1.0, 24)})
    kernel = (
        Matern12(72.0).on(0) * Categorical(0.25).on(1) + Periodic(24.0).on(0) + Linear(1.0).on(2)
    )
    fitted = SparseGPRegressor(kernel=kernel, steps=2, fixed=("kernel",)).fit(X, np.arange(24.0))
    [(_, sentences)] = learned(fitted, Roles("y"))
    assert sentences == [
        f"{amount(3.0 * np.log(2.0))} days apart the correlation is one half.",
        "Different levels of gear are 25% correlated.",
        "It repeats every 24 hours.",
        "It changes in straight lines with x.",
    ]


# -- roles ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_places_and_time_are_recognised_or_given(model, rain):
    roles = Roles.of(model, target="rain_mm")
    assert (roles.places, roles.time) == (("lon", "lat"), "hour")
    X = rain[["lat", "hour"]].assign(gear=pd.Categorical(np.where(rain["lon"] > 25, "a", "b")))
    other = SparseGPRegressor(steps=1, n_inducing=4).fit(X, rain["rain_mm"])
    assert Roles.of(other).places is None
    assert Roles.of(other, space=["hour", "lat"]).places == ("hour", "lat")
    for fitted, given, message in (
        (model, {"time": "week"}, "has no column 'week'; it has lat, lon, hour"),
        (model, {"space": ["lat"]}, "A map needs two columns, such as lon,lat; not lat"),
        (model, {"target": "lat"}, "'lat' is not the target of the model"),
        (other, {"space": ["lat", "gear"]}, "'gear' cannot be an axis of a map"),
    ):
        with pytest.raises(ValueError, match=message):
            Roles.of(fitted, **given)


# -- maps -----------------------------------------------------------------------------------------


def test_maps_hold_every_row_at_its_place_and_time(rain):
    y = rain["rain_mm"].to_numpy()
    assert chosen_rows(rain, ROLES)[1] == ""
    maps = map_data(rain, ROLES, {"observed": y}, "").packed()
    packed = maps["values"]["observed"]
    steps = np.frombuffer(base64.b64decode(packed["cells"]), "<u2")
    values = packed["low"] + packed["step"] * steps
    place = np.frombuffer(base64.b64decode(maps["place"]), "<u4")
    cells = {
        (maps["labels"][t], maps["east"][place[i]], maps["north"][place[i]]): values[i]
        for t in range(len(maps["labels"]))
        for i in range(maps["starts"][t], maps["starts"][t + 1])
    }
    assert cells == pytest.approx(
        {
            (f"hour {row.hour:g}", round(row.lon, 6), round(row.lat, 6)): row.rain_mm
            for row in rain.itertuples()
        },
        abs=y.max() / 65_000,
    )
    wet = (rain["rain_mm"] > 0).groupby(rain["hour"]).sum()
    assert maps["labels"][maps["first"]] == f"hour {wet.idxmax()}"  # the one with most to see


def test_rows_with_times_of_their_own_share_pictures():
    rng = np.random.default_rng(0)
    times = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.uniform(0, 9000, 500), unit="h")
    X = pd.DataFrame({"x": rng.normal(size=500), "y": rng.normal(size=500), "when": times})
    maps = map_data(X, Roles("catch", ("x", "y"), "when"), {"observed": np.arange(500.0)}, "")
    assert 50 <= len(maps.labels) <= 60
    assert maps.starts[-1] == 500
    assert maps.labels[0].startswith("2020-01-01")
    assert " to " in maps.labels[0]


def test_rows_at_one_place_and_time_are_averaged():
    X = pd.DataFrame({"lon": [1.0, 1.0, 2.0], "lat": 0.0, "hour": 5})
    maps = map_data(X, ROLES, {"observed": np.array([-1.0, 3.0, 0.0])}, "")
    np.testing.assert_array_equal(maps.values["observed"], [1.0, 0.0])
    assert maps.note == "Rows at the same place and time are shown by their mean."


def test_maps_of_many_rows_stay_small_and_keep_whole_times():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(40_000, 2)), columns=["lon", "lat"])
    rows, note = chosen_rows(X, Roles("catch", ("lon", "lat")))
    assert len(rows) == 30_000
    assert note == "A random sample of 30,000 of the 40,000 rows is shown."
    X = pd.DataFrame({"hour": np.repeat(np.arange(2000), 200), "lat": 0.0, "lon": 0.0})
    rows, note = chosen_rows(X, ROLES)
    assert note == "One in 3 of the 2,000 times is shown."
    assert X["hour"].iloc[rows].value_counts().eq(200).all()
    assert len(rows) <= 150_000
    # The paper's rain data: 105 stations, 1,080 hours, four values each.
    X = pd.DataFrame({"lon": np.tile(np.arange(105.0), 1080), "lat": 60.0})
    X["hour"] = np.arange(len(X)) // 105
    values = {name: rng.normal(size=len(X)) for name in ("observed", "a", "b", "c")}
    assert len(json.dumps(map_data(X, ROLES, values, "").packed())) < 2.5e6


# -- scores ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_models_are_scored_on_rows_that_were_held_out(rain):
    X, y = rain[INPUTS], rain["rain_mm"].to_numpy()
    lines: list[str] = []
    fitted = ZeroInflatedGPRegressor(steps=3, n_inducing=5).fit(X, y)
    trial = Trial.of(fitted, X, y, say=lines.append)
    assert list(trial.models) == ["Plain GP", "Zero-inflated GP"]
    assert [line.partition(":")[0] for line in lines] == list(trial.models)
    held_out = len(trial.y)
    assert 0.1 * len(y) < held_out < 0.3 * len(y)
    assert all(one.n_rows_ == len(y) - held_out for one in trial.models.values())
    np.testing.assert_array_equal(trial.y, y[trial.X.index])
    result = evaluate(trial, ROLES)
    mean = np.clip(trial.models["Zero-inflated GP"].predict(trial.X), 0.0, None)
    rmse = np.sqrt(np.mean((mean - trial.y) ** 2))
    assert result.scores["rmse"]["Zero-inflated GP"] == pytest.approx(rmse)
    assert result.scores["mae"]["Always zero"] == pytest.approx(trial.y.mean())
    inputs, predictions = result.worst
    assert list(inputs) == INPUTS
    errors = np.abs(predictions["rain_mm observed"] - predictions["predicted"]).to_numpy()
    assert (np.diff(errors) <= 0).all()
    assert errors[0] == pytest.approx(np.abs(mean - trial.y).max())


# -- the page, as text ----------------------------------------------------------------------------


def test_the_page_describes_data_and_noise(page, rain, model):
    text = page.read_text()
    zeros = (rain["rain_mm"] == 0).mean()
    assert f"{len(rain)} observations, {zeros:.1%} of them exactly zero." in text
    assert "zigp report &#39;a b.zigp&#39;" in text
    assert "trained on these rows, so the scores are better than on new data" in text
    on, off = (amount(model.noise_[k], "mm") for k in ("on_sd", "off_sd"))
    assert f"by about {off} where rain_mm is off and by {on} where it is fully on." in text
    assert text.count('role="img" aria-label="') == 6 + 4  # charts and maps
    assert len(text) < 1e6


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["levels", "line", "hurdle", "lattice"])
def test_all_kinds_of_data_have_a_page(kind, tmp_path):
    rng, few = np.random.default_rng(0), {"n_inducing": 8, "steps": 10}
    hauls = pd.DataFrame({"depth": rng.uniform(0, 9, 80), "effort": rng.uniform(1, 2, 80)})
    hauls["gear"] = pd.Categorical(rng.choice(["net", "line"], 80))
    catch = pd.Series(rng.poisson(np.where(hauls["depth"] > 4, 3.0, 0.0)), name="catch")
    around, scatter = "Counts around a mean of 10", "Observations scatter by about"
    of_gear = ("2 levels: ", "Means of observed and predicted catch along gear")
    counts = ZeroInflatedGPRegressor(likelihood="auto", exposure="effort", **few)
    radar = (ZeroInflatedGPRegressor(steps=10), simulate_rain_grid(12, 6, 6), None)
    line = (SparseGPRegressor(**few), hauls[["depth"]], catch)
    model, X, y, expected, absent = {
        "lattice": (*radar, ["map-latent"], "Counts around"),
        "line": (*line, ["and the interval that should hold 90%"], "map-"),
        "levels": (counts, hauls, catch, [around, *of_gear], scatter),
        "hurdle": (HurdleGPRegressor(**few), hauls, catch, [scatter, *of_gear], around),
    }[kind]
    text = write_report(model.fit(X, y), X, y, tmp_path / "report.html").read_text()
    for part in [*expected, "Always zero"]:
        assert part in text
    assert absent not in text.partition("<script")[0]


@pytest.mark.slow
def test_reports_refuse_what_they_cannot_describe(rain, model, tmp_path):
    X, y = rain[INPUTS], rain["rain_mm"].to_numpy()
    arrays = SparseGPRegressor(steps=2, n_inducing=5).fit(X.to_numpy(), y)
    network = GPNetworkRegressor(1, steps=2, n_restarts=1, n_inducing=4).fit(X, np.c_[y, y])
    for fitted, inputs, values, message in (
        (arrays, X, y, "fit the model on a DataFrame"),
        (model, X, y[:3], "one number for each of the"),
        (model, X.to_numpy(), y, "X must be a DataFrame"),
        (model, X.drop(columns="lat"), y, "X has no column 'lat'"),
        (network, X, y, "of one output, not GPNetworkRegressor"),
    ):
        with pytest.raises(ValueError, match=message):
            write_report(fitted, inputs, values, tmp_path / "r.html")
    assert not list(tmp_path.iterdir())


# -- the page, in a browser -----------------------------------------------------------------------

_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
)


@pytest.fixture(scope="module")
def browser():
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (program and driver):
        pytest.skip("Debian's chromium and chromium-driver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with tempfile.TemporaryDirectory() as profile:
        for flag in (*_FLAGS.split(), f"--user-data-dir={profile}", "--window-size=1200,900"):
            options.add_argument(flag)
        chrome = webdriver.Chrome(options=options, service=Service(driver))
        yield chrome
        chrome.quit()


def opened(browser, page: Path, width: int = 1200) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get_log("browser"), browser.get_log("performance")
    browser.get(page.as_uri())
    drawn = "return document.querySelectorAll('.map canvas').length"
    WebDriverWait(browser, 60).until(lambda b: b.execute_script(drawn) == 4)
    if folder := os.environ.get("ZIGP_SCREENSHOTS"):
        os.makedirs(folder, exist_ok=True)
        shot = {"captureBeyondViewport": True, "format": "png"}
        data = browser.execute_cdp_cmd("Page.captureScreenshot", shot)["data"]
        Path(folder, f"report-{width}.png").write_bytes(base64.b64decode(data))


def marks(browser, name: str) -> pd.DataFrame:
    """Return the marks of a map with their values, and the colour of the pixel in their middle."""
    return pd.DataFrame(
        browser.execute_script(
            "const canvas = document.querySelector(arguments[0]), pen = canvas.getContext('2d');"
            "const hex = c => '#' + [...c].map(v => v.toString(16).padStart(2, '0')).join('');"
            "return canvas.marks.map(m => ({...m,"
            "  pixel: hex(pen.getImageData(m.x, m.y, 1, 1).data.slice(0, 3))}))",
            f"#map-{name} canvas",
        )
    )


def test_the_page_opens_offline_without_errors(browser, page):
    opened(browser, page)
    assert browser.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    requests = [
        one["params"]["request"]["url"]
        for one in messages
        if one["method"] == "Network.requestWillBeSent"
    ]
    assert requests[0] == page.as_uri()
    assert [url for url in requests[1:] if not url.startswith("data:")] == []


def test_the_slider_changes_the_maps(browser, page, rain, model):
    opened(browser, page)
    for at in (3, 11):
        browser.execute_script(
            "const s = document.getElementById('when'); s.value = arguments[0];"
            "s.dispatchEvent(new Event('input'))",
            at,
        )
        now = rain[rain["hour"] == at]
        label = browser.execute_script("return document.getElementById('label').textContent")
        assert label == f"hour {at}"
        shown = marks(browser, "gate").sort_values(["east", "north"])
        expected = model.prob_on(now.sort_values(["lon", "lat"])[INPUTS])
        np.testing.assert_allclose(shown["value"], expected, atol=1e-4)
        assert (shown["pixel"] == shown["colour"]).mean() > 0.8  # others lie under a neighbour
        observed = marks(browser, "observed")
        assert observed["colour"].notna().sum() == (now["rain_mm"] > 0).sum()  # zeros are grey


def test_the_value_under_the_pointer_is_shown(browser, page, rain):
    opened(browser, page)
    tip = browser.execute_script(
        "const canvas = document.querySelector('#map-observed canvas'), mark = canvas.marks.at(-1);"
        "const box = canvas.getBoundingClientRect();"
        "canvas.dispatchEvent(new PointerEvent('pointermove',"
        "  {clientX: box.left + mark.x, clientY: box.top + mark.y}));"
        "return document.querySelector('#map-observed .tip').textContent"
    )
    wet = (rain["rain_mm"] > 0).groupby(rain["hour"]).sum()
    most = rain[rain["hour"] == wet.idxmax()].nlargest(1, "rain_mm").iloc[0]
    assert tip == f"lon {most.lon:.6g}, lat {most.lat:.6g}: {most.rain_mm:.3g} mm"


def test_the_page_fits_the_width_of_a_phone(browser, page):
    opened(browser, page, width=390)
    wide, seen = browser.execute_script(
        "const e = document.documentElement; return [e.scrollWidth, e.clientWidth]"
    )
    assert wide <= seen == 390
    size = browser.execute_script("return parseFloat(getComputedStyle(document.body).fontSize)")
    assert size >= 16


@pytest.mark.slow
def test_text_from_the_data_is_shown_and_never_run(browser, rain, tmp_path):
    X = rain[INPUTS].rename(columns={"lat": HOSTILE})
    y = rain["rain_mm"].to_numpy()
    fitted = ZeroInflatedGPRegressor(steps=3, n_inducing=5).fit(X, y)
    roles = Roles(HOSTILE + "y$_$", ("lon", HOSTILE), "hour", unit="<img src=x onerror=alert(2)>")
    trial = Trial.of(fitted, X, y, refit=False)
    out = write_report(fitted, X, y, tmp_path / "r.html", roles=roles, trial=trial)
    opened(browser, out)  # an alert would make this and what follows fail
    from selenium.common.exceptions import NoAlertPresentException

    with pytest.raises(NoAlertPresentException):
        browser.switch_to.alert.accept()
    assert browser.find_element("tag name", "h1").text == HOSTILE + "y$_$"
    assert browser.get_log("browser") == []
    scripts = browser.execute_script(
        "return [...document.scripts].filter(s => s.textContent.startsWith('alert')).length"
    )
    assert scripts == 0
