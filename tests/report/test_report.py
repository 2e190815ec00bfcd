"""The report: its sentences against known numbers, and the page in a real browser."""

from __future__ import annotations

import base64
import json
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from zigp.report.maps import chosen_rows, maps_of

from zigp import (
    GPNetworkRegressor,
    HurdleGPRegressor,
    SparseGPRegressor,
    ZeroInflatedGPRegressor,
)
from zigp.datasets import simulate_rain, simulate_rain_grid
from zigp.gp.kernels import Categorical, Linear, Matern12, Periodic
from zigp.report import Roles, Trial, write_report
from zigp.report.trial import judged
from zigp.report.words import amount, as_it_is, learned, noise

HOSTILE = "<script>alert(1)</script>"
ROLES = Roles("rain_mm", ("lon", "lat"), "hour", "mm", on_earth=True)


@pytest.fixture(scope="module")
def rain():
    return simulate_rain(8, 16, seed=1)


@pytest.fixture(scope="module")
def model(rain):
    kind = ZeroInflatedGPRegressor(
        latlon=["lat", "lon"], steps=30, column_groups=[["lat", "lon"], ["hour"]]
    )
    return kind.fit(rain[["lat", "lon", "hour"]], rain["rain_mm"])


@pytest.fixture(scope="module")
def page(rain, model, tmp_path_factory):
    X, y = rain[["lat", "lon", "hour"]], rain["rain_mm"].to_numpy()
    out = tmp_path_factory.mktemp("report") / "report.html"
    trial = Trial.of(model, X, y, seen=True)
    command = ["zigp", "report", "a b.zigp"]
    return write_report(model, X, y, out, roles=ROLES, trial=trial, command=command)


# -- words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (12345.6, "12,300"), (-0.0012349, "-0.00123"), (99.96, "100"), (7.0, "7")],
)
def test_numbers_are_written_with_three_digits(value, text):
    assert amount(value) == text


def test_lengths_are_told_as_distances_of_half_the_correlation():
    X = pd.DataFrame({"depth": np.linspace(0.0, 10.0, 20), "hour": np.tile([0.0, 6.0], 10)})
    y = np.where(X["depth"] > 5, 2.0, 0.0)
    kernel = Matern12([2.0, 3.0])
    fixed = ("kernel",)
    fitted = SparseGPRegressor(kernel=kernel, steps=2, fixed=fixed, n_inducing=8).fit(X, y)
    [(title, sentences)] = learned(fitted, Roles("catch", time="hour"))
    half = np.log(2.0)  # exp(−r) = ½
    assert title == "How catch varies"
    assert sentences == [
        f"{amount(2.0 * half)} apart in depth it is half as correlated.",
        f"{amount(3.0 * half)} hours apart it is half as correlated.",
    ]


@pytest.mark.slow
def test_other_kernels_and_times_have_words_of_their_own():
    when = pd.date_range("2020-01-01", periods=24, freq="6h")
    gear = pd.Categorical(np.tile(["net", "line"], 12))
    X = pd.DataFrame({"when": when, "gear": gear, "x": np.linspace(0.0, 1.0, 24)})
    kernel = (
        Matern12(72.0).on(0) * Categorical(0.25).on(1) + Periodic(24.0).on(0) + Linear(1.0).on(2)
    )
    fitted = SparseGPRegressor(kernel=kernel, steps=2, fixed=("kernel",)).fit(X, np.arange(24.0))
    [(_, sentences)] = learned(fitted, Roles("y"))
    assert sentences == [
        f"{amount(3.0 * np.log(2.0))} days apart it is half as correlated.",
        "Different levels of gear are 25% correlated.",
        "It repeats every 24 hours.",
        "It changes in straight lines with x.",
    ]


def test_kilometres_are_told_of_latitude_and_longitude(model):
    (gate, first), (how_much, second) = learned(model, ROLES)
    assert gate == "Where rain_mm is switched on"
    assert how_much == "How much rain_mm there is where it is on"
    for sentences in (first, second):
        assert sentences[0].endswith(" km apart it is half as correlated.")
        assert sentences[1].endswith(" hours apart it is half as correlated.")
    on, off = (amount(model.noise_[k], "mm") for k in ("on_sd", "off_sd"))
    assert noise(model, ROLES) == (
        f"Observations scatter by about {off} where rain_mm is off and by {on} where it is fully "
        "on."
    )


# -- roles ----------------------------------------------------------------------------------------


def test_places_and_time_are_found_by_what_is_known(model):
    found = Roles.of(model, target="rain_mm")
    assert (found.places, found.time, found.on_earth) == (("lon", "lat"), "hour", True)
    with pytest.raises(ValueError, match="has no column 'week'; it has lat, lon, hour"):
        Roles.of(model, time="week")


