"""Tables on stdout, and lines that a terminal can be shown."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["plain", "print_scores"]

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
    """A line that may hold text from data: what steers terminals is spelled out, the rest is short.

    >>> plain("column '\\x1b[31mred'")
    "column '\\\\x1b[31mred'"
    """
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    if len(safe) <= _LONGEST:
        return safe
    return f"{safe[: _LONGEST // 2]} … {safe[-_LONGEST // 2 :]}"


def print_scores(scores: Mapping[str, Mapping[str, float]]) -> None:
    """A line for each model and a column for each score; what a model lacks stays empty."""
    from rich.console import Console
    from rich.table import Table

    table = Table()
    table.add_column("model")
    columns = list(next(iter(scores.values())))
    for column in columns:
        table.add_column(_NAMES.get(column, column), justify="right")
    for model, row in scores.items():
        cells = ("" if row[c] != row[c] else f"{row[c]:.3f}" for c in columns)
        table.add_row(model, *cells)
    Console().print(table)
