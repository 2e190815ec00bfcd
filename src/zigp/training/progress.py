"""Training progress and results."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import numpy as np

from zigp.models.model import Model

_LINES = 5  # written during a fit without a terminal

Show = Callable[["Progress"], None]


@dataclass(frozen=True)
class Progress:
    """The state of a fit after a chunk of steps."""

    step: int
    steps: int
    bound: float
    gain: float  # since the chunk before
    seconds: float
    budget: float = np.inf
    kind: str = "bound"

    @property
    def seconds_left(self) -> float:
        """The estimated time until the end."""
        by_steps = self.seconds / max(self.step, 1) * (self.steps - self.step)
        return max(min(by_steps, self.budget - self.seconds), 0.0)


@dataclass
class Fit:
    """A trained model and the history of its training."""

    model: Model
    bounds: np.ndarray  # before every step; with minibatches unbiased estimates
    times: np.ndarray  # seconds since the start, before every step; evenly spaced in each chunk
    seconds: float
    stopped: str  # the reason why training ended
    failed: bool = False  # true if it ended at a bound that is not finite
    retried: list[int] = field(default_factory=list)  # steps at which the jitter was raised


class InterruptedFitError(KeyboardInterrupt):
    """An interruption of training; `fits` has the models at that point.

    Its message is the `reason`, followed by the advice how to resume, if that is possible.
    """

    def __init__(self, reason: str, fits: list[Fit], advice: str = ""):
        super().__init__(f"{reason}. {advice}" if advice else reason)
        self.reason, self.fits = reason, fits


@contextmanager
def progress_bar(title: str) -> Iterator[Show]:
    """Provide a callback that shows steps, bound, gain and the time left.

    A fit continues if its progress can no longer be shown, because the terminal was closed or the
    disk of a log is full.
    """
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(title, console.file.write)
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
        state = f"{progress.kind} {progress.bound:,.1f}"
        if not np.isnan(progress.gain):
            state += f" ({progress.gain:+,.1f})"
        state += f"  {progress.seconds_left:.0f} s left"
        done, of = progress.step, progress.steps
        with suppress(OSError):
            bar.update(task, completed=done, total=of, state=state, refresh=True)

    with suppress(OSError):
        bar.start()
    try:
        yield show
    finally:
        with suppress(OSError):
            bar.stop()


def _lines(title: str, write: Callable[[str], object]) -> Show:
    """Show progress as a few lines of text."""
    shown = 0

    def show(progress: Progress) -> None:
        nonlocal shown
        if (line := progress.step * _LINES // progress.steps) > shown:
            shown = line
            with suppress(OSError):
                write(
                    f"{title}: step {progress.step}/{progress.steps}, "
                    f"{progress.kind} {progress.bound:,.1f}, {progress.seconds:.0f} s, "
                    f"{progress.seconds_left:.0f} s left\n"
                )

    return show
