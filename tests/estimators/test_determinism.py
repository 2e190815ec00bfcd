"""The same seed, versions and devices give the same bits, and the file says what those were."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version

import numpy as np
import pandas as pd
import pytest
from fuzz.running import in_process

from zigp import HurdleGPRegressor, SparseGPRegressor, load, open_stream
from zigp.estimators.persistence import read_header
from zigp.runtime.session import surroundings

# Every way of training, in a process of its own that is told how often to write checkpoints: so
# programs are compiled anew, chunks are cut by another clock, and nothing is left of another fit.
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
written, save = [], zigp.training.Checkpoints.save
def noted(self, *args):
    save(self, *args)
    written.append(self.found())
zigp.training.Checkpoints.save = noted
for name, (model, inputs, target) in fits.items():
    written.clear()
    if seconds != "never":
        model.set_params(checkpoint=folder / name, checkpoint_seconds=float(seconds))
    model.fit(inputs, target) if target is not None else model.fit_stream(inputs)
    assert len(written) == 0 if seconds == "never" else len(written) > 1 and all(written), name
    parts = [model] if hasattr(model, "model_") else [model.classifier_, model.regressor_]
    found = hashlib.sha256()
    for part in parts:
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

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 10, (60, 1))
Y = np.where(X[:, 0] > 4, 2.0 + np.sin(X[:, 0]), 0.0)
SMALL = {"n_inducing": 5, "steps": 3}


@pytest.fixture(scope="module")
def header(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "m.zigp"
    SparseGPRegressor(**SMALL, random_state=7, method="natural").fit(X, Y).save(path)
    return read_header(path)


def test_a_file_says_what_its_bits_depend_on(header):
    made = header["made_with"]
    for package in ("zigp", "jax", "jaxlib", "numpy", "scipy", "optax", "scikit-learn"):
        assert made[package] == version(package)
    said = {"method": "natural", "dtype": "float64", "steps": 3, "batch_size": None, "devices": 1}
    said |= {"platform": "cpu", "processes": 1, "warm_start": False, "max_seconds": None}
    assert {key: made[key] for key in said} == said
    assert made["seed"] == header["trained"]["seed"]
    assert made["cores"] >= 1
    assert made["xla_flags"] == os.environ.get("XLA_FLAGS", "")


def test_flags_of_the_compiler_are_told(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    assert surroundings()["xla_flags"] == "--xla_cpu_enable_fast_math=true"


@pytest.mark.slow
def test_it_tells_other_data_and_other_seeds_apart(header, tmp_path):
    def made(model, y):
        return model.fit(X, y).fitted_with_

    same = made(SparseGPRegressor(**SMALL, random_state=7, method="natural"), Y)
    assert same == header["made_with"]
    other = made(SparseGPRegressor(**SMALL, random_state=8, method="natural"), Y + (X[:, 0] > 9))
    assert {key for key in same if same[key] != other[key]} == {"seed", "data"}
    model = SparseGPRegressor(**SMALL).fit(X, Y).set_params(warm_start=True)
    assert model.fit(X, Y).fitted_with_["warm_start"]


def test_it_stays_with_the_model_through_files(tmp_path):
    model = SparseGPRegressor(**SMALL).fit(X, Y)
    model.fitted_with_["jax"] = "0.0.1"  # that of the fit, not of who saves it again
    model.save(tmp_path / "m.zigp")
    load(tmp_path / "m.zigp").save(tmp_path / "again.zigp")
    assert read_header(tmp_path / "again.zigp")["made_with"]["jax"] == "0.0.1"


@pytest.mark.slow
def test_info_says_it_in_words_and_for_programs(tmp_path):
    model = SparseGPRegressor(**SMALL, batch_size=16, max_seconds=900.0, dtype="float32").fit(X, Y)
    model.save(tmp_path / "one.zigp")
    HurdleGPRegressor(**SMALL).fit(X, Y).save(tmp_path / "two.zigp")
    said = in_process(["info", "one.zigp"], tmp_path).out
    assert f"made with   seed {model.seed_}, adam in float32, 16 rows a step" in said
    assert "time budget" in said
    assert f"zigp {version('zigp')}, jax {version('jax')}, jaxlib {version('jaxlib')}" in said
    about = json.loads(in_process(["info", "one.zigp", "--json"], tmp_path).out)
    assert about["made_with"] == model.fitted_with_
    parts = json.loads(in_process(["info", "two.zigp", "--json"], tmp_path).out)["made_with"]
    assert {part["dtype"] for part in parts.values()} == {"float64"}
    assert "adam in float64\n" in in_process(["info", "two.zigp"], tmp_path).out


@pytest.mark.slow
def test_a_stream_is_told_by_its_size(tmp_path):
    frame = pd.DataFrame({"x": X[:, 0], "y": Y})
    frame.to_parquet(tmp_path / "rows.parquet")
    stream = open_stream(tmp_path / "rows.parquet", target="y", rows_per_block=64)
    made = SparseGPRegressor(**SMALL, batch_size=32).fit_stream(stream).fitted_with_
    assert made["batch_size"] == 32
    assert "60 rows" in made["data"]
