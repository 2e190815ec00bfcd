"""Numbers that make trouble: what happens is in a table of docs/input.md, line by line."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest
from fuzz.running import in_process

from zigp import (
    GPNetworkRegressor,
    HurdleGPRegressor,
    SparseGPClassifier,
    SparseGPRegressor,
    ZeroInflatedGPRegressor,
    load,
)
from zigp.estimators.persistence import read_header
from zigp.gp.kernels import Matern32
from zigp.gp.projection import with_jitter

PAGE = Path(__file__).parents[2] / "docs" / "input.md"
ESTIMATORS = {
    "zigp": ZeroInflatedGPRegressor,
    "gp": SparseGPRegressor,
    "hurdle": HurdleGPRegressor,
    "classes": SparseGPClassifier,
    "network": lambda **more: GPNetworkRegressor(1, n_restarts=2, **more),
}
N, M, STEPS = 120, 12, 150


def observed(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rain at scattered places and hours: latitude, longitude, hour, and an amount or zero."""
    rng = np.random.default_rng(0)
    X = rng.uniform([46, 6, 0], [48, 10, 48], (n, 3))
    amounts = 2 + np.cos(3 * X[:, 0]) + 0.1 * rng.normal(size=n)
    return X, np.where(np.sin(X[:, 2] / 6) > 0.2, amounts, 0.0)


X, Y = observed(N)


def at(place: int, value: float, others: np.ndarray) -> np.ndarray:
    """The others, with one value in their place."""
    changed = np.array(others)
    changed[place] = value
    return changed


def constant(columns: list[int]) -> np.ndarray:
    held = X.copy()
    held[:, columns] = X[0, columns]
    return held


def lattice(sites: int, hours: int) -> tuple[np.ndarray, np.ndarray, dict]:
    """Rain at all of these sites and hours, an inducing point at each."""
    rng = np.random.default_rng(1)
    places = rng.uniform([46, 6], [48, 10], (sites, 2))
    cells = np.array([[*place, hour] for place in places for hour in range(hours)])
    wet = np.sin(cells[:, 2] / 6 + 4 * cells[:, 0]) > 0.2
    groups = {"place": [0, 1], "time": [2]}
    y = np.where(wet, 2 + np.cos(3 * cells[:, 0]), 0.0)
    return cells, y, {"column_groups": groups, "n_inducing": None}


# trouble: (X, y, settings). All of the first share the compiled programs of a plain fit.
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
UNITS = {  # trouble: what the prediction of a plain fit is multiplied by
    **dict.fromkeys([name for name in TROUBLE if "X in units" in name or "far from" in name], 1.0),
    "y in units of 1e9": 1e9,
    "y in units of 1e-9": 1e-9,
}
SAID = {
    "inducing points that nearly coincide": "have collapsed onto each other: fewer would do",
    "length-scales that collapse": "faster than the inducing points resolve",
    "length-scales that explode": "hardly varies with",
    "an outlier of a million times the median": "The largest value of y is 1e+06 times the median",
}

_plain: dict[tuple[str, str], np.ndarray] = {}


def target(name: str, y: np.ndarray) -> np.ndarray:
    """What an estimator learns of amounts."""
    return {"classes": y != 0, "network": np.column_stack([y, 2 * y])}.get(name, y)


def fitted(name: str, trouble: tuple, dtype: str = "float64"):
    inputs, y, more = trouble
    settings = {"n_inducing": M, "steps": STEPS, "dtype": dtype, "tol": 0.0} | more
    return ESTIMATORS[name](**settings).fit(inputs, target(name, y))


def predicted(name: str, model, inputs: np.ndarray) -> np.ndarray:
    """What is expected, after a look at all else that is predicted."""
    if name == "classes":
        p = model.predict_proba(inputs)
        assert np.all((p >= 0) & (p <= 1))
        return p[:, -1]
    mean, sd = model.predict(inputs, return_std=True)
    assert np.all(np.isfinite(mean) & np.isfinite(sd) & (sd >= 0))
    if name == "network":
        return mean[:, 0]
    assert np.all(np.isfinite(model.predict_quantiles(inputs)))
    return mean


def plain(name: str, dtype: str) -> np.ndarray:
    if (name, dtype) not in _plain:
        _plain[name, dtype] = predicted(name, fitted(name, (X, Y, {}), dtype), X)
    return _plain[name, dtype]


