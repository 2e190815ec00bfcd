"""`zigp evaluate`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from sklearn.model_selection import KFold

from zigp.cli.data import MODELS, ColumnRoles, Data, grouped, new_estimator, read_data
from zigp.cli.messages import print_scores, tell
from zigp.cli.options import (
    DATA,
    Category,
    Config,
    Debug,
    Inputs,
    Quiet,
    Space,
    Target,
    Time,
    listed,
    positive,
    with_settings,
)
from zigp.data.grids import as_cells, is_lattice
from zigp.diagnostics.scores import amount_scores
from zigp.diagnostics.validation import cross_check, folds
from zigp.estimators.families import resolution_of

_MODELS = ("zero", "gp", "hurdle", "zigp")
_SHOWN = ("rmse", "mae", "f1", "accuracy", "nlpd", "crps", "coverage90")


@with_settings(MODELS.values(), "model", "training")
def evaluate(
    context: typer.Context,
    data: Annotated[Path, typer.Argument(help=DATA)],
    target: Target,
    settings: Mapping[str, Any],
    space: Space = None,
    time: Time = None,
    inputs: Inputs = None,
    category: Category = None,
    models: Annotated[str, typer.Option(help="Any of zero,gp,hurdle,zigp.")] = "zero,gp,zigp",
    cv: Annotated[int, typer.Option(help="Number of folds.", min=2)] = 5,
    cv_random: Annotated[
        bool, typer.Option("--cv-random", help="Random rows, not stretches of time or regions.")
    ] = False,
    resolution: Annotated[
        float | None, typer.Option(help="Step in which the target is recorded.", callback=positive)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all scores as JSON.")] = False,
    config: Config = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Compare models by their predictions of held-out rows.

    Folds are stretches of time if --time is given, regions if only --space is, and random rows
    otherwise.

    Example: zigp evaluate rain.csv --target rain_mm --space lat,lon --time hour --cv 5
    """
    names, columns = list(dict.fromkeys(listed(models))), ColumnRoles.of(context.params)
    if not names or not {*names} <= {*_MODELS}:
        raise ValueError(f"--models is {models!r}: name some of {', '.join(_MODELS)}.")
    rows = read_data(data, columns)
    if is_lattice(rows.X):  # as the table of its cells, which can be split into folds
        cells = as_cells(rows.X, rows.y, exposure=columns.exposure)
        rows = Data(cells.X, cells.y, rows.notes, cells.groups)
    step = resolution or resolution_of(rows.y)
    by, splits = _folds(rows.X, columns, cv, cv_random)
    tell(*rows.notes, f"{cv} folds of {by}; resolution {step:g}.", quiet=quiet)
    scored: list[dict[str, Any]] = []
    for name in names:
        for fold, split in enumerate(splits):
            found = _scores(name, columns, settings, rows, split, step)
            scored.append({"model": name, "fold": fold} | found)
            shown = ", ".join(f"{score} {found[score]:.3f}" for score in _SHOWN if score in found)
            tell(f"{name}, fold {fold + 1} of {cv}: {shown}", quiet=quiet)
    if as_json:
        report = {"data": str(data), "folds_by": by, "resolution": step, "rows": scored}
        typer.echo(json.dumps(report, indent=2))
    else:
        means = pd.DataFrame(scored).groupby("model", sort=False).mean()
        print_scores(means.reindex(columns=_SHOWN).to_dict("index"))


def _folds(
    X: pd.DataFrame, columns: ColumnRoles, count: int, at_random: bool
) -> tuple[str, Sequence[tuple[np.ndarray, np.ndarray]]]:
    """Return what folds consist of, and the rows to train on and to score for each."""
    try:
        if at_random or not (columns.time or columns.space):
            return "random rows", list(KFold(count, shuffle=True, random_state=0).split(X))
        if columns.time:
            return "stretches of time", folds(X, "time", columns.time, count)
        return "regions", folds(X, "space", columns.space, count)
    except ValueError as error:  # there are too few
        raise ValueError(f"{error} Lower --cv.") from None


def _scores(
    name: str,
    columns: ColumnRoles,
    settings: Mapping[str, Any],
    rows: Data,
    split: tuple[np.ndarray, np.ndarray],
    resolution: float,
) -> dict[str, float]:
    """Return the scores of a model on one fold, without the options of other models."""
    if name == "zero":
        y = rows.y[split[1]]
        return {"test_rows": float(len(y))} | amount_scores(y, np.zeros_like(y), resolution)
    X = rows.X
    if name != "zigp" and columns.exposure:
        X, columns = X.drop(columns=columns.exposure), replace(columns, exposure=None)
    estimator = grouped(new_estimator(name, columns, settings), columns, replace(rows, X=X))
    table = cross_check(estimator, X, rows.y, cv=[split], resolution=resolution)
    return {str(score): float(value) for score, value in table.iloc[0].items()}
