"""The same fit gives the same bits: again, in many fits, in several processes and in threads."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest
from fuzz.material import put_model
from fuzz.running import in_process
from models_by_hand import assert_same
from sklearn.base import clone
from small_models import X, Y

from zigp import (
    GPNetworkRegressor,
    HurdleGPRegressor,
    SparseGPClassifier,
    SparseGPRegressor,
    ZeroInflatedGPRegressor,
    load,
    open_stream,
)

# Every way of training, in a process of its own and with checkpoints of a given frequency: programs
# are compiled anew, chunks are cut by another clock, and nothing is left of another fit.
EVERY_TRAINER = """
import hashlib, json, sys
from pathlib import Path
import jax, numpy as np, pandas as pd
import zigp

folder, seconds = Path(sys.argv[1]), sys.argv[2]
rng = np.random.default_rng(0)
X = np.column_stack([rng.uniform(0, 10, 300), rng.uniform(0, 5, 300)])
y = np.where(X[:, 0] > 4, 2 + np.sin(X[:, 1]) + 0.1 * rng.normal(size=300), 0.0)
places, hours = np.linspace(0, 3, 9), np.arange(24.0)
cells = np.array([[place, hour] for place in places for hour in hours])
wet = np.where(np.sin(cells[:, 1] / 4) > 0, 1 + cells[:, 0], 0.0)
frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y})
frame.to_parquet(folder / "rows.parquet", row_group_size=64)
stream = zigp.open_stream(folder / "rows.parquet", target="y", rows_per_block=128)

small = {"n_inducing": 8, "steps": 120}
gated, plain, network = (
    zigp.ZeroInflatedGPRegressor, zigp.SparseGPRegressor, zigp.GPNetworkRegressor
)
two = np.column_stack([y, 1 - y])
fits = {
    "adam": (gated(**small), X, y),
    "float32": (gated(**small, dtype="float32"), X, y),
    "natural": (gated(**small, method="natural"), X, y),
    "minibatches": (gated(**small, batch_size=64), X, y),
    "natural minibatches": (plain(**small, method="natural", batch_size=64), X, y),
    "stream": (gated(**small, batch_size=64), stream, None),
    "restarts": (network(1, n_restarts=3, **small), X, two),
    "restarts in minibatches": (network(1, n_restarts=3, batch_size=64, **small), X, two),
    "lattice": (gated(steps=60), cells, wet),
    "slabs of a lattice": (gated(steps=60, batch_size=72), cells, wet),
    "hurdle": (zigp.HurdleGPRegressor(**small), X, y),
    "classes": (zigp.SparseGPClassifier(**small), X, y > 0),
}
written, add = [], zigp.training.Checkpoints.save
def save(self, *args):
    add(self, *args)
    written.append(True)
zigp.training.Checkpoints.save = save
for name, (model, inputs, target) in fits.items():
    written.clear()
    if seconds != "never":
        model.set_params(checkpoint=folder / name, checkpoint_seconds=float(seconds))
    model.fit(inputs, target) if target is not None else model.fit_stream(inputs)
    assert len(written) == 0 if seconds == "never" else len(written) > 1, name
    found = hashlib.sha256()
    for part in model.parts_.values():
        for leaf in (*jax.tree.leaves(part.model_), part.bounds_):
            found.update(np.ascontiguousarray(leaf).tobytes())
    assert not (folder / name).exists()
    print(json.dumps([name, found.hexdigest()]))
