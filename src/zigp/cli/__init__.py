"""The command line: results on stdout or in files, progress and mistakes on stderr."""

from __future__ import annotations

import os
import sys

from zigp.cli import commands

__all__ = ["app", "main"]

app = commands.app


def main() -> None:
    """What the `zigp` command runs: a mistake is a sentence on stderr, never a traceback."""
    _remember_compiled()
    debug = "--debug" in sys.argv
    try:
        app()
    except KeyboardInterrupt:
        sys.exit("Stopped. Nothing was written.")
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
