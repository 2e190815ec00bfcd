"""Errors as sentences: of usage and data as they are, unexpected ones with what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ADVICE = "Out of memory. Give fewer rows, --inducing less, or a --batch-size."
# Errors whose message is for users: of options, data and the system.
EXPECTED = (ValueError, OSError, FloatingPointError, ImportError)

_LONGEST = 300  # characters of an unexpected error


def ran_out(error: BaseException) -> bool:
    """Return whether memory ran out, here or on a device.

    XLA has no class for this error: it is a RuntimeError with a status.

    >>> ran_out(RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes."))
    True
    """
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and "RESOURCE_EXHAUSTED" in str(error)
    )


@contextmanager
def using(path: Path | None) -> Iterator[None]:
    """Attribute unexpected errors to the model file in use, if there is one.

    A digest that agrees does not make it a model: anybody can write one.
    """
    try:
        yield
    except EXPECTED:
        raise
    except Exception as error:
        if path is None or ran_out(error):
            raise
        what = f"{type(error).__name__}: {error}"[:_LONGEST]
        raise ValueError(
            f"{path} is not a model that this zigp can use: {what} If zigp wrote it, run this "
            "again with --debug, and report what that shows."
        ) from error
