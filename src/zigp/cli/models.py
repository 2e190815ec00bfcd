"""Model files that a command uses, which may hold anything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from zigp.cli.memory import ran_out

__all__ = ["ModelError", "using"]

_LONGEST = 300  # characters of what went wrong
# What is told as it is: mistakes in options and data, and what came from outside.
_TOLD = (
    typer.BadParameter, typer.Exit, typer.Abort,
    ValueError, OSError, FloatingPointError, ImportError,
)  # fmt: skip


class ModelError(ValueError):
    """A file is a model by its form alone."""


@contextmanager
def using(path: Path | None) -> Iterator[None]:
    """What nobody foresaw while a model's file is in use is told of that file.

    Its digest agrees with whatever somebody has put there, so that the parts need not fit together.
    """
    try:
        yield
    except _TOLD:
        raise
    except Exception as error:
        if path is None or ran_out(error):
            raise
        what = f"{type(error).__name__}: {error}"[:_LONGEST]
        raise ModelError(
            f"{path} is not a model that this zigp can use: {what} If zigp wrote it, run this "
            "again with --debug, and report what that shows."
        ) from error