def assert_what_the_table_says(name: str, what: str, dtype: str) -> None:
    """Fit, and check what the table says."""
    inputs, y, _ = trouble = (TROUBLE | OF_OTHER_SHAPES)[what]
    model = fitted(name, trouble, dtype)
    mean = predicted(name, model, inputs)
    said = " ".join(model.sanity())
    parts = [model] if name != "hurdle" else [model.classifier_, model.regressor_]
    assert not any(part.failed_ for part in parts), said
    if what in UNITS:
        factor = 1.0 if name == "classes" else UNITS[what]
        expected = plain(name, dtype)
        close = (1e-4 if dtype == "float64" else 0.02) * np.abs(expected).max()
        np.testing.assert_allclose(mean / factor, expected, atol=close)
    if what in SAID and not (name == "classes" and "outlier" in what):
        assert SAID[what] in said
    _check(name, what, model, mean, y)


def _check(name: str, what: str, model, mean: np.ndarray, y: np.ndarray) -> None:
    amounts = name != "classes"
    seen = y if amounts else (y != 0).astype(float)  # by each estimator
    match what:
        case "duplicate rows":
            assert np.ptp(mean.reshape(12, 10), axis=1).max() < 1e-6
            assert np.corrcoef(mean, seen)[0, 1] > 0.9
        case "a single observation that is not zero" | "99.9 % zeros":
            assert np.mean(np.abs(mean[y == 0])) < 0.1
        case "only zeros":
            assert np.abs(mean if amounts else model.prob_on(X)).max() < 0.02
        case "no zeros" if amounts:
            assert mean.min() > y.min() - np.std(y)
            assert mean.max() < y.max() + np.std(y)
        case "constant inputs":
            assert np.ptp(mean) < 1e-6 * max(np.abs(mean).max(), 1.0)
            if name != "hurdle":  # which decides for one or the other
                assert abs(mean[0] - seen.mean()) < 0.1 * np.std(seen)
        case "fewer rows than inducing points" if name != "hurdle":
            for latent in model.model_.latents.values():
                assert np.shape(latent.q_mean)[-1] == len(y)
        case "a single site":
            assert np.corrcoef(mean, seen)[0, 1] > 0.5
        case "a lattice with a single site" | "a lattice with a single hour":
            assert getattr(model, "regressor_", model).layout_.names == ("place", "time")
            assert np.corrcoef(mean, seen)[0, 1] > 0.85
        case "a single hour":
            assert np.corrcoef(mean, seen)[0, 1] > 0.1


# The others take long to compile.
QUICK = ("gp",)


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in ESTIMATORS]
)
def test_trouble_in_plain_shapes(name):
    """All in one test, since all run the same compiled programs."""
    for what in TROUBLE:
        assert_what_the_table_says(name, what, "float64")


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("what", OF_OTHER_SHAPES)
def test_trouble_in_other_shapes(name, what):
    assert_what_the_table_says(name, what, "float64")


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
def test_trouble_in_float32(name):
    for what in TROUBLE:
        if what != "a learning rate of 100":
            assert_what_the_table_says(name, what, "float32")
    with pytest.raises(FloatingPointError, match=r"stopped being finite at step .*learning_rate"):
        fitted(name, (X, Y, {"learning_rate": 1e4}), "float32")
    for scale, kind, message in IN_FLOAT32.values():
        with pytest.raises(kind, match=message):
            fitted(name, (scale * X, Y, {}), "float32")


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
def test_trouble_of_other_shapes_in_float32(name):
    for what in OF_OTHER_SHAPES:
        assert_what_the_table_says(name, what, "float32")


FAR = at(3, 1e30, X[:3].ravel()).reshape(3, 3)  # squared, the distance to it is infinite
MATERN = ("zigp", "gp", "hurdle", "classes")
ANSWERS = (
    ("predict", {}),
    ("predict_quantiles", {}),
    ("predict_interval", {}),
    ("sample", {"n_samples": 2}),
    ("sample", {"noise": False}),
    ("aggregate", {"n_samples": 2}),
    ("prob_below", {"threshold": 1.0}),
    ("prob_below", {"threshold": np.ones(3)}),
    ("log_prob_between", {"low": 0.0, "high": 1.0}),
    ("prob_zero", {"tol": 0.1}),
    ("quantile_residuals", {"y": np.ones(3)}),
    ("prob_on", {}),
    ("predict_if_on", {}),
    ("predict_components", {}),
    ("predict_proba", {}),
    ("decision_function", {}),
)


@pytest.mark.parametrize(
    "name", [n if n == "gp" else pytest.param(n, marks=pytest.mark.slow) for n in MATERN]
)
def test_no_answer_is_silently_not_a_number(name):
    """A Matérn kernel is ∞ · 0 at infinite distance."""
    model = fitted(name, (X, Y, {}), "float32")
    asked = [(method, more) for method, more in ANSWERS if hasattr(model, method)]
    assert len(asked) >= (4 if name == "classes" else 10)
    for method, more in asked:
        with pytest.raises(FloatingPointError, match=r"row 1 is not a number.* units of the fit"):
            getattr(model, method)(FAR, **more)


