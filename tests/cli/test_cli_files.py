"""fit, predict, evaluate, simulate and info, typed as a user would; and forty mistakes."""

from __future__ import annotations

import gzip
import io
import json
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import fsspec
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from jax.errors import JaxRuntimeError

from zigp import GPNetworkRegressor, HurdleGPRegressor, SparseGPRegressor, cli, load
from zigp.cli.data import ColumnRoles, read_data
from zigp.cli.options import Kernel, Likelihood
from zigp.datasets import simulate_rain
from zigp.estimators.families import FAMILIES
from zigp.estimators.initial import KERNELS

RAIN = ["--target", "rain_mm", "--space", "lat,lon", "--time", "hour"]
QUICK = ["--steps", "5", "--inducing", "space=4,time=5", "--quiet"]


@pytest.fixture
def zigp(monkeypatch, capfd, tmp_path):
    """Type a command in an empty folder: its exit code, what it printed, and what it said."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "unused: JAX is loaded already")

    def typed(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["zigp", *map(str, arguments)])
        said, code = "", 0
        try:
            cli.main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
            said = end.code if isinstance(end.code, str) else ""
        out, err = capfd.readouterr()
        return code, out, err + said

    return typed


@pytest.fixture(scope="module")
def rain() -> pd.DataFrame:
    return simulate_rain(9, 20, seed=1)


@pytest.fixture
def files(tmp_path, rain) -> Path:
    rain.to_csv(tmp_path / "rain.csv", index=False)
    return tmp_path


def test_from_a_table_to_a_model_to_predictions(zigp, files, rain):
    code, out, err = zigp("fit", "rain.csv", *RAIN, *QUICK, "--out", "rain.zigp")
    assert code == 0, err
    assert out == ""
    assert "likelihood auto: the values suggest 'gated'" in err
    assert "fill a lattice, space × time, and were fitted as one" in err
    assert "Saved rain.zigp." in err
    model = load("rain.zigp")
    assert model.layout_.latlon == (0, 1)
    assert model.on_lattice_

    other = ["--target", "rain_mm", "--from", "rain.zigp", "--steps", 1, "--quiet"]
    rain.assign(id="text")[["hour", "rain_mm", "id", "lon", "lat"]].to_csv("other.csv", index=False)
    code, _, err = zigp("fit", "other.csv", *other, "--seed", 3, "--out", "other.zigp")
    assert code == 0, err  # the columns of the model, whatever else there is
    assert load("other.zigp").random_state == 3

    rain[["lat", "lon", "hour"]].assign(id=range(len(rain))).to_parquet("new.parquet")
    code, out, err = zigp("predict", "rain.zigp", "new.parquet", "--below", 1, "--chunk-rows", 50)
    assert code == 0, err
    Path("predicted.csv").write_text(out)
    table = pd.read_csv("predicted.csv")
    new = ["mean", "sd", "prob_on", "lower", "upper", "prob_below_1"]
    assert list(table) == ["lat", "lon", "hour", "id", *new]
    np.testing.assert_allclose(table["mean"], model.predict(rain[["lat", "lon", "hour"]]))
    assert np.all(table["lower"] <= table["upper"])
    assert f"Predicted {len(rain)} places." in err

    code, out, _ = zigp("info", "rain.zigp")
    assert code == 0
    assert "target      rain_mm\ncolumns     lat, lon, hour" in out
    assert "likelihood  gated (off_sd" in out
    about = json.loads(zigp("info", "rain.zigp", "--json")[1])
    assert about["trained"]["steps"] == 5

    code, _, err = zigp(
        "fit", "rain.csv", *RAIN, "--from", "rain.zigp", "--steps", 3, "--quiet", "--out", "on.zigp"
    )
    assert code == 0, err
    assert load("on.zigp").bounds_[0] > model.bounds_[0]

    code, out, err = zigp("simulate", "--model", "rain.zigp", "--data", "rain.csv", "--draws", 3)
    assert code == 0, err
    Path("draws.csv").write_text(out)
    assert list(pd.read_csv("draws.csv"))[-3:] == ["draw_1", "draw_2", "draw_3"]


@pytest.mark.slow
def test_options_from_a_file_go_behind_those_typed(zigp, files):
    settings = 'target = "rain_mm"\nspace = ["lat", "lon"]\ntime = "hour"\nsteps = 7\n'
    (files / "fit.toml").write_text(settings + "[inducing]\n'lat,lon' = 4\nhour = 5\n")
    code, out, err = zigp(
        "fit", "rain.csv", "--config", "fit.toml", "--steps", 4, "--quiet", "--write-config",
        "--out", "a.zigp",
    )  # fmt: skip
    assert code == 0, err
    assert load("a.zigp").n_iter_ == 4
    used = tomllib.loads(out)
    assert used["steps"] == 4
    assert used["inducing"] == "lat,lon=4,hour=5"
    (files / "used.toml").write_text(out + 'from = "a.zigp"\n')
    code, out, err = zigp("fit", "--config", "used.toml", "--write-config", "--out", "c.zigp")
    assert code == 0, err
    assert tomllib.loads(out) == used | {"from": "a.zigp"}
    assert load("c.zigp").bounds_[0] > load("a.zigp").bounds_[0]
    out = out.replace('from = "a.zigp"', "")
    (files / "used.toml").write_text(out)
    code, again, err = zigp("fit", "--config", "used.toml", "--write-config", "--out", "b.zigp")
    assert code == 0, err
    assert tomllib.loads(again) == used
    np.testing.assert_array_equal(load("a.zigp").bounds_, load("b.zigp").bounds_)


@pytest.mark.slow
def test_a_lattice_in_and_out(zigp, files, rain, monkeypatch):
    cube = rain.assign(station=rain.groupby(["lat", "lon"]).ngroup())
    data = cube.set_index(["hour", "station"])["rain_mm"].to_xarray().to_dataset()
    where = cube.groupby("station")[["lat", "lon"]].first()
    data = data.assign_coords(lat=("station", where["lat"]), lon=("station", where["lon"]))
    data["rain_mm"].attrs["units"] = "mm"
    data.to_netcdf("rain.nc", engine="h5netcdf")
    options = ["--target", "rain_mm", "--space", "lat,lon", "--steps", 5, "--quiet"]
    sizes = ["--inducing", "hour=5,space=4"]
    code, _, err = zigp("fit", "rain.nc", *options, *sizes, "--out", "rain.zigp")
    assert code == 0, err
    assert load("rain.zigp").layout_.latlon == (1, 2)
    assert f"A lattice of hour 20 × station {len(where)} (lat, lon)." in err
    data.drop_vars("rain_mm").assign(hour_bnds=(("hour", "nv"), np.zeros((20, 2)))).to_netcdf(
        "axes.nc", engine="h5netcdf"
    )
    monkeypatch.setattr("zigp.cli.predicting._CELLS", 50)
    asked = ["--below", 1, "--level", 0.8, "--prefix", "p_"]
    for source, out in (("rain.nc", "predicted.nc"), ("axes.nc", "predicted.zarr")):
        code, _, err = zigp("predict", "rain.zigp", source, *asked, "--out", out)
        assert code == 0, err
        assert f"Predicted {20 * len(where)} places." in err
    one, two = xr.open_dataset("predicted.nc").load(), xr.open_zarr("predicted.zarr").load()
    xr.testing.assert_allclose(one, two, rtol=1e-12)
    assert one["p_mean"].dims == ("hour", "station")
    assert one["p_mean"].attrs["units"] == "mm"
    assert set(one) == {
        f"p_{name}" for name in ("mean", "sd", "prob_on", "prob_below", "quantiles")
    }
    np.testing.assert_allclose(one["quantile"], [0.1, 0.5, 0.9])


@pytest.fixture
def far(rain):
    """Places of the simulated rain, in two Parquet files at an address."""
    memory = fsspec.filesystem("memory")
    places = rain[["lon", "lat", "hour", "rain_mm"]]
    for name, part in (("b", places[100:]), ("a", places[:100])):
        memory.pipe_file(f"/rain/{name}.parquet", part.to_parquet())
    yield places
    memory.store.clear()


@pytest.mark.slow
def test_a_folder_is_predicted_as_one_file_is_at_an_address_too(zigp, files, far):
    _model(files)
    far.to_parquet("whole.parquet")
    (files / "rain").mkdir()
    far[:100].to_parquet("rain/a.parquet")
    far[100:].to_parquet("rain/b.parquet")
    code, expected, err = zigp("predict", "ready.zigp", "whole.parquet", "--below", 1)
    assert code == 0, err
    assert expected.count("\n") == 1 + len(far)
    for source in ("rain", (files / "rain").as_uri(), "memory://rain"):
        code, out, err = zigp("predict", "ready.zigp", source, "--below", 1, "--chunk-rows", 64)
        assert code == 0, err
        assert f"Predicted {len(far)} places." in err
        found, whole = (pd.read_csv(io.StringIO(text)) for text in (out, expected))
        pd.testing.assert_frame_equal(found, whole, rtol=1e-12)


@pytest.mark.slow
def test_an_address_is_streamed(zigp, files, far):
    far.to_parquet("whole.parquet")
    settings = [*RAIN, "--steps", "5", "--inducing", "6", "--quiet"]
    found = []
    for source in ((files / "whole.parquet").as_uri(), "memory://rain"):
        code, _, err = zigp("fit", source, *settings, "--out", "m.zigp", "--force")
        assert code == 0, err
        assert f"{source} has {len(far)} rows and is read block by block." in err
        found.append(load("m.zigp").predict(far[["lat", "lon", "hour"]]))
    np.testing.assert_allclose(*found, rtol=0.2)
    code, _, err = zigp("fit", "whole.parquet", *settings, "--stream", "--out", "near.zigp")
    np.testing.assert_array_equal(load("near.zigp").predict(far[["lat", "lon", "hour"]]), found[0])


@pytest.mark.slow
@pytest.mark.parametrize("model", ["gp", "hurdle"])
def test_a_model_is_streamed_or_says_that_it_cannot_be(zigp, files, far, model):
    far.to_parquet("whole.parquet")
    source = (files / "whole.parquet").as_uri()
    settings = [*RAIN, "--steps", "5", "--inducing", "6", "--quiet", "--model", model]
    for data, *how in ((source,), ("whole.parquet", "--stream")):
        code, _, err = zigp("fit", data, *settings, *how, "--out", "m.zigp", "--force")
        if model == "hurdle":
            assert code == 1
            assert err.strip().endswith(f"{data} {IN_MEMORY}"), err
        else:
            assert code == 0, err
            assert "block by block" in err
    assert zigp("fit", source, *settings, "--no-stream", "--out", "whole.zigp")[0] == 0
    if model == "hurdle":  # also where the model is that of a file
        typed = ("fit", source, "--target", "rain_mm", "--from", "whole.zigp", "--out", "b.zigp")
        code, _, err = zigp(*typed)
        assert code == 1
        assert IN_MEMORY in err


IN_MEMORY = (
    "would be read block by block, and a hurdle looks at all of its rows at once: add --no-stream "
    "if they fit in memory, or take --model zigp or gp."
)


@pytest.mark.slow
def test_a_lattice_at_an_address_is_fitted_and_predicted(zigp, files):
    cube = xr.Dataset(
        {"y": (("a", "b"), np.random.default_rng(0).random((12, 9)))},
        {"a": np.arange(12.0), "b": np.arange(9.0)},
    )
    cube.to_zarr("cube.zarr", consolidated=False)
    source = (files / "cube.zarr").as_uri()
    code, _, err = zigp("fit", source, "--target", "y", "--steps", 3, "--quiet", "--out", "m.zigp")
    assert code == 0, err
    assert "block by block" in err
    for name, data in (("far.nc", source), ("near.nc", "cube.zarr")):
        code, _, err = zigp("predict", "m.zigp", data, "--out", name)
        assert code == 0, err
    xr.testing.assert_identical(xr.open_dataset("far.nc").load(), xr.open_dataset("near.nc").load())


@pytest.mark.slow
def test_a_globe_is_streamed_along_its_own_axes(zigp):
    """Latitude and longitude along axes of their own have no common distance."""
    rng = np.random.default_rng(0)
    cube = xr.Dataset(
        {"y": (("time", "lat", "lon"), rng.random((6, 5, 4)))},
        {"time": np.arange(6.0), "lat": 60.0 + np.arange(5), "lon": 20.0 + np.arange(4)},
    )
    cube.to_zarr("globe.zarr", consolidated=False)
    axes = ["--space", "lat,lon", "--time", "time", "--stream", "--inducing", "lat=3,lon=3,time=3"]
    code, _, err = zigp(
        "fit", "globe.zarr", "--target", "y", *axes, "--steps", 2, "--quiet", "--out", "m.zigp"
    )
    assert code == 0, err
    model = load("m.zigp")
    assert model.layout_.latlon is None
    assert set(model.layout_.names) == {"lat", "lon", "time"}


@pytest.mark.slow
def test_a_model_goes_on_with_a_stream_of_its_own_columns(zigp, rain):
    """Whatever order they are in, and whatever else there is."""
    rain = rain.assign(gauge=np.where(rain["hour"] % 2, "old", "new"))
    rain.to_parquet("rain.parquet")
    rain.assign(other=1.0)[["other", "gauge", *rain.columns[:-1][::-1]]].to_parquet("more.parquet")
    how = ["--category", "gauge", "--method", "natural", "--divide", "data", "--inducing", 6]
    code, _, err = zigp("fit", "rain.parquet", *RAIN, *how, "--steps", 3, "--quiet", "--out", "a")
    assert code == 0, err
    on = ["--from", "a", "--stream", "--steps", 2, "--quiet", "--force", "--out", "b"]
    for named in (["--target", "rain_mm"], [*RAIN[:2], "--space", "lon,lat", *RAIN[4:], *how[:2]]):
        code, _, err = zigp("fit", "more.parquet", *named, *on)
        assert code == 0, err
        first, again = load("a"), load("b")
        assert list(again.feature_names_in_) == list(first.feature_names_in_)
        assert (again.method, again.devices) == ("natural", "data")
    code, _, err = zigp("fit", "more.parquet", *RAIN, *on, "--method", "adam")
    assert code == 1
    assert "a was fitted with lat, lon, hour, gauge, not with lat, lon, hour" in err
    code, _, err = zigp("fit", "more.parquet", "--target", "rain_mm", *on, "--method", "adam")
    assert code == 0, err
    assert load("b").fitted_with_["method"] == "adam"


PREDICTING = """
import contextlib, sys
from zigp.cli import main
sys.argv = ["zigp", "predict", "m.zigp", sys.argv[1], "--out", "p.parquet", "--force", "--quiet"]
with contextlib.suppress(SystemExit):
    main()
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(int(status["VmHWM"].split()[0]) / 1e3)
"""


def test_a_model_without_a_seed_goes_on_for_as_long_as_was_typed(zigp, rain):
    """Its file has no seed that checkpoints could rely on, and the steps of another fit."""
    rain.to_parquet("rain.parquet")
    small = {"n_inducing": 4, "steps": 3, "random_state": None, "batch_size": 64}
    SparseGPRegressor(**small).fit(rain[["lat", "lon", "hour"]], rain["rain_mm"]).save("old.zigp")
    words = [
        "fit",
        "rain.parquet",
        "--target",
        "rain_mm",
        "--from",
        "old.zigp",
        "--out",
        "new.zigp",
    ]
    code, _, said = zigp(*words, "--stream", "--passes", "2", "--quiet")
    assert code == 0, said
    assert load("new.zigp").n_iter_ == 8  # a block of 256 rows, four steps, twice
    code, _, said = zigp(*words, "--stream", "--passes", "2", "--steps", "9", "--force")
    assert code == 1
    assert "--passes and --steps both say how long to train: give one of them." in said


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
def test_memory_does_not_grow_with_the_rows_of_a_folder(tmp_path, monkeypatch):
    """Ten times the rows, whose predictions are 170 MB, take at most 60 MB more."""
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).random((60, 2))
    frame = pd.DataFrame(X, columns=["a", "b"])
    SparseGPRegressor(steps=1, n_inducing=3).fit(frame, X[:, 0]).save("m.zigp")
    rows = pd.DataFrame(np.resize(X, (150_000, 2)), columns=["a", "b"])
    for name, files in (("few", 2), ("many", 20)):
        Path(name).mkdir()
        for i in range(files):
            rows.to_parquet(f"{name}/{i}.parquet")

    def peak(folder: str) -> float:
        command = [sys.executable, "-c", PREDICTING, folder]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    assert peak("many") - peak("few") < 60


@pytest.mark.slow
def test_models_side_by_side(zigp, files):
    code, out, err = zigp(
        "evaluate", "rain.csv", *RAIN, *QUICK[:-1], "--models", "zero,gp,hurdle,zigp", "--cv", 2
    )
    assert code == 0, err
    assert "2 folds of stretches of time; resolution 0.1" in err
    lines = [line.split("│")[1].strip() for line in out.splitlines() if line.startswith("│")]
    assert lines == ["zero", "gp", "hurdle", "zigp"]
    code, out, err = zigp(
        "evaluate", "rain.csv", *RAIN, *QUICK, "--models", "zero,gp", "--cv", 2, "--cv-random",
        "--json",
    )  # fmt: skip
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert found["folds_by"] == "random rows"
    assert [(row["model"], row["fold"]) for row in found["rows"]] == [
        ("zero", 0), ("zero", 1), ("gp", 0), ("gp", 1),
    ]  # fmt: skip
    assert all(row["rmse"] > 0 for row in found["rows"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "gated",
    [False, pytest.param(True, marks=pytest.mark.slow)],  # counts take long to compile
    ids=["plain", "zero-inflated"],
)
def test_counts_levels_and_efforts(zigp, files, gated):
    rng = np.random.default_rng(0)
    hauls = pd.DataFrame({"depth": rng.uniform(0, 99, 60), "gear": rng.choice(["a", "b"], 60)})
    hauls["hours"], hauls["count"] = 2.0, rng.poisson(3, 60)
    hauls.loc[3, "count"] = None
    hauls.to_csv("hauls.csv.gz", index=False)
    options = ["--target", "count", "--inputs", "depth", "--category", "gear"]
    options += ["--exposure", "hours", "--gate-inputs", "depth"] if gated else ["--model", "gp"]
    code, _, err = zigp(
        "fit", "hauls.csv.gz", *options,
        "--inducing", 6, "--steps", 3, "--quiet", "--out", "hauls.zigp",
    )  # fmt: skip
    assert code == 0, err
    assert "1 rows without count are left out." in err
    assert ("suggest 'zinb'" in err) == gated
    hauls.drop(columns="count").to_csv("new.csv", index=False)
    assert zigp("predict", "hauls.zigp", "new.csv", "--out", "p.csv")[0] == 0
    hauls.assign(gear="c").to_csv("other.csv", index=False)
    code, _, err = zigp("predict", "hauls.zigp", "other.csv", "--out", "q.csv")
    assert code == 1
    assert "levels that the model was not fitted with: c" in err
    assert not Path("q.csv").exists()


@pytest.mark.slow
def test_what_is_not_looked_at_stays_as_it_stands(zigp, files, rain):
    _model(files)
    rain.assign(id=[f"{i:05d}" for i in range(len(rain))], code="NA", note="", mean="1.50").to_csv(
        "new.csv", index=False
    )
    code, out, err = zigp("predict", "ready.zigp", "new.csv", "--prefix", "p_", "--quiet")
    assert (code, err) == (0, "")
    given, found = (text.splitlines() for text in (Path("new.csv").read_text(), out))
    assert found[0] == given[0] + ",p_mean,p_sd,p_prob_on,p_lower,p_upper"
    assert all(line.startswith(f"{row},") for row, line in zip(given, found, strict=True))


@pytest.mark.slow
def test_classifiers_and_networks_predict_too(zigp, files, rain):
    _classifier(files)
    code, out, err = zigp("predict", "class.zigp", "rain.csv", "--quiet")
    assert (code, err) == (0, "")
    table = pd.read_csv(io.StringIO(out))
    assert list(table)[-2:] == ["class", "prob_on"]
    assert np.array_equal(table["class"] == "wet", table["prob_on"] >= 0.5)
    code, out, err = zigp("predict", "class.zigp", "rain.csv", "--below", 1)
    assert code == 1
    assert "leave --below out" in err

    where, Y = rain[["lat", "hour"]], rain[["rain_mm", "lon"]]
    network = GPNetworkRegressor(1, n_restarts=1, steps=1, n_inducing=3).fit(where, Y)
    network.save("network.zigp")
    code, out, err = zigp("predict", "network.zigp", "rain.csv", "--below", 1, "--quiet")
    assert (code, err) == (0, "")
    table = pd.read_csv(io.StringIO(out))
    new = ("mean", "sd", "lower", "upper", "prob_below_1")
    assert list(table)[4:] == [f"{name}_{one}" for name in new for one in ("rain_mm", "lon")]
    np.testing.assert_allclose(table[["mean_rain_mm", "mean_lon"]], network.predict(where))
    code, out, err = zigp("simulate", "--model", "network.zigp", "--data", "rain.csv", "--draws", 2)
    assert code == 0, err
    assert out.splitlines()[0].endswith(",draw_1_rain_mm,draw_1_lon,draw_2_rain_mm,draw_2_lon")


@pytest.mark.slow
def test_info_tells_of_both_parts_of_a_hurdle(zigp, files, rain):
    model = HurdleGPRegressor(steps=1, n_inducing=3).fit(rain[["lat", "hour"]], rain["rain_mm"])
    model.save("hurdle.zigp")
    code, out, err = zigp("info", "hurdle.zigp")
    assert code == 0, err
    assert f"trained     zero or not: {len(rain)} rows, 1 steps in" in out
    assert f"trained     amounts: {np.count_nonzero(rain['rain_mm'])} rows, 1 steps in" in out
    about = json.loads(zigp("info", "hurdle.zigp", "--json")[1])
    assert about["trained"]["amounts"]["steps"] == 1


@pytest.mark.slow
def test_numbers_that_are_dates_are_told(zigp, files, rain):
    day = (20180625 + rain["hour"] % 4).astype(int)
    rain.assign(hour=day).drop_duplicates(["lat", "hour"]).to_csv("rain.csv", index=False)
    code, _, err = zigp("fit", "rain.csv", *RAIN, *QUICK, "--out", "a.zigp")
    assert code == 0, err
    assert "hour is read as dates: 20180625 is 2018-06-25 00:00:00." in err
    assert load("a.zigp").table_.columns["hour"].kind == "time"
    code, _, err = zigp("predict", "a.zigp", "rain.csv", "--out", "p.csv")
    assert code == 0, err
    notes = read_data(Path("rain.csv"), ColumnRoles("rain_mm")).notes
    assert notes[1].startswith("hour is read as plain numbers, though 20180625 looks like a date")


def test_a_target_that_never_changes_is_told(files, rain):
    rain.assign(rain_mm=0.0).to_csv(files / "rain.csv", index=False)
    notes = read_data(files / "rain.csv", ColumnRoles("rain_mm", inputs=["hour"])).notes
    assert notes == ("Every rain_mm is 0: there is nothing to tell rows apart by.",)


def test_a_request_to_end_leaves_nothing_half_written(zigp, files, monkeypatch):
    _model(files)
    before = sorted(p.name for p in files.iterdir())
    seen = []

    def interrupted(*_):
        seen.extend(p.name for p in files.iterdir() if p.name.endswith(".part"))
        signal.raise_signal(signal.SIGTERM)

    handler = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("zigp.cli.predicting._predicted", interrupted)
    code, _, err = zigp(*PREDICT)
    assert (code, err) == (143, "Interrupted.\n")
    assert len(seen) == 1
    assert sorted(p.name for p in files.iterdir()) == before
    assert signal.getsignal(signal.SIGTERM) == handler


def test_choices_are_those_of_the_library():
    assert set(Likelihood) == {"auto", *FAMILIES}
    assert set(Kernel) == set(KERNELS)


def test_help_needs_nothing_heavy_and_shows_an_example():
    code = "import sys; sys.argv = ['zigp', '--help']; from zigp.cli import main\n"
    check = "try:\n    main()\nexcept SystemExit:\n    print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code + check], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "False"
    for command in ("fit", "predict", "evaluate", "simulate", "info", "demo", "reproduce"):
        assert f"  {command} " in done.stdout


# -- mistakes ---------------------------------------------------------------------------------

FIT = ["fit", "rain.csv", *RAIN, "--out", "m.zigp"]
FROM = [*FIT, "--from", "ready.zigp"]


def _text(content: str | bytes, name: str = "rain.csv"):
    def write(folder: Path) -> None:
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    return write


def _changed(change):
    def write(folder: Path) -> None:
        change(pd.read_csv(folder / "rain.csv")).to_csv(folder / "rain.csv", index=False)

    return write


def _column(name: str, value: object, row: int = 4):
    def change(table: pd.DataFrame) -> pd.DataFrame:
        table[name] = table[name].astype(object)
        table.loc[row, name] = value
        return table

    return _changed(change)


def _model(folder: Path) -> None:
    from zigp import ZeroInflatedGPRegressor

    table = pd.read_csv(folder / "rain.csv").iloc[:20]
    model = ZeroInflatedGPRegressor(steps=1, n_inducing=3)
    model.fit(table[["lat", "lon", "hour"]], table["rain_mm"])
    model.units_ = {"rain_mm": ""}
    model.save(folder / "ready.zigp")


def _classifier(folder: Path) -> None:
    from zigp import SparseGPClassifier

    table = pd.read_csv(folder / "rain.csv")
    model = SparseGPClassifier(steps=1, n_inducing=3)
    wet = np.where(table["rain_mm"] > 0, "wet", "dry")
    model.fit(table[["lat", "lon", "hour"]], wet).save(folder / "class.zigp")


def _cut(folder: Path) -> None:
    _model(folder)
    (folder / "ready.zigp").write_bytes((folder / "ready.zigp").read_bytes()[:-50])


def _lattice(folder: Path) -> None:
    array = xr.DataArray(np.zeros((2, 3)), dims=("time", "site"), name="rain_mm")
    array.assign_coords(time=[0.0, 1.0], site=["a", "b", "c"]).to_netcdf(
        folder / "rain.nc", engine="h5netcdf"
    )


def _cube(folder: Path) -> None:
    sites = {"lat": ("site", [60.0, 61.0, 62.0]), "lon": ("site", [20.0, 20.0, 21.0])}
    array = xr.DataArray(np.zeros((2, 3)), dims=("time", "site"), name="rain_mm")
    array.assign_coords(time=[0.0, 1.0], **sites).to_netcdf(folder / "cube.nc", engine="h5netcdf")


NONE = lambda folder: None  # noqa: E731
PREDICT = ["predict", "ready.zigp", "rain.csv", "--out", "p.csv"]
MISTAKES = {
    "no such file": (
        NONE,
        ["fit", "nowhere.csv", *RAIN, "--out", "m.zigp"],
        "There is no file nowhere.csv",
    ),
    "a folder": (
        lambda f: (f / "d").mkdir(),
        ["fit", "d", *RAIN, "--out", "m.zigp"],
        "d is a folder that has no files that end in .parquet",
    ),
    "an address of no known kind": (
        NONE,
        ["fit", "nonsense://bucket/rows", *RAIN, "--out", "m.zigp"],
        "Cannot read nonsense://bucket/rows: Protocol not known: nonsense",
    ),
    "predictions at an address of no known kind": (
        _model,
        ["predict", "ready.zigp", "nonsense://bucket/rows"],
        "Cannot read nonsense://bucket/rows: Protocol not known: nonsense",
    ),
    "an address that needs more": (
        NONE,
        ["fit", "abfs://bucket/rows", *RAIN, "--out", "m.zigp"],
        "Cannot read abfs://bucket/rows: Install adlfs to access Azure",
    ),
    "nothing at an address": (
        _model,
        ["predict", "ready.zigp", "memory://nowhere"],
        "There is nothing at memory://nowhere: check the address.",
    ),
    "an empty file": (_text(""), FIT, "rain.csv is empty"),
    "only a header": (_text("lat,lon,hour,rain_mm\n"), FIT, "no rows"),
    "one row": (_text("lat,lon,hour,rain_mm\n60,20,1,0.5\n"), FIT, "a single row"),
    "no such target": (
        NONE,
        ["fit", "rain.csv", "--target", "snow", "--out", "m.zigp"],
        "no column 'snow'. It has lat, lon",
    ),
    "no such input": (NONE, [*FIT, "--inputs", "depth"], "no column 'depth'"),
    "the target as an input": (NONE, [*FIT, "--inputs", "rain_mm"], "cannot be an input as well"),
    "text in a number": (_column("lat", "north"), FIT, "'north'"),
    "text in the target": (_column("rain_mm", "wet"), FIT, "'wet'"),
    "an infinite number": (_column("rain_mm", "inf"), FIT, "rain_mm"),
    "a time that is none": (_column("hour", "noon"), FIT, "'noon'"),
    "a gap in an input": (_column("lat", None), FIT, "rain.csv, line 6, column 'lat' is empty:"),
    "text without a role": (
        _changed(lambda t: t.assign(gear="net")),
        [*FIT, "--inputs", "gear"],
        "'gear' of rain.csv holds no numbers but, for example, 'net'. Name it with --time if",
    ),
    "a comma in a name": (
        _changed(lambda t: t.rename(columns={"lat": "lat,north"})),
        FIT,
        "no column 'lat'. It has lat,north, lon, hour, rain_mm. Rename columns with a comma",
    ),
    "a model for standard output": (NONE, [*FIT[:-1], "-"], "cannot go to standard output"),
    "a folder that is not there yet": (NONE, [*FIT[:-1], "new/"], "new/ is a folder"),
    "no target at all": (
        _changed(lambda t: t.assign(rain_mm=np.nan)),
        FIT,
        "'rain_mm' of rain.csv has no values",
    ),
    "a column twice": (_text("lat,lat,hour,rain_mm\n1,2,3,4\n1,2,4,4\n"), FIT, "lat"),
    "a column without a name": (_text("lat,,hour,rain_mm\n1,2,3,4\n"), FIT, "name"),
    "NUL bytes": (_text(b"lat,lon,hour,rain_mm\n1,2,\x003,4\n"), FIT, "line 2"),
    "another encoding": (
        _text("lat,lon,hour,rain_mm,stadt\n1,2,3,4,Zürich\n".encode("latin-1")),
        FIT,
        "UTF-8",
    ),
    "UTF-16": (_text("lat,lon,hour,rain_mm\n1,2,3,4\n".encode("utf-16")), FIT, "UTF-16"),
    "a row too long": (_text("lat,lon,hour,rain_mm\n1,2,3,4\n1,2,3,4,5\n"), FIT, "line 3"),
    "a row too short": (_text("lat,lon,hour,rain_mm\n1,2,3,4\n1,2\n"), FIT, "line 3"),
    "half a gzip": (
        _text(gzip.compress(b"lat,lon,hour,rain_mm\n" + b"1,2,3,4\n" * 999)[:40]),
        FIT,
        "rain.csv",
    ),
    "a spreadsheet": (_text(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(99)), FIT, "CSV"),
    "a pickle": (_text(b"\x80\x04\x95" + bytes(99)), FIT, "pickle"),
    "a model as data": (
        _model,
        ["fit", "ready.zigp", *RAIN, "--out", "m.zigp"],
        "a model, not a table",
    ),
    "something is there": (
        _text("mine", "m.zigp"),
        FIT,
        "m.zigp exists. Choose another --out, or add --force.",
    ),
    "no folder for it": (NONE, [*FIT[:-1], "no/m.zigp"], "There is no folder no"),
    "negative counts": (_column("rain_mm", -3), [*FIT, "--likelihood", "zip"], "needs y ≥ 0"),
    "counts in parts": (NONE, [*FIT, "--likelihood", "zinb"], "needs whole numbers"),
    "an effort of zero": (
        _changed(lambda t: t.assign(effort=0.0)),
        [*FIT, "--exposure", "effort"],
        "Exposures must be positive",
    ),
    "effort for a plain gp": (
        NONE,
        [*FIT, "--model", "gp", "--exposure", "hour"],
        "belong to --model zigp",
    ),
    "a gate for a plain gp": (
        NONE,
        [*FIT, "--model", "gp", "--gate-inputs", "lat"],
        "--gate-inputs belongs to",
    ),
    "latitudes in metres": (
        _changed(lambda t: t.assign(lat=t["lat"] * 1e5)),
        FIT,
        "latitude must lie within",
    ),
    "no GPU": (NONE, [*FIT, "--device", "gpu"], "finds no GPU"),
    "a group that is not there": (
        NONE,
        [*FIT, "--inducing", "depth=4"],
        "--inducing names 'depth', but inputs are lat, lon, hour",
    ),
    "a group that is left out": (
        NONE,
        [*FIT, "--inducing", "space=4"],
        "--inducing has no number for 'hour'",
    ),
    "going on from no model": (NONE, [*FIT, "--from", "rain.csv"], "not a zigp model"),
    "going on with other columns": (
        _model,
        [
            "fit",
            "rain.csv",
            "--target",
            "rain_mm",
            "--time",
            "hour",
            "--from",
            "ready.zigp",
            "--out",
            "m.zigp",
        ],
        "was fitted with lat, lon, hour, not with hour",
    ),
    "going on with another kernel": (
        _model,
        [*FROM, "--kernel", "matern12"],
        "--kernel is not what ready.zigp was fitted with, and a model goes on with its own",
    ),
    "going on in another precision": (_model, [*FROM, "--dtype", "float32"], "--dtype is not"),
    "going on with more points": (_model, [*FROM, "--inducing", "9"], "--inducing is not"),
    "going on with another noise": (_model, [*FROM, "--likelihood", "zip"], "--likelihood is not"),
    "going on as another model": (_model, [*FROM, "--model", "gp"], "--model is not"),
    "going on with another target": (
        _model,
        ["fit", "rain.csv", "--target", "lat", "--from", "ready.zigp", "--out", "m.zigp"],
        "--target is not",
    ),
    "going on from another kind": (
        _classifier,
        [*FROM[:-1], "class.zigp"],
        "class.zigp holds a SparseGPClassifier: train it on in Python",
    ),
    "the data as the model's name": (
        NONE,
        ["fit", "rain.csv", *RAIN, "--force", "--out", "rain.csv"],
        "is the data: choose another name",
    ),
    "other inputs of a lattice": (
        _lattice,
        ["fit", "rain.nc", "--target", "rain_mm", "--inputs", "elevation", "--out", "m.zigp"],
        "leave --inputs and --category out",
    ),
    "no such variable": (
        _lattice,
        ["fit", "rain.nc", "--target", "snow", "--out", "m.zigp"],
        "no variable 'snow'",
    ),
    "a dimension of text": (
        _lattice,
        ["fit", "rain.nc", "--target", "rain_mm", "--out", "m.zigp"],
        "Dimension 'site' has text",
    ),
    "a number for an axis that is not there": (
        _cube,
        [
            "fit",
            "cube.nc",
            "--target",
            "rain_mm",
            "--inducing",
            "time=2,depth=3",
            "--out",
            "m.zigp",
        ],
        "--inducing names 'depth', but inputs are time, site",
    ),
    "a time that is no axis": (
        _cube,
        ["fit", "cube.nc", "--target", "rain_mm", "--time", "hour", "--out", "m.zigp"],
        "cube.nc has no axis 'hour': rain_mm runs along time, lat, lon",
    ),
    "an effort that is not there": (
        _cube,
        ["fit", "cube.nc", "--target", "rain_mm", "--exposure", "area", "--out", "m.zigp"],
        "cube.nc has no variable 'area' for --exposure",
    ),
    "a lattice for standard output": (
        lambda f: (_model(f), _cube(f)),
        ["predict", "ready.zigp", "cube.nc"],
        "choose a file that ends in .nc or .zarr as --out",
    ),
    "no model": (NONE, ["predict", "no.zigp", "rain.csv"], "no.zigp"),
    "not a model": (NONE, ["predict", "rain.csv", "rain.csv"], "is not a zigp model"),
    "half a model": (_cut, PREDICT, "cut short"),
    "a column is missing": (
        lambda f: (_model(f), _changed(lambda t: t.drop(columns="lon"))(f)),
        PREDICT,
        "no column 'lon', which the model was fitted with",
    ),
    "a column is taken": (
        lambda f: (_model(f), _changed(lambda t: t.assign(mean=1))(f)),
        PREDICT,
        "has a column 'mean' already, which the prediction would be called: rename it, or put a",
    ),
    "a gap far down": (
        lambda f: (_model(f), _column("lon", None, 150)(f)),
        [*PREDICT, "--chunk-rows", "50", "--quiet"],
        "rain.csv, line 152, column 'lon' is empty",
    ),
    "a lattice for a classifier": (
        lambda f: (_classifier(f), _cube(f)),
        ["predict", "class.zigp", "cube.nc", "--out", "p.nc"],
        "is a classifier, which predicts at the rows of a table",
    ),
    "draws of a classifier": (
        _classifier,
        ["simulate", "--model", "class.zigp", "--data", "rain.csv"],
        "class.zigp holds a SparseGPClassifier, which has no amounts to draw",
    ),
    "draws on a lattice": (
        lambda f: (_model(f), _cube(f)),
        ["simulate", "--model", "ready.zigp", "--data", "cube.nc"],
        "cube.nc is a lattice: draws from a model need a table",
    ),
    "an unknown ending": (
        _model,
        ["predict", "ready.zigp", "rain.csv", "--out", "p.doc"],
        "does not end in .csv",
    ),
    "a table as a lattice": (
        _model,
        ["predict", "ready.zigp", "rain.csv", "--out", "p.nc"],
        "does not end in .csv",
    ),
    "an unknown model": (
        NONE,
        ["evaluate", "rain.csv", *RAIN, "--models", "zero,trees"],
        "There is no model 'trees'",
    ),
    "no models": (NONE, ["evaluate", "rain.csv", *RAIN, "--models", ""], "--models names none"),
    "more folds than times": (
        NONE,
        ["evaluate", "rain.csv", *RAIN, "--cv", "99"],
        "20 times cannot be split into 99 folds: lower --cv",
    ),
    "more folds than places": (
        NONE,
        ["evaluate", "rain.csv", "--target", "rain_mm", "--space", "lat,lon", "--cv", "99"],
        "8 places cannot be split into 99 folds: lower --cv",
    ),
    "more folds than rows": (
        NONE,
        ["evaluate", "rain.csv", *RAIN, "--cv", "500", "--cv-random"],
        "cannot be split into 500 folds",
    ),
    "half of a simulation": (
        NONE,
        ["simulate", "--model", "m.zigp"],
        "--model and --data go together",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_answered_in_a_sentence(zigp, files, name):
    prepare, typed, words = MISTAKES[name]
    prepare(files)
    before = {p.name: p.read_bytes() for p in files.iterdir() if p.is_file()}
    code, out, err = zigp(*typed, "--quiet") if typed[0] == "fit" else zigp(*typed)
    assert code == 1, err
    assert words in err
    assert out == ""
    assert "Traceback" not in err
    assert len(err.strip().splitlines()) <= 3
    after = {p.name: p.read_bytes() for p in files.iterdir() if p.is_file()}
    assert after == before


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (["fit", "rain.csv", "--out", "m.zigp"], "Missing option '--target'"),
        ([*FIT, "--colour", "red"], "No such option: --colour"),
        ([*FIT, "--steps", "0"], "--steps"),
        ([*FIT, "--likelihood", "poisson"], "'poisson' is not one of 'auto', 'gated'"),
        ([*FIT, "--max-seconds", "0"], "0 is not a positive number"),
        (["predict", "m", "d", "--level", "2"], "2 does not lie strictly between 0 and 1"),
        (["predict", "m", "d", "--below", "nan"], "nan is not a finite number"),
        (["evaluate", "d", "--target", "y", "--resolution", "0"], "0 is not a positive number"),
        (["evaluate", "d", "--target", "y", "--resolution", "-1"], "-1 is not a positive number"),
        ([*FIT, "--inducing", "many"], "is neither a number nor names with numbers"),
        ([*FIT, "--config", "none.toml"], "none.toml: No such file"),
        ([*FIT, "--config", "rain.csv"], "rain.csv is not TOML"),
        ([*FIT, "--config", "odd.toml"], "odd.toml sets 'colour', which is no option"),
        ([*FIT, "--divide", "restarts"], "'restarts' is not one of 'one', 'data'"),
        (["fly"], "No such command 'fly'"),
    ],
)
def test_options_that_are_wrong_are_named(zigp, files, typed, words):
    (files / "odd.toml").write_text("colour = 1\n")
    code, out, err = zigp(*typed)
    assert code == 2
    assert words in err
    assert out == ""
    assert not (files / "m.zigp").exists()


def test_a_full_disk_leaves_nothing_behind(zigp, files, monkeypatch):
    _model(files)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    code, _, err = zigp(*FIT, *QUICK)
    assert code == 1
    assert "No space left on device" in err
    assert sorted(p.name for p in files.iterdir()) == ["rain.csv", "ready.zigp"]


@pytest.mark.parametrize("error", [MemoryError, RuntimeError, JaxRuntimeError])
def test_too_little_memory_is_told_as_such(zigp, files, monkeypatch, error):
    """Also that of a device, while a model's file is in use: the file is not to blame."""

    def full(*_, **__):
        raise error("RESOURCE_EXHAUSTED: Out of memory allocating 64 bytes.")

    monkeypatch.setattr("zigp.cli.predicting.predict_file", full)
    code, _, err = zigp(*PREDICT)
    assert code == 1
    assert err.strip() == "Out of memory. Give fewer rows, --inducing less, or a --batch-size."


def test_debug_shows_where(zigp, files):
    with pytest.raises(ValueError, match="There is no file"):
        zigp("fit", "nowhere.csv", *RAIN, "--out", "m.zigp", "--debug")