"""


def bits(folder, seconds: str) -> dict[str, str]:
    folder.mkdir()
    command = [sys.executable, "-c", EVERY_TRAINER, str(folder), seconds]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.slow
def test_every_trainer_repeats_itself_to_the_bit_with_checkpoints_and_without(tmp_path):
    first = bits(tmp_path / "a", "never")
    assert len(first) == 12
    assert bits(tmp_path / "b", "never") == first
    assert bits(tmp_path / "c", "1e-9") == first  # one after every chunk


# -- what the file says ---------------------------------------------------------------------------

SETTINGS = {"n_inducing": 4, "steps": 3, "random_state": 7, "method": "natural"}


def file_of(model, path) -> dict:
    model.save(path)
    return json.loads(in_process(["info", path.name, "--json"], path.parent).out)


def test_a_file_says_what_its_bits_depend_on(tmp_path):
    model = SparseGPRegressor(**SETTINGS).fit(X, Y)
    header = file_of(model, tmp_path / "m.zigp")
    made = header["made_with"]
    for package in ("zigp", "jax", "jaxlib", "numpy", "scipy", "optax", "scikit-learn"):
        assert made[package] == version(package)
    known = {"method": "natural", "dtype": "float64", "steps": 3, "batch_size": None, "devices": 1}
    known |= {"platform": "cpu", "processes": 1, "warm_start": False, "max_seconds": None}
    known |= {"seed": header["trained"]["seed"], "xla_flags": os.environ.get("XLA_FLAGS", "")}
    assert known.items() <= made.items()
    assert made["cores"] >= 1
    model.fitted_with_["jax"] = "0.0.1"  # of another version, which saving again does not change
    model.save(tmp_path / "old.zigp")
    again = file_of(load(tmp_path / "old.zigp"), tmp_path / "again.zigp")
    assert again["made_with"]["jax"] == "0.0.1"


@pytest.mark.slow
def test_other_data_and_other_seeds_are_told_apart(tmp_path):
    first, same, other = (
        SparseGPRegressor(**SETTINGS | {"random_state": seed}).fit(X, y).fitted_with_
        for seed, y in ((7, Y), (7, Y), (8, Y + 1))
    )
    assert same == first
    assert {key for key in first if first[key] != other[key]} == {"seed", "data"}
    X.assign(y=Y).to_parquet(tmp_path / "rows.parquet")
    stream = open_stream(tmp_path / "rows.parquet", target="y", rows_per_block=64)
    made = SparseGPRegressor(**SETTINGS, batch_size=32).fit_stream(stream).fitted_with_
    assert made["batch_size"] == 32
    assert "60 rows" in made["data"]


@pytest.mark.slow
def test_info_says_what_a_fit_was_made_with_in_words(tmp_path):
    more = {"batch_size": 16, "max_seconds": 900.0, "dtype": "float32", "method": "adam"}
    model = SparseGPRegressor(**SETTINGS | more).fit(X, Y)
    assert file_of(model, tmp_path / "one.zigp")["made_with"] == model.fitted_with_
    said = in_process(["info", "one.zigp"], tmp_path).out
    assert f"made with   seed {model.seed_}, adam in float32, 16 rows a step" in said
    assert "time budget" in said
    assert f"zigp {version('zigp')}, jax {version('jax')}, jaxlib {version('jaxlib')}" in said
    put_model(tmp_path, "hurdle")
    assert "adam in float64\n" in in_process(["info", "hurdle.zigp"], tmp_path).out


# -- many fits ------------------------------------------------------------------------------------

ZIGP = Path(sys.executable).with_name("zigp")
_FITS, _WARM_UP = 200, 40
_MOST_GROWTH = 20  # MiB from the end of the warm-up to the last fit

# Fits of equal shapes after padding, with other rows, numbers of rows and steps, rates and seeds.
MANY_FITS = """
import ctypes, gc, json, sys
from pathlib import Path
import jax, numpy as np
from zigp import GPNetworkRegressor, HurdleGPRegressor, ZeroInflatedGPRegressor

compiled = [0]
def heard(event, seconds, **more):
    compiled[0] += event == "/jax/core/compile/backend_compile_duration"
jax.monitoring.register_event_duration_secs_listener(heard)

def resident():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20

def one(i):
    rng = np.random.default_rng(i)
    n = 200 + i % 50
    X = np.column_stack([rng.uniform(0, 10, n), rng.uniform(0, 5, n)])
    y = np.where(X[:, 0] > 4, 2 + np.sin(X[:, 1]) + 0.1 * rng.normal(size=n), 0.0)
    more = {"n_inducing": 10, "steps": 30 + i % 20, "random_state": i}
    more |= {"learning_rate": 0.01 + 1e-4 * i}
    model = {
        0: ZeroInflatedGPRegressor(**more),
        1: ZeroInflatedGPRegressor(**more, batch_size=64),
        2: HurdleGPRegressor(**more),
        3: GPNetworkRegressor(1, n_restarts=2, **more),
    }[i % 4]
    model.fit(X, np.column_stack([y, 1 - y]) if i % 4 == 3 else y)
    model.predict(X, return_std=True)
    model.predict_quantiles(X)
    model.sample(X[:100], 3, random_state=i)
    model.sanity()

fits, warm_up = map(int, sys.argv[1:])
seen = []
for i in range(fits):
    one(i)
    if (i + 1) % warm_up == 0:
        seen.append([i + 1, round(resident(), 1), compiled[0]])
