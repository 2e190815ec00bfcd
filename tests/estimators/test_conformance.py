"""Estimators pass scikit-learn's checks and work with its tools."""

import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from joblib import Parallel, delayed, parallel_config
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import estimator_checks_generator

from zigp import (
    GPNetworkRegressor,
    HurdleGPRegressor,
    SparseGPClassifier,
    SparseGPRegressor,
    ZeroInflatedGPRegressor,
)

SMALL = {"steps": 200, "n_inducing": 8, "learning_rate": 0.1}
ESTIMATORS = [
    SparseGPRegressor(**SMALL),
    SparseGPClassifier(**SMALL),
    HurdleGPRegressor(**SMALL),
    ZeroInflatedGPRegressor(**SMALL),
    GPNetworkRegressor(1, **SMALL | {"n_inducing": 6}, n_restarts=1),
]
# Most checks fit two or three columns. These fit other numbers of columns, which compiles other
# programs, so they are slow tests, as are all checks of the models that take longer.
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


def case(estimator, check):
    """One of scikit-learn's checks of one estimator, marked as slow where it compiles much."""
    name, kind = check.func.__name__, type(estimator)
    marks = [pytest.mark.slow] * (kind is not SparseGPRegressor or name in OTHER_COLUMNS)
    return pytest.param(estimator, check, id=f"{kind.__name__}-{name}", marks=marks)


CHECKS = [case(*one) for each in ESTIMATORS for one in estimator_checks_generator(each)]


@pytest.mark.parametrize(("estimator", "check"), CHECKS)
def test_estimators_pass_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


RNG = np.random.default_rng(0)
X = pd.DataFrame({"a": RNG.uniform(0, 6, 90), "b": RNG.uniform(0, 6, 90)})
Y = np.where(X["a"] > 3, np.sin(X["b"]) + 2.0, 0.0).round(2)
FIT = {"steps": 30, "n_inducing": 8}


@pytest.mark.slow
@pytest.mark.parametrize("make", [SparseGPRegressor, ZeroInflatedGPRegressor, HurdleGPRegressor])
def test_sample_weights_count_as_repetitions_in_the_bound(make):
    weight = np.tile([0, 1, 2], 30)
    model = make(**FIT).fit(X, Y, sample_weight=weight)
    again = np.repeat(np.arange(90), weight)
    repeated = model.elbo(X.iloc[again], Y[again])
    assert model.elbo(X, Y, sample_weight=weight) == pytest.approx(repeated, rel=1e-10)


def scores_and_bounds() -> list[np.ndarray]:
    """Return scores of folds and the bounds of networks, by the backend of joblib."""
    small = {"n_inducing": 5, "steps": 20, "n_restarts": 1}
    networks = [GPNetworkRegressor(1, random_state=seed, **small) for seed in range(2)]
    fits = Parallel()(delayed(one.fit)(X, np.column_stack([Y, X["b"]])) for one in networks)
    scores = cross_val_score(ZeroInflatedGPRegressor(**FIT), X, Y, cv=2)
    return [scores, *(fit.bounds_ for fit in fits)]


@pytest.mark.slow
def test_folds_and_restarts_on_a_dask_cluster_agree_with_local_ones():
    alone = scores_and_bounds()
    one = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with LocalCluster(host="127.0.0.1", **one) as c, Client(c), parallel_config("dask"):
        spread = scores_and_bounds()
    for here, there in zip(alone, spread, strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-6)
