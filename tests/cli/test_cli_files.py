"""The commands fit, predict, evaluate, simulate and info, on files, with sixty mistakes."""

import gzip
import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from fuzz.material import put_model
from fuzz.running import in_process, listing
from jax.errors import JaxRuntimeError

from zigp import GPNetworkRegressor, SparseGPRegressor, load
from zigp.datasets import simulate_rain

TABLE = simulate_rain(9, 20, seed=1)
INPUTS = ["lat", "lon", "hour"]
RAIN = "--target rain_mm --space lat,lon --time hour"
SMALL = "--steps 5 --inducing space=4,time=5 --quiet"
HEAD = b"lat,lon,hour,rain_mm\n"
_CELLS = xr.DataArray(
    np.zeros((2, 3)), dims=("time", "site"), name="rain_mm", coords={"time": [0, 1]}
)
_PLACES = {"lat": ("site", [60.0, 61.0, 62.0]), "lon": ("site", [20.0, 20.0, 21.0])}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with tables, lattices and models, one of which `fit` has made, and its answer."""
    folder = tmp_path_factory.mktemp("made")
    TABLE.to_csv(folder / "rain.csv", index=False)
    TABLE.to_parquet(folder / "rain.parquet")
    _CELLS.assign_coords(_PLACES).to_netcdf(folder / "cube.nc", engine="h5netcdf")
    _CELLS.assign_coords(site=["a", "b", "c"]).to_netcdf(folder / "text.nc", engine="h5netcdf")
    (folder / "out" / "rain.png").mkdir(parents=True)
    (folder / "out" / "results.json").write_text("mine")
    for name in ("ready", "class"):
        put_model(folder, name)
    words = f"fit rain.csv {RAIN} {SMALL} --out rain.zigp".split()
    return folder, in_process(words, folder, seconds=600)


@pytest.fixture
def zigp(made, monkeypatch, tmp_path):
    """Type a command in a copy of that folder: its exit code, its output and its messages."""
    shutil.copytree(made[0], tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)

    def typed(command: str) -> tuple[int, str, str]:
        answer = in_process(shlex.split(command), tmp_path, seconds=600)
        return answer.code, answer.out, answer.said

    return typed


@pytest.fixture
def works(zigp):
    """Type a command that must work: its output and its messages."""

    def typed(command: str) -> tuple[str, str]:
        code, out, err = zigp(command)
        assert code == 0, err
        return out, err

    return typed


def test_fit_reports_the_likelihood_the_lattice_and_the_file(made):
    folder, answer = made
    assert (answer.code, answer.out) == (0, "")
    assert "likelihood auto: the values suggest 'gated'" in answer.said
    assert "fill a lattice, space × time, and were fitted as one" in answer.said
    assert "Saved rain.zigp." in answer.said
    assert load(folder / "rain.zigp").on_lattice_


def test_fit_goes_on_from_a_model_whatever_the_order_of_columns(works):
    columns = ["hour", "rain_mm", "id", "lon", "lat"]
    TABLE.assign(id="text")[columns].to_csv("other.csv", index=False)
    works(
        "fit other.csv --target rain_mm --from rain.zigp --steps 3 --seed 3 --quiet --out on.zigp"
    )
    first, on = load("rain.zigp"), load("on.zigp")
    assert on.random_state == 3
    assert on.bounds_[0] > first.bounds_[0]


def test_predict_adds_columns_and_leaves_the_others_as_they_stand(works):
    ids = [f"{i:05d}" for i in range(len(TABLE))]
    TABLE.assign(id=ids, code="NA", note="", mean="1.50").to_csv("new.csv", index=False)
    out, err = works("predict rain.zigp new.csv --below 1 --prefix p_ --chunk-rows 50")
    assert f"Predicted {len(TABLE)} places." in err
    given, found = (text.splitlines() for text in (Path("new.csv").read_text(), out))
    assert found[0] == given[0] + ",p_mean,p_sd,p_prob_on,p_lower,p_upper,p_prob_below_1"
    assert all(line.startswith(f"{row},") for row, line in zip(given, found, strict=True))
    table = pd.read_csv(io.StringIO(out))
    np.testing.assert_allclose(table["p_mean"], load("rain.zigp").predict(TABLE[INPUTS]))
    assert np.all(table["p_lower"] <= table["p_upper"])


def test_info_describes_a_model_in_words_and_as_json(works):
    out, _ = works("info rain.zigp")
    assert "target      rain_mm\ncolumns     lat, lon, hour" in out
    assert "likelihood  gated (off_sd" in out
    assert json.loads(works("info rain.zigp --json")[0])["trained"]["steps"] == 5


def test_simulate_draws_from_a_model(works):
    out, _ = works("simulate --model rain.zigp --data rain.csv --draws 3")
    assert list(pd.read_csv(io.StringIO(out)))[-3:] == ["draw_1", "draw_2", "draw_3"]


@pytest.mark.slow
def test_options_on_the_command_line_override_those_of_a_file(works):
    given = 'target = "rain_mm"\nspace = ["lat", "lon"]\ntime = "hour"\nsteps = 7\n'
    Path("fit.toml").write_text(given + "[inducing]\n'lat,lon' = 4\nhour = 5\n")
    out, _ = works("fit rain.csv --config fit.toml --steps 4 --write-config --out a.zigp --quiet")
    used = tomllib.loads(out)
    assert (used["steps"], used["inducing"]) == (4, "lat,lon=4,hour=5")
    assert load("a.zigp").n_iter_ == 4
    Path("used.toml").write_text(out)
    again, _ = works("fit --config used.toml --write-config --out b.zigp")
    assert tomllib.loads(again) == used
    np.testing.assert_array_equal(load("a.zigp").bounds_, load("b.zigp").bounds_)
    Path("used.toml").write_text(out + 'from = "a.zigp"\n')
    on, _ = works("fit --config used.toml --write-config --out c.zigp")
    assert tomllib.loads(on) == used | {"from": "a.zigp"}
    assert load("c.zigp").bounds_[0] > load("a.zigp").bounds_[0]


@pytest.mark.slow
def test_a_lattice_is_fitted_and_predicted_as_netcdf_and_zarr(works):
    table = TABLE.assign(station=TABLE.groupby(["lat", "lon"]).ngroup())
    data = table.set_index(["hour", "station"])["rain_mm"].to_xarray().to_dataset()
    where = table.groupby("station")[["lat", "lon"]].first()
    data = data.assign_coords(lat=("station", where["lat"]), lon=("station", where["lon"]))
    data["rain_mm"].attrs["units"] = "mm"
    data.to_netcdf("rain.nc", engine="h5netcdf")
    roles = "--target rain_mm --space lat,lon --steps 5 --inducing hour=5,space=4"
    _, err = works(f"fit rain.nc {roles} --quiet --out lattice.zigp")
    assert f"A lattice of hour 20 × station {len(where)} (lat, lon)." in err
    axes = data.drop_vars("rain_mm").assign(hour_bnds=(("hour", "nv"), np.zeros((20, 2))))
    axes.to_netcdf("axes.nc", engine="h5netcdf")
    for source, out in (("rain.nc", "p.nc"), ("axes.nc", "p.zarr")):
        asked = "--below 1 --level 0.8 --prefix p_"
        _, err = works(f"predict lattice.zigp {source} {asked} --out {out}")
        assert f"Predicted {20 * len(where)} places." in err
    one, two = xr.open_dataset("p.nc").load(), xr.open_zarr("p.zarr").load()
    xr.testing.assert_allclose(one, two, rtol=1e-12)
    assert one["p_mean"].dims == ("hour", "station")
    assert one["p_mean"].attrs["units"] == "mm"
    assert set(one) == {"p_mean", "p_sd", "p_prob_on", "p_prob_below", "p_quantiles"}
    np.testing.assert_allclose(one["quantile"], [0.1, 0.5, 0.9])


# -- streams and addresses ------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("model", ["zigp", "gp"])
def test_data_at_an_address_are_streamed_and_predicted(works, model):
    def predicted(source: str, more: str = "") -> np.ndarray:
        settings = f"{RAIN} --steps 5 --inducing 6 --model {model} --quiet"
        _, err = works(f"fit {source} {settings} --out m.zigp --force {more}")
        assert ("block by block" in err) == (more != "--no-stream")
        out, _ = works(f"predict m.zigp {source} --chunk-rows 64")
        return pd.read_csv(io.StringIO(out))["mean"].to_numpy()

    far = Path("rain.parquet").absolute().as_uri()
    np.testing.assert_array_equal(predicted("rain.parquet", "--stream"), predicted(far))
    assert np.isfinite(predicted(far, "--no-stream")).all()


@pytest.mark.slow
def test_a_globe_at_an_address_is_fitted_along_its_own_axes_and_predicted(works):
    """Latitude and longitude along axes of their own have no common distance."""
    y = np.random.default_rng(0).random((6, 5, 4))
    axes = {"time": range(6), "lat": np.arange(60.0, 65.0), "lon": np.arange(20.0, 24.0)}
    xr.Dataset({"y": (tuple(axes), y)}, axes).to_zarr("globe.zarr", consolidated=False)
    source = Path("globe.zarr").absolute().as_uri()
    roles = "--space lat,lon --time time --inducing lat=3,lon=3,time=3"
    _, err = works(f"fit {source} --target y {roles} --steps 2 --quiet --out m.zigp")
    assert "block by block" in err
    for name, data in (("far.nc", source), ("near.nc", "globe.zarr")):
        works(f"predict m.zigp {data} --out {name}")
    xr.testing.assert_identical(xr.open_dataset("far.nc").load(), xr.open_dataset("near.nc").load())


@pytest.mark.slow
def test_a_model_goes_on_with_a_stream_of_its_own_columns_in_any_order(zigp, works):
    rain = TABLE.assign(gauge=np.where(TABLE["hour"] % 2, "old", "new"))
    rain.to_parquet("gauges.parquet")
    rain.assign(other=1.0)[["other", "gauge", *rain.columns[:-1][::-1]]].to_parquet("more.parquet")
    first = "--category gauge --method natural --divide data --inducing 6 --steps 3"
    works(f"fit gauges.parquet {RAIN} {first} --quiet --out a")
    on = "fit more.parquet --target rain_mm --from a --stream --steps 2 --quiet --force --out b"
    for named in ("", "--space lon,lat --time hour --category gauge"):
        works(f"{on} {named}")
        assert list(load("b").feature_names_in_) == list(load("a").feature_names_in_)
        assert (load("b").method, load("b").devices) == ("natural", "data")
    code, _, err = zigp(f"{on} --space lat,lon --time hour")
    assert code == 1
    assert "a was fitted with lat, lon, hour, gauge, not with lat, lon, hour" in err


def test_a_stream_takes_passes_in_place_of_the_steps_of_its_model(works):
    """Its file has no seed that checkpoints could rely on, and the steps of another fit."""
    small = {"n_inducing": 4, "steps": 3, "random_state": None, "batch_size": 64}
    SparseGPRegressor(**small).fit(TABLE[INPUTS], TABLE["rain_mm"]).save("old.zigp")
    on = "--target rain_mm --from old.zigp --stream --passes 2 --quiet"
    works(f"fit rain.parquet {on} --out new.zigp")
    assert load("new.zigp").n_iter_ == 8  # a block of 256 rows, four steps, twice


PREDICTING = """
import contextlib, resource, sys
from zigp.cli import main
sys.argv = ["zigp", "predict", "m.zigp", sys.argv[1], "--out", "p.parquet", "--force", "--quiet"]
with contextlib.suppress(SystemExit):
    main()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is in KiB on Linux only")
