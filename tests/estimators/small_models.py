"""Small fits of every estimator, and every question that a fitted model answers."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone

import zigp
from zigp.kernels import Matern32, Periodic

SMALL = {"steps": 2, "n_inducing": 4}

_RNG = np.random.default_rng(0)
X = pd.DataFrame({"east": _RNG.uniform(0, 9, 60), "hour": _RNG.uniform(0, 48, 60)})
Y = np.where(X["east"] > 4, np.sin(X["hour"]) + 2.0, 0.0).round(1)

ESTIMATORS: dict[str, tuple[BaseEstimator, object]] = {
    "plain": (zigp.SparseGPRegressor(**SMALL), Y),
    "gated": (
        zigp.ZeroInflatedGPRegressor(0.5 * Periodic(24.0).on(1) + Matern32(3.0).on(0), **SMALL),
        Y,
    ),
    "zinb": (zigp.ZeroInflatedGPRegressor(likelihood="zinb", exposure="east", **SMALL), Y.round()),
    "groups": (
        zigp.ZeroInflatedGPRegressor(
            column_groups={"place": "east", "time": "hour"},
            gate_inputs="hour",
            n_inducing={"place": 3, "time": 4},
            dtype="float32",
            steps=2,
        ),
        Y,
    ),
    "classes": (zigp.SparseGPClassifier(**SMALL), np.where(Y > 0, "wet", "dry")),
    "hurdle": (zigp.HurdleGPRegressor(**SMALL), Y),
    "network": (
        zigp.GPNetworkRegressor(1, n_restarts=2, latent_noise=True, y_transform="log", **SMALL),
        pd.DataFrame({"a": Y + 1.0, "b": np.where(Y > 2, np.nan, Y + 2.0)}),
    ),
}


@cache
def fitted(name: str) -> BaseEstimator:
    """Return one of the estimators after two steps of training."""
    estimator, y = ESTIMATORS[name]
    return clone(estimator).fit(X, y)


# Questions about three rows, with the arguments that they need.
QUESTIONS = (
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


def questions(model: BaseEstimator) -> list[tuple[str, dict]]:
    """Return those questions that a model answers; networks take no numbers for single rows."""
    network = hasattr(model, "predict_network")
    return [
        (method, more)
        for method, more in QUESTIONS
        if hasattr(model, method) and not (network and any(map(np.ndim, more.values())))
    ]
