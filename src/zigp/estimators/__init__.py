"""The scikit-learn face: fit on a table, predict in the user's units."""

from zigp.estimators.hurdle import HurdleGPRegressor
from zigp.estimators.network import GPNetworkRegressor
from zigp.estimators.persistence import load
from zigp.estimators.sparse import SparseGPClassifier, SparseGPRegressor
from zigp.estimators.zero_inflated import ZeroInflatedGPRegressor

__all__ = [
    "GPNetworkRegressor",
    "HurdleGPRegressor",
    "SparseGPClassifier",
    "SparseGPRegressor",
    "ZeroInflatedGPRegressor",
    "load",
]
