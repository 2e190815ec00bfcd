"""Regression of one output: plain, and where most observations are zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import equinox as eqx
import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from zigp.data.layout import ColumnList, Inputs, Layout, refuse_too_large
from zigp.estimators.answers import ModelRegressor, frame
from zigp.estimators.families import LOG_AMOUNTS, chosen_family, refuse_unsuited, spread, start_of
from zigp.estimators.fitting import FIRST_GATE_VARIANCE
from zigp.estimators.initial import KernelSpec, Sparsity
from zigp.estimators.persistence import registered
from zigp.models import predictions
from zigp.models.likelihoods import (
    Gated,
    Gaussian,
    HurdleGamma,
    HurdleLognormal,
    ZeroInflatedNegativeBinomial,
)
from zigp.models.model import Model, gp_regression, zero_inflated_gp
from zigp.runtime.session import entry_point

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SparseGPRegressor", "ZeroInflatedGPRegressor"]

_FIRST_NOISE = 0.1  # where training starts, in the model's units


@registered
@dataclass(eq=False, repr=False, kw_only=True)
class SparseGPRegressor(ModelRegressor):
    """GP regression on many rows through inducing points: y = f(x) + ε.

    >>> X = np.linspace(0, 10, 60)[:, None]
    >>> model = SparseGPRegressor(n_inducing=12).fit(X, np.sin(X[:, 0]))
    >>> model.predict([[2.0]]).round(1)
    array([0.9])
    """

    def _scaling(
        self, y: np.ndarray, weight: np.ndarray, exposure: np.ndarray | None
    ) -> tuple[float, float]:
        refuse_too_large("y", y)
        offset = float(np.average(y, weights=weight))
        return offset, spread(y - offset, weight, largest=np.abs(y).max())

    def _initial(self, X: Inputs, layout: Layout, sparsity: Sparsity) -> Model:
        f = self._latent(X, layout, sparsity, self.kernel, self.inputs)
        return gp_regression(f, Gaussian.of_variance(_FIRST_NOISE, sparsity.dtype))


@registered
@dataclass(eq=False, repr=False, kw_only=True)
class ZeroInflatedGPRegressor(ModelRegressor):
    """Regression where most observations are zero: an amount f(x) and a gate Φ(g(x)).

    The support Φ(g) says where the signal is switched on. What is observed of the two follows the
    `likelihood`:

    - `gated`: y = Φ(g) f + ε with noise that grows with the gate: small where the signal is off
      (but never below what the `resolution` of y allows), larger where it is on.
    - `gaussian`: the same with one noise variance everywhere; the paper's.
    - `hurdle_lognormal`, `hurdle_gamma`: y is exactly zero with probability 1 − Φ(g), and otherwise
      positive, with f the logarithm of its median or of its mean.
    - `zip`, `zinb`: counts, zero-inflated Poisson or negative binomial, of mean exp(f).
    - `auto`: `zinb` for whole numbers that are not negative, some above 1, and otherwise `gated`.
      `likelihood_` says what was taken.

    `gate_kernel` and `gate_inputs` let the gate look at other columns, through other kernels, than
    the amount. `exposure` names a column of efforts, areas or hours that the amount is multiplied
    by; no kernel looks at it.

    >>> rng = np.random.default_rng(0)
    >>> X = np.linspace(0, 10, 60)[:, None]
    >>> y = np.where(X[:, 0] > 5, 3 + np.sin(X[:, 0]) + rng.normal(0, 0.2, 60), 0.0)
    >>> model = ZeroInflatedGPRegressor(n_inducing=12).fit(X, y)
    >>> new = [[2.0], [8.0]]
    >>> model.predict(new).round(1)
    array([0., 4.])
    """

    likelihood: str = "gated"
    resolution: float | None = None
    exposure: int | str | None = None
    gate_kernel: KernelSpec | None = None
    gate_inputs: ColumnList | None = None

    _with_quantiles: ClassVar = {
        "response": predictions.quantile,
        "if_on": predictions.quantile_if_on,
        "latent": predictions.quantile_of_latent,
        "gate": predictions.quantile_of_gate,
    }

    def _scaling(
        self, y: np.ndarray, weight: np.ndarray, exposure: np.ndarray | None
    ) -> tuple[float, float]:
        if self.resolution is not None and not self.resolution > 0:
            raise ValueError(f"resolution must be positive, not {self.resolution!r}.")
        self.likelihood_ = chosen_family(self.likelihood, y)
        self._start = start_of(
            self.likelihood_, y, weight, exposure, self.resolution, self._dtype()
        )
        # Divided, never shifted: zero stays zero.
        return 0.0, self._start.scale

    def _initial(self, X: Inputs, layout: Layout, sparsity: Sparsity) -> Model:
        gate_kernel = self.kernel if self.gate_kernel is None else self.gate_kernel
        gate_inputs = self.inputs if self.gate_inputs is None else self.gate_inputs
        f = self._latent(X, layout, sparsity, self.kernel, self.inputs)
        start = self._start
        del self._start
        f = eqx.tree_at(lambda gp: gp.prior_mean, f, np.asarray(start.f_mean, sparsity.dtype))
        g = self._latent(
            X, layout, sparsity, gate_kernel, gate_inputs, variance=FIRST_GATE_VARIANCE
        )
        return zero_inflated_gp(f, g, start.likelihood, layout.exposure)

    def _refuse_unsuited(self, X: np.ndarray, y: np.ndarray, weight: np.ndarray) -> None:
        super()._refuse_unsuited(X, y, weight)
        refuse_unsuited(self.likelihood_, y)

    def _title(self) -> str:
        return f"{super()._title()} ({self.likelihood_})"

    def _reach(self, y: np.ndarray) -> float:
        return 1.0 if self.likelihood_ in LOG_AMOUNTS else super()._reach(y)

    @property
    @entry_point
    def noise_(self) -> dict[str, float]:
        """What the likelihood has learned of the scatter around the signal, by name.

        Standard deviations are in the units of y; `log_sd` is that of log y.

        >>> sorted(model.noise_)
        ['off_sd', 'on_sd']
        """
        check_is_fitted(self)
        match self.model_.likelihood:
            case Gaussian() as one:
                found = {"sd": self.y_scale_ * one.noise**0.5}
            case Gated() as one:
                found = {
                    "off_sd": self.y_scale_ * one.off**0.5,
                    "on_sd": self.y_scale_ * one.on**0.5,
                }
            case HurdleLognormal() as one:
                found = {"log_sd": one.noise**0.5}
            case HurdleGamma() as one:
                found = {"shape": one.shape}
            case ZeroInflatedNegativeBinomial() as one:
                found = {"dispersion": one.spread}
            case _:
                found = {}
        return {name: float(value) for name, value in found.items()}

    @entry_point
    def prob_on(self, X: ArrayLike) -> np.ndarray:
        """The support E[Φ(g)] at each row: how far the signal is switched on, from 0 to 1.

        With Gaussian or gated noise it is not the probability that an observation is not zero; see
        `prob_zero` for that. With a hurdle likelihood it is.

        >>> model.prob_on(new).round(2)
        array([0., 1.])
        """
        return self._over_rows(X, predictions.components)["gate"]

    @entry_point
    def predict_if_on(
        self, X: ArrayLike, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """The expected observation at each row if the signal is fully on there.

        It says how much there is where there is something, not how much to expect: that is
        `predict`, which also counts how likely the signal is to be off.

        >>> model.predict_if_on([[8.0]]).round(1)
        array([4.])
        """
        out = self._over_rows(X, predictions.moments_if_on)
        mean = self._in_user_units(out["mean"])
        return (mean, self.y_scale_ * out["sd"]) if return_std else mean

    @entry_point
    def predict_components(self, X: ArrayLike) -> pd.DataFrame:
        """Gate, latent and signal at each row, each with its standard deviation.

        The gate is E[Φ(g)], as in `prob_on`. The latent is f, the amount behind the gate (with
        hurdles and counts its logarithm), also where nothing is switched on. The signal is what
        the two make together, without noise. None of them is an observation.

        >>> list(model.predict_components(new))
        ['gate', 'gate_sd', 'latent', 'latent_sd', 'signal', 'signal_sd']
        """
        out = self._over_rows(X, predictions.components)
        without_unit = ("gate", "gate_sd")
        return frame({k: v if k in without_unit else v * self.y_scale_ for k, v in out.items()}, X)
