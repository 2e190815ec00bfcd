"""Regressors with a single model, and plain Gaussian process regression."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax import Array
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from zigp.data.layout import Inputs, refuse_too_large
from zigp.estimators.distribution import ModelDistribution, PredictiveDistribution
from zigp.estimators.families import FIRST_NOISE, Start, spread
from zigp.estimators.fitting import SparseGP
from zigp.estimators.parameters import estimator
from zigp.estimators.persistence import registered
from zigp.estimators.regressor import Regressor
from zigp.models import predictions
from zigp.models.likelihoods import Gaussian
from zigp.models.model import Model, gp_regression
from zigp.runtime.session import entry_point


class ModelRegressor(Regressor, SparseGP):
    """A regressor with a single model."""

    @entry_point
    def predict_distribution(self, X: Any) -> PredictiveDistribution:
        return ModelDistribution(self._predictions(X), self._output_scale)

    @property
    @entry_point
    def noise_sd_(self) -> Any:
        """The standard deviation of the noise of each output, in the units of y.

        Examples
        --------
        >>> plain = SparseGPRegressor(n_inducing=12).fit(X, y)
        >>> bool(plain.noise_sd_ > 0.2)
        True
        """
        check_is_fitted(self)
        likelihood = self.model_.likelihood
        if not isinstance(likelihood, Gaussian):
            raise AttributeError("There is not one noise variance here; see `noise_`.")
        return self.y_scale_ * np.sqrt(np.asarray(likelihood.noise))

    def _draws(self, X: ArrayLike, n: int, key: Array, noise: bool) -> np.ndarray:
        rows, groups = self._checked(X) - self.layout_.centre, self.layout_.groups
        drawn = predictions.draw(self.model_, rows, groups, n, key, noise=noise)
        in_user_units = np.stack([self._output_scale.to_user(one.T) for one in drawn])
        outputs = () if self._output_names is None else (len(self._output_names),)
        return in_user_units.reshape(n, len(rows), *outputs)


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
        return Start(Gaussian.of_variance(FIRST_NOISE, self.dtype), offset, scale)

    def _first_models(self, X: Inputs, start: Start) -> list[Model]:
        return [gp_regression(self._latent(X), start.likelihood)]
