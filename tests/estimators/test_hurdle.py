"""The hurdle: a classifier and a regression, and the distribution that they make together."""

from __future__ import annotations

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


@pytest.mark.parametrize("amount_rows", ["positive", "all", "predicted"])
def test_it_is_a_classifier_and_a_regression_on_some_of_the_rows(amount_rows):
    X, y = bumps()
    whole = HurdleGPRegressor(amount_rows=amount_rows, **FAST).fit(X, y)
    gate = SparseGPClassifier(**FAST).fit(X, (y > 0) * 1)
    rows = {"positive": y > 0, "all": y == y, "predicted": gate.predict(X) == 1}[amount_rows]
    amount = SparseGPRegressor(**FAST).fit(X[rows], y[rows])
    put_together = HurdleGPRegressor.from_parts(gate, amount)
    expected = np.where(gate.prob_on(X_NEW) >= 0.5, amount.predict(X_NEW), 0.0)
    np.testing.assert_array_equal(whole.predict(X_NEW), expected)
    np.testing.assert_array_equal(put_together.predict(X_NEW), expected)


def test_the_expectation_is_probability_times_amount(fitted):
    mean, sd = fitted.predict(X_NEW, return_std=True)
    p = fitted.prob_on(X_NEW)
    amount, amount_sd = fitted.regressor_.predict(X_NEW, return_std=True)
    np.testing.assert_allclose(mean, p * amount)
    second = p * (amount_sd**2 + amount**2)
    np.testing.assert_allclose(sd**2, second - mean**2)


def test_the_distribution_has_an_atom_at_zero_and_a_density_elsewhere(fitted):
    p, (m, s) = fitted.prob_on(X_NEW), fitted.regressor_.predict(X_NEW, return_std=True)
    np.testing.assert_allclose(fitted.prob_zero(X_NEW), 1 - p)
    jump = fitted.prob_below(X_NEW, 0.0) - fitted.prob_below(X_NEW, -1e-9)
    np.testing.assert_allclose(jump, 1 - p, atol=1e-7)
    np.testing.assert_allclose(
        fitted.prob_below(X_NEW, 1.5), 1 - p + p * norm.cdf(1.5, m, s), rtol=1e-12
    )
    grid = np.tile([-0.5, 0.0, 2.0], (len(X_NEW), 1))
    table = fitted.prob_below(X_NEW, grid)
    for column, t in enumerate(grid[0]):
        np.testing.assert_allclose(table[:, column], fitted.prob_below(X_NEW, t))
    for low, high in ((-1.0, 0.5), (0.5, 2.5), (-np.inf, 0.05)):
        below = fitted.prob_below(X_NEW, high) - (
            0 if np.isinf(low) else fitted.prob_below(X_NEW, low)
        )
        got = np.exp(fitted.log_prob_between(X_NEW, low, high))
        np.testing.assert_allclose(got, below, rtol=1e-6, atol=1e-12)


def test_quantiles_pass_over_the_atom(fitted):
    levels = [0.01, 0.2, 0.5, 0.8, 0.99]
    table = fitted.predict_quantiles(X_NEW, levels)
    for level in levels:
        q = table[level].to_numpy()
        at_zero = q == 0
        below = fitted.prob_below(X_NEW, q)
        np.testing.assert_allclose(below[~at_zero], level, atol=1e-9)
        assert np.all(below[at_zero] >= level - 1e-12)
    assert np.all(np.diff(table.to_numpy(), axis=1) >= 0)
    assert (table[0.5] == 0).any()
    assert (table[0.5] > 0).any()


@pytest.mark.slow
def test_draws_are_as_often_zero_and_as_large_as_predicted(fitted):
    draws = fitted.sample(X_NEW, 3000, random_state=1)
    np.testing.assert_allclose((draws == 0).mean(axis=0), fitted.prob_zero(X_NEW), atol=0.04)
    np.testing.assert_allclose(draws.mean(axis=0), fitted.predict(X_NEW), atol=0.12)


