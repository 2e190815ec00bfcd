"""Regression of one output: plain, and where most observations are zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from zigp import prediction
from zigp.data import Layout
from zigp.estimators.answers import ModelRegressor, frame
from zigp.estimators.base import FIRST_GATE_VARIANCE, ColumnList
from zigp.initial import KernelSpec, Sparsity
from zigp.likelihoods import Gaussian
from zigp.models import Model, gp_regression, zero_inflated_gp
from zigp.runtime import entry_point

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SparseGPRegressor", "ZeroInflatedGPRegressor"]

_FIRST_NOISE = 0.1  # where training starts, in the model's units


@dataclass(eq=False, repr=False, kw_only=True)
class SparseGPRegressor(ModelRegressor):
    """GP regression on many rows through inducing points: y = f(x) + ε."""

    def _scaling(self, y: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
        offset = float(np.average(y, weights=weight))
        return offset, _spread(y - offset, weight, largest=np.abs(y).max())

    def _initial(self, X: np.ndarray, layout: Layout, sparsity: Sparsity) -> Model:
        f = self._latent(X, layout, sparsity, self.kernel, self.inputs)
        return gp_regression(f, Gaussian.of_variance(_FIRST_NOISE, sparsity.dtype))


@dataclass(eq=False, repr=False, kw_only=True)
class ZeroInflatedGPRegressor(ModelRegressor):
    """Regression where most observations are zero: y = Φ(g(x)) f(x) + ε.

    f is the amount, Φ(g) the support: where it is near zero the signal is switched off.
    """

    gate_kernel: KernelSpec | None = None
    gate_inputs: ColumnList | None = None

    def _scaling(self, y: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
        # Divided, never shifted: zero stays zero.
        return 0.0, _spread(y, weight * (y != 0), largest=np.abs(y).max())

    def _initial(self, X: np.ndarray, layout: Layout, sparsity: Sparsity) -> Model:
        gate_kernel = self.kernel if self.gate_kernel is None else self.gate_kernel
        gate_inputs = self.inputs if self.gate_inputs is None else self.gate_inputs
        f = self._latent(X, layout, sparsity, self.kernel, self.inputs)
        g = self._latent(
            X, layout, sparsity, gate_kernel, gate_inputs, variance=FIRST_GATE_VARIANCE
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


def _spread(values: np.ndarray, weight: np.ndarray, largest: float) -> float:
    """The root of the mean square of values, or the largest output where that is only rounding."""
    if largest == 0 or not weight.any():
        return 1.0
    relative = float(np.sqrt(np.average((values / largest) ** 2, weights=weight)))
    return float(largest) * (relative if relative > 1e-12 else 1.0)
