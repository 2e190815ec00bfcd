"""Outputs in the user's units and in the model's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

_LOWEST = {"log": 0.0, "log1p": -1.0}  # what outputs must lie above


@dataclass(frozen=True)
class OutputScale:
    """The map from an output y to the model's units: (t(y) − offset) / scale.

    t is the identity, `log` or `log1p`. Users' outputs are [rows] or [rows, P]; in the model rows
    run along the last axis.
    """

    offset: Any
    scale: Any
    transform: str | None = None

    @property
    def lowest(self) -> float:
        """The value that outputs must lie above."""
        return -np.inf if self.transform is None else _LOWEST[self.transform]

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
        """Return [P, rows] or [rows] from the model as the user's [rows, P] or [rows]."""
        y = self.offset + self.scale * values.T
        return y if self.transform is None else np.exp(y) + self.lowest

    def log_jacobian(self, y: np.ndarray, weights: np.ndarray) -> float:
        """Return Σ weight · log |dz/dy| for outputs z of the model and weights [P, rows] or [rows].

        It takes a bound on log p(z) to one on log p(y). The derivative of a logarithm t is exp(−t).
        """
        total = -float(np.sum(weights * np.log(np.reshape(self.scale, (-1, 1)))))
        if self.transform is not None:
            total -= float(np.sum(weights * np.nan_to_num(self.transformed(y)).T))
        return total
