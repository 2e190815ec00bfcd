"""Joint draws of a regressor, and sums and means of them over groups of rows."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import pandas as pd
from jax import Array
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from zigp.estimators.distribution import PredictiveDistribution
from zigp.estimators.parameters import GPSettings
from zigp.runtime.session import entry_point
from zigp.training import check_whole

_DRAWS_AT_ONCE = 50


class JointDraws(GPSettings):
    """A regressor's joint draws, and what follows from them."""

    _output_names: Sequence[str] | None = None  # several outputs have names

    @abstractmethod
    def predict_distribution(self, X: Any) -> PredictiveDistribution:
        """Return the predictive distribution at each row of X, from one pass through the model.

        Every other method asks such an object one question. Where several are asked about the same
        rows, asking one object is faster.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            Inputs.

        Returns
        -------
        PredictiveDistribution
            Its mean, sd, quantiles and probabilities, in the units of y.

        Examples
        --------
        >>> distribution = model.predict_distribution(new)
        >>> bool(distribution.sd[0] < distribution.sd[1])
        True
        """

    @abstractmethod
    def _draws(self, X: ArrayLike, n: int, key: Array, noise: bool) -> np.ndarray:
        """Return draws [n, rows], each joint over all rows."""

    @entry_point
    def sample(
        self,
        X: ArrayLike,
        n_samples: int = 1,
        *,
        noise: bool = True,
        random_state: int | np.random.RandomState | None = None,
    ) -> np.ndarray:
        """Draw observations jointly over all rows.

        A draw is one way that all rows could turn out together, not a prediction.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            Inputs.
        n_samples : int, default=1
            Number of draws.
        noise : bool, default=True
            If False, draw the signal without noise.
        random_state : int, RandomState or None, default=None
            Seed of the draws.

        Returns
        -------
        ndarray of shape (n_samples, n_rows) or (n_samples, n_rows, n_outputs)
            The draws.

        Examples
        --------
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
        """Predict weighted sums, or means, of the observations over groups of rows.

        The mean is exact; the spread comes from joint draws, so that neighbouring rows do not count
        as independent.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            Inputs.
        weights : array-like of shape (n_rows,), optional
            Weight of each row, 1 by default.
        by : array-like of shape (n_rows,), optional
            Group of each row. By default all rows are one group.
        how : {"sum", "mean"}, default="sum"
            Whether to add observations up or to average them.
        level : float, default=0.9
            The probability of the interval.
        n_samples : int, default=1000
            Number of joint draws.
        noise : bool, default=True
            If False, the spread is that of the signal without noise.
        random_state : int, RandomState or None, default=None
            Seed of the draws.

        Returns
        -------
        DataFrame
            A row for each group, with the columns `mean`, `sd`, `lower` and `upper`.

        Examples
        --------
        >>> halves = model.aggregate(X, by=X[:, 0] > 5, how="mean", n_samples=100, random_state=0)
        >>> halves["mean"].round(1).tolist()
        [0.0, 3.2]
        """
        if how not in ("sum", "mean"):
            raise ValueError(f"how must be 'sum' or 'mean', not {how!r}.")
        tail = 0.5 * (1.0 - probability_level("level", level))
        if (n_samples := check_whole("n_samples", n_samples)) < 2:
            raise ValueError(f"n_samples must be at least 2 for a spread, not {n_samples!r}.")
        mean = self.predict_distribution(X).mean
        total, groups = _totals(len(mean), weights, by)
        size = total @ np.ones_like(mean) if how == "mean" else 1.0
        if np.any(size == 0):
            raise ValueError("how='mean' needs weights that do not add up to zero in any group.")
        exact = total @ mean / size
        drawn = np.stack(
            [total @ draw / size for draw in self._all_draws(X, n_samples, random_state, noise)]
        )
        # Centre the draws on the exact mean: only their spread is left to chance.
        drawn += exact - np.mean(drawn, axis=0)
        lower, upper = np.quantile(drawn, [tail, 1.0 - tail], axis=0)
        table = {"mean": exact, "sd": drawn.std(axis=0, ddof=1), "lower": lower, "upper": upper}
        return frame(table, pd.DataFrame(index=groups), self._output_names)

    def _all_draws(self, X: ArrayLike, n: int, random_state: Any, noise: bool) -> Iterator[Any]:
        """Yield n joint draws, of which only some are in memory at once."""
        key = _key(random_state)
        for start in range(0, n, _DRAWS_AT_ONCE):
            count = min(_DRAWS_AT_ONCE, n - start)
            yield from self._draws(X, count, jax.random.fold_in(key, start), noise)


def _totals(rows: int, weights: ArrayLike | None, by: ArrayLike | None) -> tuple[Any, np.ndarray]:
    """Return a matrix [groups, rows] of weights, by which values are added up, and the groups."""
    w = np.ones(rows) if weights is None else np.asarray(weights, float)
    labels = np.zeros(rows, int) if by is None else np.asarray(by)
    for name, column in (("weights", w), ("by", labels)):
        if column.shape != (rows,):
            raise ValueError(f"{name} has shape {column.shape}, but X has {rows} rows.")
    if not np.all(np.isfinite(w)):
        raise ValueError("weights must be finite numbers; some are NaN or infinite.")
    groups, member = np.unique(labels, return_inverse=True)
    return csr_array((w, (member, np.arange(rows))), shape=(len(groups), rows)), groups


def _key(random_state: int | np.random.RandomState | None) -> Array:
    return jax.random.key(int(check_random_state(random_state).randint(2**31)))


def probability_level(name: str, value: float) -> float:
    if not 0 < value < 1:
        raise ValueError(f"{name} must lie strictly between 0 and 1, not {value!r}.")
    return float(value)


def frame(
    columns: Mapping[Any, np.ndarray], like: Any, outputs: Sequence[str] | None = None
) -> pd.DataFrame:
    """Return columns as a table with the index of `like`, and outputs as a second level."""
    index = like.index if hasattr(like, "columns") else None  # a list has one of another kind
    if outputs is None:
        return pd.DataFrame(dict(columns), index=index)
    parts = {k: pd.DataFrame(v, index=index, columns=list(outputs)) for k, v in columns.items()}
    return pd.concat(parts, axis=1)
