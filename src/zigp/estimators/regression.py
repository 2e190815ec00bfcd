"""Plain Gaussian process regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from zigp.data.layout import Layout, refuse_too_large
from zigp.estimators.families import spread
from zigp.estimators.initial import Sparsity
from zigp.estimators.persistence import registered
from zigp.estimators.regressor import ModelRegressor
from zigp.models.likelihoods import (
    Gaussian,
)
from zigp.models.model import Model, gp_regression

if TYPE_CHECKING:
    pass

__all__ = ["SparseGPRegressor"]

_FIRST_NOISE = 0.1  # where training starts, in the model's units


@registered
@dataclass(eq=False, repr=False, kw_only=True)
class SparseGPRegressor(ModelRegressor):
    """GP regression on many rows through inducing points: y = f(x) + ε.

    >>> X = np.linspace(0, 10, 60)[:, None]
    >>> model = SparseGPRegressor(n_inducing=12).fit(X, np.sin(X[:, 0]))
    >>> model.predict([[2.0]]).round(1)
    array([0.9])
    """

    def _scaling(
        self, y: np.ndarray, weight: np.ndarray, exposure: np.ndarray | None
    ) -> tuple[float, float]:
        refuse_too_large("y", y)
        offset = float(np.average(y, weights=weight))
        return offset, spread(y - offset, weight, largest=np.abs(y).max())

    def _initial(self, X: np.ndarray, layout: Layout, sparsity: Sparsity) -> Model:
        f = self._latent(X, layout, sparsity, self.kernel, self.inputs)
        return gp_regression(f, Gaussian.of_variance(_FIRST_NOISE, sparsity.dtype))
