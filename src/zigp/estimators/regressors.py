"""Regression of one output: plain, and where most observations are zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from zigp import prediction
from zigp.data import Layout
from zigp.estimators.base import ColumnGroups, ColumnList, SparseGP, frame, spread_of
from zigp.initial import KernelSpec, Sizes, Sparsity
from zigp.likelihoods import Gaussian
from zigp.models import Model, gp_regression, zero_inflated_gp
from zigp.runtime import entry_point
from zigp.training import Schedule

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SparseGPRegressor", "ZeroInflatedGPRegressor"]

# Where training starts, in the model's units. A wide gate can open and close between neighbours.
_FIRST_NOISE = 0.1
_FIRST_GATE_VARIANCE = 4.0


class SparseGPRegressor(SparseGP):
    """GP regression on many rows through inducing points: y = f(x) + ε."""

    def __init__(
        self,
        kernel: KernelSpec = "squared_exponential",
        *,
        inputs: ColumnList | None = None,
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
        offset = float(np.average(y, weights=weight))
        return offset, spread_of(y - offset, weight, largest=np.abs(y).max())

    def _initial(self, X: np.ndarray, layout: Layout, sparsity: Sparsity) -> Model:
        f = self._latent(X, layout, sparsity, self.kernel, self.inputs)
        return gp_regression(f, Gaussian.of_variance(_FIRST_NOISE, sparsity.dtype))


class ZeroInflatedGPRegressor(SparseGP):
    """Regression where most observations are zero: y = Φ(g(x)) f(x) + ε.

    f is the amount, Φ(g) the support: where it is near zero the signal is switched off.
    """

    def __init__(
        self,
        kernel: KernelSpec = "squared_exponential",
        *,
        gate_kernel: KernelSpec | None = None,
        inputs: ColumnList | None = None,
        gate_inputs: ColumnList | None = None,
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
        return 0.0, spread_of(y, weight * (y != 0), largest=np.abs(y).max())

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
        return frame({k: v if k in without_unit else v * self.y_scale_ for k, v in out.items()}, X)