def test_memory_does_not_grow_with_the_rows_of_a_folder(tmp_path, monkeypatch):
    """Ten times the rows, whose predictions are 170 MB, take at most 60 MB more."""
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).random((60, 2))
    frame = pd.DataFrame(X, columns=["a", "b"])
    SparseGPRegressor(steps=1, n_inducing=3).fit(frame, X[:, 0]).save("m.zigp")
    rows = pd.DataFrame(np.resize(X, (150_000, 2)), columns=["a", "b"])
    peaks = []
    for files in (2, 20):
        Path(str(files)).mkdir()
        for i in range(files):
            rows.to_parquet(f"{files}/{i}.parquet")
        command = [sys.executable, "-c", PREDICTING, str(files)]
        peaks.append(float(subprocess.run(command, check=True, capture_output=True).stdout))
    assert peaks[1] - peaks[0] < 60


# -- other models and columns ---------------------------------------------------------------------


@pytest.mark.slow
def test_evaluate_compares_models_in_a_table_and_as_json(works):
    settings = f"rain.csv {RAIN} --steps 5 --inducing space=4,time=5 --cv 2"
    out, err = works(f"evaluate {settings} --models zero,gp,hurdle,zigp")
    assert "2 folds of stretches of time; resolution 0.1" in err
    lines = [line.split("│")[1].strip() for line in out.splitlines() if line.startswith("│")]
    assert lines == ["zero", "gp", "hurdle", "zigp"]
    out, err = works(f"evaluate {settings} --models zero,gp --cv-random --json --quiet")
    found = json.loads(out)
    assert (err, found["folds_by"]) == ("", "random rows")
    folds = [(row["model"], row["fold"]) for row in found["rows"]]
    assert folds == [("zero", 0), ("zero", 1), ("gp", 0), ("gp", 1)]
    assert all(row["rmse"] > 0 for row in found["rows"])


