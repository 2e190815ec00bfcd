"""Forms of the posterior, as settings of estimators."""

import os

import numpy as np
import pandas as pd
import pytest

import zigp
from zigp import SparseGPRegressor, ZeroInflatedGPRegressor
from zigp.gp.covariances import Dense, Diagonal
from zigp.gp.markov import Markov

FULL = {"posterior": "full", "steps": 5}


def cells(places: int = 20, hours: int = 24) -> tuple[pd.DataFrame, np.ndarray]:
    """Return amounts with zeros at places × hours, a tenth of them missing."""
    rng = np.random.default_rng(0)
    at = pd.DataFrame({"x": rng.uniform(0, 5, places), "y": rng.uniform(0, 5, places)})
    X = at.merge(pd.DataFrame({"hour": np.arange(float(hours))}), how="cross")
    X = X[rng.random(len(X)) > 0.1].reset_index(drop=True)
    on = np.sin(X["hour"] / 4 + X["x"]) > 0
    amount = np.exp(np.cos(X["y"]) + 0.2 * rng.normal(size=len(X))).round(1) + 0.1
    return X, np.where(on, amount, 0.0)


def form(model, name: str = "f") -> type:
    return type(model.model_.latents[name].q_cov)


def test_the_form_follows_the_setting_and_the_number_of_inducing_points():
    X, y = cells()
    rows = X.to_numpy()[:60]
    for posterior, kind in (("auto", Dense), ("full", Dense), ("diagonal", Diagonal)):
        model = SparseGPRegressor(n_inducing=10, steps=1, posterior=posterior).fit(rows, y[:60])
        assert form(model) is kind
    assert form(ZeroInflatedGPRegressor(steps=1).fit(X, y)) is Diagonal  # 480 inducing points
    assert form(ZeroInflatedGPRegressor(**FULL).fit(X, y)) is Markov


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": "matern52", "column_groups": [["x", "y"], "hour"]}, "480 inducing points"),
        ({"n_inducing": 2500}, "2,500 inducing points, more than 2,000"),
        ({"method": "adam"}, "leave out method='adam'"),
        ({"batch_size": 64}, "leave out batch_size"),
        ({"learn_inducing": True, "method": "adam"}, "method='adam' and learn_inducing=True"),
    ],
)
def test_a_full_posterior_that_cannot_be_had_is_refused_with_a_remedy(settings, message):
    X, y = cells()
    if "n_inducing" in settings:
        rng = np.random.default_rng(1)
        X, y = rng.normal(size=(3000, 2)), rng.normal(size=3000)
    elif "kernel" in settings:
        X, y = cells(30, 80)
        message = "inducing points, more than 2,000"
    with pytest.raises(ValueError, match=message):
        ZeroInflatedGPRegressor(**FULL | settings).fit(X, y)


def test_a_full_posterior_on_a_lattice_predicts_saves_and_loads(tmp_path):
    X, y = cells()
    model = ZeroInflatedGPRegressor(likelihood="hurdle_gamma", **FULL | {"steps": 30}).fit(X, y)
    assert model.on_lattice_
    assert model.bounds_[-1] > model.bounds_[0]
    assert model.elbo(X, y) >= model.bounds_[-1] - 1e-6 * abs(model.bounds_[-1])
    between = X.assign(hour=X["hour"] + 0.5)
    assert np.all(np.isfinite(model.predict(between)))
    assert np.mean(model.predict_quantiles(between, [0.9])) > 0
    assert model.sample(X[:40], 3, random_state=0).shape == (3, 40)
    path = tmp_path / "model.zigp"
    model.save(path)
    assert os.path.getsize(path) < 200_000  # the sites, not the blocks
    np.testing.assert_array_equal(zigp.load(path).predict(between), model.predict(between))


@pytest.mark.slow
def test_warm_starts_continue_from_the_states():
    X, y = cells()
    model = ZeroInflatedGPRegressor(likelihood="hurdle_lognormal", warm_start=True, **FULL)
    first = model.fit(X, y).bounds_[-1]
    assert model.fit(X, y).bounds_[-1] > first


def test_gate_and_amount_are_coupled_on_request():
    rng = np.random.default_rng(3)
    X = rng.uniform(0, 10, (120, 1))
    y = np.where(np.sin(X[:, 0]) > 0, 2.0 + np.cos(X[:, 0]), 0.0) + 0.1 * rng.normal(size=120)
    held = ("kernel", "variance", "prior_mean", "noise", "inducing")
    small = {"n_inducing": 12, "steps": 100, "likelihood": "gaussian", "method": "natural"}
    small |= {"fixed": held}  # learned, they can end elsewhere
    apart = ZeroInflatedGPRegressor(**small).fit(X, y)
    coupled = ZeroInflatedGPRegressor(coupled=True, **small).fit(X, y)
    assert not apart.model_.couplings
    assert np.abs(coupled.model_.couplings["g"].tail).max() > 0.01
    assert coupled.bounds_[-1] > apart.bounds_[-1] + 0.1
    hurdle = ZeroInflatedGPRegressor(
        coupled=True, **small | {"likelihood": "hurdle_gamma", "steps": 1}
    )
    assert not hurdle.fit(X, np.maximum(y, 0.0)).model_.couplings  # they are independent anyway


@pytest.mark.parametrize(
    "likelihood",
    ["hurdle_gamma"]
    + [pytest.param(n, marks=pytest.mark.slow) for n in ("gaussian", "hurdle_lognormal", "zinb")],
)
def test_a_coregionalised_pair_predicts_what_its_draws_say(likelihood):
    rng = np.random.default_rng(4)
    X = rng.uniform(0, 10, (150, 1))
    level = np.sin(X[:, 0])
    y = np.where(level + 0.3 * rng.normal(size=150) > 0, np.ceil(np.exp(1 + level)), 0.0)
    model = ZeroInflatedGPRegressor(
        n_inducing=12, steps=100, likelihood=likelihood, coupling="prior", random_state=0
    ).fit(X, y)
    assert np.all(model.model_.mixing.weights != (0.4, 0.6))
    new = np.linspace(0.5, 9.5, 7)[:, None]
    drawn = model.sample(new, 8_000, random_state=1)
    mean, sd = model.predict(new, return_std=True)
    np.testing.assert_allclose(drawn.mean(0), mean, atol=5 * np.max(sd) / np.sqrt(8_000))
    np.testing.assert_allclose(drawn.std(0), sd, rtol=0.15)
    low, high = model.predict_quantiles(new, [0.1, 0.9]).to_numpy().T
    inside = np.mean((drawn >= low - 1e-9) & (drawn <= high + 1e-9), axis=0)
    assert np.all(inside > 0.77)