def test_the_bound_is_that_of_both_parts(fitted):
    X, y = bumps()
    on = y > 0
    parts = fitted.classifier_.elbo(X, on * 1) + fitted.regressor_.elbo(X[on], y[on])
    assert fitted.elbo(X, y) == pytest.approx(parts)
    zeros = fitted.elbo(X[:3], np.zeros(3))
    assert zeros == pytest.approx(fitted.classifier_.elbo(X[:3], np.zeros(3, int)))


@pytest.mark.slow
def test_all_zeros_and_no_zeros_are_fitted_too():
    X, _ = bumps(60)
    nothing = HurdleGPRegressor(steps=5, n_inducing=15).fit(X, np.zeros(60))
    np.testing.assert_array_equal(nothing.predict(X), 0.0)
    np.testing.assert_array_equal(nothing.prob_zero(X), 1.0)
    np.testing.assert_array_equal(nothing.sample(X, 2), 0.0)
    everything = HurdleGPRegressor(steps=5, n_inducing=15).fit(X, np.linspace(1, 2, 60))
    np.testing.assert_array_equal(everything.prob_on(X), 1.0)
    np.testing.assert_array_equal(everything.predict(X), everything.regressor_.predict(X))


@pytest.mark.slow
def test_a_classifier_that_finds_no_amounts_says_so():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(0, 1, (80, 1)), np.where(np.arange(80) % 20 == 0, 1.0, 0.0)
    with pytest.warns(UserWarning, match="takes every row for zero"):
        HurdleGPRegressor(amount_rows="predicted", steps=30, n_inducing=15).fit(X, y)


def test_unknown_choices_are_refused():
    X, y = bumps(20)
    with pytest.raises(ValueError, match="amount_rows must be one of 'positive', 'all'"):
        HurdleGPRegressor(amount_rows="some").fit(X, y)
    with pytest.raises(ValueError, match="combine must be one of 'class'"):
        HurdleGPRegressor(combine="sum").fit(X, y)
    with pytest.raises(ValueError, match="tol must be positive"):
        HurdleGPRegressor(steps=2, n_inducing=15).fit(X, y).prob_zero(X, -1.0)


@pytest.mark.slow
def test_warm_start_goes_on_from_both_parts_with_the_settings_of_now():
    X, y = bumps()
    model = HurdleGPRegressor(warm_start=True, n_inducing=15, steps=60).fit(X, y)
    before, first = model.elbo(X, y), model.classifier_
    assert model.set_params(steps=70).fit(X, y).elbo(X, y) > before
    assert model.n_iter_ == 70
    assert first.n_iter_ == 60  # the parts it started from are as they were
    with pytest.raises(ValueError, match="continues to train the fitted model, but kernel"):
        model.set_params(kernel="matern12").fit(X, y)


@pytest.mark.slow
def test_totals_are_of_the_distribution_also_where_predict_decides(fitted):
    decided = HurdleGPRegressor.from_parts(fitted.classifier_, fitted.regressor_)
    assert decided.combine == "class"
    total = decided.aggregate(X_NEW, random_state=0)
    drawn = decided.sample(X_NEW, 2000, random_state=1).sum(axis=1)
    assert total["mean"].item() == pytest.approx(fitted.predict(X_NEW).sum())
    assert total["mean"].item() == pytest.approx(drawn.mean(), abs=4 * drawn.std() / np.sqrt(2000))
    assert total["lower"].item() == pytest.approx(np.quantile(drawn, 0.05), abs=2.0)


@pytest.mark.slow
def test_rows_of_weight_zero_have_no_amounts():
    X, y = bumps(40)
    weight = (y == 0) * 1.0
    model = HurdleGPRegressor(steps=5, n_inducing=15).fit(X, y, weight)
    assert np.isfinite(model.predict(X)).all()