@pytest.mark.slow
@pytest.mark.parametrize("model", ["gp", "zigp"])
def test_counts_levels_and_efforts_are_fitted(zigp, works, model):
    rng = np.random.default_rng(0)
    hauls = pd.DataFrame({"depth": rng.uniform(0, 99, 60), "gear": rng.choice(["a", "b"], 60)})
    hauls["hours"], hauls["count"] = 2.0, rng.poisson(3, 60)
    hauls.loc[3, "count"] = None
    hauls.to_csv("hauls.csv.gz", index=False)
    effort = "--exposure hours --gate-inputs depth" if model == "zigp" else ""
    roles = f"--target count --inputs depth --category gear --model {model} {effort}"
    _, err = works(f"fit hauls.csv.gz {roles} --inducing 6 --steps 3 --quiet --out hauls.zigp")
    assert "1 rows without count are left out." in err
    assert ("suggest 'zinb'" in err) == (model == "zigp")
    hauls.drop(columns="count").to_csv("new.csv", index=False)
    works("predict hauls.zigp new.csv --out p.csv")
    hauls.assign(gear="c").to_csv("other.csv", index=False)
    code, _, err = zigp("predict hauls.zigp other.csv --out q.csv")
    assert code == 1
    assert "levels that the model was not fitted with: c" in err