@pytest.mark.slow
def test_columns_that_no_map_can_be_drawn_by_are_told(model, rain):
    with pytest.raises(ValueError, match="A map needs two columns, such as lon,lat; not lat"):
        Roles.of(model, space=["lat"])
    with pytest.raises(ValueError, match="'lat' is not what the model explains"):
        Roles.of(model, target="lat")
    X = rain[["lat", "hour"]].assign(gear=pd.Categorical(np.where(rain["lon"] > 25, "a", "b")))
    other = SparseGPRegressor(steps=1, n_inducing=4).fit(X, rain["rain_mm"])
    with pytest.raises(ValueError, match="'gear' holds no numbers"):
        Roles.of(other, space=["lat", "gear"])
    assert Roles.of(other).places is None
    assert not Roles.of(other, space=["hour", "lat"]).on_earth


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (1000239.0, "1000239"),
        (20240101, "20240101"),
        (pd.Timestamp("2024-03-31 01:00", tz="Europe/Helsinki"), "2024-03-31 01:00+02:00"),
        (pd.Timestamp("2024-03-31 01:00:07"), "2024-03-31 01:00:07"),
    ],
)
def test_inputs_keep_all_their_digits(time, text):
    assert as_it_is(time) == text


# -- maps -----------------------------------------------------------------------------------------


def unpacked(one: dict) -> np.ndarray:
    cells = np.frombuffer(base64.b64decode(one["cells"]), "<u2").astype(float)
    return np.where(cells == 65535, np.nan, one["low"] + one["step"] * cells)


def test_maps_hold_every_row_at_its_place_and_time(rain):
    X, y = rain[["lat", "lon", "hour"]], rain["rain_mm"].to_numpy()
    rows, note = chosen_rows(X, ROLES)
    assert note == ""
    maps = maps_of(X, ROLES, rows, {"observed": y}, note).packed()
    values = unpacked(maps["values"]["observed"])
    place = np.frombuffer(base64.b64decode(maps["place"]), "<u4")
    found = {
        (maps["labels"][t], maps["east"][place[i]], maps["north"][place[i]]): values[i]
        for t in range(len(maps["labels"]))
        for i in range(maps["starts"][t], maps["starts"][t + 1])
    }
    assert len(found) == len(rain)
    for row, value in zip(X.itertuples(), y, strict=True):
        key = (f"hour {row.hour:g}", round(row.lon, 6), round(row.lat, 6))
        assert found[key] == pytest.approx(value, abs=y.max() / 65_000)


def test_rows_with_times_of_their_own_share_pictures():
    rng = np.random.default_rng(0)
    times = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.uniform(0, 9000, 500), unit="h")
    X = pd.DataFrame({"x": rng.normal(size=500), "y": rng.normal(size=500), "when": times})
    roles = Roles("catch", ("x", "y"), "when")
    maps = maps_of(X, roles, np.arange(500), {"observed": np.arange(500.0)}, "")
    assert 50 <= len(maps.labels) <= 60
    assert maps.starts[-1] == 500
    assert maps.labels[0].startswith("2020-01-01")
    assert " to " in maps.labels[0]


def test_the_page_of_the_real_rain_has_room_to_spare_below_8_megabytes():
    """105 stations, 1,080 hours, four values each."""
    from plotly.offline import get_plotlyjs

    rng, cells = np.random.default_rng(0), 105 * 1080
    where = rng.normal(size=(105, 2))[np.tile(np.arange(105), 1080)]
    X = pd.DataFrame({"lon": where[:, 0], "lat": where[:, 1], "hour": np.arange(cells) // 105})
    values = {name: rng.normal(size=cells) for name in ("observed", "a", "b", "c")}
    text = json.dumps(maps_of(X, ROLES, np.arange(cells), values, "").packed())
    assert len(text) + len(get_plotlyjs()) < 7.5e6


def test_rows_at_one_place_and_time_are_shown_by_their_mean():
    X = pd.DataFrame({"lon": [1.0, 1.0, 2.0], "lat": 0.0, "hour": 5})
    maps = maps_of(X, ROLES, np.arange(3), {"observed": np.array([-1.0, 3.0, 0.0])}, "")
    np.testing.assert_array_equal(maps.values["observed"], [1.0, 0.0])
    assert maps.note == "Rows at the same place and time are shown by their mean."
    zero = np.frombuffer(base64.b64decode(maps.packed()["zero"]), "u1")
    np.testing.assert_array_equal(zero, [0, 1])


def test_more_places_than_a_screen_shows_are_thinned():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(40_000, 2)), columns=["lon", "lat"])
    rows, note = chosen_rows(X, Roles("catch", ("lon", "lat")))
    assert len(rows) == 30_000
    assert note == "30,000 of the 40,000 rows are shown, picked at random."


