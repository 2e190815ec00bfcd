"""Unusual input and troublesome numbers are fitted or refused as docs/input.md says."""

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fuzz.material import model_file
from fuzz.running import in_process
from small_models import questions

from zigp import (
    GPNetworkRegressor,
    HurdleGPRegressor,
    SparseGPClassifier,
    SparseGPRegressor,
    ZeroInflatedGPRegressor,
    load,
)
from zigp.kernels import Matern32

PAGE = Path(__file__).parents[2] / "docs" / "input.md"


def lines_of(text: str) -> list[list[str]]:
    """Return the cells of a table of the page, line by line."""
    return [line.split("|")[1:4] for line in text.splitlines() if line[:1] == "|"]


# -- the first table ------------------------------------------------------------------------------

BOTH = [ZeroInflatedGPRegressor, SparseGPRegressor]

X1 = np.linspace(0, 5, 30)[:, None]
Y1 = np.where(X1[:, 0] > 2.5, np.sin(X1[:, 0]), 0.0)


def at(place: int, value: float, others: np.ndarray) -> np.ndarray:
    """Return the others, with one value in their place."""
    changed = np.array(others)
    changed.flat[place] = value
    return changed


# input: (X, y, sample_weight, message)
ERRORS = {
    "no rows": (X1[:0], Y1[:0], None, r"0 sample\(s\)"),
    "NaN in X": (at(3, np.nan, X1), Y1, None, "Input X contains NaN"),
    "infinity in X": (at(3, np.inf, X1), Y1, None, "Input X contains infinity"),
    "NaN in y": (X1, at(3, np.nan, Y1), None, "Input y contains NaN"),
    "infinity in y": (X1, at(3, -np.inf, Y1), None, "Input y contains infinity"),
    "text in X": ([["a"]] * 30, Y1, None, "could not convert string to float"),
    "text in y": (X1, np.array(["wet"] * 30, object), None, "could not convert string to float"),
    "text in a column of a frame": (
        pd.DataFrame({"place": ["a"] * 30}), Y1, None, "Column 'place' holds text",
    ),
    "a column of a frame twice": (
        pd.DataFrame(np.ones((30, 2)), columns=["x", "x"]), Y1, None, "'x' more than once",
    ),
    "X and y of different lengths": (X1, Y1[:-1], None, "inconsistent numbers of samples"),
    "X with one dimension": (X1[:, 0], Y1, None, "Expected 2D array, got 1D array instead"),
    "y with two columns": (X1, np.column_stack([Y1, Y1]), None, "y should be a 1d array"),
    "complex numbers in X": (X1 + 1j, Y1, None, "Complex data not supported"),
    "a negative sample weight": (X1, Y1, at(3, -1, np.ones(30)), "Negative values in data"),
    "all sample weights zero": (X1, Y1, np.zeros(30), "at least one non-zero number"),
}  # fmt: skip

# input: (X, y, new X, predictions, tolerance)
FITS = {
    "one row": (X1[:1], [2.0], X1[:1], [1.5], 0.51),
    "y all zero": (X1, np.zeros(30), X1[:5], np.zeros(5), 1e-2),
    "y without zeros": (X1, 3 + np.sin(X1[:, 0]), X1[::5], 3 + np.sin(X1[::5, 0]), 0.1),
    "y constant": (X1, np.full(30, 7.0), X1[::5], np.full(6, 7.0), 0.2),
    "a constant column in X": (
        np.column_stack([X1, np.ones(30)]), 3 + np.sin(X1[:, 0]), None, 3 + np.sin(X1[:, 0]), 0.1,
    ),
    "a column of times": (
        pd.DataFrame({"when": pd.Timestamp("2026-01-01") + pd.to_timedelta(X1[:, 0], "h")}),
        3 + np.sin(X1[:, 0]), None, 3 + np.sin(X1[:, 0]), 0.1,
    ),
    "a column of levels": (
        pd.DataFrame({"gear": pd.Categorical(["net", "trap", "line"] * 10)}),
        [1.0, 2.0, 0.0] * 10, None, [1.0, 2.0, 0.0] * 10, 0.15,
    ),
    "all rows of X the same": (np.ones((30, 1)), Y1, np.ones((1, 1)), [Y1.mean()], 0.1),
    "fewer rows than inducing points": (X1[15:20], Y1[15:20] + 1, X1[15:20], Y1[15:20] + 1, 0.3),
    "the same row many times": (
        np.repeat(X1[::10], 10, axis=0), np.repeat([0.0, 1.0, 2.0], 10), X1[::10], [0, 1, 2], 0.15,
    ),
}  # fmt: skip

