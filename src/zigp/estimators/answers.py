"""What a regressor can be asked about new observations, all in the user's units."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import numpy as np
from jax import Array
from numpy.typing import ArrayLike
from scipy.special import ndtri
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from zigp.data.grids import is_lattice
from zigp.diagnostics.scores import best_threshold
from zigp.estimators.fitting import SparseGP
from zigp.estimators.grids import QUANTILES, predict_lattice
from zigp.estimators.parameters import GPSettings
from zigp.gp.batch import Lattice
from zigp.models import predictions
from zigp.models.likelihoods import Gaussian, LogAmounts
from zigp.runtime.session import entry_point
from zigp.training import check_whole

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["ModelRegressor", "Regressor", "frame"]

_DRAWS_AT_ONCE = 50


class Regressor(RegressorMixin, GPSettings):
    """The questions; a subclass answers the few that the others are made of."""

    _output_names: Sequence[str] | None = None  # several outputs have names
    _with_quantiles: ClassVar[Collection[str]] = ("response",)

    @property
    def _has_atom(self) -> bool:
        """Whether an observation can be exactly zero with a positive probability."""
        return False

    # -- what a subclass provides ---------------------------------------------------------------

    @abstractmethod
    def _moments(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """What `predict` returns at each row, and its standard deviation."""

    def _mean(self, X: ArrayLike) -> np.ndarray:
        """The mean of the distribution, whatever else `predict` may return."""
        return np.asarray(self.predict(X))

    @abstractmethod
    def _probability(self, X: ArrayLike, low: float, high: float) -> np.ndarray:
        """P(low < y ≤ high) at each row."""

    @abstractmethod
    def _cdf(self, X: ArrayLike, thresholds: np.ndarray) -> np.ndarray:
        """P(y ≤ threshold) for thresholds of each row's own."""

    @abstractmethod
    def _log_between(self, X: ArrayLike, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """log P(low < y ≤ high) for bounds of each row's own."""

    @abstractmethod
    def _quantile(self, X: Any, p: float, of: str = "response") -> np.ndarray:
        """The value that an observation, or a part, stays below with probability p."""

    @abstractmethod
    def _draws(self, X: ArrayLike, n: int, key: Array, noise: bool) -> np.ndarray:
        """Draws [n, rows], each joint over all rows."""

    # -- what to expect -------------------------------------------------------------------------

    @entry_point
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The expected observation at each row of X, and its standard deviation if asked for.

        It is a mean over zeros and amounts, not the most likely value and not the amount where
        there is one. The standard deviation is that of a new observation, noise included. At the
        cells of a lattice (a DataArray or a Dataset) the answer is that of `predict_lattice`.

        >>> mean, sd = model.predict(new, return_std=True)
        >>> sd[0] < sd[1]
        np.True_
        """
        if is_lattice(X):
            return self.predict_lattice(X)
        mean, sd = self._moments(X)
        return (mean, sd) if return_std else mean

    @entry_point
    def predict_lattice(
        self,
        X: xr.DataArray | xr.Dataset,
        quantiles: Sequence[float] = QUANTILES,
        below: float | None = None,
    ) -> xr.Dataset:
        """Mean, standard deviation, quantiles and `prob_on` in every cell, as a Dataset.

        With `below` also `prob_below`, the probability of an observation up to that value. Where
        dask holds X in chunks, the answer is lazy and has the same chunks. Quantiles are of each
        cell by itself; for sums over cells see `aggregate`.

        >>> radar = simulate_rain_grid(12, 6, 6)
        >>> small = ZeroInflatedGPRegressor(steps=20).fit(radar)
        >>> list(small.predict_lattice(radar, quantiles=[0.9]))
        ['mean', 'sd', 'prob_on', 'quantiles']
        """
        check_is_fitted(self)
        levels = tuple(_probability_level("quantiles", q) for q in quantiles)
        return predict_lattice(self, X, levels, below)

    # -- the distribution of one observation ----------------------------------------------------

    @entry_point
    def prob_below(self, X: ArrayLike, threshold: ArrayLike) -> np.ndarray:
        """P(y ≤ threshold) for a new observation at each row, noise included.

        It is of what would be measured there, not of the signal behind it. The threshold is one
        number, or an array with an entry, or a line of entries, for each row.

        >>> model.prob_below(new, 1.0).round(2)
        array([1., 0.])
        """
        check_is_fitted(self)
        t = np.asarray(threshold, float)
        if t.ndim == 0:
            return self._probability(X, -np.inf, float(t))
        rows = len(self._checked(X))
        if len(t) != rows or t.ndim > 2:
            raise ValueError(
                f"threshold has shape {t.shape}, but X has {rows} rows: give one number, or an "
                "array whose first axis runs over the rows."
            )
        return self._cdf(X, t)

    @entry_point
    def log_prob_between(self, X: ArrayLike, low: ArrayLike, high: ArrayLike) -> np.ndarray:
        """log P(low < y ≤ high) at each row, for bounds that may differ from row to row.

        With the cell that a rounded observation stands for it scores densities and distributions
        with atoms alike.

        >>> model.log_prob_between(new, low=[-0.05, 3.0], high=[0.05, 5.0]).round(1)
        array([0., 0.])
        """
        check_is_fitted(self)
        shape: tuple[int, ...] = (len(self._checked(X)),)
        if self._output_names is not None:
            shape += (len(self._output_names),)
        ends = [np.broadcast_to(np.asarray(end, float), shape) for end in (low, high)]
        return self._log_between(X, *ends)

    @entry_point
    def prob_zero(self, X: ArrayLike, tol: float = 0.0) -> np.ndarray:
        """P(|y| ≤ tol) at each row: how likely an observation is zero at a resolution of tol.

        It is of an observation with its noise, so in general not 1 − `prob_on`. Where exact zeros
        have a probability (hurdles and counts) tol may be 0.

        >>> model.prob_zero(new, tol=0.1).round(2)
        array([1., 0.])
        """
        check_is_fitted(self)
        if not (tol > 0 or (tol == 0 and self._has_atom)):
            raise ValueError(
                f"tol must be positive, not {tol!r}: with this noise no single value has a "
                "positive probability. Give the resolution of your data."
            )
        return self._probability(X, float(_just_below(np.asarray(-tol), self._dtype())), float(tol))

    @entry_point
    def quantile_residuals(
        self,
        X: ArrayLike,
        y: ArrayLike,
        random_state: int | np.random.RandomState | None = 0,
    ) -> np.ndarray:
        """Where each observation lies in its predicted distribution, as a standard normal score.

        If the model is right these are independent N(0, 1), whatever the likelihood. Where a value
        has a probability of its own (zeros, counts) a place within it is drawn at random.

        >>> model.quantile_residuals(X, y).shape
        (60,)
        """
        check_is_fitted(self)
        values = np.asarray(y, float)
        at, before = (self.prob_below(X, t) for t in (values, _just_below(values, self._dtype())))
        place = check_random_state(random_state).uniform(size=values.shape)
        u = before + place * (at - before)
        return ndtri(np.clip(u, 1e-12, 1.0 - 1e-12))

    @entry_point
    def predict_quantiles(
        self,
        X: ArrayLike,
        quantiles: float | Sequence[float] = QUANTILES,
        *,
        of: str = "response",
    ) -> pd.DataFrame:
        """Quantiles at each row, one column for each: of a new observation, noise included.

        `of` asks about a part of the model instead, where it has them: `if_on`, an observation if
        the signal is fully on; `latent`, the amount behind the gate (with hurdles and counts its
        logarithm), without noise; `gate`, how far the signal is on.

        >>> model.predict_quantiles(new, [0.1, 0.5, 0.9]).shape
        (2, 3)
        """
        check_is_fitted(self)
        if of not in self._with_quantiles:
            known = ", ".join(map(repr, self._with_quantiles))
            raise ValueError(f"{type(self).__name__} has quantiles of {known}, not {of!r}.")
        levels = [_probability_level("quantiles", q) for q in np.atleast_1d(quantiles)]
        columns = {q: self._quantile(X, q, of) for q in levels}
        return frame(columns, X, self._output_names)

    def predict_interval(
        self, X: ArrayLike, level: float = 0.9, *, of: str = "response"
    ) -> pd.DataFrame:
        """The central interval that holds a new observation with the given probability.

        It is for one observation at each row by itself; for sums and means over rows see
        `aggregate`. `of` is as in `predict_quantiles`.

        >>> inside = model.predict_interval(X, level=0.95)
        >>> np.mean((inside["lower"] <= y) & (y <= inside["upper"])) > 0.9
        np.True_
        """
        tail = 0.5 * (1.0 - _probability_level("level", level))
        table = self.predict_quantiles(X, (tail, 1.0 - tail), of=of)
        return table.rename(columns={tail: "lower", 1.0 - tail: "upper"})

    # -- zero or not ----------------------------------------------------------------------------

    def fit_decision(self, X: ArrayLike, y: ArrayLike, cost_ratio: float | None = None) -> float:
        """Choose from which predicted amount on an observation is taken to be not zero.

        The threshold gives the largest F1 on these observations or, with a `cost_ratio`, the least
        cost where missing one that is not zero costs so many times a false alarm. It is kept as
        `decision_threshold_` for `predict_on`.

        >>> 0 < model.fit_decision(X, y) < 3
        True
        """
        on = np.asarray(y) != 0
        self.decision_threshold_ = best_threshold(on, np.asarray(self.predict(X)), cost_ratio)
        return self.decision_threshold_

    def predict_on(self, X: ArrayLike, threshold: float | None = None) -> np.ndarray:
        """Whether an observation is taken to be not zero: its predicted amount reaches a threshold.

        Without one, that of `fit_decision` is used.

        >>> model.predict_on(new, threshold=0.5)
        array([False,  True])
        """
        if threshold is None:
            if not hasattr(self, "decision_threshold_"):
                raise ValueError("Give a threshold, or choose one with fit_decision(X, y) first.")
            threshold = self.decision_threshold_
        return np.asarray(self.predict(X)) >= threshold

    # -- joint draws ----------------------------------------------------------------------------

    @entry_point
    def sample(
        self,
        X: ArrayLike,
        n_samples: int = 1,
        *,
        noise: bool = True,
        random_state: int | np.random.RandomState | None = None,
    ) -> np.ndarray:
        """Observations [n_samples, rows] drawn jointly over all rows; the signal if not noise.

        A draw is one way that all rows could turn out together, not a prediction.

        >>> model.sample(X, n_samples=3, random_state=0).shape
        (3, 60)
        """
        check_is_fitted(self)
        return self._draws(X, check_whole("n_samples", n_samples), _key(random_state), noise)

    @entry_point
    def aggregate(
        self,
        X: ArrayLike,
        weights: ArrayLike | None = None,
        by: ArrayLike | None = None,
        *,
        how: str = "sum",
        level: float = 0.9,
        n_samples: int = 1000,
        noise: bool = True,
        random_state: int | np.random.RandomState | None = None,
    ) -> pd.DataFrame:
        """Weighted sums, or means, of the observations over groups of rows, with intervals.

        `by` gives each row's group. The mean is exact; the spread comes from joint draws, so that
        neighbouring rows do not count as independent.

        >>> halves = model.aggregate(X, by=X[:, 0] > 5, how="mean", n_samples=100, random_state=0)
        >>> halves["mean"].round(1).tolist()
        [0.0, 3.2]
        """
        if how not in ("sum", "mean"):
            raise ValueError(f"how must be 'sum' or 'mean', not {how!r}.")
        tail = 0.5 * (1.0 - _probability_level("level", level))
        if (n_samples := check_whole("n_samples", n_samples)) < 2:
            raise ValueError(f"n_samples must be at least 2 for a spread, not {n_samples!r}.")
        check_is_fitted(self)
        rows = self._checked(X)
        w = np.ones(len(rows)) if weights is None else np.asarray(weights, float)
        labels = np.zeros(len(rows), int) if by is None else np.asarray(by)
        for name, column in (("weights", w), ("by", labels)):
            if column.shape != (len(rows),):
                raise ValueError(f"{name} has shape {column.shape}, but X has {len(rows)} rows.")
        if not np.all(np.isfinite(w)):
            raise ValueError("weights must be finite numbers; some are NaN or infinite.")
        groups, member = np.unique(labels, return_inverse=True)

        def total(values: np.ndarray) -> np.ndarray:
            sums = np.zeros((len(groups), *values.shape[1:]))
            np.add.at(sums, member, (w * values.T).T)
            return sums

        mean = total(self._mean(X))
        size = total(np.ones((len(rows), *mean.shape[1:]))) if how == "mean" else 1.0
        if np.any(size == 0):
            raise ValueError("how='mean' needs weights that do not add up to zero in any group.")
        mean = mean / size
        key, draws = _key(random_state), []
        for start in range(0, n_samples, _DRAWS_AT_ONCE):
            count = min(_DRAWS_AT_ONCE, n_samples - start)
            block = self._draws(X, count, jax.random.fold_in(key, start), noise)
            draws += [total(draw) / size for draw in block]
        # Centre the draws on the exact mean: only their spread is left to chance.
        drawn = np.stack(draws) - np.mean(draws, axis=0) + mean
        lower, upper = np.quantile(drawn, [tail, 1.0 - tail], axis=0)
        table = {"mean": mean, "sd": drawn.std(axis=0, ddof=1), "lower": lower, "upper": upper}
        return frame(table, groups, self._output_names)


class ModelRegressor(Regressor, SparseGP):
    """The answers of a single model."""

    _with_quantiles: ClassVar[Mapping[str, Callable]] = {"response": predictions.quantile}

    @property
    def _has_atom(self) -> bool:
        return isinstance(self.model_.likelihood, LogAmounts)

    def _moments(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        out = self._over_rows(X, predictions.moments)
        return self._in_user_units(out["mean"]), self.y_scale_ * out["sd"].T

    @property
    @entry_point
    def noise_sd_(self) -> Any:
        """The standard deviation of the noise of each output, in the units of y.

        >>> plain = SparseGPRegressor(n_inducing=12).fit(X, y)
        >>> bool(plain.noise_sd_ > 0.2)
        True
        """
        check_is_fitted(self)
        likelihood = self.model_.likelihood
        if not isinstance(likelihood, Gaussian):
            raise AttributeError("There is not one noise variance here; see `noise_`.")
        return self.y_scale_ * np.sqrt(np.asarray(likelihood.noise))

    def _quantile(self, X: Any, p: float, of: str = "response") -> np.ndarray:
        found = self._over_rows(X, self._with_quantiles[of], np.asarray(p))["t"]
        return found if of == "gate" else self._in_user_units(found)

    def _log_between(self, X: ArrayLike, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        ends = (self._transformed(np.stack([low, high])) - self.y_offset_) / self.y_scale_
        along = np.moveaxis(ends, 1, -1)
        return self._over_rows(X, predictions.log_between, along=along)["p"].T

    def _cdf(self, X: ArrayLike, thresholds: np.ndarray) -> np.ndarray:
        scaled = (self._transformed(thresholds) - self.y_offset_) / self.y_scale_
        lines = scaled.reshape(len(scaled), -1).T if self._output_names is None else scaled.T[None]
        p = self._over_rows(X, predictions.cdf, along=lines)["p"]
        return p.T.reshape(thresholds.shape)

    def _draws(self, X: ArrayLike, n: int, key: Array, noise: bool) -> np.ndarray:
        rows, groups = self._checked(X) - self.layout_.centre, self.layout_.groups
        drawn = predictions.draw(self.model_, rows, groups, n, key, noise=noise)
        return np.stack([self._in_user_units(one) for one in drawn])

    def _probability(self, X: ArrayLike, low: float, high: float) -> np.ndarray:
        """P(low < y ≤ high) at each row."""
        check_is_fitted(self)
        axes = len(X.axes) if isinstance(X, Lattice) else 1
        ends = (self._threshold(t, axes) for t in (low, high))
        return self._over_rows(X, predictions.probability, *ends)["p"].T

    def _threshold(self, t: float, axes: int) -> np.ndarray:
        """A value of y in the model's units, one for each output, to be spread over axes."""
        scaled = (self._transformed(np.asarray(t)) - self.y_offset_) / self.y_scale_
        return np.reshape(scaled, (*np.shape(scaled), *(1,) * (axes if np.ndim(scaled) else 0)))


def _just_below(t: np.ndarray, dtype: str) -> np.ndarray:
    """A smaller number that a model of this dtype can tell apart from t, and from zero."""
    resolution = np.finfo(dtype)
    return np.where(t == 0, -np.sqrt(resolution.tiny), t - 4.0 * resolution.eps * np.abs(t))


def _probability_level(name: str, value: float) -> float:
    if not 0 < value < 1:
        raise ValueError(f"{name} must lie strictly between 0 and 1, not {value!r}.")
    return float(value)


def _key(random_state: int | np.random.RandomState | None) -> Array:
    return jax.random.key(int(check_random_state(random_state).randint(2**31)))


def frame(
    columns: Mapping[Any, np.ndarray], like: Any, outputs: Sequence[str] | None = None
) -> pd.DataFrame:
    """Columns as a table with the index of `like`; outputs are a second level of columns."""
    import pandas as pd

    if isinstance(like, np.ndarray) and like.ndim == 1:
        index: Any = like
    else:  # a list has an `index` too, of another kind
        index = like.index if hasattr(like, "columns") else None
    if outputs is None:
        return pd.DataFrame(dict(columns), index=index)
    parts = {k: pd.DataFrame(v, index=index, columns=list(outputs)) for k, v in columns.items()}
    return pd.concat(parts, axis=1)