def test_more_rows_than_a_screen_shows_are_thinned_by_whole_times():
    hours, places = 2000, 200
    X = pd.DataFrame({"hour": np.repeat(np.arange(hours), places), "lat": 0.0, "lon": 0.0})
    rows, note = chosen_rows(X, ROLES)
    assert note == "One in 3 of the 2,000 times is shown."
    assert X["hour"].iloc[rows].value_counts().eq(places).all()
    assert len(rows) <= 150_000


# -- scores ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_models_are_judged_by_rows_that_were_hidden_from_them(rain):
    X, y = rain[["lat", "lon", "hour"]], rain["rain_mm"].to_numpy()
    kind = ZeroInflatedGPRegressor(steps=3, n_inducing=5)
    fitted = kind.fit(X, y)
    said: list[str] = []
    trial = Trial.of(fitted, X, y, say=said.append)
    assert list(trial.models) == ["Plain GP", "Zero-inflated GP"]
    assert [line.partition(":")[0] for line in said] == list(trial.models)
    hidden = len(trial.y)
    assert 0.1 * len(y) < hidden < 0.3 * len(y)
    assert all(one.n_rows_ == len(y) - hidden for one in trial.models.values())
    np.testing.assert_array_equal(trial.y, y[trial.X.index])
    verdict = judged(trial, "rain_mm")
    mean = np.clip(trial.models["Zero-inflated GP"].predict(trial.X), 0.0, None)
    rmse = np.sqrt(np.mean((mean - trial.y) ** 2))
    assert verdict.scores["Zero-inflated GP"]["rmse"] == pytest.approx(rmse)
    assert verdict.scores["Always zero"]["mae"] == pytest.approx(trial.y.mean())
    inputs, found = verdict.worst
    assert list(inputs) == ["lat", "lon", "hour"]
    errors = np.abs(found["rain_mm observed"] - found["predicted"]).to_numpy()
    assert (np.diff(errors) <= 0).all()
    assert errors[0] == pytest.approx(np.abs(mean - trial.y).max())


# -- the page, as text ----------------------------------------------------------------------------


def test_the_page_says_what_the_data_are(page, rain):
    text = page.read_text()
    zeros = (rain["rain_mm"] == 0).mean()
    assert f"{len(rain)} observations, {zeros:.1%} of them exactly zero." in text
    assert "zigp report &#39;a b.zigp&#39;" in text
    assert "so all of this looks better than it is" in text


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["levels", "line", "hurdle", "lattice"])
def test_all_kinds_of_data_have_a_page(kind, tmp_path):
    rng = np.random.default_rng(0)
    out = tmp_path / "report.html"
    if kind == "lattice":
        radar = simulate_rain_grid(12, 6, 6)
        write_report(ZeroInflatedGPRegressor(steps=10).fit(radar), radar, None, out)
        text = out.read_text()
        assert "map-latent" in text
    elif kind == "line":
        X = pd.DataFrame({"depth": np.linspace(0, 9, 60)})
        y = np.where(X["depth"] > 5, 2.0, 0.0) + rng.normal(0, 0.1, 60)
        write_report(SparseGPRegressor(steps=10).fit(X, y), X, y, out)
        text = out.read_text()
        assert "Data and prediction" in text
        assert "map-" not in text.partition("<script")[0]
    else:
        X = pd.DataFrame(
            {
                "depth": rng.uniform(0, 9, 80),
                "gear": pd.Categorical(rng.choice(["net", "line"], 80)),
                "effort": rng.uniform(1, 2, 80),
            }
        )
        y = rng.poisson(np.where(X["depth"] > 4, 3.0, 0.0)).astype(float)
        if kind == "hurdle":
            fitted = HurdleGPRegressor(steps=10, n_inducing=8).fit(X, y)
        else:
            fitted = ZeroInflatedGPRegressor(
                likelihood="auto", exposure="effort", steps=10, n_inducing=8
            ).fit(X, y)
        write_report(fitted, X, y, out, roles=Roles.of(fitted, target="catch"))
        text = out.read_text()
        assert "2 levels: " in text
        assert ("Counts around a mean of 10" in text) == (kind == "levels")
    assert "Always zero" in text


