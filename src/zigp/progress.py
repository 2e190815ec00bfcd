"""A live progress bar on stderr, or plain lines where there is no terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zigp.training import Progress

__all__ = ["progress_bar"]

_LINES = 5  # how many lines a fit writes where there is no terminal


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