def test_a_classifier_predicts_classes_and_no_amounts(zigp):
    code, out, err = zigp("predict class.zigp rain.csv --quiet")
    assert (code, err) == (0, "")
    table = pd.read_csv(io.StringIO(out))
    assert list(table)[-2:] == ["class", "prob_on"]
    assert np.array_equal(table["class"] == "wet", table["prob_on"] >= 0.5)
    code, _, err = zigp("predict class.zigp rain.csv --below 1")
    assert code == 1
    assert "leave --below out" in err


@pytest.mark.slow
def test_a_network_predicts_and_draws_every_output(works):
    where, Y = TABLE[["lat", "hour"]], TABLE[["rain_mm", "lon"]]
    network = GPNetworkRegressor(1, n_restarts=1, steps=1, n_inducing=3).fit(where, Y)
    network.save("network.zigp")
    out, _ = works("predict network.zigp rain.csv --below 1 --quiet")
    table = pd.read_csv(io.StringIO(out))
    new = ("mean", "sd", "lower", "upper", "prob_below_1")
    assert list(table)[4:] == [f"{name}_{one}" for name in new for one in ("rain_mm", "lon")]
    np.testing.assert_allclose(table[["mean_rain_mm", "mean_lon"]], network.predict(where))
    out, _ = works("simulate --model network.zigp --data rain.csv --draws 2")
    assert out.splitlines()[0].endswith(",draw_1_rain_mm,draw_1_lon,draw_2_rain_mm,draw_2_lon")


