"""Checks of a fitted model, and scores of its predictions."""

from zigp.diagnostics.validation import (
    MoransI,
    ZeroCount,
    arviz_groups,
    coverage,
    cross_check,
    folds,
    morans_i,
    reliability,
    score_table,
    zero_count,
)

__all__ = [
    "MoransI",
    "ZeroCount",
    "arviz_groups",
    "coverage",
    "cross_check",
    "folds",
    "morans_i",
    "reliability",
    "score_table",
    "zero_count",
]
