"""Zero-inflated Gaussian processes and sparse Gaussian process networks."""

from zigp import kernels, special
from zigp.estimators import SparseGPRegressor, ZeroInflatedGPRegressor

__all__ = ["SparseGPRegressor", "ZeroInflatedGPRegressor", "kernels", "special"]