def test_what_is_asked_about_nothing_is_answered_by_nothing():
    """A missing observation has no place in its distribution, which is no error."""
    model = fitted("gp", (X, Y, {}), "float32")
    place = model.quantile_residuals(X[:3], [1.0, np.nan, 2.0])
    assert np.isnan(place).tolist() == [False, True, False]


# -- at the command line --------------------------------------------------------------------------


def fitted_and_predicted_and_checked(folder: Path, what: str, *more: str) -> str:
    """Fit and predict through files; what was said."""
    inputs, y, _ = (TROUBLE | OF_OTHER_SHAPES)[what]
    frame = pd.DataFrame(inputs, columns=["a", "b", "hour"]).assign(rain=y)
    frame.to_csv(folder / "rain.csv", index=False)
    fit = ["fit", "rain.csv", "--target", "rain", "--out", "m.zigp", "--force", "--quiet", *more]
    predict = ["predict", "m.zigp", "rain.csv", "--out", "p.csv", "--force", "--quiet"]
    said = []
    for words in (fit, predict):
        answer = in_process(words, folder)
        assert answer.code == 0, (what, answer.said)
        said.append(answer.said)
    found = pd.read_csv(folder / "p.csv")[["mean", "sd", "lower", "upper"]]
    assert np.isfinite(found.to_numpy()).all(), what
    return said[0]


@pytest.mark.slow
def test_trouble_at_the_command_line(tmp_path):
    for what in TROUBLE:
        if what != "a learning rate of 100":  # which is no option
            said = fitted_and_predicted_and_checked(
                tmp_path, what, "--inducing", str(M), "--steps", "60"
            )
            assert SAID.get(what, "") in said


@pytest.mark.slow
@pytest.mark.parametrize(
    "what",
    [
        *("a single site", "a single hour", "constant inputs"),
        *("a lattice with a single site", "a lattice with a single hour"),
    ],
)
def test_trouble_at_the_command_line_with_default_settings(tmp_path, what):
    fitted_and_predicted_and_checked(tmp_path, what)


# -- jitter ---------------------------------------------------------------------------------------


def test_who_needed_more_jitter_is_told_so_everywhere(tmp_path, monkeypatch):
    """Points that coincide, in a matrix whose diagonal is too small by more than the jitter."""
    monkeypatch.setattr("zigp.gp.latent.default_jitter", lambda dtype: 1e-3)
    monkeypatch.setattr(
        "zigp.gp.latent.with_jitter", lambda K, jitter: with_jitter(K, jitter - 4e-3)
    )
    jax.clear_caches()  # no program of another test computes so
    twins = np.concatenate([X[:10], X[:10] * (1 + 1e-9)])
    frame = pd.DataFrame(twins, columns=["a", "b", "hour"]).assign(rain=np.tile(Y[:10], 2))
    frame.to_csv(tmp_path / "rain.csv", index=False)
    words = ["fit", "rain.csv", "--target", "rain", "--out", "m.zigp", "--model", "gp", "--quiet"]
    answer = in_process([*words, "--inducing", "20", "--steps", "20"], tmp_path)
    assert answer.code == 0, answer.said
    sentence = "the jitter was raised tenfold there, to 0.01 of the prior variance"
    assert sentence in answer.said
    model = load(tmp_path / "m.zigp")
    assert model.retried_ == [0]
    assert any(sentence in said for said in model.sanity())
    assert sentence in in_process(["info", "m.zigp"], tmp_path).out
    assert read_header(tmp_path / "m.zigp")["trained"]["jitter_raised_at"] == [0]
    jax.clear_caches()


def test_the_table_lists_what_is_tested():
    page = PAGE.read_text().partition("\n## Numbers that make trouble")[2]
    lines = [line.split("|")[1:4] for line in page.splitlines() if line[:1] == "|"]
    listed = {name.strip(): outcome.strip() for name, outcome, _ in lines[2:]}
    fits = dict.fromkeys(TROUBLE | OF_OTHER_SHAPES, "fit")
    assert listed == fits | dict.fromkeys(IN_FLOAT32, "error") | {
        "a learning rate of 100": "fit or error"
    }
    texts = {name.strip(): text for name, _, text in lines}
    for what, sentence in SAID.items():
        assert sentence.split(" with")[0] in texts[what]
