"""The same data, settings, seed and versions give the same bits; a file says what they were."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version

import pytest
from fuzz.material import model_file, put_model
from fuzz.running import in_process
from small_models import X, Y

from zigp import SparseGPRegressor, load, open_stream

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


def test_what_a_fit_was_made_with_survives_saving_by_another_version(tmp_path):
    model = load(model_file("plain"))
    model.fitted_with_["jax"] = "0.0.1"
    file_of(model, tmp_path / "m.zigp")
    again = file_of(load(tmp_path / "m.zigp"), tmp_path / "again.zigp")
    assert again["made_with"]["jax"] == "0.0.1"


@pytest.mark.slow
def test_other_data_and_other_seeds_are_told_apart():
    first, same, other = (
        SparseGPRegressor(**SETTINGS | {"random_state": seed}).fit(X, y).fitted_with_
        for seed, y in ((7, Y), (7, Y), (8, Y + 1))
    )
    assert same == first
    assert {key for key in first if first[key] != other[key]} == {"seed", "data"}


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


@pytest.mark.slow
def test_a_stream_is_described_by_its_size(tmp_path):
    X.assign(y=Y).to_parquet(tmp_path / "rows.parquet")
    stream = open_stream(tmp_path / "rows.parquet", target="y", rows_per_block=64)
    made = SparseGPRegressor(**SETTINGS, batch_size=32).fit_stream(stream).fitted_with_
    assert made["batch_size"] == 32
    assert "60 rows" in made["data"]
