"""Predictions of a regressor, all in the user's units."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike
from scipy.special import ndtri
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from zigp.data.grids import is_lattice
from zigp.estimators.distribution import PredictiveDistribution
from zigp.estimators.grids import QUANTILES, predict_lattice
from zigp.estimators.sampling import JointDraws, frame, probability_level
from zigp.runtime.session import entry_point


class Regressor(RegressorMixin, JointDraws):
    """The questions that every regressor answers, by its predictive distribution and its draws."""

    # -- what to expect -------------------------------------------------------------------------

    @entry_point
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict the expected observation at each row of X.

        It is a mean over zeros and amounts, not the most likely value and not the amount where
        there is one. The setting `combine` of a hurdle chooses another value.

        Parameters
        ----------
        X : array-like, DataFrame, DataArray or Dataset
            Inputs. The cells of a DataArray or a Dataset are answered as by `predict_lattice`.
        return_std : bool, default=False
            If True, return standard deviations too.

        Returns
        -------
        mean : ndarray of shape (n_rows,) or (n_rows, n_outputs)
            Expected observations, in the units of y.
        sd : ndarray, shaped as `mean`
            The standard deviation of a new observation, noise included, if `return_std`.

        Examples
        --------
        >>> mean, sd = model.predict(new, return_std=True)
        >>> sd[0] < sd[1]
        np.True_
        """
        if is_lattice(X):
            return self.predict_lattice(X)
        distribution = self.predict_distribution(X)
        return (distribution.point, distribution.sd) if return_std else distribution.point

    @entry_point
    def predict_lattice(
        self,
        X: xr.DataArray | xr.Dataset,
        quantiles: Sequence[float] = QUANTILES,
        below: float | None = None,
    ) -> xr.Dataset:
        """Predict mean, standard deviation, quantiles and `prob_on` in every cell of a lattice.

        Quantiles are of each cell by itself; for sums over cells see `aggregate`.

        Parameters
        ----------
        X : DataArray or Dataset
            The cells. Where dask holds X in chunks, the answer is lazy and has the same chunks.
        quantiles : sequence of float, default=(0.05, 0.5, 0.95)
            Probabilities of the quantiles.
        below : float, optional
            Add `prob_below`, the probability of an observation up to this value.

        Returns
        -------
        Dataset
            A variable for each prediction, on the axes of X.

        Examples
        --------
        >>> radar = simulate_rain_grid(12, 6, 6)
        >>> small = ZeroInflatedGPRegressor(steps=20).fit(radar)
        >>> list(small.predict_lattice(radar, quantiles=[0.9]))
        ['mean', 'sd', 'prob_on', 'quantiles']
        """
        check_is_fitted(self)
        levels = tuple(probability_level("quantiles", q) for q in quantiles)
        return predict_lattice(self, X, levels, below)

    # -- the distribution of one observation ----------------------------------------------------

    @entry_point
    def prob_below(self, X: ArrayLike, threshold: ArrayLike) -> np.ndarray:
        """Return P(y ≤ threshold) for a new observation at each row, noise included.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            Inputs.
        threshold : float or array-like
            One number, or an array with an entry, or a line of entries, for each row.

        Returns
        -------
        ndarray
            Probabilities of what would be measured, not of the signal behind it.

        Examples
        --------
        >>> model.prob_below(new, 1.0).round(2)
        array([1., 0.])
        """
        distribution, t = self.predict_distribution(X), np.asarray(threshold, float)
        return _cdf(distribution, t if t.ndim else np.full(distribution.shape, t))

    @entry_point
    def log_prob_between(self, X: ArrayLike, low: ArrayLike, high: ArrayLike) -> np.ndarray:
        """Return log P(low < y ≤ high) at each row.

        With the cell that a rounded observation stands for, it scores densities and distributions
        with atoms alike.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            Inputs.
        low, high : float or array-like
            Bounds, which may differ from row to row.

        Returns
        -------
        ndarray
            Logarithms of probabilities.

        Examples
        --------
        >>> model.log_prob_between(new, low=[-0.05, 3.0], high=[0.05, 5.0]).round(1)
        array([0., 0.])
        """
        distribution = self.predict_distribution(X)
        ends = (np.broadcast_to(np.asarray(end, float), distribution.shape) for end in (low, high))
        return distribution.log_between(*ends)

    @entry_point
    def prob_zero(self, X: ArrayLike, tol: float = 0.0) -> np.ndarray:
        """Return P(|y| ≤ tol) at each row: the probability that an observation is zero.

        It is of an observation with its noise, so in general not 1 − `prob_on`.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            Inputs.
        tol : float, default=0.0
            The resolution. It may be 0 where exact zeros have a probability (hurdles and counts).

        Returns
        -------
        ndarray
            Probabilities.

        Examples
        --------
        >>> model.prob_zero(new, tol=0.1).round(2)
        array([1., 0.])
        """
        distribution = self.predict_distribution(X)
        if not (tol > 0 or (tol == 0 and distribution.has_atom)):
            raise ValueError(
                f"tol must be positive, not {tol!r}: with this noise no single value has a "
                "positive probability. Give the resolution of your data."
            )
        low = float(_just_below(np.asarray(-tol), self.dtype))
        return distribution.probability(low, float(tol))

    @entry_point
    def quantile_residuals(
        self,
        X: ArrayLike,
        y: ArrayLike,
        random_state: int | np.random.RandomState | None = 0,
    ) -> np.ndarray:
        """Return where each observation lies in its predicted distribution, as a normal score.

        If the model is right these are independent N(0, 1), whatever the likelihood. Where a value
        has a probability of its own (zeros, counts) a place within it is drawn at random.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            Inputs.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
            Observations.
        random_state : int, RandomState or None, default=0
            Seed of the random places.

        Returns
        -------
        ndarray
            Residuals, shaped as y.

        Examples
        --------
        >>> model.quantile_residuals(X, y).shape
        (60,)
        """
        values = np.asarray(y, float)
        distribution = self.predict_distribution(X)
        before = _cdf(distribution, _just_below(values, self.dtype))
        at = _cdf(distribution, values)
        place = check_random_state(random_state).uniform(size=values.shape)
        return ndtri(np.clip(before + place * (at - before), 1e-12, 1.0 - 1e-12))

    @entry_point
    def predict_quantiles(
        self,
        X: ArrayLike,
        quantiles: float | Sequence[float] = QUANTILES,
        *,
        of: str = "response",
    ) -> pd.DataFrame:
        """Predict quantiles of a new observation at each row, noise included.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            Inputs.
        quantiles : float or sequence of float, default=(0.05, 0.5, 0.95)
            Probabilities, strictly between 0 and 1.
        of : str, default="response"
            The part of the model to ask about, where it has them: `response`, an observation;
            `if_on`, an observation if the signal is fully on; `latent`, the amount behind the gate
            (with hurdles and counts its logarithm), without noise; `gate`, how far the signal is
            on.

        Returns
        -------
        DataFrame
            A column for each quantile.

        Examples
        --------
        >>> model.predict_quantiles(new, [0.1, 0.5, 0.9]).shape
        (2, 3)
        """
        levels = [probability_level("quantiles", q) for q in np.atleast_1d(quantiles)]
        distribution = self.predict_distribution(X)
        if of not in distribution.parts:
            known = ", ".join(map(repr, distribution.parts))
            raise ValueError(f"{type(self).__name__} has quantiles of {known}, not {of!r}.")
        columns = {q: distribution.quantile(q, of) for q in levels}
        return frame(columns, X, self._output_names)

    def predict_interval(
        self, X: ArrayLike, level: float = 0.9, *, of: str = "response"
    ) -> pd.DataFrame:
        """Predict the central interval that holds a new observation with a given probability.

        It is for one observation at each row by itself; for sums and means over rows see
        `aggregate`.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            Inputs.
        level : float, default=0.9
            The probability of the interval.
        of : str, default="response"
            The part of the model to ask about, as in `predict_quantiles`.

        Returns
        -------
        DataFrame
            The columns `lower` and `upper`.

        Examples
        --------
        >>> inside = model.predict_interval(X, level=0.95)
        >>> np.mean((inside["lower"] <= y) & (y <= inside["upper"])) > 0.9
        np.True_
        """
        tail = 0.5 * (1.0 - probability_level("level", level))
        table = self.predict_quantiles(X, (tail, 1.0 - tail), of=of)
        return table.rename(columns={tail: "lower", 1.0 - tail: "upper"})


