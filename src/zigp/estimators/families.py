"""The choice of a likelihood for a column of data, its initial parameters, and units of y."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from zigp.data.layout import refuse_too_large
from zigp.models.likelihoods import (
    Amounts,
    Gated,
    Gaussian,
    HurdleGamma,
    HurdleLognormal,
    Likelihood,
    ZeroInflatedNegativeBinomial,
    ZeroInflatedPoisson,
)

FAMILIES = ("gaussian", "gated", "hurdle_lognormal", "hurdle_gamma", "zip", "zinb")
_COUNTS = ("zip", "zinb")
LOG_AMOUNTS = ("hurdle_lognormal", "hurdle_gamma", *_COUNTS)  # their latent is a logarithm

# Where training starts, in the model's units.
FIRST_NOISE, _FIRST_OFF_NOISE = 0.1, 0.01
_FIRST_LOG_NOISE, _FIRST_SHAPE, _FIRST_DISPERSION = 0.5, 1.5, 2.0

_LOWEST = {None: -np.inf, "log": 0.0, "log1p": -1.0}  # outputs lie above it before a transform
_FEWEST_AMOUNTS = 5  # distinct values needed to see a resolution
_FINEST = 1e-3  # of the typical amount: quadrature does not resolve anything finer


@dataclass(frozen=True)
class OutputScale:
    """The map from an output y to the model's units: (t(y) − offset) / scale.

    t is the identity, `log` or `log1p`.
    """

    offset: Any = 0.0
    scale: Any = 1.0
    transform: str | None = None

    @property
    def lowest(self) -> float:
        """The value that outputs must lie above."""
        return _LOWEST[self.transform]

    def transformed(self, y: np.ndarray) -> np.ndarray:
        """Return t(y): −∞ where y is too low for a logarithm, NaN where it is missing."""
        if self.transform is None:
            return y
        with np.errstate(divide="ignore"):
            logged = np.log(np.maximum(y, self.lowest) - self.lowest)
        return np.where(np.isnan(y), np.nan, logged)

    def to_model(self, y: np.ndarray) -> np.ndarray:
        """Return outputs, or thresholds [..., P], in the model's units; the axes stay in place."""
        return (self.transformed(y) - self.offset) / self.scale

    def to_user(self, values: np.ndarray) -> np.ndarray:
        """Return values [rows, P] or [rows] of the model in the user's units."""
        y = self.offset + self.scale * values
        return y if self.transform is None else np.exp(y) + self.lowest

    def log_jacobian(self, y: np.ndarray, weights: np.ndarray) -> float:
        """Return Σ weight · log |dz/dy| for outputs z of the model and weights [P, rows] or [rows].

        It takes a bound on log p(z) to one on log p(y). The derivative of a logarithm t is exp(−t).
        """
        total = -float(np.sum(weights * np.log(np.reshape(self.scale, (-1, 1)))))
        if self.transform is not None:
            total -= float(np.sum(weights * np.nan_to_num(self.transformed(y)).T))
        return total


def chosen_family(name: str, y: np.ndarray) -> str:
    """Return a family by its name; `auto` chooses by the values, not by their type.

    Non-negative whole numbers, some above 1, are counts (`zinb`); anything else is `gated`.
    """
    if name != "auto":
        return name
    whole = bool(np.all(y == np.round(y)) and np.all(y >= 0) and np.any(y > 1))
    return "zinb" if whole else "gated"


def start_of(
    family: str,
    y: np.ndarray,
    weight: np.ndarray,
    exposure: np.ndarray | None,
    resolution: float | None,
    dtype: str,
) -> tuple[Likelihood, float, float]:
    """Return the initial likelihood of a family, the scale of its outputs, and f's mean.

    The scale is that of the data, unless f is a logarithm.
    """
    refuse_too_large("y", y)
    rate = y if exposure is None else y / exposure
    if family in LOG_AMOUNTS:
        on = (y > 0) & (weight > 0)
        f_mean = float(np.average(np.log(rate[on]), weights=weight[on])) if on.any() else 0.0
        made: dict[str, Amounts] = {
            "hurdle_lognormal": HurdleLognormal.of_variance(_FIRST_LOG_NOISE, dtype),
            "hurdle_gamma": HurdleGamma.of_shape(_FIRST_SHAPE, dtype),
            "zip": ZeroInflatedPoisson(),
            "zinb": ZeroInflatedNegativeBinomial.of_dispersion(_FIRST_DISPERSION, dtype),
        }
        return made[family], 1.0, f_mean
    scale = spread(rate, weight * (y != 0), largest=float(np.abs(rate).max()))
    if family == "gaussian":
        return Gaussian.of_variance(FIRST_NOISE, dtype), scale, 0.0
    tau = resolution_of(y[weight > 0]) if resolution is None else float(resolution)
    refuse_too_large("resolution", np.array([tau / scale]))
    floor = max(tau / scale, _FINEST) ** 2 / 12.0
    # Without exact zeros the noise of a signal that is off is as large as the other.
    quiet = np.any(y[weight > 0] == 0)
    first = (_FIRST_OFF_NOISE, FIRST_NOISE) if quiet else (FIRST_NOISE, _FIRST_OFF_NOISE)
    return Gated.of_variances(max(first[0], 2.0 * floor), first[1], floor, dtype), scale, 0.0


def resolution_of(y: np.ndarray) -> float:
    """Return the step that values are recorded in, or a hundredth of the typical amount.

    A few values are multiples of many steps, so they show none.

    >>> round(resolution_of(np.array([0.0, 0.3, 1.2, 0.5, 2.0, 0.7])), 6)
    0.1
    """
    amounts = np.unique(np.abs(y[y != 0]))
    if not len(amounts):
        return 0.01
    typical = float(np.sqrt(np.mean(amounts**2)))
    if len(amounts) < _FEWEST_AMOUNTS:
        return 0.01 * typical
    highest = int(np.floor(np.log10(amounts[-1])))
    for step in (10.0**p * digit for p in range(highest, highest - 6, -1) for digit in (5, 2, 1)):
        count = amounts / step
        if step >= _FINEST * typical and np.all(np.abs(count - np.round(count)) < 1e-6):
            return step
    return 0.01 * typical


def spread(values: np.ndarray, weight: np.ndarray, largest: float) -> float:
    """Return the root mean square of values, or the largest output if that is only rounding."""
    if largest == 0 or not weight.any():
        return 1.0
    relative = float(np.sqrt(np.average((values / largest) ** 2, weights=weight)))
    return float(largest) * (relative if relative > 1e-12 else 1.0)


def refuse_unsuited(family: str, y: np.ndarray) -> None:
    """Raise an error if the family cannot take a value."""
    for families, bad, needed, others in (
        (LOG_AMOUNTS, y < 0, "y ≥ 0", "'gated' or 'gaussian'"),
        (_COUNTS, y != np.round(y), "whole numbers", "'hurdle_gamma' or 'gated'"),
    ):
        if family in families and bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise ValueError(
                f"likelihood={family!r} needs {needed}; row {row} is {y[row]:g}. Use {others}."
            )
