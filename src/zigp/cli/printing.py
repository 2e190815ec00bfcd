"""Lines and tables for terminals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

_LONGEST = 2_000  # characters of a line

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
