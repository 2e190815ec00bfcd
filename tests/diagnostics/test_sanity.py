"""`sanity` names what is wrong, and is silent where nothing is."""

import numpy as np
import pytest
from sklearn.base import clone

from zigp import GPNetworkRegressor, HurdleGPRegressor, SparseGPRegressor, ZeroInflatedGPRegressor
from zigp.gp.kernels import Matern32

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0, 10, size=(120, 1)), axis=0)
WAVE = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=120)
ON_AND_OFF = np.where(X[:, 0] > 4, 3.0 + WAVE, 0.0)


@pytest.mark.slow
def test_a_good_fit_has_nothing_to_say():
    assert SparseGPRegressor(n_inducing=15).fit(X, WAVE).sanity() == []
    assert ZeroInflatedGPRegressor(n_inducing=15, steps=1500).fit(X, ON_AND_OFF).sanity() == []


def fixed(length):
    return SparseGPRegressor(Matern32(length), n_inducing=15, fixed=["kernel"], steps=300)


SHORT = SparseGPRegressor(n_inducing=15, steps=4)
SLOW = SparseGPRegressor(n_inducing=15, steps=100, learning_rate=0.005)
DENSE = SparseGPRegressor(n_inducing=240, learn_inducing=False, steps=300)
EXACT = SparseGPRegressor(n_inducing=20, tol=0.0)
GATED = ZeroInflatedGPRegressor(n_inducing=15, steps=600)
TWICE = np.concatenate([X, X + 1e-7])


@pytest.mark.parametrize(
    ("model", "X", "y", "words"),
    [
        (SHORT, X, WAVE, "4 steps are too few"),
        (SLOW, X, WAVE, "Not converged: over the last quarter of its 100 steps"),
        (fixed(0.01), X, WAVE, "varies with column 0 faster than the inducing"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                (fixed(900.0), X, WAVE, "hardly varies with column 0"),
                (DENSE, TWICE, np.tile(WAVE, 2), "Inducing points of f have collapsed"),
                (GATED, X, 5.0 + 0.2 * WAVE, "The gate g is open everywhere"),
                (GATED, X, np.zeros(120), "The gate g is shut everywhere"),
                (EXACT, X, np.full(120, 3.0), "The noise is at its floor"),
            )
        ),
    ],
)
def test_trouble_is_named(model, X, y, words):
    assert words in " ".join(clone(model).fit(X, y).sanity())


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
