"""Plain Gaussian process regression."""

from __future__ import annotations

import numpy as np

from zigp.data.layout import Inputs, Layout, refuse_too_large
from zigp.estimators.families import Start, spread
from zigp.estimators.initial import Sparsity
from zigp.estimators.parameters import estimator
from zigp.estimators.persistence import registered
from zigp.estimators.regressor import ModelRegressor
from zigp.models.likelihoods import Gaussian
from zigp.models.model import Model, gp_regression

_FIRST_NOISE = 0.1  # where training starts, in the model's units


@registered
@estimator
class SparseGPRegressor(ModelRegressor):
    """Sparse Gaussian process regression: y = f(x) + ε.

    Inducing points make the time of a training step proportional to the number of rows.

    Examples
    --------
    >>> X = np.linspace(0, 10, 60)[:, None]
    >>> model = SparseGPRegressor(n_inducing=12).fit(X, np.sin(X[:, 0]))
    >>> model.predict([[2.0]]).round(1)
    array([0.9])
    """

    def _first_guess(self, y: np.ndarray, weight: np.ndarray, exposure: np.ndarray | None) -> Start:
        refuse_too_large("y", y)
        offset = float(np.average(y, weights=weight))
        scale = spread(y - offset, weight, largest=np.abs(y).max())
        return Start(Gaussian.of_variance(_FIRST_NOISE, self._dtype()), offset, scale)

    def _initial(self, X: Inputs, layout: Layout, sparsity: Sparsity, start: Start) -> Model:
        f = self._latent(X, layout, sparsity, self.kernel, self.inputs)
        return gp_regression(f, start.likelihood)
