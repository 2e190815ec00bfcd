"""The scikit-learn face: fit on a table, predict in the user's units."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from zigp.data import Layout, as_batch, column_index
from zigp.initial import KernelSpec, Sizes, Sparsity, initial_latent
from zigp.latent import LatentGP
from zigp.likelihoods import Gaussian
from zigp.models import Model, gp_regression, zero_inflated_gp
from zigp.progress import progress_bar
from zigp.runtime import entry_point
from zigp.training import Schedule, Settings, train

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SparseGPRegressor", "ZeroInflatedGPRegressor"]

Columns = Iterable[int | str]
ColumnGroups = Mapping[str, Columns] | Sequence[Columns]

_DRAWS_AT_ONCE = 50
# Where training starts, in the model's units. A wide gate can open and close between neighbours.
_FIRST_NOISE = 0.1
_FIRST_GATE_VARIANCE = 4.0


class _SparseGP(RegressorMixin, BaseEstimator):
    """What every estimator of this package does; a subclass says which model it fits."""

    def __init__(
        self,
        *,
        kernel: KernelSpec,
        inputs: Columns | None,
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

    # -- what a subclass provides ---------------------------------------------------------------

    @abstractmethod
    def _scaling(self, y: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
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
        rows, target = self._checked(X, y, reset=not again)
        weight = _weights(sample_weight, rows)
        seed = int(check_random_state(self.random_state).randint(2**31))
        settings = self._settings(seed)
        if not again:
            names = getattr(self, "feature_names_in_", None)
            self.layout_ = Layout.of(rows, self.column_groups, self.latlon, names)
            self.y_offset_, self.y_scale_ = self._scaling(target, weight)
        rows, target = self._in_model_units(rows, target)
        if not again:
            sparsity = Sparsity(self.n_inducing, self.covariance, seed, dtype)
            self.model_ = self._initial(rows[weight > 0], self.layout_, sparsity)
        data = as_batch(rows, target, weight, self.layout_.groups, dtype)
        # p(y) = p(y/scale) / scale for each observation.
        scaling = float(weight.sum() * np.log(self.y_scale_))
        self.on_lattice_ = isinstance(data.at, Lattice)
        with progress_bar(type(self).__name__) if self.verbose else nullcontext() as show:
            fit = train(self.model_, data, settings, show, shift=-scaling)
        if fit.failed:
            if not len(fit.bounds):
                raise FloatingPointError(fit.stopped)
            warnings.warn(fit.stopped, ConvergenceWarning, stacklevel=3)
        self.model_ = fit.model
        self.bounds_ = fit.bounds
        self.seconds_, self.stopped_, self.retried_ = fit.seconds, fit.stopped, fit.retried
        self.n_iter_ = len(fit.bounds)
        return self

    def _settings(self, seed: int) -> Settings:
        # A latent has mean zero, as in the paper; only the gate's mean is learned.
        fixed = (*self.fixed, "f.prior_mean")
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
        inputs: Columns | None,
        *,
        variance: float = 1.0,
    ) -> LatentGP:
        D = X.shape[1]
        names = getattr(self, "feature_names_in_", None)
        columns = range(D) if inputs is None else [column_index(c, D, names) for c in inputs]
        return initial_latent(X, layout, columns, kernel, sparsity, variance=variance)

    # -- predicting -----------------------------------------------------------------------------

    @entry_point
    def predict(
        self, X: ArrayLike, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """The expected observation at each row of X, and its standard deviation if asked for."""
        out = self._over_rows(X, prediction.moments)
        mean = self.y_offset_ + self.y_scale_ * out["mean"]
        return (mean, self.y_scale_ * out["sd"]) if return_std else mean

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
        levels = [_probability_level("quantiles", q) for q in np.atleast_1d(quantiles)]
        columns = {
            q: self.y_offset_ + self.y_scale_ * self._over_rows(X, prediction.quantile, q)["t"]
            for q in levels
        }
        return _frame(columns, X)

    def predict_interval(self, X: ArrayLike, level: float = 0.9) -> pd.DataFrame:
        """The central interval that holds a new observation with the given probability."""
        tail = 0.5 * (1.0 - _probability_level("level", level))
        quantiles = self.predict_quantiles(X, (tail, 1.0 - tail))
        return quantiles.set_axis(["lower", "upper"], axis=1)

    @entry_point
    def elbo(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """The lower bound on log p(y), in the units of y."""
        check_is_fitted(self)
        rows, target = self._checked(X, y)
        weight = _weights(sample_weight, rows)
        rows, target = self._in_model_units(rows, target)
        # p(y) = p(y/scale) / scale for each observation.
        return prediction.elbo(self.model_, rows, target, weight) - weight.sum() * np.log(
            self.y_scale_
        )

    @property
    @entry_point
    def noise_(self) -> float:
        """The standard deviation of the noise, in the units of y."""
        check_is_fitted(self)
        likelihood = self.model_.likelihood
        assert isinstance(likelihood, Gaussian)
        return self.y_scale_ * float(likelihood.noise) ** 0.5

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
        check_is_fitted(self)
        import pandas as pd

        rows = self._checked(X)
        w = np.ones(len(rows)) if weights is None else np.asarray(weights, float)
        labels = np.zeros(len(rows), int) if by is None else np.asarray(by)
        for name, column in (("weights", w), ("by", labels)):
            if column.shape != (len(rows),):
                raise ValueError(f"{name} has shape {column.shape}, but X has {len(rows)} rows.")
        groups, member = np.unique(labels, return_inverse=True)

        def total(values: np.ndarray) -> np.ndarray:
            return np.bincount(member, weights=w * values, minlength=len(groups))

        size = total(np.ones(len(rows))) if how == "mean" else np.ones(len(groups))
        mean = total(np.asarray(self.predict(X))) / size
        key, draws = _key(random_state), []
        for start in range(0, n_samples, _DRAWS_AT_ONCE):
            count = min(_DRAWS_AT_ONCE, n_samples - start)
            block = self._draws(rows, count, jax.random.fold_in(key, start), noise)
            draws += [total(draw) / size for draw in block]
        # Centre the draws on the exact mean: only their spread is left to chance.
        drawn = np.stack(draws) - np.mean(draws, axis=0) + mean
        lower, upper = np.quantile(drawn, [tail, 1.0 - tail], axis=0)
        table = {"mean": mean, "sd": drawn.std(axis=0, ddof=1), "lower": lower, "upper": upper}
        return pd.DataFrame(table, index=groups)

    def _draws(self, X: np.ndarray, n: int, key: Array, noise: bool) -> np.ndarray:
        if n < 1:
            raise ValueError(f"n_samples must be at least 1, not {n}.")
        groups = self.layout_.groups
        drawn = prediction.draw(self.model_, X - self.layout_.centre, groups, n, key, noise=noise)
        return self.y_offset_ + self.y_scale_ * drawn

    # -- shared ---------------------------------------------------------------------------------

    def _dtype(self) -> str:
        if str(self.dtype) not in ("float32", "float64"):
            raise ValueError(f"dtype must be 'float32' or 'float64', not {self.dtype!r}.")
        return str(self.dtype)

    def _checked(self, X: Any, y: Any = None, *, reset: bool = False) -> Any:
        if y is None:
            return validate_data(self, X, dtype=np.float64, reset=reset)
        return validate_data(self, X, y, dtype=np.float64, y_numeric=True, reset=reset)

    def _in_model_units(self, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return X - self.layout_.centre, (y - self.y_offset_) / self.y_scale_

    def _over_rows(self, X: ArrayLike, function: Callable, *args: float) -> dict[str, np.ndarray]:
        check_is_fitted(self)
        rows = self._checked(X) - self.layout_.centre
        return prediction.over_rows(self.model_, rows, function, *args)

    def _probability(self, X: ArrayLike, low: float, high: float) -> np.ndarray:
        """P(low < y ≤ high) at each row."""
        check_is_fitted(self)
        bounds = ((t - self.y_offset_) / self.y_scale_ for t in (low, high))
        return self._over_rows(X, prediction.probability, *bounds)["p"]


class SparseGPRegressor(_SparseGP):
    """GP regression on many rows through inducing points: y = f(x) + ε."""

    def __init__(
        self,
        kernel: KernelSpec = "squared_exponential",
        *,
        inputs: Columns | None = None,
        column_groups: ColumnGroups | None = None,
        latlon: Sequence[int | str] | None = None,
        n_inducing: Sizes | None = None,
        learn_inducing: bool = True,
        covariance: str = "auto",
        steps: int = 1000,
        learning_rate: float | Mapping[str, float] = 0.05,
        schedule: Schedule = "cosine",
        batch_size: int | None = None,
        fixed: Sequence[str] = (),
        tol: float = 1e-4,
        max_seconds: float | None = None,
        dtype: str = "float64",
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = 0,
        verbose: bool = False,
    ):
        super().__init__(
            kernel=kernel,
            inputs=inputs,
            column_groups=column_groups,
            latlon=latlon,
            n_inducing=n_inducing,
            learn_inducing=learn_inducing,
            covariance=covariance,
            steps=steps,
            learning_rate=learning_rate,
            schedule=schedule,
            batch_size=batch_size,
            fixed=fixed,
            tol=tol,
            max_seconds=max_seconds,
            dtype=dtype,
            warm_start=warm_start,
            random_state=random_state,
            verbose=verbose,
        )

    def _scaling(self, y: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
        offset = np.average(y, weights=weight)
        scale = np.sqrt(np.average((y - offset) ** 2, weights=weight))
        return float(offset), float(scale if scale > 0 else 1.0)

    def _initial(self, X: np.ndarray, layout: Layout, sparsity: Sparsity) -> Model:
        f = self._latent(X, layout, sparsity, self.kernel, self.inputs)
        return gp_regression(f, Gaussian.of_variance(_FIRST_NOISE, sparsity.dtype))


class ZeroInflatedGPRegressor(_SparseGP):
    """Regression where most observations are zero: y = Φ(g(x)) f(x) + ε.

    f is the amount, Φ(g) the support: where it is near zero the signal is switched off.
    """

    def __init__(
        self,
        kernel: KernelSpec = "squared_exponential",
        *,
        gate_kernel: KernelSpec | None = None,
        inputs: Columns | None = None,
        gate_inputs: Columns | None = None,
        column_groups: ColumnGroups | None = None,
        latlon: Sequence[int | str] | None = None,
        n_inducing: Sizes | None = None,
        learn_inducing: bool = True,
        covariance: str = "auto",
        steps: int = 1000,
        learning_rate: float | Mapping[str, float] = 0.05,
        schedule: Schedule = "cosine",
        batch_size: int | None = None,
        fixed: Sequence[str] = (),
        tol: float = 1e-4,
        max_seconds: float | None = None,
        dtype: str = "float64",
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = 0,
        verbose: bool = False,
    ):
        super().__init__(
            kernel=kernel,
            inputs=inputs,
            column_groups=column_groups,
            latlon=latlon,
            n_inducing=n_inducing,
            learn_inducing=learn_inducing,
            covariance=covariance,
            steps=steps,
            learning_rate=learning_rate,
            schedule=schedule,
            batch_size=batch_size,
            fixed=fixed,
            tol=tol,
            max_seconds=max_seconds,
            dtype=dtype,
            warm_start=warm_start,
            random_state=random_state,
            verbose=verbose,
        )
        self.gate_kernel = gate_kernel
        self.gate_inputs = gate_inputs

    def _scaling(self, y: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
        # Divided, never shifted: zero stays zero.
        counted = weight * (y != 0)
        scale = np.sqrt(np.average(y**2, weights=counted)) if counted.any() else 1.0
        return 0.0, float(scale)

    def _initial(self, X: np.ndarray, layout: Layout, sparsity: Sparsity) -> Model:
        gate_kernel = self.kernel if self.gate_kernel is None else self.gate_kernel
        gate_inputs = self.inputs if self.gate_inputs is None else self.gate_inputs
        f = self._latent(X, layout, sparsity, self.kernel, self.inputs)
        g = self._latent(
            X, layout, sparsity, gate_kernel, gate_inputs, variance=_FIRST_GATE_VARIANCE
        )
        return zero_inflated_gp(f, g, Gaussian.of_variance(_FIRST_NOISE, sparsity.dtype))

    @entry_point
    def prob_on(self, X: ArrayLike) -> np.ndarray:
        """The support E[Φ(g)] at each row: how far the signal is switched on, from 0 to 1.

        It is not the probability that an observation is not zero; see `prob_zero` for that.
        """
        return self._over_rows(X, prediction.components)["gate"]

    @entry_point
    def predict_components(self, X: ArrayLike) -> pd.DataFrame:
        """Gate, latent and signal at each row, each with its standard deviation."""
        out = self._over_rows(X, prediction.components)
        without_unit = ("gate", "gate_sd")
        return _frame({k: v if k in without_unit else v * self.y_scale_ for k, v in out.items()}, X)


def _weights(sample_weight: ArrayLike | None, X: np.ndarray) -> np.ndarray:
    return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)


def _probability_level(name: str, value: float) -> float:
    if not 0 < value < 1:
        raise ValueError(f"{name} must lie strictly between 0 and 1, not {value!r}.")
    return float(value)


def _key(random_state: int | np.random.RandomState | None) -> Array:
    return jax.random.key(int(check_random_state(random_state).randint(2**31)))


def _frame(columns: Mapping[Any, np.ndarray], X: Any) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(columns, index=X.index if isinstance(X, pd.DataFrame) else None)
