"""Likelihoods are chosen, fitted to data of their own kind, and refused for other data."""

from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest
from sklearn.base import clone

from zigp import GPNetworkRegressor, SparseGPClassifier, ZeroInflatedGPRegressor, open_stream
from zigp.estimators.families import FAMILIES, chosen_family, resolution_of

N, NEW = 900, 3000
REAL, WITH_ZEROS = ("gaussian", "gated"), ("hurdle_lognormal", "hurdle_gamma", "zip", "zinb")


def draw(family: str, rng: np.random.Generator, effort, n: int = N):
    """Return data of a family, with a gate that swings and a smooth amount times an effort."""
    x = rng.uniform(0, 10, n)
    on = rng.random(n) < np.where(np.sin(x) > 0, 0.95, 0.03)
    log_amount = 1.0 + 0.5 * np.cos(x)
    amount = np.exp(log_amount) * effort
    drawn = {
        "gaussian": lambda: np.where(np.sin(x) > 0, amount, 0.0) + 0.3 * rng.normal(size=n),
        "gated": lambda: np.where(
            np.sin(x) > 0, amount + 0.8 * rng.normal(size=n), 0.1 * rng.normal(size=n)
        ),
        "hurdle_lognormal": lambda: on * amount * np.exp(0.4 * rng.normal(size=n)),
        "hurdle_gamma": lambda: on * rng.gamma(3.0, amount / 3.0),
        "zip": lambda: on * rng.poisson(amount),
        "zinb": lambda: on * rng.poisson(rng.gamma(2.0, amount / 2.0)),
    }[family]()
    return pd.DataFrame({"x": x, "effort": np.broadcast_to(effort, n)}), drawn.astype(float)


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=pytest.mark.slow) for name in FAMILIES]
)
def fitted(request):
    """A family, a fit to data of it, and new data of that family."""
    rng = np.random.default_rng(0)
    settings = {"inputs": "x", "n_inducing": 20, "steps": 1200, "tol": 0.0}
    model = ZeroInflatedGPRegressor(likelihood=request.param, **settings)
    model.fit(*draw(request.param, rng, 1.0))
    return request.param, model, draw(request.param, rng, 1.0, NEW)


TRUTH = {
    "gaussian": {"sd": 0.3},
    "gated": {"off_sd": 0.1, "on_sd": 0.8},
    "hurdle_lognormal": {"log_sd": 0.4},
    "hurdle_gamma": {"shape": 3.0},
    "zip": {},
    "zinb": {"dispersion": 2.0},
}


def test_parameters_of_the_data_are_recovered(fitted):
    family, model, _ = fitted
    X, y = draw(family, np.random.default_rng(0), 1.0)
    assert model.likelihood_ == family
    assert model.noise_ == pytest.approx(TRUTH[family], rel=0.35)
    assert model.elbo(X, y) == pytest.approx(model.bounds_[-1], abs=1.0)


def test_residuals_are_standard_normal_and_intervals_hold_the_stated_share(fitted):
    """Counts and zeros are covered in steps."""
    family, model, (X, y) = fitted
    inside = model.predict_interval(X, 0.9)
    share = np.mean((y >= inside["lower"]) & (y <= inside["upper"]))
    assert 0.86 < share < (0.94 if family in REAL else 1.0)
    assert kstest(model.quantile_residuals(X, y), "norm").statistic < 0.05


def test_probabilities_of_zero_and_of_large_amounts_are_calibrated(fitted):
    family, model, (X, y) = fitted
    if family in REAL:
        with pytest.raises(ValueError, match="tol must be positive"):
            model.prob_zero(X)
    else:
        for here in (X["x"] > 0, np.sin(X["x"]) > 0.2):
            zeros = pytest.approx(model.prob_zero(X[here]).mean(), abs=0.04)
            assert np.mean(y[here] == 0) == zeros
    assert np.mean(y > 3) == pytest.approx(1 - model.prob_below(X, 3.0).mean(), abs=0.03)


def test_means_agree_with_the_data_and_with_draws(fitted):
    _, model, (X, y) = fitted
    mean, sd = model.predict(X, return_std=True)
    chance = 3 * y.std() * (1 / np.sqrt(N) + 1 / np.sqrt(NEW))
    assert mean.mean() == pytest.approx(y.mean(), abs=chance)
    drawn = model.sample(X[:40], 1500, random_state=0).mean(axis=0)
    assert np.all(np.abs(drawn - mean[:40]) < 6 * sd[:40] / np.sqrt(1500))