@pytest.mark.slow
def test_info_describes_both_parts_of_a_hurdle(works):
    put_model(Path(), "hurdle")
    out, _ = works("info hurdle.zigp")
    assert "trained     zero or not: 12 rows, 1 steps in" in out
    assert "trained     amounts: 6 rows, 1 steps in" in out
    assert json.loads(works("info hurdle.zigp --json")[0])["trained"]["amounts"]["steps"] == 1


@pytest.mark.parametrize(
    ("column", "more", "message"),
    [
        ("hour", "--time hour", "hour is read as dates: 20180625 is 2018-06-25 00:00:00."),
        ("hour", "", "hour is read as plain numbers, though 20180625 looks like a date"),
        ("rain_mm", "", "Every rain_mm is 0: there is nothing to tell rows apart by."),
    ],
)
def test_odd_columns_are_reported(works, column, more, message):
    day = (20180625 + TABLE["hour"] % 4).astype(int)
    TABLE.assign(**{column: day if column == "hour" else 0}).to_csv("rain.csv", index=False)
    command = f"evaluate rain.csv --target rain_mm --models zero --cv 2 {more}"
    assert message in works(command)[1]


def test_a_request_to_end_leaves_nothing_half_written(zigp, tmp_path):
    def end_once_it_writes() -> None:
        while not list(tmp_path.glob("*.part")):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    before = listing(tmp_path)
    threading.Thread(target=end_once_it_writes, daemon=True).start()
    code, _, err = zigp(f"{PREDICT} --chunk-rows 1 --quiet")
    assert (code, err) == (143, "Interrupted.\n")
    assert listing(tmp_path) == before


# -- mistakes -------------------------------------------------------------------------------------

FIT = "fit rain.csv --target rain_mm --space lat,lon --time hour --out m.zigp"
ON = f"{FIT} --from ready.zigp"
FIT_NC = "fit cube.nc --target rain_mm --out m.zigp"
PREDICT = "predict ready.zigp rain.csv --out p.csv"
EVALUATE = "evaluate rain.csv --target rain_mm --space lat,lon"


def with_cell(name: str, value: object, row: int = 4) -> pd.DataFrame:
    table = TABLE.astype({name: object})
    table.loc[row, name] = value
    return table


