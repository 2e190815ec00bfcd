"""The report as one HTML page that needs no network."""

import shlex
from collections.abc import Callable, Sequence
from datetime import date
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from sklearn.utils.validation import check_is_fitted

from zigp.data.grids import as_cells, is_lattice
from zigp.data.layout import refuse_too_large
from zigp.diagnostics.scores import distance_from_uniform
from zigp.estimators.families import resolution_of
from zigp.plots.canvas import value_text
from zigp.report.charts import chosen_rows, draw_charts, draw_maps, map_data
from zigp.report.roles import Roles
from zigp.report.trial import Trial, evaluate
from zigp.report.words import amount, learned
from zigp.runtime.atomic import replacing


def write_report(
    model: Any,
    X: Any,
    y: Any = None,
    path: str | Path = "report.html",
    *,
    roles: Roles | None = None,
    trial: Trial | None = None,
    quick: bool = False,
    verbose: bool = False,
    command: Sequence[str] = (),
    say: Callable[[str], object] = lambda _: None,
) -> Path:
    """Write an HTML report on a fitted model and its data: one file, readable offline.

    It describes the data and the fit, scores predictions of held-out rows, checks the calibration,
    words what was learned, and shows the data and the predictions on maps over time.

    Parameters
    ----------
    model : estimator
        A fitted regression model of one output.
    X : DataFrame, DataArray or Dataset
        Inputs, with the columns of the model; or a lattice.
    y : array-like of shape (n_rows,) or str, default=None
        Observations, or the name of the variable that holds them in a Dataset.
    path : str or Path, default="report.html"
        File to write.
    roles : Roles, default=None
        Roles of the columns; those that the model and the names suggest by default.
    trial : Trial, default=None
        Rows and models for the scores. By default a fifth of the rows is held out and the models
        are fitted again without it.
    quick : bool, default=False
        Whether to score the rows given instead, without fitting again.
    verbose : bool, default=False
        Whether to print training progress.
    command : sequence of str, default=()
        The command that writes the report, to be quoted in it.
    say : callable, default=None
        Function that is given a line before each step.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"depth": X[:, 0]})
    >>> fitted = ZeroInflatedGPRegressor(n_inducing=12, steps=40).fit(table, y)
    >>> write_report(fitted, table, y, "report.html").name
    'report.html'
    """
    check_is_fitted(model)
    path = Path(path)
    if not path.resolve().parent.is_dir():
        raise ValueError(f"There is no folder {path.resolve().parent} to write {path.name} into.")
    table, values = _as_table(model, X, y)
    if roles is None:
        name = y if isinstance(y, str) else getattr(X if y is None else y, "name", None)
        roles = Roles.of(model, target=None if name is None else str(name))
    trial = trial or Trial.of(model, table, values, refit=not quick, verbose=verbose, say=say)
    say("Scoring.")
    result = evaluate(trial, roles)
    say("Drawing.")
    text = _rendered(
        model=model,
        X=table,
        y=pd.Series(values),
        roles=roles,
        trial=trial,
        result=result,
        charts=draw_charts(model, table, values, roles, trial, result),
        maps=_maps(model, table, values, roles),
        gaps=_gaps(table[roles.time]) if roles.time else [],
        learned=learned(model, roles),
        commands=[getattr(model, "origin_", {}).get("command"), command],
        today=date.today(),
    )
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")
    return path


def _as_table(model: Any, X: Any, y: Any) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the model's columns and the observations, or raise an error if there is no report."""
    if not hasattr(model, "feature_names_in_"):
        raise ValueError("The report names columns: fit the model on a DataFrame or a lattice.")
    if hasattr(model, "n_outputs_") or not hasattr(model, "predict_interval"):
        raise ValueError(f"A report is of regression of one output, not {type(model).__name__}.")
    if is_lattice(X):
        cells = as_cells(X, y, exposure=getattr(model, "exposure", None))
        X, y = cells.X, cells.y
    if not isinstance(X, pd.DataFrame):
        raise ValueError("X must be a DataFrame with the columns that the model was fitted with.")
    if missing := [name for name in model.feature_names_in_ if name not in X]:
        raise ValueError(f"X has no column {missing[0]!r}, which the model was fitted with.")
    values = np.asarray(y, float)
    if values.shape != (len(X),) or not np.isfinite(values).all():
        raise ValueError(f"y must be one number for each of the {len(X)} rows, none missing.")
    refuse_too_large("y", values)
    return X[list(model.feature_names_in_)].reset_index(drop=True), values


def _gaps(column: pd.Series) -> list[tuple[Any, Any]]:
    """Return neighbouring times that are further apart than usual, if there are few of these."""
    times = column.drop_duplicates().sort_values(ignore_index=True)
    steps = times.diff()
    long = np.flatnonzero(steps > 1.5 * steps.median())
    few = len(times) > 3 and len(long) <= len(times) // 4
    return [(times[i - 1], times[i]) for i in long] if few else []


def _maps(model: Any, X: pd.DataFrame, y: np.ndarray, roles: Roles) -> dict[str, Any] | None:
    """Return the maps of the page and the data behind them, if there are places."""
    if roles.places is None:
        return None
    rows, note = chosen_rows(X, roles)
    some, observed = X.iloc[rows], y[rows]
    lowest = 0.0 if np.all(observed >= 0) else -np.inf
    values = {"observed": observed, "signal": np.maximum(model.predict(some), lowest)}
    if hasattr(model, "predict_components"):
        components = model.predict_components(some)
        values |= {name: components[name].to_numpy() for name in ("gate", "latent")}
    elif hasattr(model, "prob_on"):
        values["gate"] = np.asarray(model.prob_on(some))
    maps = map_data(some, roles, values, note)
    tol = 0.5 * resolution_of(y)
    layers = draw_maps(model, maps, roles, tol)
    data = maps.packed() | {"axes": roles.places, "layers": [layer["data"] for layer in layers]}
    return {"layers": layers, "data": data, "note": maps.note, "tol": tol}


def _rendered(**content: Any) -> str:
    """Return the template with the content, which is escaped."""
    folder = files("zigp.report")
    css, js, page = (
        (folder / name).read_text(encoding="utf-8")
        for name in ("report.css", "maps.js", "report.html")
    )
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters.update(
        amount=amount, command=shlex.join, distance=distance_from_uniform, text=value_text
    )
    content |= {"css": Markup(css), "js": Markup(js), "version": version("zigp")}
    return environment.from_string(page).render(content)
