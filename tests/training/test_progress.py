"""The progress bar: its text, and that no fit ends because it cannot be shown."""

from __future__ import annotations

import io
from contextlib import redirect_stderr

import pytest

from zigp.training import Progress
from zigp.training.progress import progress_bar

CHUNKS = [Progress(step, 100, -1.0 * step, 2.5, 3.0) for step in (10, 60, 100)]


class Stream(io.StringIO):
    """Standard error, which may be a terminal, and may refuse what is written to it."""

    terminal = broken = False

    def isatty(self) -> bool:
        return self.terminal

    def write(self, text: str) -> int:
        if self.broken:
            raise OSError(5, "Input/output error")
        return super().write(text)


@pytest.fixture(params=[True, False], ids=["terminal", "log"])
def stderr(request, monkeypatch):
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    stderr = Stream()
    stderr.terminal = request.param
    return stderr


def test_step_bound_and_time_left_are_shown(stderr):
    with redirect_stderr(stderr), progress_bar("Rain") as show:
        for progress in CHUNKS:
            show(progress)
    text = stderr.getvalue()
    wanted = ["Rain", "60/100 steps" if stderr.terminal else "step 60/100", "bound -60.0"]
    assert [words for words in [*wanted, "2 s left"] if words not in text] == []
    assert "step 10/100" not in text  # a log has few lines


def test_a_terminal_that_closed_or_a_full_log_ends_nothing(stderr):
    with redirect_stderr(stderr), progress_bar("Rain") as show:
        show(CHUNKS[0])
        stderr.broken = True
        show(CHUNKS[1])
    assert "60/100" not in stderr.getvalue()


def test_an_error_in_the_fit_itself_is_not_hidden(stderr):
    stderr.broken = True
    with pytest.raises(OSError, match="disk"), redirect_stderr(stderr), progress_bar("Rain"):
        raise OSError("disk full")
