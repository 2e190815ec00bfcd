"""`zigp evaluate`: models side by side on rows that they have not seen."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import typer

from zigp.cli.data import ColumnRoles, Data, read_data
from zigp.cli.fitting import Settings, in_groups, make_model
from zigp.cli.printing import plain, print_scores

__all__ = ["evaluate_file"]

_MODELS = ("zero", "gp", "hurdle", "zigp")
_SHOWN = ("rmse", "mae", "f1", "accuracy", "nlpd", "crps", "coverage90")


def evaluate_file(
    path: Path,
    columns: ColumnRoles,
    models: Sequence[str],
    settings: Settings,
    *,
    folds: int,
    at_random: bool,
    resolution: float | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Score each model on each fold, and print a table of means or all of it as JSON."""
    from zigp.diagnostics.validation import cross_check
    from zigp.estimators.families import resolution_of

    models = list(dict.fromkeys(models))
    if not models:
        raise ValueError(f"--models names none. Choose from {', '.join(_MODELS)}.")
    if unknown := [name for name in models if name not in _MODELS]:
        raise ValueError(f"There is no model {unknown[0]!r}. Choose from {', '.join(_MODELS)}.")
    data = _as_rows(read_data(path, columns), columns)
    if resolution is None:
        resolution = resolution_of(data.y)
    by, splits = _folds(data.X, columns, folds, at_random)
    if not quiet:
        for note in data.notes:
            typer.echo(plain(note), err=True)
        typer.echo(f"{folds} folds of {by}; resolution {resolution:g}.", err=True)
    rows: list[dict[str, Any]] = []
    for name in models:
        for fold, split in enumerate(splits):
            if name == "zero":
                found = _zeros(data.y[split[1]], resolution)
            else:
                model, X = _asked(name, columns, settings, data)
                table = cross_check(model, X, data.y, cv=[split], resolution=resolution)
                found = {str(k): float(v) for k, v in table.iloc[0].items()}
            rows.append({"model": name, "fold": fold} | found)
            if not quiet:
                typer.echo(f"{name}, fold {fold + 1} of {folds}: {_in_words(found)}", err=True)
    if as_json:
        report = {"data": str(path), "folds_by": by, "resolution": resolution, "rows": rows}
        typer.echo(json.dumps(report, indent=2))
        return
    print_scores(_means(rows, models))


def _asked(name: str, columns: ColumnRoles, settings: Settings, data: Data) -> tuple[Any, Any]:
    """A model and what it looks at: options that belong to others are left out."""
    if name == "zigp":
        return in_groups(make_model(name, columns, settings), columns, data), data.X
    gate = [] if name == "gp" else settings.gate_inputs
    settings = replace(settings, likelihood="auto", gate_inputs=gate)
    model = make_model(name, replace(columns, exposure=None), settings)
    X = data.X.drop(columns=columns.exposure) if columns.exposure else data.X
    return in_groups(model, columns, data), X


def _as_rows(data: Data, columns: ColumnRoles) -> Data:
    """A lattice as the table of its cells, which can be split into folds."""
    from zigp.data.grids import as_cells, is_lattice

    if not is_lattice(data.X):
        return data
    cells = as_cells(data.X, data.y, exposure=columns.exposure)
    return Data(cells.X, cells.y, data.notes, cells.groups)


def _folds(
    X: Any, columns: ColumnRoles, count: int, at_random: bool
) -> tuple[str, list[tuple[np.ndarray, np.ndarray]]]:
    from sklearn.model_selection import KFold

    from zigp.diagnostics.validation import folds

    by, along = "random rows", list(X.columns)
    if columns.time and not at_random:
        by, along = "stretches of time", [columns.time]
    elif columns.space and not at_random:
        by, along = "regions", list(columns.space)
    places = len(X) if by == "random rows" else len(X[along].drop_duplicates())
    if places < count:
        what = {"random rows": "rows", "stretches of time": "times", "regions": "places"}[by]
        raise ValueError(f"{places:,} {what} cannot be split into {count} folds: lower --cv.")
    if by == "random rows":
        return by, list(KFold(count, shuffle=True, random_state=0).split(X))
    return by, folds(X, "time" if columns.time else "space", along, count)


def _zeros(y: np.ndarray, resolution: float) -> dict[str, float]:
    from zigp.diagnostics.scores import amount_scores

    return {"test_rows": float(len(y))} | amount_scores(y, np.zeros_like(y), resolution)


def _means(rows: list[dict[str, Any]], models: Sequence[str]) -> dict[str, dict[str, float]]:
    def mean(name: str, score: str) -> float:
        return float(np.mean([row.get(score, np.nan) for row in rows if row["model"] == name]))

    return {name: {score: mean(name, score) for score in _SHOWN} for name in models}


def _in_words(found: dict[str, float]) -> str:
    return ", ".join(f"{name} {found[name]:.3f}" for name in _SHOWN if name in found)
