"""Checks of predictions: right where the model is the truth, and loud where it is not."""

from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
import scoringrules
from scipy.stats import norm
from sklearn.model_selection import LeaveOneGroupOut

from zigp import SparseGPRegressor, ZeroInflatedGPRegressor, diagnostics


class Truth:
    """A model that knows how the data were made: zero with probability 1 − p, else N(mean, sd)."""

    _has_atom = True

    def __init__(self, off: float = 0.0, p: float = 0.4, sd: float = 0.5):
        self.off, self.p, self.sd = off, p, sd

    def _mean(self, X):
        return 3.0 + np.sin(np.asarray(X, float)[:, 0]) + self.off

    def predict(self, X, return_std=False):
        mean = self.p * self._mean(X)
        second = self.p * (self._mean(X) ** 2 + self.sd**2)
        return (mean, np.sqrt(second - mean**2)) if return_std else mean

    def prob_below(self, X, t):
        t = np.asarray(t, float)
        mean = self._mean(X).reshape(-1, *(1,) * (t.ndim - 1))
        return (1 - self.p) * (t >= 0) + self.p * norm.cdf(t, mean, self.sd)

    def log_prob_between(self, X, low, high):
        return np.log(self.prob_below(X, high) - self.prob_below(X, low))

    def prob_zero(self, X, tol=0.0):
        return self.prob_below(X, np.full(len(X), tol)) - self.p * norm.cdf(
            -tol, self._mean(X), self.sd
        )

    def predict_interval(self, X, level=0.9):
        tail = 0.5 * (1 - level)
        with np.errstate(invalid="ignore"):
            upper = norm.ppf((tail + self.p - 1 + 1 - 2 * tail) / self.p, self._mean(X), self.sd)
        return pd.DataFrame({"lower": 0.0, "upper": np.maximum(upper, 0.0)}, index=range(len(X)))

    def sample(self, X, n_samples=1, *, noise=True, random_state=None):
        rng = np.random.default_rng(random_state)
        on = rng.random((n_samples, len(X))) < self.p
        return on * (self._mean(X) + noise * self.sd * rng.normal(size=on.shape))


X = np.linspace(0, 20, 2000)[:, None]
Y = Truth().sample(X, random_state=1)[0]


def test_the_number_of_zeros_is_as_expected_only_if_it_is():
    right, wrong = (diagnostics.zero_count(Truth(p=p), X, Y) for p in (0.4, 0.5))
    assert right.observed == np.sum(Y == 0)
    assert right.expected == pytest.approx(0.6 * 2000)
    assert right.lower <= right.observed <= right.upper
    assert right.p > 0.05 > wrong.p
    assert "zeros, as expected" in str(right)
    assert "not as expected" in str(wrong)


def test_rows_whose_observation_is_missing_are_left_out():
    some = np.arange(len(Y)) % 3 == 0
    gaps = np.where(some, np.nan, Y)
    truth, here, seen = Truth(), X[~some], Y[~some]
    for table in (X, pd.DataFrame(X, columns=["x"])):
        for check in (diagnostics.coverage, diagnostics.reliability):
            pd.testing.assert_frame_equal(check(truth, table, gaps), check(truth, here, seen))
        for check in (diagnostics.zero_count, diagnostics.score_table):
            assert check(truth, table, gaps) == check(truth, here, seen)
    with pytest.raises(ValueError, match="Every observation is missing"):
        diagnostics.coverage(truth, X, np.full(len(Y), np.nan))


def test_intervals_cover_what_they_say():
    found = diagnostics.coverage(Truth(), X, Y, (0.5, 0.9))
    assert list(found.index) == [0.5, 0.9]
    # An interval that begins at zero holds all zeros: more than its level.
    assert found["covered"][0.9] == pytest.approx(0.95, abs=0.02)
    assert found["covered"][0.9] > found["covered"][0.5]


def test_reliability_compares_like_with_like():
    model = Mock(prob_zero=lambda X, tol: np.where(X[:, 0] < 10, 0.95, 0.25))
    rng = np.random.default_rng(2)
    on = rng.random(2000) < np.where(X[:, 0] < 10, 0.05, 0.75)
    found = diagnostics.reliability(model, X, on * 1.0)
    assert list(found.index) == ["0 to 0.1", "0.7 to 0.8"]
    assert found["rows"].tolist() == [1000, 1000]
    np.testing.assert_allclose(found["predicted"], [0.05, 0.75])
    np.testing.assert_allclose(found["observed"], [0.05, 0.75], atol=0.03)


