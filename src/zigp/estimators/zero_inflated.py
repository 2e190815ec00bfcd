"""Regression where most observations are zero."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from zigp.data.layout import ColumnList, Inputs
from zigp.estimators.distribution import ZeroInflatedDistribution
from zigp.estimators.families import (
    FAMILIES,
    OutputScale,
    chosen_family,
    refuse_unsuited,
    start_of,
)
from zigp.estimators.initial import KernelSpec
from zigp.estimators.parameters import Option, estimator, parameter
from zigp.estimators.preparing import FIRST_GATE_VARIANCE
from zigp.estimators.regressor import GatedRegressor
from zigp.estimators.sampling import frame
from zigp.estimators.sparse import ModelRegressor
from zigp.models.likelihoods import (
    Gated,
    Gaussian,
    Hurdle,
    HurdleGamma,
    HurdleLognormal,
    ZeroInflatedNegativeBinomial,
)
from zigp.models.mixing import Mixing
from zigp.models.model import Model, zero_inflated_gp
from zigp.runtime.session import entry_point

_FIRST_MIXING = 0.4, 0.6  # weights of the gate's latent in the amount, and of the amount's in it


@estimator
class ZeroInflatedGPRegressor(GatedRegressor, ModelRegressor):
    """Zero-inflated Gaussian process regression: an amount f(x) behind a gate Φ(g(x)).

    The support E[Φ(g)] is the degree to which the signal is switched on. The `likelihood` is the
    distribution of observations given gate and amount:

    - 'gated': y = Φ(g) f + ε. The noise ε grows with the gate: it is small where the signal is off
      (but not below what the `resolution` of y allows) and larger where the signal is on.
    - 'gaussian': y = Φ(g) f + ε, with the same noise variance everywhere, as in the paper.
    - 'hurdle_lognormal', 'hurdle_gamma': y is exactly zero with probability 1 − Φ(g) and positive
      otherwise; f is the logarithm of its median ('hurdle_lognormal') or mean ('hurdle_gamma').
    - 'zip', 'zinb': y is a count with a zero-inflated Poisson or negative binomial distribution of
      mean exp(f).
    - 'auto': 'zinb' if y consists of non-negative whole numbers, some above 1, and 'gated'
      otherwise.

    Attributes
    ----------
    likelihood_ : str
        The likelihood, with 'auto' resolved.
    noise_ : dict
        Parameters of the noise by name.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = np.linspace(0, 10, 60)[:, None]
    >>> y = np.where(X[:, 0] > 5, 3 + np.sin(X[:, 0]) + rng.normal(0, 0.2, 60), 0.0)
    >>> model = ZeroInflatedGPRegressor(n_inducing=12).fit(X, y)
    >>> new = [[2.0], [8.0]]
    >>> model.predict(new).round(1)
    array([0., 4.])
    """

    likelihood: str = parameter(
        "Distribution of the observations given gate and amount, as listed above.",
        default="gated",
        choices=("auto", *FAMILIES),
        option=Option(
            help="Distribution of the observations; auto is zinb for counts and gated otherwise.",
            default="auto",
        ),
    )
    resolution: float | None = parameter(
        "Step in which y is recorded, such as 0.1 for a rain gauge. The noise of 'gated' is not "
        "smaller than rounding to this step. By default it is inferred from y.",
        default=None,
    )
    exposure: str | int | None = parameter(
        "Column of efforts, areas or durations that the amount is proportional to. No kernel "
        "depends on it.",
        default=None,
        option=Option(
            help="Column of efforts, areas or durations that the amount is proportional to."
        ),
    )
    coupled: bool = parameter(
        "Whether gate and amount depend on each other in the posterior. That matters for "
        "'gaussian', 'gated', 'zip' and 'zinb', whose observations do not tell which of the two is "
        "small; hurdles have independent posteriors. On a lattice with a 'full' posterior they are "
        "independent as well.",
        default=False,
        option=Option(help="Let gate and amount depend on each other in the posterior."),
    )
    coupling: str = parameter(
        "Dependence of gate and amount in the prior. With 'prior' both are mixtures of two latent "
        "functions, with weights that are learned: where amounts are large, the signal is more "
        "often on.",
        default="none",
        choices=("none", "prior"),
        option=Option(
            help="Dependence of gate and amount in the prior: none, or prior (both are mixtures of "
            "two latent functions)."
        ),
    )
    gate_kernel: KernelSpec | None = parameter(
        "Kernel of the gate. By default the same as `kernel`.", default=None
    )
    gate_inputs: ColumnList | None = parameter(
        "Columns that the gate depends on, by name or position. By default the same as `inputs`.",
        default=None,
        option=Option(help="Columns that the gate depends on (default: all)."),
    )

    def _first_models(
        self, X: Inputs, y: np.ndarray, weight: np.ndarray, exposure: np.ndarray | None
    ) -> tuple[list[Model], OutputScale]:
        if self.resolution is not None and not self.resolution > 0:
            raise ValueError(f"resolution must be positive, not {self.resolution!r}.")
        self.likelihood_ = chosen_family(self.likelihood, y)
        likelihood, scale, f_mean = start_of(
            self.likelihood_, y, weight, exposure, self.resolution, self.dtype
        )
        f, mixing = self._latent(X), None
        if self.coupling == "prior":
            mixing = Mixing.of(*_FIRST_MIXING, f_mean, 0.0, self.dtype)
        else:
            mean = np.asarray(f_mean, self.dtype)
            f = eqx.tree_at(lambda gp: gp.prior_mean, f, mean)
        g = self._latent(X, self.gate_kernel, self.gate_inputs, variance=FIRST_GATE_VARIANCE)
        coupled = self.coupled and not isinstance(likelihood, Hurdle)
        model = zero_inflated_gp(
            f, g, likelihood, self.layout_.exposure, coupled=coupled, mixing=mixing
        )
        return [model], OutputScale(scale=scale)

    def _refuse_unsuited(self, X: np.ndarray, y: np.ndarray, weight: np.ndarray) -> None:
        super()._refuse_unsuited(X, y, weight)
        refuse_unsuited(self.likelihood_, y)

    def _title(self) -> str:
        return f"{super()._title()} ({self.likelihood_})"

    @property
    @entry_point
    def noise_(self) -> dict[str, float]:
        """Learned parameters of the scatter around the signal, by name.

        Standard deviations are in the units of y; `log_sd` is that of log y.

        Examples
        --------
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
    def predict_distribution(self, X: Any) -> ZeroInflatedDistribution:
        return ZeroInflatedDistribution(self._predictions(X), self._output_scale)

    @entry_point
    def predict_components(self, X: ArrayLike) -> pd.DataFrame:
        """Predict gate, latent and signal at each row, each with its standard deviation.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            Inputs.

        Returns
        -------
        DataFrame
            `gate` is E[Φ(g)], as in `prob_on`; `latent` is f, the amount behind the gate (with
            hurdles and counts its logarithm), also where nothing is switched on; `signal` is their
            product, without noise. None of them is an observation.

        Examples
        --------
        >>> list(model.predict_components(new))
        ['gate', 'gate_sd', 'latent', 'latent_sd', 'signal', 'signal_sd']
        """
        return frame(self.predict_distribution(X).components, X)
