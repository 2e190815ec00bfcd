"""Facts about data, fit and scores, as the report words them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from zigp.diagnostics.scores import distance_from_uniform
from zigp.plots.labels import value_text
from zigp.report.roles import Roles
from zigp.report.trial import Evaluation, Trial
from zigp.report.words import amount

__all__ = [
    "SCORES",
    "calibration",
    "commands_of",
    "comparisons",
    "data_facts",
    "fit_facts",
    "largest_errors",
    "score_rows",
]

SCORES: dict[str, tuple[str, str, bool]] = {  # heading, meaning, whether higher is better
    "rmse": ("RMSE", "root mean squared error, in the unit of the target", False),
    "mae": ("MAE", "mean absolute error, in the unit of the target", False),
    "f1": ("F1", "harmonic mean of precision and recall of non-zero values", True),
    "accuracy": ("accuracy", "share of rows rightly predicted as zero or non-zero", True),
    "nlpd": ("−log P", "mean negative log probability of the recorded values", False),
    "crps": ("CRPS", "error of the predicted distribution, in the unit of the target", False),
}
_LIKELIHOODS = {
    "gated": "noise that is small where the signal is off",
    "gaussian": "one noise variance everywhere",
    "hurdle_lognormal": "exact zeros, and lognormal amounts otherwise",
    "hurdle_gamma": "exact zeros, and gamma amounts otherwise",
    "zip": "zero-inflated Poisson counts",
    "zinb": "zero-inflated negative binomial counts",
}
_LEVELS = (0.5, 0.8, 0.9, 0.95)
_LARGE = 1e9  # scores from here on are written with an exponent
_FEW_LEVELS = 6

Facts = list[tuple[str, str]]


def data_facts(X: pd.DataFrame, y: np.ndarray, roles: Roles) -> Facts:
    """Return names and values of facts about the data."""
    on, zeros = y[y != 0], y == 0
    facts = [("rows", f"{len(y):,}"), ("exactly zero", f"{zeros.sum():,} ({zeros.mean():.1%})")]
    if len(on):
        low, middle, high = (amount(float(v), roles.unit) for v in np.quantile(on, (0, 0.5, 1)))
        facts.append(("non-zero", f"{low} to {high}, median {middle}"))
    facts += [(str(name), _range(X[name])) for name in X]
    if roles.places:
        places = len(X[list(roles.places)].drop_duplicates())
        facts.append(("places", f"{places:,}"))
        times = X[roles.time].nunique() if roles.time else 0
        if times and 0.5 * places * times < len(X) <= places * times:
            missing = 1.0 - len(X) / (places * times)
            facts.append(("missing", f"{missing:.2%} of {places:,} places × {times:,} times"))
    if roles.time and (gaps := _gaps(X[roles.time])):
        facts.append((f"gaps in {roles.time}", gaps))
    return facts


def _range(column: pd.Series) -> str:
    if column.dtype != "category":
        return f"{value_text(column.min())} to {value_text(column.max())}"
    levels = column.unique().astype(str)
    rest = f" and {len(levels) - _FEW_LEVELS} more" if len(levels) > _FEW_LEVELS else ""
    return f"{len(levels)} levels: {', '.join(levels[:_FEW_LEVELS])}{rest}"


def _gaps(column: pd.Series) -> str:
    """Return how often times are further apart than usual, and the first such gap."""
    times = column.drop_duplicates().sort_values(ignore_index=True)
    steps = times.diff()
    long = np.flatnonzero(steps > 1.5 * steps.median())
    if len(times) < 4 or not 0 < len(long) <= len(times) // 4:
        return ""
    first, last = times[long[0] - 1], times[long[0]]
    return f"{len(long)}, the first from {value_text(first)} to {value_text(last)}"


def fit_facts(model: Any) -> Facts:
    """Return names and values of facts about the fit."""
    facts = [("model", type(model).__name__)]
    if hasattr(model, "likelihood_"):
        facts.append(("likelihood", f"{model.likelihood_}: {_LIKELIHOODS[model.likelihood_]}"))
    latents = [
        latent for part in model.parts_.values() for latent in part.model_.complete().values()
    ]
    sizes = dict.fromkeys(" × ".join(f"{len(z):,}" for z in latent.Z) for latent in latents)
    facts.append(("inducing points", " and ".join(sizes)))
    for name, part in model.parts_.items():
        rows = f"{part.n_rows_:,} rows, {part.n_iter_} steps in {part.seconds_:.0f} s"
        facts.append((f"training ({name})" if name else "training", f"{rows}: {part.stopped_}"))
    return facts


def score_rows(result: Evaluation) -> list[tuple[str, list[tuple[str, bool]]]]:
    """Return for each model its scores as text, and whether they are the best."""
    columns = {}
    for name, (_, _, higher) in SCORES.items():
        values = {model: one[name] for model, one in result.scores.items() if name in one}
        largest = max((abs(v) for v in values.values() if np.isfinite(v)), default=1.0)
        digits = int(np.clip(2 - np.floor(np.log10(largest or 1.0)), 3, 12))
        texts = {
            model: f"{v:.{digits}f}" if abs(v) < _LARGE else f"{v:.4g}"
            for model, v in values.items()
        }
        best = (max if higher else min)(values, key=values.__getitem__) if len(values) > 1 else ""
        columns[name] = {
            model: (texts.get(model, ""), best in texts and texts.get(model) == texts[best])
            for model in result.scores
        }
    return [(model, [columns[name][model] for name in SCORES]) for model in result.scores]


def comparisons(trial: Trial, result: Evaluation) -> list[tuple[str, str, str]]:
    """Return the other models, and how the RMSE and the MAE of ours compare to theirs."""
    ours = result.scores[trial.ours]
    return [
        (name, *(_change(ours[score] / other[score] - 1.0) for score in ("rmse", "mae")))
        for name, other in result.scores.items()
        if name != trial.ours and other["mae"] > 0 and other["rmse"] > 0
    ]


def _change(relative: float) -> str:
    if abs(relative) < 0.005:
        return "the same"
    return f"{abs(relative):.0%} {'lower' if relative < 0 else 'higher'}"


def calibration(result: Evaluation) -> dict[str, Any]:
    """Return how many observations lie inside central intervals, and what that means."""
    rows, distance = len(result.pit), distance_from_uniform(result.pit)
    inside = {level: np.mean(np.abs(result.pit - 0.5) <= 0.5 * level) for level in _LEVELS}
    chance = 0.02 + 2.0 * float(np.sqrt(0.9 * 0.1 / rows))
    off = inside[0.9] - 0.9
    width = "about right" if abs(off) <= chance else "too narrow" if off < 0 else "too wide"
    return {"rows": rows, "inside": inside, "width": width, "distance": distance}


def largest_errors(result: Evaluation) -> dict[str, Any]:
    """Return the header and the rows of a table: inputs in full, predictions rounded."""
    inputs, predictions = result.worst
    rows = zip(inputs.itertuples(index=False), predictions.to_numpy(), strict=True)
    return {
        "head": [str(name) for name in (*inputs.columns, *predictions.columns)],
        "rows": [[*map(value_text, x), *(amount(float(v)) for v in p)] for x, p in rows],
    }


def commands_of(model: Any, command: Sequence[str]) -> list[str]:
    """Return the commands that fitted the model and wrote the report."""
    fitted = getattr(model, "origin_", {}).get("command", [])
    return [shlex.join(one) for one in (fitted, command) if one]
