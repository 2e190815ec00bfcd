"""Checkpoints: what was interrupted goes on to the same bits, and no file is ever half of one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest
from test_objective import masked, random_zigp

from zigp import ZeroInflatedGPRegressor, load, open_stream
from zigp.training import Checkpoints, InterruptedFitError, Settings, train, train_restarts


def same(a, b) -> None:
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(one, other)


def stop_at(step: int):
    """A viewer of progress that presses Ctrl-C."""

    def watch(progress):
        if progress.step == step:
            raise KeyboardInterrupt

    return watch


SETTINGS = {
    "adam": Settings(steps=130, tol=0.0),
    "natural": Settings(steps=130, tol=0.0, method="natural"),
    "minibatches": Settings(steps=130, tol=0.0, batch_size=5),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_an_interrupted_fit_goes_on_to_the_same_bits(name, tmp_path):
    settings, data = SETTINGS[name], masked(0)[1]
    whole = train(random_zigp(0), data, settings)
    with pytest.raises(InterruptedFitError, match="step 50 of 130") as stopped:
        train(random_zigp(0), data, settings, stop_at(50), checkpoints=Checkpoints(tmp_path))
    np.testing.assert_array_equal(stopped.value.fits[0].bounds, whole.bounds[:50])
    going_on = Checkpoints(tmp_path, resume=True)
    again = train(random_zigp(0), data, settings, checkpoints=going_on)
    same(again.model, whole.model)
    np.testing.assert_array_equal(again.bounds, whole.bounds)


def test_restarts_go_on_too(tmp_path):
    models, data, settings = [random_zigp(i) for i in range(2)], masked(1)[0], SETTINGS["adam"]
    whole = train_restarts(models, data, settings)
    with pytest.raises(InterruptedFitError):
        train_restarts(models, data, settings, stop_at(100), checkpoints=Checkpoints(tmp_path))
    again = train_restarts(models, data, settings, checkpoints=Checkpoints(tmp_path, resume=True))
    for one, other in zip(again, whole, strict=True):
        same(one.model, other.model)


def test_a_stream_goes_on_where_it_was(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, 2048)
    y = np.where(np.sin(x) > 0, 2.0, 0.0) + rng.normal(0, 0.05, 2048)
    pd.DataFrame({"x": x, "y": y}).to_parquet(tmp_path / "rows.parquet", row_group_size=128)
    stream = open_stream(tmp_path / "rows.parquet", target="y", rows_per_block=512)
    settings = {"n_inducing": 10, "batch_size": 128, "steps": 44}
    whole = ZeroInflatedGPRegressor(**settings).fit_stream(stream)
    stopped = ZeroInflatedGPRegressor(**settings, checkpoint=tmp_path / "kept", verbose=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("zigp.estimators.base.progress_bar", _shown(stop_at(24)))
        with pytest.raises(InterruptedFitError):
            stopped.fit_stream(stream)
    assert stopped.n_iter_ == 24  # what was learned so far can be used
    again = stopped.set_params(resume=True, verbose=False).fit_stream(stream)
    same(again.model_, whole.model_)
    assert not (tmp_path / "kept").exists()  # nothing is left once it is done


def _shown(watch):
    from contextlib import contextmanager

    @contextmanager
    def bar(title):
        yield watch

    return bar


def test_two_checkpoints_are_kept_and_the_newest_is_taken(tmp_path):
    kept = Checkpoints(tmp_path, steps=1)
    with pytest.raises(InterruptedFitError):
        train(
            random_zigp(0),
            masked(0)[0],
            Settings(steps=400, tol=0.0),
            stop_at(300),
            checkpoints=kept,
        )
    assert [path.name for path in kept.found()] == [
        "step-000000300.checkpoint",
        "step-000000250.checkpoint",
    ]
    size = sum(path.stat().st_size for path in kept.found())
    parameters = sum(np.size(leaf) for leaf in jax.tree.leaves(random_zigp(0)))
    assert size < 2 * (3 * 8 * parameters + 16 * 400 + 20_000)


def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(tmp_path):
    settings, data = Settings(steps=200, tol=0.0), masked(0)[0]
    whole = train(random_zigp(0), data, settings)
    with pytest.raises(InterruptedFitError):
        train(
            random_zigp(0), data, settings, stop_at(150), checkpoints=Checkpoints(tmp_path, steps=1)
        )
    newest = Checkpoints(tmp_path, resume=True).found()[0]
    newest.write_bytes(newest.read_bytes()[:-100])
    again = train(random_zigp(0), data, settings, checkpoints=Checkpoints(tmp_path, resume=True))
    same(again.model, whole.model)


def test_checkpoints_of_another_fit_are_refused(tmp_path):
    with pytest.raises(InterruptedFitError):
        train(
            random_zigp(0),
            masked(0)[0],
            SETTINGS["adam"],
            stop_at(50),
            checkpoints=Checkpoints(tmp_path),
        )
    with pytest.raises(ValueError, match="go on from them with resume"):
        Checkpoints(tmp_path)
    for model, data in ((random_zigp(1), masked(0)[0]), (random_zigp(0), masked(1)[0])):
        with pytest.raises(ValueError, match="of another fit"):
            train(model, data, SETTINGS["adam"], checkpoints=Checkpoints(tmp_path, resume=True))


def test_a_full_disk_leaves_the_checkpoint_before_as_it_was(tmp_path, monkeypatch):
    kept = Checkpoints(tmp_path, steps=1)
    written = Path.write_bytes

    def full(path, content):
        if "000000100" in path.name:
            written(path, content[: len(content) // 2])
            raise OSError(28, "No space left on device", str(path))
        return written(path, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        train(random_zigp(0), masked(0)[0], Settings(steps=200, tol=0.0), checkpoints=kept)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000050.checkpoint"]
    monkeypatch.undo()
    data = masked(0)[0]
    again = train(
        random_zigp(0),
        data,
        Settings(steps=200, tol=0.0),
        checkpoints=Checkpoints(tmp_path, resume=True),
    )
    same(again.model, train(random_zigp(0), data, Settings(steps=200, tol=0.0)).model)


# ---------------------------------------------------------------------------------------------
# Real processes, really killed

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
    n_inducing=12, steps=6000, batch_size=64, tol=0.0, checkpoint=kept, checkpoint_seconds=0.01,
    resume=kept.exists(),
)
model.fit(X, y).save(out)
"""