# mistake: (command, part of the message, what rain.csv holds)
MISTAKES = {
    "no such file": ("fit nowhere.csv --target y --out m.zigp", "There is no file nowhere.csv"),
    "a folder": (
        "fit out --target y --out m.zigp",
        "out is a folder that has no files that end in .parquet",
    ),
    "an address of no known kind": (
        "fit nonsense://bucket/rows --target y --out m.zigp",
        "Cannot read nonsense://bucket/rows: Protocol not known: nonsense",
    ),
    "predictions at an address of no known kind": (
        "predict ready.zigp nonsense://bucket/rows",
        "Cannot read nonsense://bucket/rows: Protocol not known: nonsense",
    ),
    "an address that needs more": (
        "fit abfs://bucket/rows --target y --out m.zigp",
        "Cannot read abfs://bucket/rows: Install adlfs to access Azure",
    ),
    "nothing at an address": (
        "predict ready.zigp memory://nowhere",
        "There is nothing at memory://nowhere: check the address.",
    ),
    "an empty file": (FIT, "rain.csv is empty", b""),
    "only a header": (FIT, "no rows", HEAD),
    "one row": (FIT, "a single row", HEAD + b"60,20,1,0.5\n"),
    "no such target": (f"{FIT} --target snow", "no column 'snow'. It has lat, lon"),
    "no such input": (f"{FIT} --inputs depth", "no column 'depth'"),
    "the target as an input": (f"{FIT} --inputs rain_mm", "cannot be an input as well"),
    "text in a number": (FIT, "'north'", with_cell("lat", "north")),
    "text in the target": (FIT, "'wet'", with_cell("rain_mm", "wet")),
    "an infinite number": (FIT, "rain_mm", with_cell("rain_mm", "inf")),
    "a time that is none": (FIT, "'noon'", with_cell("hour", "noon")),
    "a gap in an input": (FIT, "rain.csv, line 6, column 'lat' is empty:", with_cell("lat", None)),
    "text without a role": (
        f"{FIT} --inputs gear",
        "rain.csv, line 2, column 'gear': 'net' is not a number, nor is any other of",
        TABLE.assign(gear="net"),
    ),
    "a comma in a name": (
        FIT,
        "no column 'lat'. It has lat,north, lon, hour, rain_mm. Rename columns with a comma",
        TABLE.rename(columns={"lat": "lat,north"}),
    ),
    "a model for standard output": (f"{FIT} --out -", "cannot go to standard output"),
    "a folder that is not there yet": (f"{FIT} --out new/", "new/ is a folder"),
    "no target at all": (
        FIT,
        "'rain_mm' of rain.csv has no values",
        TABLE.assign(rain_mm=np.nan),
    ),
    "a column twice": (FIT, "lat", b"lat,lat,hour,rain_mm\n1,2,3,4\n1,2,4,4\n"),
    "a column without a name": (FIT, "name", b"lat,,hour,rain_mm\n1,2,3,4\n"),
    "NUL bytes": (FIT, "line 2", HEAD + b"1,2,\x003,4\n"),
    "another encoding": (FIT, "UTF-8", HEAD + "1,2,3,Zürich\n".encode("latin-1")),
    "UTF-16": (FIT, "UTF-16", (HEAD + b"1,2,3,4\n").decode().encode("utf-16")),
    "a row too long": (FIT, "line 3", HEAD + b"1,2,3,4\n1,2,3,4,5\n"),
    "a row too short": (FIT, "line 3", HEAD + b"1,2,3,4\n1,2\n"),
    "half a gzip": (FIT, "rain.csv", gzip.compress(HEAD + b"1,2,3,4\n" * 999)[:40]),
    "a spreadsheet": (FIT, "CSV", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(99)),
    "a pickle": (FIT, "pickle", b"\x80\x04\x95" + bytes(99)),
    "a model as data": ("fit ready.zigp --target y --out m.zigp", "a model, not a table"),
    "an output that exists": (
        f"{FIT} --out ready.zigp",
        "ready.zigp exists. Choose another --out, or add --force.",
    ),
    "no folder for the output": (f"{FIT} --out no/m.zigp", "There is no folder no"),
    "negative counts": (
        f"{FIT} --likelihood zip",
        "needs y ≥ 0",
        with_cell("rain_mm", -3),
    ),
    "counts in parts": (f"{FIT} --likelihood zinb", "needs whole numbers"),
    "an effort of zero": (
        f"{FIT} --exposure effort",
        "Exposures must be positive",
        TABLE.assign(effort=0.0),
    ),
    "effort for a plain gp": (
        f"{FIT} --model gp --exposure hour",
        "--exposure belongs to --model zigp.",
    ),
    "a gate for a plain gp": (f"{FIT} --model gp --gate-inputs lat", "--gate-inputs belongs to"),
    "latitudes in metres": (
        FIT,
        "latitude must lie within",
        TABLE.assign(lat=1e5 * TABLE["lat"]),
    ),
    "a group that is not there": (
        f"{FIT} --inducing depth=4",
        "--inducing names depth, but inputs are lat, lon, hour",
    ),
    "a group that is left out": (
        f"{FIT} --inducing space=4",
        "--inducing names lat, lon, but inputs are lat, lon, hour: give a number for each",
    ),
    "going on from no model": (f"{FIT} --from rain.csv", "not a zigp model"),
    "going on with other columns": (
        "fit rain.csv --target rain_mm --time hour --from ready.zigp --out m.zigp",
        "was fitted with lat, lon, hour, not with hour",
    ),
    "going on with another kernel": (
        f"{ON} --kernel matern12",
        "--kernel is not what ready.zigp was fitted with, and a model that is trained further",
    ),
    "going on in another precision": (f"{ON} --dtype float32", "--dtype is not"),
    "going on with more points": (f"{ON} --inducing 9", "--inducing is not"),
    "going on with another noise": (f"{ON} --likelihood zip", "--likelihood is not"),
    "going on as another model": (f"{ON} --model gp", "--model is not"),
    "going on with another target": (
        "fit rain.csv --target lat --from ready.zigp --out m.zigp",
        "--target is not",
    ),
    "going on from another kind": (
        f"{FIT} --from class.zigp",
        "class.zigp holds a SparseGPClassifier: train it further in Python",
    ),
    "the data as the model's name": (
        f"{FIT} --force --out rain.csv",
        "is the data: choose another name",
    ),
    "other inputs of a lattice": (
        f"{FIT_NC} --inputs elevation",
        "leave --inputs and --category out",
    ),
    "no such variable": (f"{FIT_NC} --target snow", "no variable 'snow'"),
    "a dimension of text": (
        "fit text.nc --target rain_mm --out m.zigp",
        "Dimension 'site' has text",
    ),
    "a number for an axis that is not there": (
        f"{FIT_NC} --inducing time=2,depth=3",
        "--inducing names time, depth, but inputs are time, site",
    ),
    "a time that is no axis": (
        f"{FIT_NC} --time hour",
        "cube.nc has no axis 'hour': rain_mm runs along time, lat, lon",
    ),
    "an effort that is not there": (
        f"{FIT_NC} --exposure area",
        "exposure names 'area': give a Dataset that has it as a variable.",
    ),
    "a lattice for standard output": (
        "predict ready.zigp cube.nc",
        "choose a file that ends in .nc or .zarr as --out",
    ),
    "no model": ("predict no.zigp rain.csv", "no.zigp"),
    "not a model": ("predict rain.csv rain.csv", "is not a zigp model"),
    "a column is missing": (
        PREDICT,
        "no column 'lon', which the model was fitted with",
        TABLE.drop(columns="lon"),
    ),
    "a column is taken": (
        PREDICT,
        "has a column 'mean' already, which the prediction would be called: rename it, or put a",
        TABLE.assign(mean=1),
    ),
    "a gap far down": (
        f"{PREDICT} --chunk-rows 50 --quiet",
        "rain.csv, line 152, column 'lon' is empty",
        with_cell("lon", None, 150),
    ),
    "a lattice for a classifier": (
        "predict class.zigp cube.nc --out p.nc",
        "is a classifier, which predicts at the rows of a table",
    ),
    "draws of a classifier": (
        "simulate --model class.zigp --data rain.csv",
        "class.zigp holds a SparseGPClassifier, which has no amounts to draw",
    ),
    "draws on a lattice": (
        "simulate --model ready.zigp --data cube.nc",
        "cube.nc is a lattice: draws from a model need a table",
    ),
    "an unknown ending": (f"{PREDICT} --out p.doc", "does not end in .csv"),
    "a table as a lattice": (f"{PREDICT} --out p.nc", "does not end in .csv"),
    "an unknown model": (
        f"{EVALUATE} --models zero,trees",
        "--models is 'zero,trees': name some of zero",
    ),
    "no models": (f"{EVALUATE} --models ,", "--models is ',': name some of"),
    "more folds than times": (
        f"{EVALUATE} --time hour --cv 99",
        "There are 20 times, too few for n_splits=99. Lower --cv.",
    ),
    "more folds than places": (
        f"{EVALUATE} --cv 99",
        "There are 8 places, too few for n_splits=99. Lower --cv.",
    ),
    "more folds than rows": (
        f"{EVALUATE} --cv 500 --cv-random",
        "the number of samples: n_samples=159. Lower --cv.",
    ),
    "a folder that cannot be made": ("demo --out rain.csv/x", "Cannot write rain.csv/x/rain.png: "),
    "a figure that cannot be written": ("demo --out out", "rain.png exists and is of another kind"),
    "data that are not there": (
        "reproduce toy --data-dir out --out new",
        "out holds none of toy.csv, toydata.mat.",
    ),
    "results that exist": ("reproduce toy --out out", "or add --resume or --force"),
    "a hurdle of a stream": (
        "fit rain.parquet --target rain_mm --model hurdle --stream --out m.zigp",
        "a hurdle looks at all of its rows at once: add --no-stream if they fit in memory, or",
    ),
    "both passes and steps": (
        "fit rain.parquet --target rain_mm --stream --passes 2 --steps 9 --out m.zigp",
        "--passes and --steps both say how long to train: give one of them.",
    ),
    "half of a simulation": ("simulate --model m.zigp", "--model and --data go together"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_reported_in_one_message_and_changes_no_file(zigp, tmp_path, name):
    command, message, *content = MISTAKES[name]
    for table in content:
        if isinstance(table, bytes):
            Path("rain.csv").write_bytes(table)
        else:
            table.to_csv("rain.csv", index=False)
    before = listing(tmp_path)
    code, out, err = zigp(command)
    assert (code, out) == (1, "")
    assert message in err
    assert len(err.strip().splitlines()) <= 3
    assert listing(tmp_path) == before


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("fit rain.csv --out m.zigp", "Missing option '--target'"),
        (f"{FIT} --colour red", "No such option: --colour"),
        (f"{FIT} --steps 0", "--steps"),
        (f"{FIT} --likelihood poisson", "'poisson' is not one of 'auto', 'gaussian'"),
        (f"{FIT} --max-seconds 0", "0 is not a positive number"),
        ("predict m d --level 2", "2 is not strictly between 0 and 1"),
        ("predict m d --below nan", "nan is not a finite number"),
        ("evaluate d --target y --resolution 0", "0 is not a positive number"),
        ("evaluate d --target y --resolution -1", "-1 is not a positive number"),
        (f"{FIT} --inducing many", "is neither a number nor names with numbers"),
        (f"{FIT} --config none.toml", "none.toml: No such file"),
        (f"{FIT} --config rain.csv", "rain.csv is not TOML"),
        (f"{FIT} --config odd.toml", "odd.toml sets 'colour', which is no option"),
        ("demo --seed -1", "--seed"),
        ("fly", "No such command 'fly'"),
    ],
)
def test_a_wrong_option_is_named(zigp, typed, message):
    Path("odd.toml").write_text("colour = 1\n")
    code, out, err = zigp(typed)
    assert (code, out) == (2, "")
    assert message in err
    assert not Path("m.zigp").exists()


@pytest.mark.parametrize("error", [MemoryError, RuntimeError, JaxRuntimeError])
def test_too_little_memory_is_reported_as_such(zigp, monkeypatch, error):
    """Of a device too, and while a model is in use, whose file is not to blame."""
    full = error("RESOURCE_EXHAUSTED: Out of memory allocating 64 bytes.")
    monkeypatch.setattr("zigp.cli.predict.load", Mock(side_effect=full))
    code, _, err = zigp(PREDICT)
    assert code == 1
    assert err.strip() == "Out of memory. Give fewer rows, --inducing less, or a --batch-size."


def test_debug_raises_the_error_itself(zigp):
    with pytest.raises(ValueError, match="There is no file"):
        zigp("fit nowhere.csv --target y --out m.zigp --debug")
