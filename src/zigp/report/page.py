"""The page: everything about a fit in one file that opens anywhere, offline."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from datetime import date
from importlib.metadata import version
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from zigp.data.grids import as_cells, is_lattice
from zigp.data.layout import refuse_too_large
from zigp.diagnostics.scores import distance_from_uniform
from zigp.estimators.families import LOG_AMOUNTS
from zigp.report import charts
from zigp.report.maps import chosen_rows, maps_of
from zigp.report.roles import Roles
from zigp.report.trial import Trial, Verdict, judged
from zigp.report.words import amount, as_it_is, learned, noise
from zigp.runtime.atomic import replacing

__all__ = ["write_report"]

_LIKELIHOODS = {
    "gated": "noise that is small where the signal is off",
    "gaussian": "one noise variance everywhere",
    "hurdle_lognormal": "exact zeros, and lognormal amounts otherwise",
    "hurdle_gamma": "exact zeros, and gamma amounts otherwise",
    "zip": "zero-inflated Poisson counts",
    "zinb": "zero-inflated negative binomial counts",
}
_SCORES: dict[str, tuple[str, str, bool]] = {  # heading, what it is, whether more is better
    "rmse": ("RMSE", "root of the mean squared error, in the target's unit", False),
    "mae": ("MAE", "mean absolute error, in the target's unit", False),
    "f1": ("F1", "of zero or not: 1 if all are right", True),
    "accuracy": ("accuracy", "share of rows where zero or not is right", True),
    "nlpd": ("−log P", "how surprising the observations were", False),
    "crps": ("CRPS", "error of the whole distribution, in the target's unit", False),
}
_LEVELS = (0.5, 0.8, 0.9, 0.95)
_MOST_INPUTS = 6
_FEWEST_JUDGED = 50
_LARGE = 1e9  # scores from here on are written with an exponent


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
    """Write one HTML page about a fitted model and its data, which opens anywhere, offline.

    It says what the data are, what was fitted and whether it looks sane, how good predictions are
    of rows that were hidden (which means fitting again, unless a `trial` is given, or `quick` to
    judge by rows that the model knows), whether probabilities can be believed, and what was
    learned; and it draws the rows on maps, one time after another. X is a DataFrame with the
    model's columns, or a lattice (then y names what was observed, or X is a DataArray). `say` is
    told what is being done.

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
    roles = roles or Roles.of(model, target=_name_of(X, y))
    trial = trial or Trial.of(model, table, values, seen=quick, verbose=verbose, say=say)
    say("Scoring.")
    verdict = judged(trial, roles.target)
    say("Drawing.")
    drawn, maps = _charts(model, table, values, roles, trial, verdict)
    text = _rendered(
        title=f"{roles.target}: a report",
        roles=roles,
        facts=_facts(table, values, roles),
        zeros=float(np.mean(values == 0)),
        rows=len(values),
        fit=_fit(model),
        doubts=model.sanity(),
        learned=learned(model, roles),
        noise=noise(model, roles),
        told=trial.told,
        verdict=_in_words(trial, verdict),
        calibrated=_calibrated(verdict),
        headings=_SCORES,
        scores=_scores(verdict),
        coverage=[(f"{level:.0%}", f"{_inside(verdict, level):.1%}") for level in _LEVELS],
        worst=_as_text(*verdict.worst),
        inputs=roles.others([str(n) for n in model.feature_names_in_])[:_MOST_INPUTS],
        charts=drawn,
        maps=maps,
        commands=_commands(model, command),
        version=version("zigp"),
        today=date.today().isoformat(),
    )
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")
    return path


def _as_table(model: Any, X: Any, y: Any) -> tuple[pd.DataFrame, np.ndarray]:
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


def _name_of(X: Any, y: Any) -> str | None:
    """What the observations are called, where that is known."""
    name = y if isinstance(y, str) else getattr(X if y is None else y, "name", None)
    return None if name is None else str(name)


# ---------------------------------------------------------------------------------------------
# Sentences and tables


def _facts(X: pd.DataFrame, y: np.ndarray, roles: Roles) -> list[tuple[str, str]]:
    """What the data are."""
    on, unit = y[y != 0], roles.unit
    found = [
        ("rows", f"{len(y):,}"),
        ("exactly zero", f"{np.sum(y == 0):,} ({np.mean(y == 0):.1%})"),
    ]
    if len(on):
        low, middle, high = (amount(float(v), unit) for v in (on.min(), np.median(on), on.max()))
        found.append(("not zero", f"{low} to {high}, half of them up to {middle}"))
    for name in X:
        found.append((str(name), _range(X[name])))
    if roles.places:
        count = len(X[list(roles.places)].drop_duplicates())
        found.append(("places", f"{count:,}"))
        if roles.time:
            cells = count * X[roles.time].nunique()
            missing = 1.0 - len(X) / cells
            if 0 <= missing < 0.5:
                found.append(
                    ("gaps", f"{missing:.2%} of {count:,} places × {cells // count:,} times")
                )
    if roles.time and (jumps := _jumps(X[roles.time])):
        found.append((f"jumps in {roles.time}", jumps))
    return found