def start(tmp_path: Path, name: str) -> subprocess.Popen:
    command = [sys.executable, "-c", FITTING, str(tmp_path / f"{name}.kept"), str(tmp_path / name)]
    cache = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "compiled")}
    cache["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    return subprocess.Popen(command, env=os.environ | cache)


@pytest.mark.slow
def test_thirty_kills_end_in_the_same_bits(tmp_path):
    whole = start(tmp_path, "whole")
    assert whole.wait(timeout=600) == 0
    rng, kills, seen = np.random.default_rng(0), 0, set()
    kept = tmp_path / "killed.kept"
    while kills < 30:
        process = start(tmp_path, "killed")
        before = {path.name for path in kept.glob("step-*")}
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and process.poll() is None:
            if {path.name for path in kept.glob("step-*")} - before:
                break
            time.sleep(0.005)
        time.sleep(float(rng.uniform(0, 0.1)))
        if process.poll() is not None:
            assert process.returncode == 0
            break
        process.send_signal(signal.SIGKILL)
        process.wait()
        kills += 1
        seen |= {path.name for path in kept.glob("step-*")}
    if process.poll() != 0 or not (tmp_path / "killed").exists():
        last = start(tmp_path, "killed")
        assert last.wait(timeout=600) == 0
    print(f"{kills} kills, {len(seen)} checkpoints seen between them")
    assert kills == 30
    one, other = load(tmp_path / "whole"), load(tmp_path / "killed")
    same(one.model_, other.model_)
    np.testing.assert_array_equal(one.bounds_, other.bounds_)


ZIGP = Path(sys.executable).with_name("zigp")


def test_ctrl_c_keeps_what_was_learned_and_says_how_to_go_on(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, 300)
    table = pd.DataFrame({"x": X, "y": np.where(np.sin(X) > 0, 2.0, 0.0)})
    table.to_csv(tmp_path / "rain.csv", index=False)
    command = [str(ZIGP), "fit", "rain.csv", "--target", "y", "--out", "rain.zigp", "--quiet"]
    command += ["--inducing", "12", "--steps", "1000000", "--checkpoint-seconds", "0.2"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    kept = tmp_path / "rain.zigp.checkpoint"
    for _ in range(1200):
        if list(kept.glob("step-*")) or process.poll() is not None:
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130, said
    assert "--resume goes on from there" in said
    steps = load(tmp_path / "rain.zigp").n_iter_
    assert steps > 0
    refused = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "rain.zigp" in refused.stderr
    assert refused.returncode != 0
    more = [*command, "--resume", "--max-seconds", "1"]
    again = subprocess.run(more, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert load(tmp_path / "rain.zigp").n_iter_ > steps
    assert not kept.exists()
