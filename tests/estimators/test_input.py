"""Unusual input is fitted or refused as the first table of docs/input.md says."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from zigp import SparseGPRegressor, ZeroInflatedGPRegressor

ESTIMATORS = [ZeroInflatedGPRegressor, SparseGPRegressor]

X = np.linspace(0, 5, 30)[:, None]
Y = np.where(X[:, 0] > 2.5, np.sin(X[:, 0]), 0.0)


def with_value(array: np.ndarray, value: float) -> np.ndarray:
    changed = array.copy()
    changed.flat[3] = value
    return changed


# input: (X, y, sample_weight, message)
ERRORS = {
    "no rows": (X[:0], Y[:0], None, r"0 sample\(s\)"),
    "NaN in X": (with_value(X, np.nan), Y, None, "Input X contains NaN"),
    "infinity in X": (with_value(X, np.inf), Y, None, "Input X contains infinity"),
    "NaN in y": (X, with_value(Y, np.nan), None, "Input y contains NaN"),
    "infinity in y": (X, with_value(Y, -np.inf), None, "Input y contains infinity"),
    "text in X": ([["a"]] * 30, Y, None, "could not convert string to float"),
    "text in y": (X, np.array(["wet"] * 30, object), None, "could not convert string to float"),
    "text in a column of a frame": (
        pd.DataFrame({"place": ["a"] * 30}), Y, None, "Column 'place' holds text",
    ),
    "a column of a frame twice": (
        pd.DataFrame(np.ones((30, 2)), columns=["x", "x"]), Y, None, "'x' more than once",
    ),
    "X and y of different lengths": (X, Y[:-1], None, "inconsistent numbers of samples"),
    "X with one dimension": (X[:, 0], Y, None, "Expected 2D array, got 1D array instead"),
    "y with two columns": (X, np.column_stack([Y, Y]), None, "y should be a 1d array"),
    "complex numbers in X": (X + 1j, Y, None, "Complex data not supported"),
    "a negative sample weight": (X, Y, with_value(np.ones(30), -1), "Negative values in data"),
    "all sample weights zero": (X, Y, np.zeros(30), "at least one non-zero number"),
}  # fmt: skip

# input: (X, y, new X, predictions, tolerance)
FITS = {
    "one row": (X[:1], [2.0], X[:1], [1.5], 0.51),
    "y all zero": (X, np.zeros(30), X[:5], np.zeros(5), 1e-2),
    "y without zeros": (X, 3 + np.sin(X[:, 0]), X[::5], 3 + np.sin(X[::5, 0]), 0.1),
    "y constant": (X, np.full(30, 7.0), X[::5], np.full(6, 7.0), 0.2),
    "a constant column in X": (
        np.column_stack([X, np.ones(30)]), 3 + np.sin(X[:, 0]), None, 3 + np.sin(X[:, 0]), 0.1,
    ),
    "a column of times": (
        pd.DataFrame({"when": pd.Timestamp("2026-01-01") + pd.to_timedelta(X[:, 0], "h")}),
        3 + np.sin(X[:, 0]), None, 3 + np.sin(X[:, 0]), 0.1,
    ),
    "a column of levels": (
        pd.DataFrame({"gear": pd.Categorical(["net", "trap", "line"] * 10)}),
        [1.0, 2.0, 0.0] * 10, None, [1.0, 2.0, 0.0] * 10, 0.15,
    ),
    "all rows of X the same": (np.ones((30, 1)), Y, np.ones((1, 1)), [Y.mean()], 0.1),
    "fewer rows than inducing points": (X[15:20], Y[15:20] + 1, X[15:20], Y[15:20] + 1, 0.3),
    "the same row many times": (
        np.repeat(X[::10], 10, axis=0), np.repeat([0.0, 1.0, 2.0], 10), X[::10], [0, 1, 2], 0.15,
    ),
}  # fmt: skip

# Sizes that no other input has compile programs of their own, as does the zero-inflated model.
OTHER_SIZES = {
    "a constant column in X", "a column of levels", "fewer rows than inducing points",
    "the same row many times", "one row", "a column of times",
}  # fmt: skip


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_raised_as_the_table_says(estimator, name):
    inputs, y, weight, message = ERRORS[name]
    with pytest.raises(ValueError, match=message):
        estimator(steps=1).fit(inputs, y, sample_weight=weight)


@pytest.mark.parametrize(
    ("estimator", "name"),
    [
        pytest.param(estimator, name, marks=[pytest.mark.slow] * late)
        for estimator in ESTIMATORS
        for name in FITS
        for late in [name in OTHER_SIZES or estimator is ZeroInflatedGPRegressor]
    ],
)
def test_fits_predict_what_the_table_says(estimator, name):
    inputs, y, new, expected, tolerance = FITS[name]
    model = estimator(n_inducing=15).fit(inputs, y)
    mean, sd = model.predict(inputs if new is None else new, return_std=True)
    if name == "one row" and estimator is SparseGPRegressor:
        tolerance, expected = 0.01, y
    np.testing.assert_allclose(mean, expected, atol=tolerance)
    assert np.all(np.isfinite(sd) & (sd > 0))
    if name == "y all zero":
        assert np.all(sd < 0.1)
    if name == "fewer rows than inducing points":
        assert np.shape(model.model_.latents["f"].q_mean) == (5,)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_another_number_of_columns_is_refused(estimator):
    model = estimator(steps=1, n_inducing=15).fit(X, Y)
    with pytest.raises(ValueError, match=r"X has 2 features, but .* is expecting 1"):
        model.predict(np.ones((3, 2)))


def test_the_table_lists_what_is_tested():
    page = (Path(__file__).parents[2] / "docs" / "input.md").read_text().partition("\n## ")[0]
    lines = [line.split("|")[1:4] for line in page.splitlines() if line[:1] == "|"]
    listed = {name.strip(): outcome.strip() for name, outcome, _ in lines[2:]}
    errors = dict.fromkeys([*ERRORS, "another number of columns in predict"], "error")
    assert listed == errors | dict.fromkeys(FITS, "fit")