def _range(column: pd.Series) -> str:
    if column.dtype == "category":
        levels = [str(level) for level in column.unique()]
        more = f" and {len(levels) - 6} more" if len(levels) > 6 else ""
        return f"{len(levels)} levels: {', '.join(levels[:6])}{more}"
    return f"{as_it_is(column.min())} to {as_it_is(column.max())}"


def _jumps(column: pd.Series) -> str:
    """Where times are further apart than they usually are."""
    times = pd.Series(column.unique()).sort_values().to_list()
    steps = np.array([b - a for a, b in pairwise(times)])
    if len(steps) < 3:
        return ""
    usual = np.sort(steps)[len(steps) // 2]
    long = np.flatnonzero(steps > 1.5 * usual)
    if not len(long) or len(long) > len(steps) // 4:
        return ""
    first = long[0]
    ends = " to ".join(as_it_is(times[i]) for i in (first, first + 1))
    return f"{len(long)}, the first from {ends}"


def _fit(model: Any) -> list[tuple[str, str]]:
    """What was fitted."""
    hurdle = hasattr(model, "regressor_")
    one = model.regressor_ if hurdle else model
    found = [("model", type(model).__name__)]
    if hasattr(model, "likelihood_"):
        found.append(("likelihood", f"{model.likelihood_}: {_LIKELIHOODS[model.likelihood_]}"))
    latents = [*one.model_.untied().values()]
    latents += [*model.classifier_.model_.untied().values()] if hurdle else []
    sizes = [" × ".join(f"{len(z):,}" for z in latent.Z) for latent in latents]
    found.append(("inducing points", " and ".join(dict.fromkeys(sizes))))
    for part in [model.classifier_, model.regressor_] if hurdle else [model]:
        name = {"SparseGPClassifier": "whether", "SparseGPRegressor": "how much"}
        called = f"training ({name[type(part).__name__]})" if hurdle else "training"
        rows = f"{part.n_rows_:,} rows, {part.n_iter_} steps in {part.seconds_:.0f} s"
        found.append((called, f"{rows}: {part.stopped_}"))
    return found


def _scores(verdict: Verdict) -> list[tuple[str, list[tuple[str, bool]]]]:
    """For each model its scores as text, and whether they are the best."""
    best: dict[str, str] = {}
    texts: dict[str, dict[str, str]] = {}
    for name, (_, _, more) in _SCORES.items():
        known = {m: one[name] for m, one in verdict.scores.items() if name in one}
        sizes = [abs(v) for v in known.values() if np.isfinite(v)]
        digits = 3 - int(np.floor(np.log10(max(sizes, default=1.0) or 1.0)))
        places = min(max(digits - 1, 3), 12)
        texts[name] = dict.fromkeys(verdict.scores, "") | {
            m: f"{v:.{places}f}" if abs(v) < _LARGE else f"{v:.4g}" for m, v in known.items()
        }
        if len(known) > 1:
            best[name] = texts[name][(max if more else min)(known, key=lambda m: known[m])]
    return [
        (
            model,
            [(texts[k][model], k in best and texts[k][model] == best[k]) for k in _SCORES],
        )
        for model in verdict.scores
    ]


def _in_words(trial: Trial, verdict: Verdict) -> str:
    """How much better than the others, in a sentence."""
    ours = verdict.scores[trial.ours]
    said = []
    for name, one in verdict.scores.items():
        if name != trial.ours and one["mae"] > 0 and one["rmse"] > 0:
            rmse, mae = ours["rmse"] / one["rmse"] - 1.0, ours["mae"] / one["mae"] - 1.0
            said.append(
                f"{_change(rmse)} RMSE and {_change(mae)} MAE than {name[0].lower()}{name[1:]}"
            )
    if not said:
        return ""
    return f"{trial.ours} has {'; '.join(said)}."


def _change(relative: float) -> str:
    if abs(relative) < 0.005:
        return "the same"
    return f"{abs(relative):.0%} {'lower' if relative < 0 else 'higher'}"


def _calibrated(verdict: Verdict) -> str:
    inside, rows = _inside(verdict, 0.9), len(verdict.pit)
    if rows < _FEWEST_JUDGED:
        return f"There are too few rows to tell: {rows}."
    distance = distance_from_uniform(verdict.pit)
    chance = 2.0 * float(np.sqrt(0.9 * 0.1 / rows))
    if inside < 0.88 - chance:
        said = "Intervals are too narrow: more observations fall outside than should"
    elif inside > 0.92 + chance:
        said = "Intervals are too wide: fewer observations fall outside than should"
    else:
        said = "Intervals hold about as many observations as they should"
    return f"{said} ({inside:.1%} are inside those of 90 %). {_level(distance)}"


def _inside(verdict: Verdict, level: float) -> float:
    """The share of observations in the middle part of their predicted distributions."""
    return float(np.mean(np.abs(verdict.pit - 0.5) <= 0.5 * level))


def _level(distance: float) -> str:
    """What the distance of the PIT from uniform means."""
    if distance < 0.05:
        return f"Over all levels predicted probabilities are at most {distance:.1%} off."
    return f"At some levels predicted probabilities are {distance:.1%} off."


def _as_text(inputs: pd.DataFrame, found: pd.DataFrame) -> dict[str, Any]:
    """Inputs as they are, and what was found rounded."""
    rows = zip(inputs.itertuples(index=False), found.to_numpy(), strict=True)
    return {
        "head": [str(name) for name in (*inputs.columns, *found.columns)],
        "rows": [[*map(as_it_is, x), *(amount(float(v)) for v in y)] for x, y in rows],
    }


def _commands(model: Any, command: Sequence[str]) -> list[str]:
    fitted = getattr(model, "made_by_", {}).get("command", [])
    return [shlex.join(one) for one in (fitted, command) if one]


# ---------------------------------------------------------------------------------------------
# Charts


def _charts(
    model: Any,
    X: pd.DataFrame,
    y: np.ndarray,
    roles: Roles,
    trial: Trial,
    verdict: Verdict,
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    drawn = {"amounts": charts.amounts(y, roles), "training": charts.training(model)}
    drawn |= charts.calibration(verdict)
    drawn["scatter"] = charts.predicted_and_observed(trial, verdict, roles)
    names = [str(name) for name in model.feature_names_in_]
    if roles.time:
        drawn["time"] = charts.over_time(X, y, roles)
    if len(names) == 1 and X[names[0]].dtype != "category":
        drawn["line"] = charts.line(X, y, model, names[0], roles)
    for i, name in enumerate(roles.others(names)[:_MOST_INPUTS]):
        drawn[f"input{i}"] = charts.along(trial.X, trial.y, verdict.mean, name, roles)
    if roles.places is None:
        return drawn, None
    rows, note = chosen_rows(X, roles)
    maps = maps_of(X, roles, rows, _mapped(model, X.iloc[rows], y[rows]), note)
    logarithmic = getattr(model, "likelihood_", "") in LOG_AMOUNTS
    stretch = 1.0
    if roles.on_earth:
        stretch = float(1.0 / np.cos(np.deg2rad(np.clip(maps.places[:, 1].mean(), -80, 80))))
    return drawn, maps.packed() | {
        "shown": charts.coloured(maps, roles, logarithmic),
        "axes": list(roles.places),
        "stretch": stretch,
        "same_unit": roles.to_scale,
    }


def _mapped(model: Any, X: pd.DataFrame, y: np.ndarray) -> dict[str, np.ndarray]:
    """What maps show at each row."""
    found = {"observed": y, "predicted": np.asarray(model.predict(X))}
    if np.all(y >= 0):
        found["predicted"] = np.clip(found["predicted"], 0.0, None)
    if hasattr(model, "predict_components"):
        parts = model.predict_components(X)
        found |= {"support": parts["gate"].to_numpy(), "latent": parts["latent"].to_numpy()}
    elif hasattr(model, "prob_on"):
        found["support"] = np.asarray(model.prob_on(X))
    return found


def _rendered(**found: Any) -> str:
    """The template filled in; text is escaped, and nothing is loaded from anywhere."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

    folder = files("zigp.report")
    read = {
        name: Markup((folder / f"page.{name}").read_text(encoding="utf-8"))
        for name in ("css", "js")
    }
    found["charts"] = found["charts"] | ({"maps": found["maps"]} if found["maps"] else {})
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    template = environment.from_string((folder / "page.html").read_text(encoding="utf-8"))
    return template.render(**found, **read, plotly=Markup(get_plotlyjs()))