@pytest.mark.slow
def test_what_has_no_report_is_told(rain, model, tmp_path):
    X, y = rain[["lat", "lon", "hour"]], rain["rain_mm"].to_numpy()
    arrays = SparseGPRegressor(steps=2, n_inducing=5).fit(X.to_numpy(), y)
    with pytest.raises(ValueError, match="fit the model on a DataFrame"):
        write_report(arrays, X, y, tmp_path / "r.html")
    with pytest.raises(ValueError, match="one number for each of the"):
        write_report(model, X, y[:3], tmp_path / "r.html")
    with pytest.raises(ValueError, match="X must be a DataFrame"):
        write_report(model, X.to_numpy(), y, tmp_path / "r.html")
    network = GPNetworkRegressor(1, steps=2, n_restarts=1, n_inducing=4).fit(X, np.c_[y, y])
    with pytest.raises(ValueError, match="of one output, not GPNetworkRegressor"):
        write_report(network, X, y, tmp_path / "r.html")
    assert not list(tmp_path.iterdir())


# -- the page, in a browser -----------------------------------------------------------------------

_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
)
_SCREENSHOTS = os.environ.get("ZIGP_SCREENSHOTS")  # a folder to keep them in


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
    drawn = "return document.querySelectorAll('.js-plotly-plot .main-svg').length"
    WebDriverWait(browser, 60).until(lambda b: b.execute_script(drawn) > 10)  # two each


def kept(browser, name: str) -> None:
    if _SCREENSHOTS:
        Path(_SCREENSHOTS).mkdir(parents=True, exist_ok=True)
        shot = {"captureBeyondViewport": True, "format": "png"}
        data = browser.execute_cdp_cmd("Page.captureScreenshot", shot)["data"]
        (Path(_SCREENSHOTS) / f"{name}.png").write_bytes(base64.b64decode(data))


def colours(browser, name: str) -> list:
    return browser.execute_script(
        f"return document.getElementById('map-{name}').data[1].marker.color"
    )


def test_the_page_opens_without_errors_and_asks_nobody(browser, page):
    opened(browser, page)
    assert browser.get_log("browser") == []
    asked = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [
        one["params"]["request"]["url"]
        for one in asked
        if one["method"] == "Network.requestWillBeSent"
    ]
    assert sent[0] == page.as_uri()
    assert [url for url in sent[1:] if not url.startswith(("data:", "blob:"))] == []
    kept(browser, "report")


def test_the_slider_changes_the_maps(browser, page, rain, model):
    opened(browser, page)
    X = rain[["lat", "lon", "hour"]]
    for at in (3, 11):
        browser.execute_script(
            "const s = document.getElementById('when'); s.value = arguments[0];"
            "s.dispatchEvent(new Event('input'))",
            at,
        )
        here = X[X["hour"] == at]
        label = browser.execute_script("return document.getElementById('label').textContent")
        assert label == f"hour {at}"
        shown, expected = colours(browser, "support"), model.prob_on(here)
        assert np.sort(shown) == pytest.approx(np.sort(expected), abs=1e-4)
        # A row that is dry is a small dot without a colour.
        assert len(colours(browser, "observed")) == (rain.loc[here.index, "rain_mm"] > 0).sum()
    kept(browser, "report-hour-11")


def test_the_page_reads_well_at_the_width_of_a_phone(browser, page):
    opened(browser, page, width=390)
    wide, seen = browser.execute_script(
        "const e = document.documentElement; return [e.scrollWidth, e.clientWidth]"
    )
    assert wide <= seen == 390
    size = browser.execute_script("return parseFloat(getComputedStyle(document.body).fontSize)")
    assert size >= 16
    kept(browser, "report-phone")


@pytest.mark.slow
def test_text_from_the_data_is_shown_and_never_run(browser, rain, tmp_path):
    X = rain[["lat", "lon", "hour"]].rename(columns={"lat": HOSTILE})
    y = rain["rain_mm"].to_numpy()
    fitted = ZeroInflatedGPRegressor(steps=3, n_inducing=5).fit(X, y)
    roles = Roles(HOSTILE + "y", ("lon", HOSTILE), "hour", unit="<img src=x onerror=alert(2)>")
    trial = Trial.of(fitted, X, y, seen=True)
    out = write_report(fitted, X, y, tmp_path / "r.html", roles=roles, trial=trial)
    opened(browser, out)  # an alert would make this and what follows fail
    from selenium.common.exceptions import NoAlertPresentException

    with pytest.raises(NoAlertPresentException):
        browser.switch_to.alert.accept()
    assert browser.find_element("tag name", "h1").text == HOSTILE + "y"
    assert browser.get_log("browser") == []
    scripts = browser.execute_script(
        "return [...document.scripts].filter(s => s.textContent.startsWith('alert')).length"
    )
    assert scripts == 0
