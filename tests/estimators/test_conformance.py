"""scikit-learn's own checks of the estimators, and its tools around them."""

from __future__ import annotations

import pickle
from collections.abc import Collection

import numpy as np
import pandas as pd
import pytest
import sklearn
from distributed import Client, LocalCluster
from joblib import Parallel, delayed, parallel_config
from sklearn.base import BaseEstimator, clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import StackingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from zigp import (
    GPNetworkRegressor,
    HurdleGPRegressor,
    SparseGPClassifier,
    SparseGPRegressor,
    ZeroInflatedGPRegressor,
)

SMALL = {"steps": 200, "n_inducing": 8, "learning_rate": 0.1}
PLAIN = SparseGPRegressor(**SMALL)
CLASSIFIER, HURDLE = SparseGPClassifier(**SMALL), HurdleGPRegressor(**SMALL)
ZERO_INFLATED = ZeroInflatedGPRegressor(**SMALL)
NETWORK = GPNetworkRegressor(1, **SMALL | {"n_inducing": 6}, n_restarts=1)
HEAVIER = [CLASSIFIER, HURDLE, ZERO_INFLATED, NETWORK]
# Most checks fit two or three columns. These fit other numbers, each with programs of its own to
# compile, and run with the slow tests, as all checks do of the models that take longer.
OTHER_COLUMNS = {
    "check_dtype_object",
    "check_estimators_dtypes",
    "check_fit2d_1feature",
    "check_fit2d_1sample",
    "check_n_features_in_after_fitting",
    "check_non_transformer_estimators_n_iter",
    "check_positive_only_tag_during_fit",
    "check_regressor_data_not_an_array",
    "check_regressor_multioutput",
    "check_regressors_int",
    "check_regressors_no_decision_function",
    "check_regressors_train",
    "check_sample_weight_equivalence_on_dense_data",
}


def checks(estimator: BaseEstimator, slow: Collection[str] = ()) -> pytest.MarkDecorator:
    """scikit-learn's checks of an estimator, some of them with the slow tests."""
    cases = []
    for one, check in estimator_checks_generator(estimator):
        name = check.func.__name__
        marks = [pytest.mark.slow] if name in slow else []
        cases.append(pytest.param(one, check, id=name, marks=marks))
    return pytest.mark.parametrize(("estimator", "check"), cases)


class TestPlain:  # a class runs in one process, so that what it compiles is compiled once
    @checks(PLAIN, OTHER_COLUMNS)
    def test_scikit_learns_checks(self, estimator, check):
        check(estimator)


@pytest.mark.slow
class TestClassifier:
    @checks(CLASSIFIER)
    def test_scikit_learns_checks(self, estimator, check):
        check(estimator)


@pytest.mark.slow
class TestHurdle:
    @checks(HURDLE)
    def test_scikit_learns_checks(self, estimator, check):
        check(estimator)


@pytest.mark.slow
class TestZeroInflated:
    @checks(ZERO_INFLATED)
    def test_scikit_learns_checks(self, estimator, check):
        check(estimator)


@pytest.mark.slow
class TestNetwork:
    @checks(NETWORK)
    def test_scikit_learns_checks(self, estimator, check):
        check(estimator)


def test_checks_with_other_columns_are_known_to_scikit_learn():
    names = {check.func.__name__ for one in HEAVIER for _, check in estimator_checks_generator(one)}
    assert names >= OTHER_COLUMNS


RNG = np.random.default_rng(0)
X = pd.DataFrame({"a": RNG.uniform(0, 6, 90), "b": RNG.uniform(0, 6, 90)})
Y = np.where(X["a"] > 3, np.sin(X["b"]) + 2.0, 0.0).round(2)
FIT = {"steps": 30, "n_inducing": 8}


@pytest.mark.slow
@pytest.mark.parametrize("make", [SparseGPRegressor, ZeroInflatedGPRegressor, HurdleGPRegressor])
def test_weights_are_repetitions_in_the_bound(make):
    weight = np.tile([0, 1, 2], 30)
    model = make(**FIT).fit(X, Y, sample_weight=weight)
    again = np.repeat(np.arange(90), weight)
    repeated = model.elbo(X.iloc[again], Y[again])
    assert model.elbo(X, Y, sample_weight=weight) == pytest.approx(repeated, rel=1e-10)


@pytest.mark.slow
def test_models_work_inside_pipelines_searches_and_stacks():
    scaled = make_pipeline(StandardScaler(), ZeroInflatedGPRegressor(**FIT))
    assert np.isfinite(cross_val_score(scaled, X, Y, cv=2)).all()
    search = GridSearchCV(SparseGPRegressor(**FIT), {"kernel": ["matern12", "matern32"]}, cv=2)
    assert search.fit(X, Y).best_params_["kernel"] in ("matern12", "matern32")
    logs = TransformedTargetRegressor(
        SparseGPRegressor(**FIT), func=np.log1p, inverse_func=np.expm1
    )
    assert logs.fit(X, Y).predict(X).shape == (90,)
    stack = StackingRegressor(
        [("gp", SparseGPRegressor(**FIT)), ("line", LinearRegression())], LinearRegression(), cv=2
    )
    assert stack.fit(X, Y).score(X, Y) > LinearRegression().fit(X, Y).score(X, Y)


@pytest.mark.slow
def test_group_splitters_and_weights_reach_the_model():
    groups = (X["a"] // 2).astype(int)
    with sklearn.config_context(enable_metadata_routing=True):
        model = SparseGPRegressor(**FIT)
        model.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        params = {"sample_weight": np.ones(90), "groups": groups}
        scores = cross_val_score(model, X, Y, cv=GroupKFold(2), params=params)
    assert scores.shape == (2,)


@pytest.mark.slow
def test_models_cross_processes_and_pickles():
    model = ZeroInflatedGPRegressor(**FIT).fit(X, Y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert not hasattr(clone(model), "model_")
    parts = Parallel(n_jobs=2)(delayed(model.predict)(part) for part in (X[:45], X[45:]))
    np.testing.assert_allclose(np.concatenate(parts), model.predict(X), rtol=1e-12)


def restart(seed: int) -> GPNetworkRegressor:
    small = {"n_inducing": 5, "steps": 20, "n_restarts": 1}
    return GPNetworkRegressor(1, random_state=seed, **small).fit(X, np.column_stack([Y, X["b"]]))


@pytest.mark.slow
def test_folds_and_restarts_on_a_cluster_are_those_without_it():
    def found() -> list[np.ndarray]:
        fits = Parallel()(delayed(restart)(seed) for seed in range(2))
        return [
            cross_val_score(ZeroInflatedGPRegressor(**FIT), X, Y, cv=2),
            *(fit.bounds_ for fit in fits),
        ]

    alone = found()
    one = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with LocalCluster(host="127.0.0.1", **one) as c, Client(c), parallel_config("dask"):
        spread = found()
    for here, there in zip(alone, spread, strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-6)
