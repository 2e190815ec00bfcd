"""The command line: results on stdout or in files, progress and mistakes on stderr."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from zigp.cli import commands

__all__ = ["app", "main"]

app = commands.app


class _StoppedError(BaseException):
    """A signal asked us to end; what is on its way to a file is cleared away as it passes."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main() -> None:
    """What the `zigp` command runs: a mistake is a sentence on stderr, never a traceback."""
    _remember_compiled()
    debug = "--debug" in sys.argv
    try:
        with _stoppable():
            app()
    except _StoppedError as stopped:
        print("Interrupted.", file=sys.stderr)
        sys.exit(128 + stopped.number)
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except MemoryError:
        sys.exit("Out of memory. Give fewer rows, --inducing less, or a --batch-size.")
    except (ValueError, OSError, FloatingPointError, ImportError) as error:
        if debug:
            raise
        sys.exit(_sentence(error))
    except Exception as error:
        if debug:
            raise
        sys.exit(
            f"This should not have happened: {type(error).__name__}: {_sentence(error)} Run it "
            "again with --debug, and report what that shows."
        )


@contextmanager
def _stoppable() -> Iterator[None]:
    """Ctrl-C and a request to end are raised as an error, so that nothing half-written is left."""

    def stop(number: int, frame: object) -> None:
        raise _StoppedError(number)

    asked = [getattr(signal, n) for n in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, n)]
    before = {number: signal.signal(number, stop) for number in asked}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _sentence(error: BaseException) -> str:
    """An error as one line of text; those of the system with the file they are about."""
    if isinstance(error, OSError) and error.strerror:
        about = f"{error.filename}: " if error.filename else ""
        return f"{about}{error.strerror}."
    return " ".join(str(error).split()) or f"{type(error).__name__}."


def _remember_compiled() -> None:
    """Keep compiled programs between runs, unless JAX was told where to keep them.

    Not those of `reproduce`: jaxlib has crashed in writing them from processes that compile much.
    """
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ and "reproduce" not in sys.argv[1:2]:
        import pooch

        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(pooch.os_cache("zigp") / "compiled")
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
