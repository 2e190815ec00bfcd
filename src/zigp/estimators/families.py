"""The choice of a likelihood for a column of data, and its initial parameters."""

from __future__ import annotations

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
_FIRST_NOISE = 0.1
_FIRST_OFF_NOISE = 0.01
_FIRST_LOG_NOISE = 0.5
_FIRST_SHAPE = 1.5
_FIRST_DISPERSION = 2.0
_FEWEST_AMOUNTS = 5  # distinct values needed to see a resolution
_FINEST = 1e-3  # of the typical amount: quadrature does not resolve anything finer


@dataclass(frozen=True)
class Start:
    """A likelihood before training, the units (y − offset) / scale of its outputs, and f's mean."""

    likelihood: Likelihood
    offset: Any = 0.0
    scale: Any = 1.0
    f_mean: float = 0.0


def chosen_family(name: str, y: np.ndarray) -> str:
    """Return a family by its name; `auto` chooses by the values, not by their type.

    Non-negative whole numbers, some above 1, are counts (`zinb`); anything else is `gated`.
    """
    if name != "auto":
        if name not in FAMILIES:
            raise ValueError(
                f"There is no likelihood {name!r}. Choose from auto, {', '.join(FAMILIES)}."
            )
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
) -> Start:
    """Return the initial likelihood of a family, scaled to the data unless f is a logarithm."""
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
        return Start(made[family], f_mean=f_mean)
    scale = spread(rate, weight * (y != 0), largest=float(np.abs(rate).max()))
    if family == "gaussian":
        return Start(Gaussian.of_variance(_FIRST_NOISE, dtype), scale=scale)
    tau = resolution_of(y[weight > 0]) if resolution is None else float(resolution)
    refuse_too_large("resolution", np.array([tau / scale]))
    floor = max(tau / scale, _FINEST) ** 2 / 12.0
    # Without exact zeros the noise of a signal that is off is as large as the other.
    quiet = np.any(y[weight > 0] == 0)
    first = (_FIRST_OFF_NOISE, _FIRST_NOISE) if quiet else (_FIRST_NOISE, _FIRST_OFF_NOISE)
    noise = Gated.of_variances(max(first[0], 2.0 * floor), first[1], floor, dtype)
    return Start(noise, scale=scale)


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
    if family in LOG_AMOUNTS and np.any(y < 0):
        row = int(np.flatnonzero(y < 0)[0])
        raise ValueError(
            f"likelihood={family!r} needs y ≥ 0; row {row} is {y[row]:g}. Use 'gated' or "
            "'gaussian'."
        )
    if family in _COUNTS and np.any(y != np.round(y)):
        row = int(np.flatnonzero(y != np.round(y))[0])
        raise ValueError(
            f"likelihood={family!r} needs whole numbers; row {row} is {y[row]:g}. Use "
            "'hurdle_gamma' or 'gated'."
        )