@pytest.mark.slow
def test_zeros_have_an_atom_in_float32_too():
    X, y = draw("hurdle_lognormal", np.random.default_rng(4), 1.0, 120)
    settings = {"likelihood": "hurdle_lognormal", "inputs": "x", "n_inducing": 10, "steps": 60}
    single = ZeroInflatedGPRegressor(dtype="float32", **settings).fit(X, y)
    np.testing.assert_allclose(single.prob_zero(X), 1 - single.prob_on(X), atol=1e-5)
    dry = y == 0
    assert single.quantile_residuals(X[dry], y[dry]).std() > 0.3


# -- choosing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "family"),
    [
        ([0.0, 2.0, 5.0], "zinb"),
        ([0, 2, 5], "zinb"),
        ([0.0, 0.5, 5.0], "gated"),
        ([0.0, -2.0, 5.0], "gated"),
        ([0.0, 1.0, 1.0], "gated"),
    ],
)
def test_auto_chooses_by_values_and_not_by_types(y, family):
    assert chosen_family("auto", np.array(y)) == family


SOME = pd.DataFrame({"x": np.arange(32.0), "hours": 1.0})
COUNTS = np.arange(32) % 4 + 1.0
UNSUITED = {
    "below zero": (ZeroInflatedGPRegressor(likelihood="hurdle_gamma"), -1.0, 1.0, "y ≥ 0"),
    "no count": (ZeroInflatedGPRegressor(likelihood="auto"), 1.5, 1.0, "whole numbers"),
    "no effort": (ZeroInflatedGPRegressor(exposure="hours"), 1.0, 0.0, "must be positive; in row"),
    "another class": (SparseGPClassifier(), 3.0, 1.0, "3.0, which is not among"),
    "no logarithm": (GPNetworkRegressor(1, y_transform="log"), 0.0, 1.0, "outputs above 0"),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", UNSUITED)
def test_unsuited_data_are_refused_wherever_they_come_in(what, tmp_path):
    """In a fit that continues, by the bound, and in blocks of a stream beyond its sample."""
    made, y_last, hours_last, words = UNSUITED[what]
    model = clone(made).set_params(n_inducing=3, steps=1, warm_start=True)
    suited = COUNTS % 2 if isinstance(made, SparseGPClassifier) else COUNTS
    X, y = SOME.copy(), suited.copy()
    X.loc[31, "hours"], y[31] = hours_last, y_last
    model.fit(SOME, suited)
    for ask in (model.fit, model.elbo):
        with pytest.raises(ValueError, match=words):
            ask(X, y)
    X.assign(y=y).to_parquet(tmp_path / "rows.parquet")
    stream = open_stream(tmp_path / "rows.parquet", target="y", rows_per_block=16)
    stream.sample = Mock(return_value=(SOME, suited))
    for warm in (True, False):
        model.set_params(warm_start=warm, steps=None)
        with pytest.raises(ValueError, match=f"In a block of the stream, of shuffled.*{words}"):
            model.fit_stream(stream)


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ([0, 0.1, 3.7, 0.4, 2.2, 1.9], 0.1),
        ([0, 0.25, 1.75, 0.5, 1.0, 3.25], 0.05),
        ([0, 3, 8, 1, 5, 4], 1.0),
        ([0, 40, 60, 100, 20, 140], 20.0),
    ],
)
def test_the_resolution_is_the_step_of_the_data(values, step):
    assert resolution_of(np.array(values, float)) == pytest.approx(step)


@pytest.mark.parametrize(
    "values",
    [[0.0, 2.0], [0.0, 0.3, 1.2, 0.5], [-7.0, 0.0, 7.0], [0.0, *np.sqrt(np.arange(1.1, 50))]],
)
def test_without_a_step_the_resolution_is_a_hundredth_of_the_typical_amount(values):
    y = np.array(values)
    typical = np.sqrt(np.mean(np.unique(np.abs(y[y != 0])) ** 2))
    assert resolution_of(y) == pytest.approx(0.01 * typical)


@pytest.mark.slow
def test_noise_of_the_zeros_stays_above_the_resolution():
    X, _ = draw("gated", np.random.default_rng(1), 1.0, 150)
    y = np.where(X["x"] > 5, np.round(2 + np.sin(X["x"]), 1), 0.0)
    model = ZeroInflatedGPRegressor(likelihood="gated", inputs="x", n_inducing=20, steps=600)
    assert model.fit(X, y).noise_["off_sd"] >= 0.1 / np.sqrt(12)


