"""Zero-inflated Gaussian processes and sparse Gaussian process networks."""

from zigp import kernels, special
from zigp.estimators import (
    GPNetworkRegressor,
    HurdleGPRegressor,
    SparseGPClassifier,
    SparseGPRegressor,
    ZeroInflatedGPRegressor,
)
from zigp.storage import load

__all__ = [
    "GPNetworkRegressor",
    "HurdleGPRegressor",
    "SparseGPClassifier",
    "SparseGPRegressor",
    "ZeroInflatedGPRegressor",
    "kernels",
    "load",
    "special",
]
