"""Scores against closed forms, sampling, and their own definitions."""

import numpy as np
import pytest
import scoringrules
from scipy.stats import norm, poisson
from sklearn.metrics import f1_score

from zigp.diagnostics import scores

RNG = np.random.default_rng(0)
MEAN, SD = RNG.normal(0.5, 1.0, 40), RNG.uniform(0.1, 2.0, 40)
Y = np.round(np.clip(MEAN + SD * RNG.normal(size=40), 0.0, None), 1)


def below(t):
    t = np.asarray(t)
    mean, sd = (v.reshape(-1, *(1,) * (t.ndim - 1)) for v in (MEAN, SD))
    return norm.cdf(t, mean, sd)


def log_between(low, high):
    with np.errstate(divide="ignore"):
        return np.log(norm.cdf(high, MEAN, SD) - norm.cdf(low, MEAN, SD))


def test_amounts_count_as_zero_below_zero_and_as_on_from_the_threshold():
    y, mean = np.array([0.0, 0.0, 1.0, 2.0]), np.array([-3.0, 0.1, 0.09, 2.5])
    found = scores.amount_scores(y, mean, 0.1)
    assert found["rmse"] == pytest.approx(np.sqrt((0.1**2 + 0.91**2 + 0.5**2) / 4))
    assert found["mae"] == pytest.approx((0.1 + 0.91 + 0.5) / 4)
    assert (found["precision"], found["recall"], found["f1"], found["accuracy"]) == (0.5,) * 4


@pytest.mark.parametrize("clipped", [True, False])
def test_crps_of_a_normal_is_the_closed_form(clipped):
    lower, upper = (0.0, 1e3) if clipped else (-1e3, 1e3)
    y = Y if clipped else MEAN + SD * np.random.default_rng(5).normal(size=40)  # some negative
    lowest = 0.0 if clipped else np.minimum(y, MEAN) - 12 * SD
    got = scores.crps(y, below, np.maximum(y, MEAN) + 12 * SD, lowest)
    exact = scoringrules.crps_cnormal(y, MEAN, SD, lower=lower, upper=upper)
    np.testing.assert_allclose(got, exact, rtol=2e-4, atol=1e-6)


def test_crps_of_a_distribution_with_an_atom_agrees_with_sampling():
    """CRPS = E|Y − y| − ½ E|Y − Y′|."""
    rng, p = np.random.default_rng(1), 0.3
    amount = np.clip(rng.normal(2.0, 0.5, 400_000), 0.0, None)
    draws = np.where(rng.random(400_000) < p, amount, 0.0)
    for y in (0.0, 0.4, 2.1, 5.0):
        by_draws = np.abs(draws - y).mean() - 0.5 * np.abs(draws - rng.permutation(draws)).mean()
        cdf = lambda t: (1 - p) + p * norm.cdf(t, 2.0, 0.5)  # noqa: E731
        got = scores.crps(np.array([y]), cdf, np.array([y + 8.0]))[0]
        assert got == pytest.approx(by_draws, abs=0.005)


def test_crps_of_counts_is_that_of_the_definition():
    """CRPS = E|Y − y| − ½ E|Y − Y′|, by sums over the probabilities."""
    k, rate = np.arange(200), np.array([0.3, 4.0, 30.0])
    y = np.array([0.0, 6.0, 21.0])
    p = poisson.pmf(k, rate[:, None])
    spread = np.einsum("ij,ik,jk->i", p, p, np.abs(k[:, None] - k))
    expected = np.sum(p * np.abs(k - y[:, None]), axis=1) - 0.5 * spread
    got = scores.crps_counts(y, lambda t: poisson.cdf(t, rate[:, None]), rate + 70.0)
    np.testing.assert_allclose(got, expected, rtol=1e-10)


def test_the_cells_of_a_resolution_have_probability_one_together():
    total = np.zeros(len(Y))
    for cell in np.arange(-400, 400) * 0.1:
        total += np.exp(-scores.log_score(np.full(len(Y), cell), log_between, 0.1))
    np.testing.assert_allclose(total, 1.0, atol=1e-9)


@pytest.mark.parametrize("cost_ratio", [None, 0.001, 0.1, 1.0, 8.0])
def test_the_best_threshold_is_the_best_of_all(cost_ratio):
    rng = np.random.default_rng(3)
    score = np.round(rng.random(200), 2)  # with ties
    truth = rng.random(200) < score**2

    def value(threshold):
        guess = score >= threshold
        if cost_ratio is None:
            return f1_score(truth, guess, zero_division=0.0)
        return -(cost_ratio * np.sum(truth & ~guess) + np.sum(guess & ~truth))

    best = scores.best_threshold(truth, score, cost_ratio)
    assert value(best) == pytest.approx(max(value(t) for t in [*np.unique(score), 2.0]))


def test_costs_are_positive():
    with pytest.raises(ValueError, match="cost_ratio must be positive"):
        scores.best_threshold(np.array([False, True, False]), np.ones(3), cost_ratio=0.0)


def test_pit_is_uniform_for_rounded_draws_of_the_very_distribution():
    rng = np.random.default_rng(4)
    mean, sd = rng.normal(size=20_000), rng.uniform(0.05, 1.0, 20_000)
    y = np.round(rng.normal(mean, sd), 1)

    def distance(off):
        u = scores.pit(y, lambda t: norm.cdf(t, mean[:, None] + off, sd[:, None]), 0.1)
        return scores.distance_from_uniform(u)

    assert distance(0.0) < 0.012
    assert distance(0.3) > 0.1