class GatedRegressor(Regressor):
    """A regressor whose signal is off in places, and what it predicts where the signal is on."""

    @entry_point
    def prob_on(self, X: ArrayLike) -> np.ndarray:
        """Return the support E[Φ(g)] at each row: how far the signal is switched on, from 0 to 1.

        With a hurdle it is the probability that an observation is not zero. With Gaussian or gated
        noise it is not; see `prob_zero`.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_rows,)
            The support.

        Examples
        --------
        >>> model.prob_on(new).round(2)
        array([0., 1.])
        """
        return self.predict_distribution(X).prob_on

    @entry_point
    def predict_if_on(
        self, X: ArrayLike, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predict the observation at each row if the signal is fully on there.

        It is how much there is where there is something. `predict` says how much to expect.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            Inputs.
        return_std : bool, default=False
            If True, return standard deviations too.

        Returns
        -------
        mean : ndarray of shape (n_rows,)
            Expected observations.
        sd : ndarray of shape (n_rows,)
            Their standard deviations, if `return_std`.

        Examples
        --------
        >>> model.predict_if_on([[8.0]]).round(1)
        array([4.])
        """
        amount = self.predict_distribution(X).if_on
        return (amount.mean, amount.sd) if return_std else amount.mean


def _cdf(distribution: PredictiveDistribution, thresholds: np.ndarray) -> np.ndarray:
    rows = distribution.shape[0]
    if len(thresholds) != rows or thresholds.ndim > 2:
        raise ValueError(
            f"threshold has shape {thresholds.shape}, but X has {rows} rows: give one number, or "
            "an array whose first axis runs over the rows."
        )
    return distribution.cdf(thresholds)


def _just_below(t: np.ndarray, dtype: str) -> np.ndarray:
    """Return a smaller number that a model of this dtype can tell apart from t, and from zero."""
    resolution = np.finfo(dtype)
    return np.where(t == 0, -np.sqrt(resolution.tiny), t - 4.0 * resolution.eps * np.abs(t))
