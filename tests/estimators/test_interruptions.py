"""Estimators whose fits are interrupted: streams, hurdles, and processes that are killed."""

import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from models_by_hand import assert_same
from safetensors import safe_open

from zigp import HurdleGPRegressor, ZeroInflatedGPRegressor, load, open_stream
from zigp.training import InterruptedFitError

X = np.linspace(0, 10, 60)[:, None]
Y = np.where(X[:, 0] > 4, 2.0 + np.sin(X[:, 0]), 0.0)


@pytest.fixture
def press(monkeypatch):
    """Press Ctrl-C at the n-th chunk of verbose fits, and record the steps of all chunks."""

    def at(chunk: int) -> list[int]:
        steps: list[int] = []

        def watch(progress):
            steps.append(progress.step)
            if len(steps) == chunk:
                raise KeyboardInterrupt

        monkeypatch.setattr("zigp.estimators.fitting.progress_bar", lambda _: nullcontext(watch))
        return steps

    return at


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"checkpoint_seconds": np.nan}, "checkpoint_seconds must be a number above 0, not nan"),
        ({"checkpoint_seconds": "5"}, "checkpoint_seconds must be a number above 0, not '5'"),
        ({"checkpoint_seconds": -1}, "checkpoint_seconds must be a number above 0, not -1"),
        ({"checkpoint": None, "resume": True}, "give checkpoint too"),
        ({"random_state": None}, "require an integer random_state, not None"),
        ({"random_state": np.random.RandomState(0)}, "give a number"),
    ],
)
def test_impossible_ways_of_keeping_checkpoints_are_named(settings, message, tmp_path):
    model = HurdleGPRegressor(steps=1, n_inducing=3, checkpoint=tmp_path / "kept")
    with pytest.raises(ValueError, match=message):
        model.set_params(**settings).fit(X, Y)
    assert not (tmp_path / "kept").exists()


@pytest.mark.slow
def test_a_stream_goes_on_where_it_was(tmp_path, press):
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, 2048)
    y = np.where(np.sin(x) > 0, 2.0, 0.0) + rng.normal(0, 0.05, 2048)
    pd.DataFrame({"x": x, "y": y}).to_parquet(tmp_path / "rows.parquet", row_group_size=128)
    stream = open_stream(tmp_path / "rows.parquet", target="y", rows_per_block=512)
    settings = {"n_inducing": 10, "batch_size": 128, "steps": 44}
    whole = ZeroInflatedGPRegressor(**settings).fit_stream(stream)
    model = ZeroInflatedGPRegressor(**settings, checkpoint=tmp_path / "kept", verbose=True)
    press(6)
    with pytest.raises(InterruptedFitError):
        model.fit_stream(stream)
    assert model.n_iter_ == 24  # the model so far can be used
    again = model.set_params(resume=True, verbose=False).fit_stream(stream)
    assert_same(again.model_, whole.model_)
    assert not (tmp_path / "kept").exists()  # nothing is left at the end


@pytest.mark.parametrize("outside", [False, True])
def test_a_stream_whose_contents_changed_is_another_fit(outside, tmp_path, monkeypatch, press):
    """A change is noticed in the sample, and outside of a small one in the footers of the file."""
    if outside:
        monkeypatch.setattr("zigp.estimators.fitting._SAMPLE", 64)
    x, y = np.linspace(0, 10, 512), np.tile([0.0, 2.0], 256)

    def opened(values):
        table = pd.DataFrame({"x": x, "y": values})
        table.to_parquet(tmp_path / "rows.parquet", row_group_size=128)
        return open_stream(tmp_path / "rows.parquet", target="y", rows_per_block=128)

    model = ZeroInflatedGPRegressor(
        n_inducing=5, batch_size=64, steps=8, checkpoint=tmp_path / "kept", verbose=True
    )
    press(2)
    stream = opened(y)
    with pytest.raises(InterruptedFitError):
        model.fit_stream(stream)
    changed = y[::-1].copy()  # of the same mean and spread
    if outside:
        changed = y.copy()
        changed[np.flatnonzero(~np.isin(x, stream.sample(64, model.seed_)[0]["x"]))[0]] = 3.0
    with pytest.raises(ValueError, match="of another fit"):
        model.set_params(resume=True).fit_stream(opened(changed))


