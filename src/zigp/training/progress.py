"""Training progress and results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import numpy as np

from zigp.models.model import Model

__all__ = ["Fit", "InterruptedFitError", "Progress", "progress_bar"]

_LINES = 5  # how many lines a fit writes where there is no terminal


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


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[Progress], None]]:
    """A callback for the trainer that shows steps, bound, its gain and the time left.

    A fit goes on where nothing can be shown any longer: its terminal closed, or a log's disk full.
    """
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _as_long_as_possible(_lines(title, console.file.write))
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f} steps"),
        TextColumn("{task.fields[state]}"),
    )
    bar = Bar(*columns, console=console, auto_refresh=False)
    task = bar.add_task(title, total=1, state="compiling")

    def show(progress: Progress) -> None:
        state = f"bound {progress.bound:,.1f} ({progress.gain:+,.1f})"
        left = f"{progress.seconds_left:.0f} s left"
        done, of = progress.step, progress.steps
        bar.update(task, completed=done, total=of, state=f"{state}  {left}", refresh=True)

    with suppress(OSError):
        bar.start()
    try:
        yield _as_long_as_possible(show)
    finally:
        with suppress(OSError):
            bar.stop()


def _as_long_as_possible(show: Callable[[Progress], None]) -> Callable[[Progress], None]:
    gone = False  # rich would keep all that it could not write, and try it again

    def shown(progress: Progress) -> None:
        nonlocal gone
        if not gone:
            try:
                show(progress)
            except OSError:
                gone = True

    return shown


def _lines(title: str, write: Callable[[str], object]) -> Callable[[Progress], None]:
    shown = 0

    def show(progress: Progress) -> None:
        nonlocal shown
        if progress.step * _LINES < progress.steps * (shown + 1):
            return
        shown = progress.step * _LINES // progress.steps
        write(
            f"{title}: step {progress.step}/{progress.steps}, bound {progress.bound:,.1f}, "
            f"{progress.seconds:.0f} s, {progress.seconds_left:.0f} s left\n"
        )

    return show
