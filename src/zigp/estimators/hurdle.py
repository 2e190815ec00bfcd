"""Two models in a row: a classifier says zero or not, a regression says how much."""

from __future__ import annotations

import copy
import warnings
from dataclasses import fields
from pathlib import Path
from typing import Any, Self

import jax
import numpy as np
from jax import Array
from numpy.typing import ArrayLike
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from zigp.data.layout import ColumnList, Inputs, Layout
from zigp.estimators.classifier import SparseGPClassifier
from zigp.estimators.distribution import HurdleDistribution
from zigp.estimators.fitting import row_weights
from zigp.estimators.initial import KernelSpec
from zigp.estimators.parameters import Option, estimator, parameter
from zigp.estimators.persistence import registered
from zigp.estimators.regression import SparseGPRegressor
from zigp.estimators.regressor import Regressor
from zigp.models import predictions
from zigp.runtime.session import entry_point
from zigp.training import InterruptedFitError, hold_checkpoints


@registered
@estimator
class HurdleGPRegressor(Regressor):
    """Hurdle model: Gaussian process classification of zero or not, then regression of the amount.

    An observation is exactly zero with probability 1 − p and has a normal distribution otherwise.
    The classifier predicts p, the regressor the mean and variance of that distribution.

    Attributes
    ----------
    classifier_ : SparseGPClassifier
        Model of zero or not.
    regressor_ : SparseGPRegressor
        Model of the amounts.
    n_iter_ : int
        Number of training steps, the larger of both parts.
    parts_ : dict
        Both models by name.

    Examples
    --------
    >>> X = np.linspace(0, 10, 60)[:, None]
    >>> y = np.where(X[:, 0] > 5, 3 + np.sin(X[:, 0]), 0.0)
    >>> model = HurdleGPRegressor(n_inducing=12).fit(X, y)
    >>> new = [[2.0], [8.0]]
    """

    amount_rows: str = parameter(
        "Rows from which the regressor learns: 'positive' for those that are not zero, 'all', or "
        "'predicted' for those that the classifier predicts to be non-zero (the paper's GPcr≠0; "
        "its GPcr is 'all').",
        default="positive",
        choices=("positive", "all", "predicted"),
    )
    combine: str = parameter(
        "What `predict` returns: 'class' for the amount where p is at least ½ and zero elsewhere; "
        "'expectation' for p times the amount.",
        default="class",
        scope="training",
        choices=("class", "expectation"),
    )
    gate_kernel: KernelSpec | None = parameter(
        "Kernel of the classifier. By default the same as `kernel`.", default=None
    )
    gate_inputs: ColumnList | None = parameter(
        "Columns that the classifier depends on, by name or position. By default the same as "
        "`inputs`.",
        default=None,
        option=Option(),
    )

    def __post_init__(self) -> None:
        # Learned by `fit`; declared for the type checker alone.
        self.classifier_: SparseGPClassifier
        self.regressor_: SparseGPRegressor

    @classmethod
    def from_parts(
        cls, classifier: SparseGPClassifier, regressor: SparseGPRegressor, **settings: Any
    ) -> HurdleGPRegressor:
        """Combine a fitted classifier of "not zero" and a fitted regression of amounts.

        Parameters
        ----------
        classifier : SparseGPClassifier
            A fitted classifier of the classes 0 and 1.
        regressor : SparseGPRegressor
            A regression fitted on the same columns.
        **settings : Any
            Parameters of the hurdle.

        Returns
        -------
        HurdleGPRegressor
            A fitted hurdle.

        Examples
        --------
        >>> again = HurdleGPRegressor.from_parts(model.classifier_, model.regressor_)
        >>> np.array_equal(again.predict(new), model.predict(new))
        True
        """
        check_is_fitted(classifier)
        check_is_fitted(regressor)
        if not set(classifier.classes_.tolist()) <= {0, 1}:
            raise ValueError(f"The classes must be 0 and 1, not {classifier.classes_}.")
        if classifier.n_features_in_ != regressor.n_features_in_:
            raise ValueError(
                f"The classifier was fitted on {classifier.n_features_in_} columns, the regression "
                f"on {regressor.n_features_in_}: fit both on the same columns."
            )
        hurdle = cls(**settings)._combined(classifier, regressor)
        for name in ("n_features_in_", "feature_names_in_", "table_"):
            if hasattr(regressor, name):
                setattr(hurdle, name, getattr(regressor, name))
        return hurdle

    def _combined(self, classifier: SparseGPClassifier, regressor: SparseGPRegressor) -> Self:
        self.classifier_, self.regressor_ = classifier, regressor
        self.n_iter_ = max(classifier.n_iter_, regressor.n_iter_)
        return self

    @property
    def parts_(self) -> dict[str, Any]:
        return {"zero or not": self.classifier_, "amounts": self.regressor_}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "regressor_")

    # -- fitting --------------------------------------------------------------------------------

    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit both models to observations.

        Parameters
        ----------
        X : array-like, DataFrame, DataArray or Dataset
            Inputs, in any units, or a lattice that holds the observations too.
        y : array-like of shape (n_rows,) or str, optional
            Observations, in any unit; of a Dataset the name of the variable that holds them.
        sample_weight : array-like of shape (n_rows,), optional
            Weight of each row.

        Returns
        -------
        HurdleGPRegressor
            The fitted estimator.

        Examples
        --------
        >>> model.fit(X, y).classifier_.classes_
        array([0, 1])
        """
        self._check_choices()
        X, y, sample_weight, column_groups, _ = self._as_table(X, y, sample_weight)
        again = self.warm_start and hasattr(self, "classifier_")
        rows, target = self._checked_pair(X, y, reset=not again)
        weight = row_weights(sample_weight, rows)
        classifier, regressor = self._classifier(), self._regressor()
        if again:  # with the parameters of now
            classifier = copy.copy(self.classifier_).set_params(**classifier.get_params())
            regressor = copy.copy(self.regressor_).set_params(**regressor.get_params())
        if column_groups is None:  # those of all rows for both, also where few have amounts
            column_groups = self._column_groups(rows[weight > 0], again)
        for name, part in (("classifier", classifier), ("regressor", regressor)):
            part.set_params(column_groups=column_groups)
            if self.checkpoint is not None:
                part.set_params(checkpoint=Path(self.checkpoint) / name)
        X = X if hasattr(X, "iloc") else rows
        with hold_checkpoints(self.checkpoint):
            on = target != 0
            classifier.fit(X, on.astype(int), weight)
            chosen = np.flatnonzero(self._rows_with_amounts(classifier, X, on & (weight > 0)))
            try:
                regressor.fit(_safe_indexing(X, chosen), target[chosen], weight[chosen])
            except InterruptedFitError:
                if hasattr(regressor, "model_"):
                    self._combined(classifier, regressor)
                raise
        return self._combined(classifier, regressor)

    def _check_choices(self) -> None:
        for name, choices in (
            ("amount_rows", ("positive", "all", "predicted")),
            ("combine", ("class", "expectation")),
        ):
            if getattr(self, name) not in choices:
                known = ", ".join(map(repr, choices))
                raise ValueError(f"{name} must be one of {known}, not {getattr(self, name)!r}.")

    def _column_groups(self, X: np.ndarray, again: bool) -> dict[str, list[int]]:
        names = getattr(self, "feature_names_in_", None)
        layout = (
            self.classifier_.layout_
            if again
            else Layout.of(Inputs(X), None, self.latlon, names, split=self._may_split())
        )
        return dict(zip(layout.names, map(list, layout.groups), strict=True))

    def _rows_with_amounts(
        self, classifier: SparseGPClassifier, X: ArrayLike, on: np.ndarray
    ) -> np.ndarray:
        """Return which rows the regression learns from."""
        if self.amount_rows == "all" or not on.any():
            return np.ones(len(on), bool)
        if self.amount_rows == "positive":
            return on
        predicted = _prob_on(classifier, X) >= 0.5
        if predicted.any():
            return predicted
        warnings.warn(
            "The classifier predicts zero for every row, so the amounts are learned from the "
            "non-zero rows. Set amount_rows='positive' to choose these rows in the first place.",
            stacklevel=3,
        )
        return on

    def _shared_settings(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(SparseGPRegressor)}

    def _classifier(self) -> SparseGPClassifier:
        settings = self._shared_settings()
        for name, own in (("kernel", self.gate_kernel), ("inputs", self.gate_inputs)):
            settings[name] = settings[name] if own is None else own
        return SparseGPClassifier(**settings)

    def _regressor(self) -> SparseGPRegressor:
        return SparseGPRegressor(**self._shared_settings())

    # -- predicting -----------------------------------------------------------------------------

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict the amount at each row.

        Parameters
        ----------
        X : array-like, DataFrame, DataArray or Dataset
            Inputs. The cells of a DataArray or a Dataset are answered as by `predict_lattice`.
        return_std : bool, default=False
            If True, return standard deviations too.

        Returns
        -------
        amount : ndarray of shape (n_rows,)
            With `combine="class"` the likelier of zero and an amount, with
            `combine="expectation"` the mean.
        sd : ndarray of shape (n_rows,)
            The standard deviation of the whole distribution, zeros included, if `return_std`.

        Examples
        --------
        >>> model.predict(new).round(1)
        array([0., 4.])
        """
        return super().predict(X, return_std)

    @entry_point
    def predict_distribution(self, X: Any) -> HurdleDistribution:
        check_is_fitted(self)
        self._check_choices()
        amounts = self.regressor_.predict_distribution(X)
        return HurdleDistribution(self.prob_on(X), amounts, combine=self.combine)

    def prob_on(self, X: ArrayLike) -> np.ndarray:
        """Return the probability that an observation is not zero.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_rows,)
            Probabilities.

        Examples
        --------
        >>> model.prob_on(new).round(1)
        array([0., 1.])
        """
        check_is_fitted(self)
        return _prob_on(self.classifier_, X)

    def predict_if_on(
        self, X: ArrayLike, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predict the amount at each row if it is not zero there.

        It is how much there is where there is something. `predict` says how much to expect.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            Inputs.
        return_std : bool, default=False
            If True, return standard deviations too.

        Returns
        -------
        amount : ndarray of shape (n_rows,)
            Expected amounts.
        sd : ndarray of shape (n_rows,)
            Their standard deviations, if `return_std`.

        Examples
        --------
        >>> model.predict_if_on([[8.0]]).round(1)
        array([4.])
        """
        check_is_fitted(self)
        return self.regressor_.predict(X, return_std)

    def elbo(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the lower bound on log p(y): the classifier's plus that of the non-zero amounts.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            Inputs.
        y : array-like of shape (n_rows,)
            Observations.
        sample_weight : array-like of shape (n_rows,), optional
            Weight of each row.

        Returns
        -------
        float
            The bound, −∞ for observations of a class that training has not seen.

        Examples
        --------
        >>> model.elbo(X, y) > model.elbo(X, y + 1)
        True
        """
        check_is_fitted(self)
        rows, target = self._checked_pair(X, y)
        weight = row_weights(sample_weight, rows)
        X = X if hasattr(X, "iloc") else rows
        on = target != 0
        if not set(np.unique(on[weight > 0]).astype(int)) <= set(self.classifier_.classes_):
            return -np.inf
        bound = self.classifier_.elbo(X, on.astype(int), weight)
        if not on.any():
            return bound
        chosen = np.flatnonzero(on)
        amounts = _safe_indexing(X, chosen)
        return bound + self.regressor_.elbo(amounts, target[chosen], weight[chosen])

    def sanity(self) -> list[str]:
        """List what looks wrong with either part of the fit.

        Returns
        -------
        list of str
            A sentence for each finding; empty if there is none.

        Examples
        --------
        >>> all(isinstance(finding, str) for finding in model.sanity())
        True
        """
        check_is_fitted(self)
        return [
            f"{name.capitalize()}: {finding}"
            for name, part in self.parts_.items()
            for finding in part.sanity()
        ]

    @entry_point
    def _draws(self, X: ArrayLike, n: int, key: Array, noise: bool) -> np.ndarray:
        first, second = jax.random.split(key)
        gate = self.classifier_
        rows, groups = gate._checked(X) - gate.layout_.centre, gate.layout_.groups
        on = predictions.draw(gate.model_, rows, groups, n, first, noise=noise)
        if len(gate.classes_) == 1:
            on = np.broadcast_to(float(gate.classes_[0]), on.shape)
        return on * self.regressor_._draws(X, n, second, noise)


def _prob_on(classifier: SparseGPClassifier, X: ArrayLike) -> np.ndarray:
    """Return the probability of a 1, also where training has seen one class alone."""
    return classifier.predict_proba(X) @ classifier.classes_