# Sizes that no other input has compile programs of their own, as does the zero-inflated model.
OTHER_SIZES = {
    "a constant column in X", "a column of levels", "fewer rows than inducing points",
    "the same row many times", "one row", "a column of times",
}  # fmt: skip


@pytest.mark.parametrize("estimator", BOTH)
@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_raised_as_the_table_says(estimator, name):
    inputs, y, weight, message = ERRORS[name]
    with pytest.raises(ValueError, match=message):
        estimator(steps=1).fit(inputs, y, sample_weight=weight)


@pytest.mark.parametrize(
    ("estimator", "name"),
    [
        pytest.param(estimator, name, marks=[pytest.mark.slow] * late)
        for estimator in BOTH
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


def test_the_first_table_lists_what_is_tested():
    lines = lines_of(PAGE.read_text().partition("\n## ")[0])
    listed = {name.strip(): outcome.strip() for name, outcome, _ in lines[2:]}
    # The last of them is one of scikit-learn's checks.
    errors = dict.fromkeys([*ERRORS, "another number of columns in predict"], "error")
    assert listed == errors | dict.fromkeys(FITS, "fit")


# -- the second table -----------------------------------------------------------------------------

ESTIMATORS = {
    "zigp": ZeroInflatedGPRegressor,
    "gp": SparseGPRegressor,
    "hurdle": HurdleGPRegressor,
    "classes": SparseGPClassifier,
    "network": lambda **more: GPNetworkRegressor(1, n_restarts=2, **more),
}
N, M, STEPS = 120, 12, 150


def observed(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rain at scattered places and hours: latitude, longitude, hour; an amount or zero."""
    rng = np.random.default_rng(0)
    X = rng.uniform([46, 6, 0], [48, 10, 48], (n, 3))
    amounts = 2 + np.cos(3 * X[:, 0]) + 0.1 * rng.normal(size=n)
    return X, np.where(np.sin(X[:, 2] / 6) > 0.2, amounts, 0.0)


X, Y = observed(N)


def constant(columns: list[int]) -> np.ndarray:
    held = X.copy()
    held[:, columns] = X[0, columns]
    return held


def lattice(sites: int, hours: int) -> tuple[np.ndarray, np.ndarray, dict]:
    """Return rain at all of these sites and hours, and settings with an inducing point at each."""
    rng = np.random.default_rng(1)
    places = rng.uniform([46, 6], [48, 10], (sites, 2))
    cells = np.array([[*place, hour] for place in places for hour in range(hours)])
    wet = np.sin(cells[:, 2] / 6 + 4 * cells[:, 0]) > 0.2
    settings = {"column_groups": {"place": [0, 1], "time": [2]}, "n_inducing": None}
    return cells, np.where(wet, 2 + np.cos(3 * cells[:, 0]), 0.0), settings


# trouble: (X, y, settings). All of the first table share the compiled programs of a plain fit.
TROUBLE = {
    "duplicate rows": (np.repeat(X[:12], 10, axis=0), np.repeat(Y[:12], 10), {}),
    "X in units of 1e9": (1e9 * X, Y, {}),
    "X in units of 1e-9": (1e-9 * X, Y, {}),
    "one column of X in units of 1e9": (X * [1, 1, 1e9], Y, {}),
    "X far from zero, by 1e9": (X + 1e9, Y, {}),
    "y in units of 1e9": (X, 1e9 * Y, {}),
    "y in units of 1e-9": (X, 1e-9 * Y, {}),
    "a single observation that is not zero": (X, at(3, 3.0, 0 * Y), {}),
    "only zeros": (X, 0 * Y, {}),
    "no zeros": (X, Y + 1, {}),
    "an outlier of a million times the median": (X, at(7, 1e6 * np.median(Y[Y > 0]), Y), {}),
    "a single site": (constant([0, 1]), Y, {}),
    "a single hour": (constant([2]), Y, {}),
    "a learning rate of 100": (X, Y, {"learning_rate": 100.0}),
}  # fmt: skip
OF_OTHER_SHAPES = {
    "inducing points that nearly coincide": (
        np.concatenate([X[:20], X[:20] * (1 + 1e-12)]), np.tile(Y[:20], 2),
        {"n_inducing": 40, "learn_inducing": False},
    ),
    "length-scales that collapse": (X, Y, {"kernel": Matern32(1e-9)}),
    "length-scales that explode": (X, Y, {"kernel": Matern32(1e9)}),
    "99.9 % zeros": (observed(1000)[0], at(3, 3.0, np.zeros(1000)), {}),
    "constant inputs": (constant([0, 1, 2]), Y, {}),
    "fewer rows than inducing points": (X[:6], Y[:6], {}),
    "a lattice with a single site": lattice(1, 60),
    "a lattice with a single hour": lattice(60, 1),
}  # fmt: skip
IN_FLOAT32 = {
    "X in units of 1e-30, in float32": (1e-30, FloatingPointError, "columns of X in extreme units"),
    "X in units of 1e30, in float32": (1e30, ValueError, "too large to be squared"),
}
UNITS = {  # trouble: the factor between its predictions and those of a plain fit
    **dict.fromkeys([name for name in TROUBLE if "X in units" in name or "far from" in name], 1.0),
    "y in units of 1e9": 1e9,
    "y in units of 1e-9": 1e-9,
}
SANITY = {
    "inducing points that nearly coincide": "have collapsed onto each other: fewer would do",
    "length-scales that collapse": "faster than the inducing points resolve",
    "length-scales that explode": "hardly varies with",
    "an outlier of a million times the median": "The largest value of y is 1e+06 times the median",
}


def fitted(name: str, trouble: tuple, dtype: str):
    inputs, y, more = trouble
    settings = {"n_inducing": M, "steps": STEPS, "dtype": dtype, "tol": 0.0} | more
    target = {"classes": y != 0, "network": np.column_stack([y, 2 * y])}.get(name, y)
    return ESTIMATORS[name](**settings).fit(inputs, target)


def predicted(name: str, model, inputs: np.ndarray) -> np.ndarray:
    """Return means and standard deviations, after a look at the other predictions."""
    if name == "classes":
        p = model.predict_proba(inputs)
        assert np.all((p >= 0) & (p <= 1))
        return p.T
    mean, sd = model.predict(inputs, return_std=True)
    assert np.all(np.isfinite(mean) & np.isfinite(sd) & (sd >= 0))
    assert name == "network" or np.all(np.isfinite(model.predict_quantiles(inputs)))
    return np.array([mean[:, 0], sd[:, 0]] if name == "network" else [mean, sd])


@cache
def plain(name: str, dtype: str) -> np.ndarray:
    return predicted(name, fitted(name, (X, Y, {}), dtype), X)


def check(name: str, what: str, dtype: str) -> None:
    """Fit, and check what the table says."""
    inputs, y, _ = trouble = (TROUBLE | OF_OTHER_SHAPES)[what]
    model = fitted(name, trouble, dtype)
    found, findings = predicted(name, model, inputs), " ".join(model.sanity())
    mean = found[-1 if name == "classes" else 0]
    assert "stopped being finite" not in findings
    if what in UNITS:
        factor = 1.0 if name == "classes" else UNITS[what]
        expected = plain(name, dtype)
        close = (1e-4 if dtype == "float64" else 0.02) * np.abs(expected).max()
        np.testing.assert_allclose(found / factor, expected, atol=close)
    if what in SANITY and not (name == "classes" and "outlier" in what):
        assert SANITY[what] in findings
    observed = (y != 0).astype(float) if name == "classes" else y
    match what:
        case "duplicate rows":
            assert np.ptp(mean.reshape(12, 10), axis=1).max() < 1e-6
            assert np.corrcoef(mean, observed)[0, 1] > 0.9
        case "a single observation that is not zero" | "99.9 % zeros":
            assert np.mean(np.abs(mean[y == 0])) < 0.1
        case "only zeros":
            assert np.abs(model.prob_on(X) if name == "classes" else mean).max() < 0.02
        case "no zeros" if name != "classes":
            assert np.all((mean > y.min() - np.std(y)) & (mean < y.max() + np.std(y)))
        case "constant inputs":
            assert np.ptp(mean) < 1e-6 * max(np.abs(mean).max(), 1.0)
            if name != "hurdle":  # which decides for zero or the mean amount
                assert abs(mean[0] - observed.mean()) < 0.1 * np.std(observed)
        case _ if "single site" in what or "single hour" in what:
            least = {"a single site": 0.5, "a single hour": 0.1}.get(what, 0.85)
            assert np.corrcoef(mean, observed)[0, 1] > least


# The others take long to compile.
EVERY = [n if n == "gp" else pytest.param(n, marks=pytest.mark.slow) for n in ESTIMATORS]


@pytest.mark.parametrize("name", EVERY)
def test_trouble_is_fitted_as_the_table_says(name):
    """In one test, since all run the same compiled programs."""
    for what in TROUBLE:
        check(name, what, "float64")


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("what", OF_OTHER_SHAPES)
def test_trouble_of_other_shapes_is_fitted_as_the_table_says(name, what):
    for dtype in ("float64", "float32"):
        check(name, what, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
def test_trouble_in_float32_is_fitted_or_refused_as_the_table_says(name):
    for what in TROUBLE:
        if what != "a learning rate of 100":
            check(name, what, "float32")
    with pytest.raises(FloatingPointError, match=r"stopped being finite at step .*learning_rate"):
        fitted(name, (X, Y, {"learning_rate": 1e4}), "float32")
    for scale, kind, message in IN_FLOAT32.values():
        with pytest.raises(kind, match=message):
            fitted(name, (scale * X, Y, {}), "float32")


@pytest.mark.parametrize("name", [n for n in EVERY if n != EVERY[-1]])
def test_no_answer_is_silently_not_a_number(name):
    """A Matérn kernel is ∞ · 0 at infinite distance; a network's kernel is not."""
    model = fitted(name, (X, Y, {}), "float32")
    far = at(3, 1e30, X[:3])  # squared, the distance to it is infinite
    assert len(questions(model)) >= (4 if name == "classes" else 10)
    for method, more in questions(model):
        with pytest.raises(FloatingPointError, match=r"row 1 is not a number.* units of the fit"):
            getattr(model, method)(far, **more)
    if name == "gp":  # a missing observation has no place in its distribution, which is no error
        residuals = model.quantile_residuals(X[:3], [1.0, np.nan, 2.0])
        assert np.isnan(residuals).tolist() == [False, True, False]


# -- at the command line --------------------------------------------------------------------------


_OF_A_PLACE = ("a single site", "a single hour", "constant inputs")
_OF_LATTICES = ("a lattice with a single site", "a lattice with a single hour")


@pytest.mark.slow
@pytest.mark.parametrize("names", [tuple(TROUBLE), *((n,) for n in _OF_A_PLACE + _OF_LATTICES)])
def test_the_command_line_fits_trouble_and_prints_what_sanity_finds(tmp_path, names):
    """All of one shape with the same settings, some with the default settings."""
    settings = f"--inducing {M} --steps 60" if len(names) > 1 else ""
    for what in set(names) - {"a learning rate of 100"}:  # which is no option
        inputs, y, _ = (TROUBLE | OF_OTHER_SHAPES)[what]
        frame = pd.DataFrame(inputs, columns=["a", "b", "hour"]).assign(rain=y)
        frame.to_csv(tmp_path / "rain.csv", index=False)
        fit, predict = (
            in_process(f"{command} --force --quiet".split(), tmp_path, seconds=600)
            for command in (
                f"fit rain.csv --target rain --out m.zigp {settings}",
                "predict m.zigp rain.csv --out p.csv",
            )
        )
        assert fit.code == predict.code == 0, (what, fit.said, predict.said)
        table = pd.read_csv(tmp_path / "p.csv")[["mean", "sd", "lower", "upper"]]
        assert np.isfinite(table.to_numpy()).all(), what
        assert SANITY.get(what, "") in fit.said


def test_steps_that_needed_more_jitter_are_reported_and_saved(tmp_path):
    model = load(model_file("plain"))
    model.retried_ = [0]
    model.save(tmp_path / "m.zigp")
    assert load(tmp_path / "m.zigp").retried_ == [0]
    sentence = "the jitter was raised tenfold there"
    assert any(sentence in finding for finding in model.sanity())
    assert sentence in in_process(["info", "m.zigp"], tmp_path).out


def test_the_second_table_lists_what_is_tested():
    lines = lines_of(PAGE.read_text().partition("\n## Numbers that make trouble")[2])
    listed = {name.strip(): outcome.strip() for name, outcome, _ in lines[2:]}
    fits = dict.fromkeys(TROUBLE | OF_OTHER_SHAPES, "fit")
    assert listed == fits | dict.fromkeys(IN_FLOAT32, "error") | {
        "a learning rate of 100": "fit or error"
    }
    texts = {name.strip(): text for name, _, text in lines}
    for what, sentence in SANITY.items():
        assert sentence.split(" with")[0] in texts[what]
