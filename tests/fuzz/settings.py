"""Estimators with settings and data that nobody meant, from Python."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd

from .material import Dice, hauls, rain

__all__ = ["settings"]

_NUMBERS = (
    0, -1, 1, 2, 3, 1.5, 0.0, -0.5, np.nan, np.inf, -np.inf, 10**30, 1e308, 1e-308, True,
    "3", "", None, [3], (3, 3), {}, {"all": 3}, {"all": -1}, {"x": 3}, np.int64(3), np.float64(2),
    np.array([3]), object(), 3 + 1j, b"3", "nan",
)  # fmt: skip
_FEW = tuple(v for v in _NUMBERS if not (isinstance(v, (int, float)) and v > 3))
_COLUMNS = (
    None, "lat", ["lat"], ["lat", "lon"], ["lat", "lat"], [], "nowhere", 0, [0, 1], -1, 7,
    [0, "lon"], 1.5, np.nan, True, {}, object(), ["lat", "lon", "hour"], "hour", (),
    np.array([0, 1]), b"lat",
)  # fmt: skip
_GROUPS = (
    None, {}, [], {"a": "lat"}, {"a": ["lat", "lon"], "b": "hour"}, [["lat"], ["lon", "hour"]],
    {"a": ["lat", "lon", "hour"], "b": "hour"}, {"a": [], "b": ["lat", "lon", "hour"]}, 5, "lat",
    ["lat", "lon", "hour"], {1: ["lat", "lon"], 2: ["hour"]}, {"a": None}, np.nan,
    [0, 1, 2], [[0, 1, 2.0]],
)  # fmt: skip
_KERNELS = (
    "matern32", "linear", "rbf", "", None, 5, [], ["matern32"], {"all": "matern12"}, 
    {"x": "linear"}, object(), ["matern32", "linear"], np.nan, b"matern32",
)  # fmt: skip
_KEEPING = ("checkpoint", "checkpoint_seconds")
_VALUES: dict[str, tuple[Any, ...]] = {
    "kernel": _KERNELS,
    "inputs": _COLUMNS,
    "column_groups": _GROUPS,
    "latlon": _COLUMNS,
    "n_inducing": _NUMBERS,
    "learn_inducing": _NUMBERS,
    "covariance": ("auto", "dense", "diagonal", "", None, 5, object()),
    "steps": _FEW,
    "learning_rate": (
        *_NUMBERS, {"noise": 1}, {"variational": 1, "kernel": 1, "inducing": 1, "noise": 1},
    ),
    "schedule": (
        "cosine", "constant", "linear", "", None, 5, lambda done: np.nan, lambda: 1.0,
        lambda done: "x",
    ),
    "batch_size": _NUMBERS,
    "fixed": (
        (), "noise", ("noise",), ["nothing"], "kernel", 5, None, {"q"}, (5,), ("f.q", "g.variance"),
    ),
    "tol": _NUMBERS,
    "max_seconds": _NUMBERS,
    "dtype": ("float32", "float64", "float16", np.float32, float, "int", None, 5),
    "warm_start": _NUMBERS,
    "random_state": _NUMBERS,
    "method": ("auto", "adam", "natural", "newton", "", None, 5),
    "devices": ("one", "data", "all", None, 5),
    "checkpoint": (None, "kept", Path("kept/here"), "", "a\0b", "x" * 300, 5, b"kept", object()),
    "checkpoint_seconds": _NUMBERS,
    "resume": (False, True, "x", None),
    "verbose": (False, 0, ""),
    "likelihood": (
        "auto", "gated", "gaussian", "zip", "zinb", "hurdle_gamma", "poisson", "", None, 5, [],
    ),
    "resolution": _NUMBERS,
    "exposure": _COLUMNS,
    "gate_kernel": _KERNELS,
    "gate_inputs": _COLUMNS,
    "amount_rows": ("positive", "all", "predicted", "some", "", None, 5),
    "combine": ("class", "expectation", "both", "", None, 5),
    "n_latents": _FEW,
    "n_restarts": _FEW,
    "y_transform": (None, "log", "log1p", "sqrt", "", 5),
    "inducing": ("separate", "one", "two", "", None, 5),
    "lengthscale_prior": (None, (3.0, 1.0), (0, 1), (1,), "ab", 5, (np.nan, 1.0)),
}  # fmt: skip


def settings(rng: Dice) -> Callable[[], None]:
    """A fit of odd data with odd settings, and a prediction, to be called."""
    import zigp

    plain, network = zigp.SparseGPRegressor, zigp.GPNetworkRegressor
    others = (zigp.ZeroInflatedGPRegressor, zigp.HurdleGPRegressor, zigp.SparseGPClassifier)
    kind = plain if rng.quick else rng.choice((*[plain] * 6, *others, *others, network))
    held = _KEEPING if rng.quick else ()  # which test_checkpoints.py tries every day
    known = [name for name in kind().get_params() if name in _VALUES and name not in held]
    given: dict[str, Any] = {"steps": 1, "n_inducing": 3}
    given |= {"n_latents": 1, "n_restarts": 1} if kind is network else {}
    for name in rng.sample(known, rng.choice((0, 1, 1, 1, 2))):
        given[name] = rng.choice(_VALUES[name])
    X, y, weight, new = _data(rng) if rng.random() < 0.4 else _sound()
    return partial(_fitted, kind, given, X, y, weight, new)


def _fitted(kind: Any, given: dict[str, Any], X: Any, y: Any, weight: Any, new: Any) -> None:
    classes = hasattr(kind, "predict_proba")
    model = kind(**given).fit(X, y > 0 if classes else y, sample_weight=weight)
    if classes:
        found = {"probability": model.predict_proba(new)}
    else:
        found = dict(zip(("mean", "sd"), model.predict(new, return_std=True), strict=True))
    for name, values in found.items():
        if not np.isfinite(values).all():
            raise SilentError(f"the {name} is not finite and nobody said so")


class SilentError(Exception):
    """A wrong answer that looks like any other."""


def _sound() -> tuple[Any, Any, Any, Any]:
    table = rain()
    X = table[["lat", "lon", "hour"]]
    return X, table["rain_mm"], None, X


def _data(rng: Random) -> tuple[Any, Any, Any, Any]:
    X, y, weight, new = _sound()
    match rng.choice(("cell of X", "cell of y", "scale of X", "scale of y", "weight", "X", "new")):
        case "cell of X":
            X = X.astype(object)
            X.iloc[rng.randrange(12), rng.randrange(3)] = rng.choice(_CELLS)
        case "cell of y":
            y = y.astype(object)
            y.iloc[rng.randrange(12)] = rng.choice(
                _CELLS[:-1]
            )  # the last is scikit-learn's to tell
        case "scale of X":
            X = X * rng.choice((1e300, 1e-300, 1e160, 0.0, -1.0, 1e12))
            new = X if rng.random() < 0.5 else new
        case "scale of y":
            y = y * rng.choice((1e300, 1e-300, 1e160, 1e-160, 0.0, -1.0)) + rng.choice((0.0, 1e15))
        case "weight":
            weight = rng.choice(_WEIGHTS)
        case "X":
            X = rng.choice(_tables(X))
        case "new":
            new = rng.choice(_tables(X))
    return X, y, weight, new


def _tables(X: pd.DataFrame) -> tuple[Any, ...]:
    return (
        X.to_numpy(), X[["lat"]], hauls().drop(columns="catch"), None, [], 5, "x", [[1, 2, 3]],
        X.iloc[:0], X.iloc[:1], X.set_axis(["lat"] * 3, axis=1), X.set_axis([0, 1, "x"], axis=1),
        X.T, pd.Series([1.0]), np.full((12, 3), np.inf), np.zeros((12, 3, 1)),
        np.array([["a"] * 3] * 12), X.to_numpy() * 1e200,
    )  # fmt: skip


_WEIGHTS = (
    0, 1, -1, "x", [1] * 12, [1] * 11, np.zeros(12), np.full(12, np.nan), np.full(12, 1e300),
    np.r_[1.0, np.zeros(11)],
)  # fmt: skip
_CELLS = (
    np.nan, np.inf, 1e308, -1e308, 5e-324, "x", None, "1", True, 1j, pd.NaT, pd.Timestamp(0), b"1",
    [1], 10**400,
)  # fmt: skip
