"""A hurdle is a classifier and a regression, and combines their distributions."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from zigp import HurdleGPRegressor, SparseGPClassifier, SparseGPRegressor

FAST = {"steps": 200, "n_inducing": 15}


def bumps(n: int = 200, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"x": rng.uniform(0, 10, n)})
    on = np.sin(X["x"]) + 0.3 * rng.normal(size=n) > 0
    return X, np.where(on, 2.0 + np.cos(X["x"]) + 0.2 * rng.normal(size=n), 0.0)


@pytest.fixture(scope="module")
def fitted():
    return HurdleGPRegressor(combine="expectation", **FAST).fit(*bumps())


X_NEW = pd.DataFrame({"x": np.linspace(0.2, 9.8, 25)})


@pytest.mark.parametrize(
    "amount_rows",
    ["positive", *(pytest.param(rows, marks=pytest.mark.slow) for rows in ("all", "predicted"))],
)
def test_it_is_a_classifier_and_a_regression_on_some_of_the_rows(amount_rows):
    X, y = bumps()
    whole = HurdleGPRegressor(amount_rows=amount_rows, **FAST).fit(X, y)
    gate = SparseGPClassifier(**FAST).fit(X, (y > 0) * 1)
    rows = {"positive": y > 0, "all": y == y, "predicted": gate.predict(X) == 1}[amount_rows]
    amount = SparseGPRegressor(**FAST).fit(X[rows], y[rows])
    expected = np.where(gate.prob_on(X_NEW) >= 0.5, amount.predict(X_NEW), 0.0)
    for model in (whole, HurdleGPRegressor.from_parts(gate, amount)):
        np.testing.assert_array_equal(model.predict(X_NEW), expected)


def test_the_expectation_is_probability_times_amount(fitted):
    mean, sd = fitted.predict(X_NEW, return_std=True)
    p, (amount, amount_sd) = fitted.prob_on(X_NEW), fitted.predict_if_on(X_NEW, return_std=True)
    np.testing.assert_allclose(mean, p * amount)
    np.testing.assert_allclose(sd**2, p * (amount_sd**2 + amount**2) - mean**2)


def test_the_distribution_has_an_atom_at_zero_and_a_density_elsewhere(fitted):
    p, (m, s) = fitted.prob_on(X_NEW), fitted.predict_if_on(X_NEW, return_std=True)
    np.testing.assert_allclose(fitted.prob_zero(X_NEW), 1 - p)
    thresholds = np.array([-0.5, -1e-9, 0.0, 0.5, 1.5, 2.5])
    below = fitted.prob_below(X_NEW, np.tile(thresholds, (len(X_NEW), 1)))
    expected = [(1 - p) * (t >= 0) + p * norm.cdf(t, m, s) for t in thresholds]
    np.testing.assert_allclose(below.T, expected, rtol=1e-9)
    np.testing.assert_allclose(fitted.prob_below(X_NEW, 1.5), expected[4], rtol=1e-9)
    for low, high in ((0, 3), (3, 5)):
        inside = np.exp(fitted.log_prob_between(X_NEW, thresholds[low], thresholds[high]))
        np.testing.assert_allclose(inside, expected[high] - expected[low], rtol=1e-6, atol=1e-12)


def test_quantiles_pass_over_the_atom(fitted):
    levels = [0.01, 0.2, 0.5, 0.8, 0.99]
    table = fitted.predict_quantiles(X_NEW, levels).to_numpy()
    below, zero = fitted.prob_below(X_NEW, table), table == 0
    wanted = np.broadcast_to(levels, table.shape)
    np.testing.assert_allclose(below[~zero], wanted[~zero], atol=1e-9)
    assert np.all(below[zero] >= wanted[zero] - 1e-12)
    assert np.all(np.diff(table, axis=1) >= 0)
    assert 0 < zero[:, 2].sum() < len(X_NEW)


@pytest.mark.slow
def test_draws_are_as_often_zero_and_as_large_as_predicted(fitted):
    draws = fitted.sample(X_NEW, 3000, random_state=1)
    np.testing.assert_allclose((draws == 0).mean(axis=0), fitted.prob_zero(X_NEW), atol=0.04)
    np.testing.assert_allclose(draws.mean(axis=0), fitted.predict(X_NEW), atol=0.12)


def test_elbo_is_the_sum_of_the_bounds_of_both_parts(fitted):
    X, y = bumps()
    on, (gate, amount) = y > 0, fitted.parts_.values()
    assert fitted.elbo(X, y) == pytest.approx(gate.elbo(X, on * 1) + amount.elbo(X[on], y[on]))
    zeros = fitted.elbo(X[:3], np.zeros(3))
    assert zeros == pytest.approx(gate.elbo(X[:3], np.zeros(3, int)))


@pytest.mark.slow
def test_all_zeros_and_no_zeros_are_fitted_too():
    X, _ = bumps(60)
    nothing, everything = (
        HurdleGPRegressor(steps=5, n_inducing=15).fit(X, y)
        for y in (np.zeros(60), np.linspace(1, 2, 60))
    )
    for zeros in (nothing.predict(X), nothing.sample(X, 2), 1.0 - nothing.prob_zero(X)):
        np.testing.assert_array_equal(zeros, 0.0)
    np.testing.assert_array_equal(everything.prob_on(X), 1.0)
    np.testing.assert_array_equal(everything.predict(X), everything.predict_if_on(X))


@pytest.mark.slow
def test_a_classifier_that_predicts_only_zeros_warns():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(0, 1, (80, 1)), np.where(np.arange(80) % 20 == 0, 1.0, 0.0)
    with pytest.warns(UserWarning, match="predicts zero for every row"):
        HurdleGPRegressor(amount_rows="predicted", steps=30, n_inducing=15).fit(X, y)


@pytest.mark.slow
def test_warm_start_continues_from_both_parts_with_the_settings_of_now():
    X, y = bumps()
    model = HurdleGPRegressor(warm_start=True, n_inducing=15, steps=60).fit(X, y)
    before, first = model.elbo(X, y), list(model.parts_.values())
    assert model.set_params(steps=70).fit(X, y).elbo(X, y) > before
    assert model.n_iter_ == 70
    assert [part.n_iter_ for part in first] == [60, 60]  # they are as they were
    with pytest.raises(ValueError, match="fitted model, but kernel"):
        model.set_params(kernel="matern12").fit(X, y)


@pytest.mark.slow
def test_totals_are_of_the_distribution_also_where_predict_decides(fitted):
    decided = HurdleGPRegressor.from_parts(*fitted.parts_.values())
    assert decided.combine == "class"
    total = decided.aggregate(X_NEW, random_state=0).squeeze()
    drawn = decided.sample(X_NEW, 2000, random_state=1).sum(axis=1)
    assert total["mean"] == pytest.approx(fitted.predict(X_NEW).sum())
    assert total["mean"] == pytest.approx(drawn.mean(), abs=4 * drawn.std() / np.sqrt(2000))
    assert total["lower"] == pytest.approx(np.quantile(drawn, 0.05), abs=2.0)


@pytest.mark.slow
def test_amounts_of_weight_zero_are_left_out():
    X, y = bumps(40)
    model = HurdleGPRegressor(steps=5, n_inducing=15).fit(X, y, (y == 0) * 1.0)
    assert np.isfinite(model.predict(X)).all()
