"""Zero-inflated Gaussian processes and sparse Gaussian process networks."""

from zigp import kernels, special
from zigp.estimators import GPNetworkRegressor, SparseGPRegressor, ZeroInflatedGPRegressor

__all__ = [
    "GPNetworkRegressor",
    "SparseGPRegressor",
    "ZeroInflatedGPRegressor",
    "kernels",
    "special",
]
