"""Many fits in one process, several processes at once, and several threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from zigp import (
    GPNetworkRegressor,
    HurdleGPRegressor,
    SparseGPClassifier,
    SparseGPRegressor,
    ZeroInflatedGPRegressor,
    load,
)

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
    cache = {"JAX_COMPILATION_CACHE_DIR": str(folder / "compiled")}
    cache["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
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
    one, *others = (jax.tree.leaves(load(rain / f"{name}.zigp").model_) for name in "abc")
    for other in others:
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_of_two_processes_that_write_one_file_one_is_told_or_the_later_wins(rain):
    """One of two runs at once with one --out is refused; the file that there is, is whole."""
    both = [fitting(rain, "rain.zigp", "--force") for _ in range(2)]
    said = [process.communicate(timeout=300)[0] for process in both]
    codes = sorted(process.returncode for process in both)
    assert codes in ([0, 0], [0, 1]), said
    assert codes == [0, 0] or any("Another fit is running" in text for text in said), said
    assert not any("Traceback" in text for text in said)
    assert load(rain / "rain.zigp").n_iter_ == 2000
    assert sorted(path.name for path in rain.iterdir()) == ["compiled", "rain.csv", "rain.zigp"]


# -- several threads ------------------------------------------------------------------------------

X = np.linspace(0, 10, 60)[:, None]
Y = np.where(X[:, 0] > 4, 2.0 + np.sin(X[:, 0]), 0.0)
SMALL = {"n_inducing": 6, "steps": 60, "tol": 0.0}
TASKS = [
    (ZeroInflatedGPRegressor(**SMALL), Y),
    (ZeroInflatedGPRegressor(**SMALL, random_state=1, batch_size=16), Y),
    (SparseGPRegressor(**SMALL), Y),
    (SparseGPClassifier(**SMALL), Y > 0),
    (HurdleGPRegressor(**SMALL), Y),
    (GPNetworkRegressor(1, n_restarts=2, **SMALL), np.column_stack([Y, 1 - Y])),
]


def answered(task):
    """Return what a fit of one's own predicts."""
    model, y = task
    fitted = clone(model).fit(X, y)
    if isinstance(fitted, SparseGPClassifier):
        return fitted.predict_proba(X)
    return np.stack(fitted.predict(X, return_std=True))


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
