"""Sparse Gaussian process regression and classification."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from jax import Array
from numpy.typing import ArrayLike
from scipy.special import ndtri
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from zigp.data.layout import Inputs, refuse_too_large
from zigp.estimators.distribution import (
    ModelDistribution,
    PredictiveDistribution,
)
from zigp.estimators.families import (
    FIRST_NOISE,
    OutputScale,
    spread,
)
from zigp.estimators.fitting import SparseGP
from zigp.estimators.parameters import estimator
from zigp.estimators.preparing import FIRST_GATE_VARIANCE
from zigp.estimators.regressor import Regressor
from zigp.models import predictions
from zigp.models.likelihoods import (
    Gaussian,
)
from zigp.models.model import Model, gp_classification, gp_regression
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
        drawn = predictions.draw(
            self.model_, rows, groups, n, key, noise=noise, draws=self._averaged_over
        )
        in_user_units = np.stack([self._output_scale.to_user(one.T) for one in drawn])
        outputs = () if self._output_names is None else (len(self._output_names),)
        return in_user_units.reshape(n, len(rows), *outputs)


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

    def _first_models(
        self, X: Inputs, y: np.ndarray, weight: np.ndarray, exposure: np.ndarray | None
    ) -> tuple[list[Model], OutputScale]:
        refuse_too_large("y", y)
        offset = float(np.average(y, weights=weight))
        scale = spread(y - offset, weight, largest=np.abs(y).max())
        noise = Gaussian.of_variance(FIRST_NOISE, self.dtype)
        return [gp_regression(self._latent(X), noise)], OutputScale(offset, scale)


@estimator
class SparseGPClassifier(ClassifierMixin, SparseGP):
    """Sparse Gaussian process classification into two classes: P(second class) = Φ(g(x)).

    Classes are sorted, so that of 0 and 1 the second class is 1.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Classes in the training data: two, or one.

    Examples
    --------
    >>> X = np.linspace(0, 10, 60)[:, None]
    >>> model = SparseGPClassifier(n_inducing=12).fit(X, X[:, 0] > 5)
    >>> new = [[2.0], [8.0]]
    """

    _always_fixed: ClassVar[tuple[str, ...]] = ()

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    # -- fitting --------------------------------------------------------------------------------

    def _checked_pair(
        self, X: Any, y: Any, *, reset: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        X = self._as_numbers(X, reset=reset)
        rows, labels = validate_data(self, X, y, dtype=np.float64, reset=reset)
        if reset:
            check_classification_targets(labels)
            self.classes_ = np.unique(labels)
            if len(self.classes_) > 2:
                raise ValueError(
                    "Only binary classification is supported. The type of the target is "
                    f"multiclass: y has {len(self.classes_)} classes. Fit one class against the "
                    "rest, for example with sklearn.multiclass.OneVsRestClassifier."
                )
        return rows, self._as_target(labels, np.ones(len(labels)))

    def _as_target(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        if (unknown := (weight > 0) & ~np.isin(y, self.classes_)).any():
            raise ValueError(
                f"y holds {np.unique(y[unknown]).tolist()[0]!r}, which is not among "
                f"{self.classes_}, the classes at the start of training. Leave such rows out, or "
                "fit again on data that have it."
            )
        return (y == self.classes_[-1]).astype(float)

    def _first_models(
        self, X: Inputs, y: np.ndarray, weight: np.ndarray, exposure: np.ndarray | None
    ) -> tuple[list[Model], OutputScale]:
        return [gp_classification(self._latent(X, variance=FIRST_GATE_VARIANCE))], OutputScale()

    @entry_point
    def sanity(self) -> list[str]:
        """List what looks wrong with the fit.

        Returns
        -------
        list of str
            A sentence for each finding; empty if there is none.

        Examples
        --------
        >>> SparseGPClassifier(steps=5).fit([[0.0], [1.0]], [0, 0]).sanity()
        ['Every y is 0: there is nothing to tell apart.']
        """
        check_is_fitted(self)
        if len(self.classes_) == 1:
            return [f"Every y is {self.classes_[0]}: there is nothing to tell apart."]
        return super().sanity()

    # -- predicting -----------------------------------------------------------------------------

    @entry_point
    def prob_on(self, X: ArrayLike) -> np.ndarray:
        """Return the probability of the second class, E[Φ(g)], at each row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_rows,)
            Probabilities. If training has seen one class alone they are 1, or 0 if that class is 0
            or False.

        Examples
        --------
        >>> model.prob_on(new).round(1)
        array([0., 1.])
        """
        p = self._predictions(X).ask(predictions.moments)["mean"]
        return p if len(self.classes_) == 2 else np.full_like(p, bool(self.classes_[0]))

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Return the probability of every class at each row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Probabilities, in the order of `classes_`.

        Examples
        --------
        >>> model.predict_proba(new).round(1)
        array([[1., 0.],
               [0., 1.]])
        """
        p = self.prob_on(X)
        return np.column_stack([1.0 - p, p]) if len(self.classes_) == 2 else np.ones((len(p), 1))

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predict the more probable class at each row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_rows,)
            Classes.

        Examples
        --------
        >>> model.predict(new)
        array([False,  True])
        """
        return self.classes_[np.where(self.prob_on(X) >= 0.5, -1, 0)]

    @entry_point
    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Return E[g]/√(1 + Var[g]), whose Φ is the probability of the second class.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_rows,)
            Decision values, positive where the second class is more probable.

        Examples
        --------
        >>> model.decision_function(new) > 0
        array([False,  True])
        """
        made = self._predictions(X)
        if self._averaged_over is not None:
            p = made.ask(predictions.moments)["mean"]
            return ndtri(np.clip(p, np.finfo(p.dtype).tiny, 1.0 - np.finfo(p.dtype).epsneg))
        g = made.marginals["g"]
        return np.asarray(g.mean / np.sqrt(1.0 + g.var))
