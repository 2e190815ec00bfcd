"""The command line: results on stdout or in files, progress and mistakes on stderr."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from zigp.cli import commands
from zigp.cli.memory import ADVICE, ran_out
from zigp.cli.printing import plain
from zigp.runtime.interrupts import StopRequest

__all__ = ["app", "main"]

app = commands.app


def main() -> None:
    """What the `zigp` command runs: a mistake is a sentence on stderr, never a traceback."""
    _remember_compiled()
    debug = "--debug" in sys.argv
    try:
        with _stoppable(), _plain_warnings():
            app()
    except StopRequest as stopped:
        print("Interrupted.", file=sys.stderr)
        sys.exit(stopped.code)
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (ValueError, OSError, FloatingPointError, ImportError) as error:
        if debug:
            raise
        sys.exit(_sentence(error))
    except Exception as error:
        if debug:
            raise
        if ran_out(error):
            sys.exit(ADVICE)
        sys.exit(
            f"This should not have happened: {type(error).__name__}: {_sentence(error)} Run it "
            "again with --debug, and report what that shows."
        )


@contextmanager
def _stoppable() -> Iterator[None]:
    """Ctrl-C and a request to end are raised as an error, so that nothing half-written is left.

    What is to be ignored stays so: under nohup a command goes on when its terminal closes.
    """

    def stop(number: int, frame: object) -> None:
        raise StopRequest(number)

    asked = [getattr(signal, n) for n in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, n)]
    heeded = [number for number in asked if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """A warning is a line, without the place in the code that it came from."""
    before = warnings.formatwarning
    warnings.formatwarning = lambda message, *_: plain(" ".join(str(message).split())) + "\n"
    try:
        yield
    finally:
        warnings.formatwarning = before


def _sentence(error: BaseException) -> str:
    """An error as one line of text; those of the system with the file they are about."""
    if isinstance(error, OSError) and error.strerror:
        about = f"{error.filename}: " if error.filename else ""
        return plain(f"{about}{error.strerror}.")
    return plain(" ".join(str(error).split()) or f"{type(error).__name__}.")


def _remember_compiled() -> None:
    """Keep compiled programs between runs, unless JAX was told where to keep them.

    Not those of `reproduce`: jaxlib has crashed in writing them from processes that compile much.
    """
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ and "reproduce" not in sys.argv[1:2]:
        import pooch

        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(pooch.os_cache("zigp") / "compiled")
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
