"""What is told of training while it goes on, and what is left of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from zigp.models import Model

__all__ = ["Fit", "InterruptedFitError", "Progress"]


@dataclass(frozen=True)
class Progress:
    """Where a fit stands after a chunk of steps."""

    step: int
    steps: int
    bound: float
    gain: float  # since the chunk before
    seconds: float
    budget: float = np.inf

    @property
    def seconds_left(self) -> float:
        by_steps = self.seconds / max(self.step, 1) * (self.steps - self.step)
        return max(min(by_steps, self.budget - self.seconds), 0.0)


@dataclass
class Fit:
    """A trained model, and how it came about."""

    model: Model
    bounds: np.ndarray  # before every step; with minibatches an unbiased estimate
    times: np.ndarray  # seconds since the start, before every step; evenly spaced in each chunk
    seconds: float
    stopped: str  # why training ended, in words
    failed: bool = False  # whether it ended at a bound that is not finite
    retried: list[int] = field(default_factory=list)  # steps at which the jitter was raised


class InterruptedFitError(KeyboardInterrupt):
    """Somebody stopped training; what was learned until then is in `fits`.

    `said` is when, which the message repeats before it tells how to go on, if that is possible.
    """

    def __init__(self, said: str, fits: list[Fit], how_to_go_on: str = ""):
        super().__init__(f"{said}. {how_to_go_on}" if how_to_go_on else said)
        self.said, self.fits = said, fits
