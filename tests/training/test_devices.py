"""Several devices: the same numbers as with one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from zigp import HurdleGPRegressor, SparseGPRegressor
from zigp.training.devices import available

FOUR_DEVICES = """
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
import sys
sys.path.insert(0, {tests!r})
import jax, jax.numpy as jnp, numpy as np
from models_by_hand import *
from zigp.training.devices import available
from zigp.training.feeds import filled_up
from zigp.models.objective import objective
from zigp.runtime.session import session
from zigp.training import TrainingSettings, train, train_restarts

def same_gradients(model, data):
    both = jax.jit(jax.value_and_grad(objective))
    model, data = jax.tree.map(jnp.asarray, (model, data))
    four = both(model, devices.divide(filled_up(data, 4)))
    assert_close(four, both(model, data), rtol=1e-10, atol=1e-10)

def same_path(model, data, **settings):
    settings = TrainingSettings(steps=12, tol=0.0, **settings)
    alone = train(model, data, settings)
    divided = train(model, data, settings, devices=devices)
    assert_close(divided.bounds, alone.bounds, rtol=1e-9)

def same_restarts(data):
    models, settings = [random_zigp(seed) for seed in range(3)], TrainingSettings(steps=12, tol=0.0)
    fits = zip(
        train_restarts(models, data, settings),
        train_restarts(models, data, settings, devices=devices),
    )
    for alone, divided in fits:
        assert_close(divided.bounds, alone.bounds, rtol=1e-9)

def same_bits(model, data, **settings):
    settings = TrainingSettings(steps=12, tol=0.0, **settings)
    one, other = (train(model, data, settings, devices=devices) for _ in range(2))
    assert_same((one.model, one.bounds), (other.model, other.bounds))
    assert np.isfinite(one.bounds).all() and one.bounds[-3:].mean() > one.bounds[:3].mean()

with session():
    assert len(jax.devices()) == 4
    devices = available()
    lattice, rows = masked(0)
    network = random_network(1), random_outputs(1, missing=0.3)
    {todo}
print("the same")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "todo",
    [
        "same_gradients(random_zigp(0), lattice); same_gradients(random_zigp(0), rows)",
        "same_gradients(*network)",
        "same_path(random_zigp(0), lattice, method='natural')",
        "same_path(random_zigp(0), rows)",
        "same_path(*network, method='natural')",
        "same_restarts(rows)",
        "same_bits(random_zigp(0), rows)",
        "same_bits(random_zigp(0), lattice, method='natural')",
        "same_bits(random_zigp(0), rows, batch_size=8)",
    ],
)
def test_four_devices_give_what_one_gives(todo):
    script = FOUR_DEVICES.replace("{tests!r}", repr(str(Path(__file__).parents[1])))
    command = [sys.executable, "-c", script.replace("{todo}", todo)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "the same", done.stderr[-3000:]


def test_devices_are_of_the_kind_that_was_chosen(monkeypatch):
    every, kinds = jax.devices, []
    monkeypatch.setattr("jax.devices", lambda kind=None: kinds.append(kind) or every("cpu"))
    available()
    with jax.default_device(every("cpu")[0]):
        available()
    assert kinds == [None, "cpu"]


def test_processes_divide_rows_and_start_at_one_place(monkeypatch):
    """If each process gave all rows, they would count twice."""
    monkeypatch.setattr("jax.process_count", lambda: 2)
    X = np.linspace(0, 1, 12)[:, None]
    for model in (SparseGPRegressor(), HurdleGPRegressor()):
        with pytest.raises(ValueError, match="Divide the rows: fit_stream"):
            model.fit(X, X[:, 0])
    with pytest.raises(ValueError, match="another seed in every process"):
        SparseGPRegressor(random_state=None).fit_stream(None)
