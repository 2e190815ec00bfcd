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
from zigp.estimators.distribution import HurdleDistribution
from zigp.estimators.initial import KernelSpec
from zigp.estimators.parameters import Option, estimator, parameter
from zigp.estimators.preparing import row_weights
from zigp.estimators.regressor import GatedRegressor
from zigp.estimators.sparse import SparseGPClassifier, SparseGPRegressor
from zigp.models import predictions
from zigp.runtime.session import entry_point
from zigp.training import hold_checkpoints


@estimator
class HurdleGPRegressor(GatedRegressor):
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
        hurdle = cls(**settings)
        hurdle._keep(classifier, regressor)
        for name in ("n_features_in_", "feature_names_in_", "table_"):
            if hasattr(regressor, name):
                setattr(hurdle, name, getattr(regressor, name))
        return hurdle

    def _keep(self, classifier: SparseGPClassifier, regressor: SparseGPRegressor) -> None:
        self.classifier_, self.regressor_ = classifier, regressor
        self.n_iter_ = max(classifier.n_iter_, regressor.n_iter_)

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
        table = self._as_table(X, y, sample_weight)
        again = self.warm_start and hasattr(self, "classifier_")
        rows, target = self._checked_pair(table.X, table.y, reset=not again)
        weight, column_groups = row_weights(table.weight, rows), table.groups
        if column_groups is None:  # those of all rows for both, also where few have amounts
            names, inputs = getattr(self, "feature_names_in_", None), Inputs(rows[weight > 0])
            layout = (
                self.classifier_.layout_
                if again
                else Layout.of(inputs, None, self.latlon, names, split=self._may_split())
            )
            column_groups = dict(zip(layout.names, map(list, layout.groups), strict=True))
        classifier, regressor = self._new_parts(column_groups, again).values()
        X = table.X if hasattr(table.X, "iloc") else rows
        with hold_checkpoints(self.checkpoint):
            on = target != 0
            classifier.fit(X, on.astype(int), weight)
            chosen = np.flatnonzero(self._rows_with_amounts(classifier, X, on & (weight > 0)))
            try:
                regressor.fit(_safe_indexing(X, chosen), target[chosen], weight[chosen])
            finally:  # an interrupted regressor is kept too
                if hasattr(regressor, "model_"):
                    self._keep(classifier, regressor)
        return self

    def _new_parts(self, column_groups: Any, again: bool) -> dict[str, Any]:
        """Return classifier and regressor with the settings of now, to be fitted."""
        shared = {one.name: getattr(self, one.name) for one in fields(SparseGPRegressor)} | {
            "column_groups": column_groups
        }
        of_gate = {"kernel": self.gate_kernel, "inputs": self.gate_inputs}
        own = {name: value for name, value in of_gate.items() if value is not None}
        parts: dict[str, Any] = {
            "classifier": SparseGPClassifier(**shared | own),
            "regressor": SparseGPRegressor(**shared),
        }
        for name, part in parts.items():
            if self.checkpoint is not None:
                part.checkpoint = Path(self.checkpoint) / name
            if again:
                parts[name] = copy.copy(getattr(self, f"{name}_")).set_params(**part.get_params())
        return parts

    def _rows_with_amounts(
        self, classifier: SparseGPClassifier, X: ArrayLike, on: np.ndarray
    ) -> np.ndarray:
        """Return which rows the regression learns from."""
        if self.amount_rows == "all" or not on.any():
            return np.ones(len(on), bool)
        if self.amount_rows == "positive":
            return on
        predicted = classifier.predict(X) == 1
        if predicted.any():
            return predicted
        warnings.warn(
            "The classifier predicts zero for every row, so the amounts are learned from the "
            "non-zero rows. Set amount_rows='positive' to choose these rows in the first place.",
            stacklevel=3,
        )
        return on

    # -- predicting -----------------------------------------------------------------------------

    @entry_point
    def predict_distribution(self, X: Any) -> HurdleDistribution:
        check_is_fitted(self)
        self._check_choices()
        p, amounts = self.classifier_.prob_on(X), self.regressor_.predict_distribution(X)
        return HurdleDistribution(p, amounts, combine=self.combine)

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
        return bound + self.regressor_.elbo(X, target, weight * on)

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
        draws = gate._averaged_over
        on = predictions.draw(gate.model_, rows, groups, n, first, noise=noise, draws=draws)
        if len(gate.classes_) == 1:
            on = np.broadcast_to(float(gate.classes_[0]), on.shape)
        return on * self.regressor_._draws(X, n, second, noise)
