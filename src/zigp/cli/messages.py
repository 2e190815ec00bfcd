"""Messages for terminals: lines, tables, and errors as sentences."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

# Errors whose message is for users: of options, data and the system.
EXPECTED = (ValueError, OSError, FloatingPointError, ImportError)

_LONGEST, _LONGEST_ERROR = 2_000, 300  # characters of a line, and of an unexpected error
_NAMES = {
    "rmse": "RMSE",
    "mae": "MAE",
    "f1": "F1",
    "nlpd": "−log P",
    "crps": "CRPS",
    "coverage90": "90 % cover",
}


def plain(line: str) -> str:
    """Return a line that may hold text from data with control characters spelled out, and short.

    >>> plain("column '\\x1b[31mred'")
    "column '\\\\x1b[31mred'"
    """
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    if len(safe) <= _LONGEST:
        return safe
    return f"{safe[: _LONGEST // 2]} … {safe[-_LONGEST // 2 :]}"


def tell(*lines: str, quiet: bool = False) -> None:
    """Print lines on stderr."""
    for line in () if quiet else lines:
        typer.echo(plain(line), err=True)


def print_scores(scores: Mapping[Any, Mapping[Any, float]]) -> None:
    """Print a line for each model and a column for each score; a missing score stays empty."""
    from rich.console import Console
    from rich.table import Column, Table

    columns = list(next(iter(scores.values())))
    table = Table("model", *(Column(_NAMES.get(c, c), justify="right") for c in columns))
    for model, row in scores.items():
        table.add_row(model, *("" if row[c] != row[c] else f"{row[c]:.3f}" for c in columns))
    Console().print(table)


def sentence(error: Exception) -> str:
    """Return an error as a line of text; system errors with the file they are about."""
    said = on_one_line(str(error)) or f"{type(error).__name__}."
    if isinstance(error, OSError) and error.strerror:
        said = plain(
            f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
        )
    if isinstance(error, EXPECTED):
        return said
    if ran_out(error):
        return "Out of memory. Give fewer rows, --inducing less, or a --batch-size."
    return (
        f"This should not have happened: {type(error).__name__}: {said} Run it again with --debug, "
        "and report what that shows."
    )


def on_one_line(text: str) -> str:
    """Return a text of several lines as one."""
    return plain(" ".join(text.split()))


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
        what = f"{type(error).__name__}: {error}"[:_LONGEST_ERROR]
        raise ValueError(
            f"{path} is not a model that this zigp can use: {what} If zigp wrote it, run this "
            "again with --debug, and report what that shows."
        ) from error
