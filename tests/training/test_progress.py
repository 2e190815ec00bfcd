"""Progress: it is told while somebody listens, and ends no fit where nobody does."""

from __future__ import annotations

import io
import sys

import pytest

from zigp.training import Progress
from zigp.training.progress import progress_bar


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    """Nobody asks for a terminal's colours where there is none."""
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)


SEEN = [Progress(step, 100, -1.0 * step, 2.5, 3.0) for step in (10, 60, 100)]


class Stream(io.StringIO):
    """Standard error: a terminal or not, to which one can write or not."""

    def __init__(self, terminal: bool, gone: bool):
        super().__init__()
        self.terminal, self.gone = terminal, gone

    def isatty(self) -> bool:
        return self.terminal

    def write(self, text: str) -> int:
        if self.gone:
            raise OSError(5, "Input/output error")
        return super().write(text)


@pytest.mark.parametrize("terminal", [True, False])
def test_step_bound_and_time_left_are_shown(terminal, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stderr := Stream(terminal, gone=False))
    with progress_bar("Rain") as show:
        for progress in SEEN:
            show(progress)
    said = stderr.getvalue()
    assert "Rain" in said
    assert ("60/100 steps" if terminal else "step 60/100") in said
    assert "bound -60.0" in said
    assert "2 s left" in said
    assert "step 10/100" not in said  # few lines where there is no terminal


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_that_closed_or_a_full_log_ends_nothing(terminal, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stderr := Stream(terminal, gone=False))
    with progress_bar("Rain") as show:
        show(SEEN[0])
        stderr.gone = True
        show(SEEN[1])
    assert "60/100" not in stderr.getvalue()


def test_what_fails_in_the_fit_itself_is_not_hidden(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Stream(terminal=True, gone=True))
    with pytest.raises(OSError, match="disk"), progress_bar("Rain"):
        raise OSError("disk full")