@pytest.mark.slow
def test_a_hurdle_does_not_train_its_first_part_again(tmp_path, press):
    """A hurdle that is interrupted in its second part keeps both, and resumes with the second."""
    folder = tmp_path / "kept"
    settings = {"n_inducing": 6, "steps": 150, "tol": 0.0}
    whole = HurdleGPRegressor(**settings).fit(X, Y)
    model, steps = HurdleGPRegressor(**settings, checkpoint=folder, verbose=True), press(5)
    with pytest.raises(InterruptedFitError, match="step 100 of 150"):
        model.fit(X, Y)
    assert steps == [50, 100, 150, 50, 100]
    assert model.regressor_.n_iter_ == 100
    assert np.isfinite(model.predict(X)).all()
    model.set_params(resume=True).fit(X, Y)
    assert steps == [50, 100, 150, 50, 100, 150]
    assert_same(model.classifier_.model_, whole.classifier_.model_)
    assert_same(model.regressor_.model_, whole.regressor_.model_)
    assert not folder.exists()


# -- processes that are killed ---------------------------------------------------------------------

FITTING = """
import sys
from pathlib import Path
import numpy as np
from zigp import ZeroInflatedGPRegressor
kept, out = Path(sys.argv[1]), sys.argv[2]
rng = np.random.default_rng(0)
X = rng.uniform(0, 10, (200, 1))
y = np.where(np.sin(X[:, 0]) > 0, 2.0, 0.0) + rng.normal(0, 0.05, 200)
model = ZeroInflatedGPRegressor(
    n_inducing=12, steps=12000, batch_size=64, tol=0.0, checkpoint=kept, checkpoint_seconds=0.01,
    resume=kept.exists(),
)
model.fit(X, y).save(out)
"""


def start(tmp_path: Path, name: str) -> subprocess.Popen:
    command = [sys.executable, "-c", FITTING, str(tmp_path / f"{name}.kept"), str(tmp_path / name)]
    cache = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "compiled")}
    cache["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    return subprocess.Popen(command, env=os.environ | cache)


def wait_for(process: subprocess.Popen, folder: Path, pattern: str) -> None:
    """Wait until a new file of this name is in the folder, or the process has ended."""
    before, deadline = set(folder.glob("*step-*")), time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if set(folder.glob(pattern)) - before:
            return
        time.sleep(0.0005)  # writing a file takes longer


@pytest.mark.slow
def test_thirty_kills_end_in_the_same_bits(tmp_path):
    assert start(tmp_path, "whole").wait(timeout=600) == 0
    rng, kept, half = np.random.default_rng(0), tmp_path / "killed.kept", 0
    reached = [0]
    for when in ["at any time", "in training", "in writing"] * 10:
        process = start(tmp_path, "killed")
        if when == "at any time":  # while it starts, compiles, reads its checkpoint or trains
            time.sleep(float(rng.uniform(0, 4)))
        elif when == "in training":
            wait_for(process, kept, "step-*.checkpoint")
            time.sleep(float(rng.uniform(0, 0.1)))
        else:
            wait_for(process, kept, ".step-*.part")
        assert process.poll() is None, "it ended before it could be killed"
        process.send_signal(signal.SIGKILL)
        process.wait()
        whole = list(kept.glob("step-*.checkpoint"))
        for path in whole:  # each can be read to its end
            with safe_open(path, framework="numpy") as file:
                assert all(np.size(file.get_tensor(name)) for name in file.keys())  # noqa: SIM118
        assert len(whole) <= 3  # two, and a new one
        half += bool(list(kept.glob(".step-*.part")))
        reached.append(max([0, *(int(path.name[5:14]) for path in kept.glob("step-*"))]))
        assert reached[-1] >= reached[-2] + (when == "in training")  # it waited for a new one
    assert start(tmp_path, "killed").wait(timeout=600) == 0
    print(f"30 kills, {half} of them in the middle of a checkpoint, at steps {reached}")
    assert half >= 5
    one, other = load(tmp_path / "whole"), load(tmp_path / "killed")
    assert_same((one.model_, one.bounds_), (other.model_, other.bounds_))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["compiled", "killed", "whole"]