print(json.dumps(seen))
"""


@pytest.mark.slow
def test_two_hundred_fits_take_no_more_memory_and_compile_nothing_new():
    command = [sys.executable, "-c", MANY_FITS, str(_FITS), str(_WARM_UP)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    fits, resident, compiled = zip(*seen, strict=True)
    assert fits == tuple(range(_WARM_UP, _FITS + 1, _WARM_UP))
    assert len(set(compiled)) == 1, seen
    assert compiled[0] > 0
    assert resident[-1] - resident[0] < _MOST_GROWTH, seen


# -- several processes ----------------------------------------------------------------------------


@pytest.fixture
def rain(tmp_path) -> Path:
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, 200)
    y = np.where(np.sin(x) > 0, 2.0, 0.0) + rng.normal(0, 0.05, 200)
    pd.DataFrame({"x": x, "y": y}).to_csv(tmp_path / "rain.csv", index=False)
    return tmp_path


def fitting(folder: Path, out: str, *more: str) -> subprocess.Popen:
    command = [str(ZIGP), "fit", "rain.csv", "--target", "y", "--out", out, "--quiet"]
    command += ["--inducing", "10", "--steps", "2000", "--checkpoint-seconds", "0.01", *more]
    cache = {
        "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(command, cwd=folder, env=os.environ | cache, **pipes)


@pytest.mark.slow
def test_processes_share_a_cache_and_a_folder(rain):
    """Two begin with an empty cache and fill it at once; a third reads what they wrote."""
    for names in ("ab", "c"):
        for process in [fitting(rain, f"{name}.zigp") for name in names]:
            said = process.communicate(timeout=300)[0]
            assert process.returncode == 0, said
    left = sorted(path.name for path in rain.iterdir())
    assert left == ["a.zigp", "b.zigp", "c.zigp", "compiled", "rain.csv"]
    one, *others = (load(rain / f"{name}.zigp").model_ for name in "abc")
    for other in others:
        assert_same(one, other)


@pytest.mark.slow
def test_of_two_processes_that_write_one_file_one_is_told_or_the_later_wins(rain):
    """One of two runs at once with one --out is refused; the file that there is, is whole."""
    both = [fitting(rain, "rain.zigp", "--force") for _ in range(2)]
    said = [process.communicate(timeout=300)[0] for process in both]
    for text, process in zip(said, both, strict=True):
        assert process.returncode == 0 or "Another fit is running" in text, said
        assert "Traceback" not in text
    assert load(rain / "rain.zigp").n_iter_ == 2000
    assert sorted(path.name for path in rain.iterdir()) == ["compiled", "rain.csv", "rain.zigp"]


# -- several threads ------------------------------------------------------------------------------

LINE = np.linspace(0, 10, 60)[:, None]
WAVE = np.where(LINE[:, 0] > 4, 2.0 + np.sin(LINE[:, 0]), 0.0)
QUICK = {"n_inducing": 6, "steps": 60, "tol": 0.0}
TASKS = [
    (ZeroInflatedGPRegressor(**QUICK), WAVE),
    (ZeroInflatedGPRegressor(**QUICK, random_state=1, batch_size=16), WAVE),
    (SparseGPRegressor(**QUICK), WAVE),
    (SparseGPClassifier(**QUICK), WAVE > 0),
    (HurdleGPRegressor(**QUICK), WAVE),
    (GPNetworkRegressor(1, n_restarts=2, **QUICK), np.column_stack([WAVE, 1 - WAVE])),
]


def answered(task):
    """Return what a fit of one's own predicts."""
    model, y = task
    fitted = clone(model).fit(LINE, y)
    if isinstance(fitted, SparseGPClassifier):
        return fitted.predict_proba(LINE)
    return np.stack(fitted.predict(LINE, return_std=True))


@pytest.mark.slow
@pytest.mark.parametrize(("tasks", "times", "workers"), [(TASKS[:3], 2, 4), (TASKS, 3, 8)])
def test_fits_in_threads_give_what_they_give_one_after_another(tasks, times, workers):
    """Threads first, so that they compile at the same time."""
    jax.clear_caches()
    with ThreadPoolExecutor(workers) as threads:
        together = list(threads.map(answered, tasks * times))
    apart = [answered(task) for task in tasks] * times
    for one, other in zip(apart, together, strict=True):
        np.testing.assert_array_equal(one, other)
