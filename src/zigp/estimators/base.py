"""What all estimators share: checking, units, training, and every kind of prediction.

Users' outputs are [rows] or [rows, P]; inside, rows run along the last axis, [rows] or [P, rows].
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Self

import jax
import numpy as np
from jax import Array
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from zigp import prediction
from zigp.batch import Lattice
from zigp.data import ColumnList, Layout, as_batch, column_index, listed
from zigp.initial import KernelSpec, Sizes, Sparsity, initial_latent
from zigp.latent import LatentGP
from zigp.likelihoods import Gaussian
from zigp.models import Model
from zigp.progress import progress_bar
from zigp.runtime import entry_point
from zigp.training import Fit, Schedule, Settings, train, train_restarts

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ColumnGroups", "ColumnList", "SparseGP", "frame", "spread_of"]

ColumnGroups = Mapping[str, ColumnList] | Sequence[ColumnList]

_DRAWS_AT_ONCE = 50


class SparseGP(RegressorMixin, BaseEstimator):
    """What every estimator of this package does; a subclass says which model it fits."""

    def __init__(
        self,
        *,
        kernel: KernelSpec,
        inputs: ColumnList | None,
        column_groups: ColumnGroups | None,
        latlon: Sequence[int | str] | None,
        n_inducing: Sizes | None,
        learn_inducing: bool,
        covariance: str,
        steps: int,
        learning_rate: float | Mapping[str, float],
        schedule: Schedule,
        batch_size: int | None,
        fixed: Sequence[str],
        tol: float,
        max_seconds: float | None,
        dtype: str,
        warm_start: bool,
        random_state: int | np.random.RandomState | None,
        verbose: bool,
    ):
        self.kernel = kernel
        self.inputs = inputs
        self.column_groups = column_groups
        self.latlon = latlon
        self.n_inducing = n_inducing
        self.learn_inducing = learn_inducing
        self.covariance = covariance
        self.steps = steps
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.batch_size = batch_size
        self.fixed = fixed
        self.tol = tol
        self.max_seconds = max_seconds
        self.dtype = dtype
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    # Latents and weights have mean zero, as in the paper; only a gate's mean is learned.
    _always_fixed: tuple[str, ...] = ("f.prior_mean",)

    _output_names: Sequence[str] | None = None  # several outputs have names

    # -- what a subclass provides ---------------------------------------------------------------

    @abstractmethod
    def _scaling(self, y: np.ndarray, weight: np.ndarray) -> tuple[Any, Any]:
        """Offset and scale that take y to the model's units: (y − offset) / scale."""

    @abstractmethod
    def _initial(self, X: np.ndarray, layout: Layout, sparsity: Sparsity) -> Model:
        """The model before training, for centred inputs and scaled outputs."""

    # -- fitting --------------------------------------------------------------------------------

    @entry_point
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model to observations y at inputs X, both in your own units."""
        dtype = self._dtype()
        again = self.warm_start and hasattr(self, "model_")
        if again:
            self._refuse_another_structure()
        elif hasattr(self, "model_"):
            del self.model_  # nothing is left of it if this fit fails
        rows, target = self._checked_pair(X, y, reset=not again)
        weight = _weights(sample_weight, rows)
        seed = int(check_random_state(self.random_state).randint(2**31))
        settings = self._settings(seed)
        if not again:
            names = getattr(self, "feature_names_in_", None)
            counted = rows[weight > 0]
            self.layout_ = Layout.of(counted, self.column_groups, self.latlon, names)
            self.y_offset_, self.y_scale_ = self._scaling(self._transformed(target), weight)
        rows, values, weights, shift = self._in_model_units(rows, target, weight)
        if again:
            first = [self.model_]
        else:
            sparsity = Sparsity(self.n_inducing, self.covariance, seed, dtype)
            counted = weights.reshape(-1, len(rows)).any(axis=0)
            first = self._first_models(rows[counted], self.layout_, sparsity)
        data = as_batch(rows, values, weights, self.layout_.groups, dtype)
        self.on_lattice_ = isinstance(data.at, Lattice)
        with progress_bar(type(self).__name__) if self.verbose else nullcontext() as show:
            if len(first) == 1:
                fits = [train(first[0], data, settings, show, shift=shift)]
            else:
                fits = train_restarts(first, data, settings, show, shift=shift)
        self._keep(fits)
        return self

    def _first_models(self, X: np.ndarray, layout: Layout, sparsity: Sparsity) -> list[Model]:
        """Where training starts: one model, or one for each restart."""
        return [self._initial(X, layout, sparsity)]

    def _keep(self, fits: list[Fit]) -> None:
        """Remember the best fit, by the bound it reached."""
        reached = [fit.bounds[-1] if len(fit.bounds) else -np.inf for fit in fits]
        best = fits[int(np.argmax(reached))]
        if not len(best.bounds):
            raise FloatingPointError(best.stopped)
        if best.failed:
            warnings.warn(best.stopped, ConvergenceWarning, stacklevel=4)
        self.model_, self.bounds_ = best.model, best.bounds
        self.seconds_, self.stopped_, self.retried_ = best.seconds, best.stopped, best.retried
        self.n_iter_ = len(best.bounds)
        self._structure = self._current_structure()

    def _current_structure(self) -> dict[str, str]:
        """The settings that a model's shape follows from."""
        training = {*Settings.__dataclass_fields__, "max_seconds", "learn_inducing", "n_restarts"}
        own = {"warm_start", "random_state", "verbose", "back_transform"}
        return {k: repr(v) for k, v in self.get_params().items() if k not in training | own}

    def _refuse_another_structure(self) -> None:
        now = self._current_structure()
        if changed := [name for name in now if now[name] != self._structure[name]]:
            raise ValueError(
                f"warm_start goes on from the fitted model, but {', '.join(changed)} differ from "
                "what it was fitted with. Set them back, or fit with warm_start=False."
            )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def _settings(self, seed: int) -> Settings:
        fixed = (
            *([self.fixed] if isinstance(self.fixed, str) else self.fixed),
            *self._always_fixed,
        )
        fixed += () if self.learn_inducing else ("inducing",)
        return Settings(
            steps=self.steps,
            learning_rate=self.learning_rate,
            schedule=self.schedule,
            batch_size=self.batch_size,
            fixed=fixed,
            tol=self.tol,
            max_seconds=self.max_seconds,
            seed=seed,
        )

    def _latent(
        self,
        X: np.ndarray,
        layout: Layout,
        sparsity: Sparsity,
        kernel: KernelSpec,
        inputs: ColumnList | None,
        *,
        variance: float = 1.0,
    ) -> LatentGP:
        D = X.shape[1]
        names = getattr(self, "feature_names_in_", None)
        columns = (
            range(D) if inputs is None else [column_index(c, D, names) for c in listed(inputs)]
        )
        return initial_latent(X, layout, columns, kernel, sparsity, variance=variance)

    # -- predicting -----------------------------------------------------------------------------

    @entry_point
    def predict(
        self, X: ArrayLike, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """The expected observation at each row of X, and its standard deviation if asked for."""
        out = self._over_rows(X, prediction.moments)
        mean = self._in_user_units(out["mean"])
        return (mean, self.y_scale_ * out["sd"].T) if return_std else mean

    @entry_point
    def prob_below(self, X: ArrayLike, threshold: float) -> np.ndarray:
        """P(y ≤ threshold) for a new observation at each row."""
        return self._probability(X, -np.inf, float(threshold))

    @entry_point
    def prob_zero(self, X: ArrayLike, tol: float) -> np.ndarray:
        """P(|y| ≤ tol) at each row: how likely an observation is zero at a resolution of tol."""
        if not tol > 0:
            raise ValueError(
                f"tol must be positive, not {tol!r}: with Gaussian noise no single value has a "
                "positive probability. Give the resolution of your data."
            )
        return self._probability(X, -float(tol), float(tol))

    @entry_point
    def predict_quantiles(
        self, X: ArrayLike, quantiles: float | Sequence[float] = (0.05, 0.5, 0.95)
    ) -> pd.DataFrame:
        """Quantiles of a new observation at each row, one column for each."""
        check_is_fitted(self)
        levels = [_probability_level("quantiles", q) for q in np.atleast_1d(quantiles)]
        columns = {
            q: self._in_user_units(self._over_rows(X, prediction.quantile, np.asarray(q))["t"])
            for q in levels
        }
        return frame(columns, X, self._output_names)

    def predict_interval(self, X: ArrayLike, level: float = 0.9) -> pd.DataFrame:
        """The central interval that holds a new observation with the given probability."""
        tail = 0.5 * (1.0 - _probability_level("level", level))
        table = self.predict_quantiles(X, (tail, 1.0 - tail))
        return table.rename(columns={tail: "lower", 1.0 - tail: "upper"})

    @entry_point
    def elbo(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """The lower bound on log p(y), in the units of y."""
        check_is_fitted(self)
        rows, target = self._checked_pair(X, y)
        weight = _weights(sample_weight, rows)
        rows, values, weights, shift = self._in_model_units(rows, target, weight)
        return prediction.elbo(self.model_, rows, values, weights) + shift

    @property
    @entry_point
    def noise_sd_(self) -> Any:
        """The standard deviation of the noise of each output, in the units of y."""
        check_is_fitted(self)
        likelihood = self.model_.likelihood
        assert isinstance(likelihood, Gaussian)
        return self.y_scale_ * np.sqrt(np.asarray(likelihood.noise))

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
        """Observations [n_samples, rows] drawn jointly over all rows; the signal if not noise."""
        check_is_fitted(self)
        return self._draws(self._checked(X), n_samples, _key(random_state), noise)

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
        """
        if how not in ("sum", "mean"):
            raise ValueError(f"how must be 'sum' or 'mean', not {how!r}.")
        tail = 0.5 * (1.0 - _probability_level("level", level))
        if n_samples < 2:
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

        mean = total(np.asarray(self.predict(X)))
        size = total(np.ones((len(rows), *mean.shape[1:]))) if how == "mean" else 1.0
        if np.any(size == 0):
            raise ValueError("how='mean' needs weights that do not add up to zero in any group.")
        mean = mean / size
        key, draws = _key(random_state), []
        for start in range(0, n_samples, _DRAWS_AT_ONCE):
            count = min(_DRAWS_AT_ONCE, n_samples - start)
            block = self._draws(rows, count, jax.random.fold_in(key, start), noise)
            draws += [total(draw) / size for draw in block]
        # Centre the draws on the exact mean: only their spread is left to chance.
        drawn = np.stack(draws) - np.mean(draws, axis=0) + mean
        lower, upper = np.quantile(drawn, [tail, 1.0 - tail], axis=0)
        table = {"mean": mean, "sd": drawn.std(axis=0, ddof=1), "lower": lower, "upper": upper}
        return frame(table, groups, self._output_names)

    def _draws(self, X: np.ndarray, n: int, key: Array, noise: bool) -> np.ndarray:
        if int(n) != n or n < 1:
            raise ValueError(f"n_samples must be a whole number of at least 1, not {n!r}.")
        groups = self.layout_.groups
        drawn = prediction.draw(self.model_, X - self.layout_.centre, groups, n, key, noise=noise)
        return np.stack([self._in_user_units(one) for one in drawn])

    # -- shared ---------------------------------------------------------------------------------

    def _dtype(self) -> str:
        if str(self.dtype) not in ("float32", "float64"):
            raise ValueError(f"dtype must be 'float32' or 'float64', not {self.dtype!r}.")
        return str(self.dtype)

    def _checked(self, X: Any) -> np.ndarray:
        return validate_data(self, X, dtype=np.float64, reset=False)

    def _checked_pair(
        self, X: Any, y: Any, *, reset: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        return validate_data(self, X, y, dtype=np.float64, y_numeric=True, reset=reset)

    def _transformed(self, y: np.ndarray) -> np.ndarray:
        """The outputs on the scale that the model works on, before shifting and dividing."""
        return y

    def _in_model_units(
        self, X: np.ndarray, y: np.ndarray, weight: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """Inputs, outputs and weights for the model, and what takes its bound to the user's units.

        p(y) = p(y/scale) / scale for each observation. Missing outputs get weight 0.
        """
        values = ((self._transformed(y) - self.y_offset_) / self.y_scale_).T
        weights = np.where(np.isfinite(values), weight, 0.0)
        shift = -float(np.sum(weights * np.log(np.reshape(self.y_scale_, (-1, 1)))))
        return X - self.layout_.centre, np.nan_to_num(values), weights, shift

    def _in_user_units(self, values: np.ndarray) -> np.ndarray:
        """[P, rows] from the model, or [rows], as the user's [rows, P] or [rows]."""
        return self.y_offset_ + self.y_scale_ * values.T

    def _over_rows(
        self, X: ArrayLike, function: Callable, *args: np.ndarray
    ) -> dict[str, np.ndarray]:
        check_is_fitted(self)
        rows = self._checked(X) - self.layout_.centre
        return prediction.over_rows(self.model_, rows, function, *args)

    def _probability(self, X: ArrayLike, low: float, high: float) -> np.ndarray:
        """P(low < y ≤ high) at each row."""
        check_is_fitted(self)
        ends = (self._threshold(t) for t in (low, high))
        return self._over_rows(X, prediction.probability, *ends)["p"].T

    def _threshold(self, t: float) -> np.ndarray:
        """A value of y in the model's units, one for each output."""
        scaled = (self._transformed(np.asarray(t)) - self.y_offset_) / self.y_scale_
        return np.reshape(scaled, (*np.shape(scaled), *(1,) * np.ndim(scaled)))


def _weights(sample_weight: ArrayLike | None, X: np.ndarray) -> np.ndarray:
    return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)


def spread_of(values: np.ndarray, weight: np.ndarray, largest: float) -> float:
    """The root of the mean square of values, or the largest output where that is only rounding."""
    if largest == 0 or not weight.any():
        return 1.0
    relative = float(np.sqrt(np.average((values / largest) ** 2, weights=weight)))
    return float(largest) * (relative if relative > 1e-12 else 1.0)


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

    index = (
        like if isinstance(like, np.ndarray) and like.ndim == 1 else getattr(like, "index", None)
    )
    if outputs is None:
        return pd.DataFrame(dict(columns), index=index)
    parts = {k: pd.DataFrame(v, index=index, columns=list(outputs)) for k, v in columns.items()}
    return pd.concat(parts, axis=1)
