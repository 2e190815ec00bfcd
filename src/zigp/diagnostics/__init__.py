"""Checks of a fitted model, and scores of its predictions."""

from zigp.diagnostics.scores import best_threshold
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
    "best_threshold",
    "coverage",
    "cross_check",
    "folds",
    "reliability",
    "score_table",
    "zero_count",
]
