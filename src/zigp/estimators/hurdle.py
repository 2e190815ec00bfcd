"""Two models in a row: a classifier says zero or not, a regression says how much."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import jax
import numpy as np
from jax import Array
from numpy.typing import ArrayLike
from scipy.stats import norm
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted, validate_data

from zigp.data.layout import ColumnList, Layout
from zigp.estimators.answers import Regressor
from zigp.estimators.classifier import SparseGPClassifier
from zigp.estimators.fitting import row_weights
from zigp.estimators.initial import KernelSpec
from zigp.estimators.persistence import registered
from zigp.estimators.regressors import SparseGPRegressor
from zigp.models import predictions
from zigp.runtime.session import entry_point
from zigp.training import InterruptedFitError, hold_checkpoints

__all__ = ["HurdleGPRegressor"]


@registered
@dataclass(eq=False, repr=False, kw_only=True)
class HurdleGPRegressor(Regressor):
    """Amounts that are often zero: a GP classifier for zero or not, a GP regression for how much.

    `amount_rows` says which rows the regression learns from: `positive`, those that are not zero;
    `all`; or `predicted`, those that the classifier takes for not zero (the paper's GPcr≠0; `all`
    is its GPcr). `combine` says what `predict` returns: `class`, the amount where the classifier
    finds it at least as likely as not that there is one and zero elsewhere; or `expectation`,
    probability times amount. As a distribution y is exactly zero with probability 1 − p and
    N(amount, its variance) otherwise.

    >>> X = np.linspace(0, 10, 60)[:, None]
    >>> y = np.where(X[:, 0] > 5, 3 + np.sin(X[:, 0]), 0.0)
    >>> model = HurdleGPRegressor(n_inducing=12).fit(X, y)
    >>> new = [[2.0], [8.0]]
    """

    amount_rows: str = "positive"
    combine: str = "class"
    gate_kernel: KernelSpec | None = None
    gate_inputs: ColumnList | None = None

    _with_quantiles: ClassVar = ("response", "if_on")

    def __post_init__(self) -> None:
        # Learned by `fit`; declared for the type checker alone.
        self.classifier_: SparseGPClassifier
        self.regressor_: SparseGPRegressor

    @classmethod
    def from_parts(
        cls, classifier: SparseGPClassifier, regressor: SparseGPRegressor, **settings: Any
    ) -> HurdleGPRegressor:
        """Put a classifier of "not zero" and a regression together that have been fitted before.

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
                f"on {regressor.n_features_in_}: they must have seen the same."
            )
        hurdle = cls(**settings)
        hurdle.classifier_, hurdle.regressor_ = classifier, regressor
        for name in ("n_features_in_", "feature_names_in_", "table_"):
            if hasattr(regressor, name):
                setattr(hurdle, name, getattr(regressor, name))
        return hurdle

    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit both models to observations y at inputs X, in your own units.

        >>> model.fit(X, y).classifier_.classes_
        array([0, 1])
        """
        self._check_choices()
        X, y, sample_weight, column_groups = self._as_table(X, y, sample_weight)
        again = self.warm_start and hasattr(self, "classifier_")
        numbers = self._as_numbers(X, reset=not again)
        checked, target = validate_data(
            self, numbers, y, dtype=np.float64, y_numeric=True, reset=not again
        )
        weight = row_weights(sample_weight, checked)
        X = X if hasattr(X, "iloc") else checked
        classifier, regressor = self._classifier(), self._regressor()
        if column_groups is None:  # those of all rows for both, also where few have amounts
            names = getattr(self, "feature_names_in_", None)
            counted, may = checked[weight > 0], self._may_split()
            layout = (
                self.classifier_.layout_
                if again
                else Layout.of(counted, None, self.latlon, names, split=may)
            )
            column_groups = dict(zip(layout.names, map(list, layout.groups), strict=True))
        for name, part in (("classifier", classifier), ("regressor", regressor)):
            part.set_params(column_groups=column_groups)
            if self.checkpoint is not None:
                part.set_params(checkpoint=Path(self.checkpoint) / name)
        if again:  # with the settings of now
            classifier = copy.copy(self.classifier_).set_params(**classifier.get_params())
            regressor = copy.copy(self.regressor_).set_params(**regressor.get_params())
        with hold_checkpoints(self.checkpoint):
            on = target != 0
            classifier.fit(X, on.astype(int), weight)
            rows = np.flatnonzero(self._rows_with_amounts(classifier, X, on & (weight > 0)))
            try:
                regressor.fit(_safe_indexing(X, rows), target[rows], weight[rows])
            except InterruptedFitError:
                if hasattr(regressor, "model_"):
                    self._put_together(classifier, regressor)
                raise
        self._put_together(classifier, regressor)
        return self

    def _put_together(self, classifier: SparseGPClassifier, regressor: SparseGPRegressor) -> None:
        self.classifier_, self.regressor_ = classifier, regressor
        self.n_iter_ = max(classifier.n_iter_, regressor.n_iter_)

    def _check_choices(self) -> None:
        for name, choices in (
            ("amount_rows", ("positive", "all", "predicted")),
            ("combine", ("class", "expectation")),
        ):
            if getattr(self, name) not in choices:
                known = ", ".join(map(repr, choices))
                raise ValueError(f"{name} must be one of {known}, not {getattr(self, name)!r}.")

    def _rows_with_amounts(
        self, classifier: SparseGPClassifier, X: ArrayLike, on: np.ndarray
    ) -> np.ndarray:
        if self.amount_rows == "all" or not on.any():
            return np.ones(len(on), bool)
        if self.amount_rows == "positive":
            return on
        predicted = _prob_on(classifier, X) >= 0.5
        if predicted.any():
            return predicted
        warnings.warn(
            "The classifier takes every row for zero, so the amounts are learned from the rows "
            "that are not zero. amount_rows='positive' does so at once.",
            stacklevel=3,
        )
        return on

    def _shared_settings(self) -> dict[str, Any]:
        mine = ("amount_rows", "combine", "gate_kernel", "gate_inputs")
        return {name: v for name, v in self.get_params(deep=False).items() if name not in mine}

    def _classifier(self) -> SparseGPClassifier:
        settings = self._shared_settings()
        for name, own in (("kernel", self.gate_kernel), ("inputs", self.gate_inputs)):
            settings[name] = settings[name] if own is None else own
        return SparseGPClassifier(**settings)

    def _regressor(self) -> SparseGPRegressor:
        return SparseGPRegressor(**self._shared_settings())

    @property
    def _has_atom(self) -> bool:
        return True

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "regressor_")

    # -- answers --------------------------------------------------------------------------------

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The predicted amount at each row, combined as `combine` says.

        With `class` it is the likelier of zero and an amount, with `expectation` the mean. The
        standard deviation is that of the whole distribution, zeros included.

        >>> model.predict(new).round(1)
        array([0., 4.])
        """
        return super().predict(X, return_std)

    def _moments(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        self._check_choices()
        p, mean, sd = self._parts(X)
        combined = np.where(p >= 0.5, mean, 0.0) if self.combine == "class" else p * mean
        return combined, np.sqrt(p * (sd**2 + (1.0 - p) * mean**2))

    def _mean(self, X: ArrayLike) -> np.ndarray:
        p, mean, _ = self._parts(X)
        return p * mean

    def prob_on(self, X: ArrayLike) -> np.ndarray:
        """The probability that an observation is not zero, at each row.

        >>> model.prob_on(new).round(1)
        array([0., 1.])
        """
        check_is_fitted(self)
        return _prob_on(self.classifier_, X)

    def predict_if_on(
        self, X: ArrayLike, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """The expected amount at each row if it is not zero there, by the second part alone.

        It says how much there is where there is something, not how much to expect: that is
        `predict`.

        >>> model.predict_if_on([[8.0]]).round(1)
        array([4.])
        """
        check_is_fitted(self)
        return self.regressor_.predict(X, return_std)

    def elbo(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """The lower bound on log p(y): that of zero or not, plus that of the amounts not zero.

        It is −∞ for what a model that has only seen zeros, or none, holds for impossible.

        >>> model.elbo(X, y) > model.elbo(X, y + 1)
        True
        """
        check_is_fitted(self)
        numbers = self._as_numbers(X)
        checked, target = validate_data(
            self, numbers, y, dtype=np.float64, y_numeric=True, reset=False
        )
        weight = row_weights(sample_weight, checked)
        X = X if hasattr(X, "iloc") else checked
        on = target != 0
        rows = np.flatnonzero(on)
        if not set(np.unique(on[weight > 0]).astype(int)) <= set(self.classifier_.classes_):
            return -np.inf
        bound = self.classifier_.elbo(X, on.astype(int), weight)
        if not len(rows):
            return bound
        return bound + self.regressor_.elbo(_safe_indexing(X, rows), target[rows], weight[rows])

    def sanity(self) -> list[str]:
        """What looks wrong with either part, a sentence each; empty if nothing does.

        >>> all(isinstance(said, str) for said in model.sanity())
        True
        """
        check_is_fitted(self)
        parts = {"Zero or not": self.classifier_, "Amounts": self.regressor_}
        return [f"{name}: {said}" for name, part in parts.items() for said in part.sanity()]

    def _parts(self, X: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The probability of not zero, and mean and standard deviation of the amount."""
        check_is_fitted(self)
        parts = self.prob_on(X), *self.regressor_.predict(X, return_std=True)
        p, mean, sd = (np.asarray(part, np.float64) for part in parts)  # they will be squared
        return p, mean, sd

    def _probability(self, X: ArrayLike, low: float, high: float) -> np.ndarray:
        p, mean, sd = self._parts(X)
        amount = norm.cdf(high, mean, sd) - norm.cdf(low, mean, sd)
        return (1.0 - p) * (low < 0 <= high) + p * amount

    def _cdf(self, X: ArrayLike, thresholds: np.ndarray) -> np.ndarray:
        p, mean, sd = (part.reshape(-1, *(1,) * (thresholds.ndim - 1)) for part in self._parts(X))
        return (1.0 - p) * (thresholds >= 0) + p * norm.cdf(thresholds, mean, sd)

    def _log_between(self, X: ArrayLike, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        atom = np.where((low < 0) & (high >= 0), 1.0 - self.prob_on(X), 0.0)
        amount = self.regressor_.log_prob_between(X, low, high)
        with np.errstate(divide="ignore"):
            return np.logaddexp(np.log(atom), np.log(self.prob_on(X)) + amount)

    def _quantile(self, X: Any, p: float, of: str = "response") -> np.ndarray:
        if of == "if_on":
            return self.regressor_._quantile(X, p)
        # Below the zeros, among them, or above them.
        on, mean, sd = self._parts(X)
        negative = on * norm.cdf(0.0, mean, sd)
        with np.errstate(divide="ignore", invalid="ignore"):
            below = norm.ppf(np.clip(p / on, 0.0, 1.0), mean, sd)
            above = norm.ppf(np.clip((p - (1.0 - on)) / on, 0.0, 1.0), mean, sd)
        return np.select([p < negative, p > negative + 1.0 - on], [below, above], 0.0)

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
    """The probability of a 1, also where training has seen but one of the classes."""
    return classifier.predict_proba(X) @ classifier.classes_
