"""Estimators with odd settings and odd data, from Python."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from .material import Dice, hauls, rain

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
_VALUES = {
    "kernel": _KERNELS,
    "inputs": _COLUMNS,
    "column_groups": _GROUPS,
    "latlon": _COLUMNS,
    "n_inducing": _NUMBERS,
    "learn_inducing": _NUMBERS,
    "posterior": ("auto", "full", "diagonal", "", None, 5, object()),
    "coupled": (True, False, None),
    "coupling": ("none", "prior", "", None, 5),
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
    """Return a call that fits odd data with odd settings, and predicts."""
    import zigp

    others = (zigp.ZeroInflatedGPRegressor, zigp.HurdleGPRegressor, zigp.SparseGPClassifier) * 2
    kinds = (*[zigp.SparseGPRegressor] * 6, *others, zigp.GPNetworkRegressor)
    kind = rng.choice(kinds[: rng.quick or None])
    names = [name for name in kind().get_params() if name in _VALUES]
    given = {"steps": 1, "n_inducing": 3}
    given |= {"n_latents": 1, "n_restarts": 1} if kind is zigp.GPNetworkRegressor else {}
    given |= {name: rng.choice(_VALUES[name]) for name in rng.sample(names, rng.choice((0, 1, 2)))}
    odd = _odd_data(rng) if rng.random() < 0.4 else {}
    return partial(_fit_and_predict, kind(**given), **_DATA | odd)


def _fit_and_predict(model, X, y, sample_weight, new) -> None:
    classes = hasattr(model, "predict_proba")
    model.fit(X, y > 0 if classes else y, sample_weight=sample_weight)
    answers = model.predict_proba(new) if classes else model.predict(new, return_std=True)
    if not all(np.isfinite(answer).all() for answer in answers):
        raise AssertionError("a prediction is not finite and no error was raised")


_X, _Y = rain()[["lat", "lon", "hour"]], rain()["rain_mm"]
_DATA = {"X": _X, "y": _Y, "sample_weight": None, "new": _X}


def _odd_data(rng: Dice) -> dict[str, object]:
    """Return what takes the place of one of the sound data, or of two of them."""
    X, y, row = _X.astype(object), _Y.astype(object), rng.randrange(12)
    X.iloc[row, rng.randrange(3)] = rng.choice((*_CELLS, 10**400))
    y.iloc[row] = rng.choice(_CELLS)
    X = rng.choice((X, rng.choice(_TABLES), _X * rng.choice(_SCALES)))
    y = rng.choice((y, _Y * rng.choice(_SCALES) + rng.choice((0.0, 1e15))))
    new, weight = {"new": rng.choice(_TABLES)}, {"sample_weight": rng.choice(_WEIGHTS)}
    return rng.choice(({"X": X}, {"X": X, "new": X}, {"y": y}, weight, new))


_SCALES = (1e300, 1e-300, 1e160, 1e-160, 0.0, -1.0, 1e12)
_TABLES = (
    _X.to_numpy(), _X[["lat"]], hauls().drop(columns="catch"), None, [], 5, "x", [[1, 2, 3]],
    _X.iloc[:0], _X.iloc[:1], _X.set_axis(["lat"] * 3, axis=1), _X.set_axis([0, 1, "x"], axis=1),
    _X.T, pd.Series([1.0]), np.full((12, 3), np.inf), np.zeros((12, 3, 1)),
    np.array([["a"] * 3] * 12), _X.to_numpy() * 1e200,
)  # fmt: skip
_WEIGHTS = (
    0, 1, -1, "x", [1] * 12, [1] * 11, np.zeros(12), np.full(12, np.nan), np.full(12, 1e300),
    np.r_[1.0, np.zeros(11)],
)  # fmt: skip
_CELLS = (
    np.nan, np.inf, 1e308, -1e308, 5e-324, "x", None, "1", True, 1j, pd.NaT, pd.Timestamp(0), b"1",
    [1],
)  # fmt: skip