# -- exposure -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gated", "zinb", "hurdle_gamma"])
def test_an_exposure_multiplies_the_amount(family):
    rng = np.random.default_rng(2)
    X, y = draw(family, rng, rng.uniform(0.5, 4.0, N))
    model = ZeroInflatedGPRegressor(
        likelihood=family, exposure="effort", n_inducing=15, steps=500
    ).fit(X, y)
    one = X[:50].assign(effort=1.0)
    np.testing.assert_allclose(model.predict(one.assign(effort=3.0)), 3 * model.predict(one))
    on = model.predict_components(one)
    np.testing.assert_array_equal(on["gate"], model.prob_on(one.assign(effort=9.0)))
    truth = np.exp(1 + 0.5 * np.cos(one["x"]))
    clear = np.sin(one["x"]) > 0.5
    assert model.predict(one)[clear] == pytest.approx(0.95 * truth[clear], rel=0.3)


@pytest.mark.slow
def test_exposures_count_the_same_on_a_lattice_and_in_minibatches():
    rng = np.random.default_rng(3)
    s, t = np.meshgrid(np.arange(6.0), np.arange(8.0), indexing="ij")
    X = np.column_stack([s.ravel(), t.ravel(), rng.uniform(1, 3, 48)])
    y = rng.poisson(X[:, 2]) * 1.0
    settings = {"likelihood": "hurdle_gamma", "exposure": 2, "steps": 1, "fixed": ["q"]}
    whole, batch = (
        ZeroInflatedGPRegressor(column_groups=[[0], [1]], batch_size=size, **settings).fit(X, y)
        for size in (None, 48)
    )
    assert whole.on_lattice_
    assert whole.bounds_[0] == pytest.approx(batch.bounds_[0], rel=1e-9)
    assert whole.sample(X, 3).shape == (3, 48)


# -- parts of the model ---------------------------------------------------------------------------


def test_predict_if_on_gives_the_amount_without_the_gate(fitted):
    family, model, (X, _) = fitted
    some = X.iloc[:50]
    mean, sd = model.predict_if_on(some, return_std=True)
    parts, noise = model.predict_components(some), model.noise_
    if family in REAL:
        var = sum(value**2 for value in noise.values())
        np.testing.assert_allclose(mean, parts["latent"], rtol=1e-9)
        np.testing.assert_allclose(sd, np.sqrt(parts["latent_sd"] ** 2 + var), rtol=1e-9)
    else:
        above = 0.5 * noise["log_sd"] ** 2 if family == "hurdle_lognormal" else 0.0
        level = np.exp(parts["latent"] + 0.5 * parts["latent_sd"] ** 2 + above)
        np.testing.assert_allclose(mean, level, rtol=1e-4)
        np.testing.assert_allclose(parts["signal"], model.predict(some), rtol=1e-4)
    assert np.all(np.isfinite(sd) & (sd > 0))


@pytest.mark.slow
def test_quantiles_of_every_part_average_to_its_mean(fitted):
    """Quantiles rise, and their average over all levels is the mean.

    Those of counts are whole numbers, which no average over some levels tells: a quantile is the
    first whose probability not to be exceeded reaches the level.
    """
    family, model, (X, _) = fitted
    nodes, weights = np.polynomial.legendre.leggauss(40)
    some, levels = X.iloc[:20], 0.5 * (1.0 + nodes)
    expected = dict(model.predict_components(some)[["gate", "latent"]])
    if family in ("zip", "zinb"):
        if_on, found = (
            model.predict_quantiles(some, levels[::8], of=part).to_numpy()
            for part in ("if_on", "response")
        )
        assert np.all((if_on >= found) & (if_on % 1 == 0) & (found % 1 == 0))
        assert np.all(model.prob_below(some, found) >= levels[::8] - 1e-6)
    else:
        expected |= {"if_on": model.predict_if_on(some), "response": model.predict(some)}
    for part, mean in expected.items():
        found = model.predict_quantiles(some, levels, of=part).to_numpy()
        assert np.all(np.diff(found, axis=1) >= 0)
        np.testing.assert_allclose(found @ (0.5 * weights), mean, rtol=0.02, atol=0.01)
    assert model.predict_interval(some, 0.8, of="gate").stack().between(0, 1).all()
    with pytest.raises(ValueError, match="has quantiles of 'response', 'if_on', 'latent', 'gate'"):
        model.predict_quantiles(some, of="signal")