def test_scores_are_those_of_the_textbook():
    found = diagnostics.score_table(Truth(), X, Y)
    mean = Truth().predict(X)
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean((mean - Y) ** 2)))
    assert found["bias"] == pytest.approx(np.mean(mean - Y))
    draws = Truth().sample(X, 400, random_state=3).T
    assert found["crps"] == pytest.approx(scoringrules.crps_ensemble(Y, draws).mean(), rel=0.02)
    brier = scoringrules.brier_score(Y != 0, np.full(2000, 0.4)).mean()
    assert found["brier"] == pytest.approx(brier)
    worse = diagnostics.score_table(Truth(off=1.0), X, Y)
    assert worse["crps"] > found["crps"]


def test_a_resolution_brings_the_scores_of_rounded_values():
    rounded = Y.round(1)
    found = diagnostics.score_table(Truth(), X, rounded, resolution=0.1)
    assert found["pit_distance"] < 0.04
    assert diagnostics.score_table(Truth(off=0.5), X, rounded, 0.1)["pit_distance"] > 0.1
    cells = Truth().prob_below(X, rounded + 0.05) - Truth().prob_below(X, rounded - 0.05)
    assert found["nlpd"] == pytest.approx(-np.mean(np.log(cells)))


# -- folds ----------------------------------------------------------------------------------------

TABLE = pd.DataFrame(
    [(east, north, hour) for east, north in ((0, 0), (1, 0), (9, 9), (9, 8)) for hour in range(12)],
    columns=["east", "north", "hour"],
)


PLACE = ["east", "north"]
DATED = TABLE.assign(hour=pd.Timestamp("2026-01-01") + pd.to_timedelta(TABLE["hour"], "h"))
NAMED = TABLE.assign(site=TABLE["east"].map({0: "a", 1: "b", 9: "c"}))


@pytest.mark.parametrize(
    ("table", "by", "columns", "n_splits", "expected"),
    [
        (TABLE, "time", ["hour"], 3, ["hour < 4", "4 <= hour < 8", "hour >= 8"]),
        (DATED, "time", ["hour"], 2, ["hour < '2026-01-01 06'", "hour >= '2026-01-01 06'"]),
        (TABLE, "space", PLACE, 2, ["east < 5", "east > 5"]),
        (TABLE, "site", PLACE, 2, None),
        (NAMED, "site", ["site"], 3, ["site == 'a'", "site == 'b'", "site == 'c'"]),
    ],
    ids=["time", "dates", "space", "sites", "names"],
)
def test_folds_hold_out_whole_times_and_places_once(table, by, columns, n_splits, expected):
    found = diagnostics.folds(table, by, columns, n_splits)
    assert sorted(row for _, test in found for row in test) == list(range(len(table)))
    for train, test in found:
        assert sorted([*train, *test]) == list(range(len(table)))
        there = [set(map(tuple, table[columns].iloc[rows].to_numpy())) for rows in (train, test)]
        assert not there[0] & there[1]
    if expected:
        regions = {tuple(test) for _, test in found}
        assert regions == {tuple(table.query(rows).index) for rows in expected}


def test_the_future_is_never_known():
    for train, test in diagnostics.folds(TABLE, "future", "hour", n_splits=3):
        assert TABLE["hour"][train].max() < TABLE["hour"][test].min()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("hour", "hour"), "by must be 'time', 'future', 'space' or 'site'"),
        (("time", "minute"), "X has no column 'minute'; it has 'east'"),
        (("time", "hour", 20), "12 times, too few for n_splits=20"),
    ],
)
def test_folds_refuse_what_they_cannot_split(arguments, message):
    with pytest.raises(ValueError, match=message):
        diagnostics.folds(TABLE, *arguments)


# -- with real estimators -------------------------------------------------------------------------


@pytest.mark.slow
def test_every_fold_is_fitted_and_scored():
    y = np.clip(np.sin(TABLE["hour"]) + TABLE["east"] / 9, 0, None).round(1)
    model = ZeroInflatedGPRegressor(steps=20, n_inducing=6)
    cv = diagnostics.folds(TABLE, "time", "hour", 3)
    found = diagnostics.cross_check(model, TABLE, y, cv, resolution=0.1)
    assert found["test_rows"].tolist() == [16, 16, 16]
    assert {"rmse", "crps", "nlpd", "brier", "pit_distance", "coverage90", "f1"} <= set(found)
    assert np.isfinite(found.to_numpy()).all()
    assert not hasattr(model, "model_")
    by_site = diagnostics.cross_check(
        SparseGPRegressor(steps=5, n_inducing=6), TABLE, y, LeaveOneGroupOut(), TABLE["east"]
    )
    assert len(by_site) == 3
