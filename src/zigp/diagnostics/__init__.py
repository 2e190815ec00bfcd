"""Checks of a fitted model, and scores of its predictions."""

from zigp.diagnostics.validation import (
    ZeroCount,
    coverage,
    cross_check,
    folds,
    reliability,
    score_table,
    zero_count,
)

__all__ = [
    "ZeroCount",
    "coverage",
    "cross_check",
    "folds",
    "reliability",
    "score_table",
    "zero_count",
]
