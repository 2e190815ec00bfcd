"""`sanity` names what is wrong, and is silent where nothing is."""

from __future__ import annotations

import numpy as np
import pytest

from zigp import GPNetworkRegressor, HurdleGPRegressor, SparseGPRegressor, ZeroInflatedGPRegressor
from zigp.gp.kernels import Matern32

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0, 10, size=(120, 1)), axis=0)
WAVE = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=120)
ON_AND_OFF = np.where(X[:, 0] > 4, 3.0 + WAVE, 0.0)


def said(model, X, y):
    return " ".join(model.fit(X, y).sanity())


@pytest.mark.slow
def test_a_good_fit_has_nothing_to_say():
    assert SparseGPRegressor(n_inducing=15).fit(X, WAVE).sanity() == []
    assert ZeroInflatedGPRegressor(n_inducing=15, steps=1500).fit(X, ON_AND_OFF).sanity() == []


def test_training_that_was_cut_short():
    slow = SparseGPRegressor(n_inducing=15, steps=100, learning_rate=0.005)
    words = said(slow, X, WAVE)
    assert "Not converged: over the last quarter of its 100 steps" in words
    assert "4 steps are too few" in said(SparseGPRegressor(n_inducing=15, steps=4), X, WAVE)


@pytest.mark.parametrize(
    ("length", "words"),
    [
        pytest.param(900.0, "hardly varies with column 0", marks=pytest.mark.slow),
        (0.01, "varies with column 0 faster than the inducing"),
    ],
)
def test_length_scales_beyond_the_data_or_below_their_spacing(length, words):
    model = SparseGPRegressor(Matern32(length), n_inducing=15, fixed=["kernel"], steps=300)
    assert words in said(model, X, WAVE)


@pytest.mark.slow
def test_inducing_points_on_top_of_each_other():
    twice = np.concatenate([X, X + 1e-7])
    model = SparseGPRegressor(n_inducing=240, learn_inducing=False, steps=300)
    assert "Inducing points of f have collapsed" in said(model, twice, np.tile(WAVE, 2))


@pytest.mark.slow
def test_gates_that_never_change():
    model = ZeroInflatedGPRegressor(n_inducing=15, steps=600)
    assert "The gate g is open everywhere" in said(model, X, 5.0 + 0.2 * WAVE)
    assert "The gate g is shut everywhere" in said(model, X, np.zeros(120))


@pytest.mark.slow
def test_noise_at_its_floor():
    model = SparseGPRegressor(n_inducing=20, tol=0.0)
    assert "The noise is at its floor" in said(model, X, np.full(120, 3.0))


@pytest.mark.slow
def test_a_hurdle_speaks_for_both_parts():
    model = HurdleGPRegressor(n_inducing=8, steps=30, schedule="constant").fit(X, ON_AND_OFF)
    assert {line.split(":")[0] for line in model.sanity()} == {"Zero or not", "Amounts"}


@pytest.mark.slow
def test_networks_are_looked_at_latent_by_latent():
    Y = np.column_stack([WAVE, WAVE**2])
    model = GPNetworkRegressor(
        1, kernel=Matern32(900.0), fixed=["kernel"], n_inducing=6, n_restarts=1, steps=30
    )
    words = model.fit(X, Y).sanity()
    for latent in ("f[0]", "W[0, 0]", "W[0, 1]", "g[0, 0]", "g[0, 1]"):
        assert any(said.startswith(f"{latent} hardly varies with column 0") for said in words)
    assert any("30 steps are too few" in said for said in words)
