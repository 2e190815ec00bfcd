"""The page's charts, as plotly reads them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from zigp.estimators.families import resolution_of
from zigp.report.maps import Maps, as_number
from zigp.report.roles import Roles
from zigp.report.trial import Trial, Verdict

__all__ = [
    "along",
    "amounts",
    "calibration",
    "coloured",
    "line",
    "over_time",
    "predicted_and_observed",
    "training",
]

Chart = dict[str, Any]
_BLUE, _ORANGE, _GREY = "#0072b2", "#d55e00", "#8a8a8a"  # told apart by everybody
_MOST_POINTS = 1_500
_BINS = 40


def amounts(y: np.ndarray, roles: Roles) -> Chart:
    """How large the amounts are that are not zero."""
    on = y[y != 0]
    spread = np.log10(on.max() / on.min()) if len(on) and np.all(on > 0) else 0.0
    wide = spread > 1.5
    ends = (on.min(), on.max()) if len(on) else (0.0, 1.0)
    if ends[0] == ends[1]:
        ends = (ends[0] - 0.5 * abs(ends[0]), ends[1] + 0.5 * abs(ends[1]))
    step, bins = resolution_of(y), _BINS
    if not wide and len(on):  # no bin is narrower than the step of the data
        ends = (ends[0] - 0.5 * step, ends[1] + 0.5 * step)
        bins = int(np.clip(round((ends[1] - ends[0]) / step), 1, _BINS))
    spaced = np.geomspace if wide else np.linspace
    edges = spaced(float(ends[0]), float(ends[1]), bins + 1)
    count, _ = np.histogram(on, edges)
    middle = np.sqrt(edges[1:] * edges[:-1]) if wide else 0.5 * (edges[1:] + edges[:-1])
    bars = {
        "type": "bar",
        "x": _short(middle),
        "y": count.tolist(),
        "width": _short(np.diff(edges)),
        "marker": {"color": _BLUE},
        "hovertemplate": "%{x}: %{y} rows<extra></extra>",
    }
    axis = {"title": {"text": escape(f"{roles.in_unit}, where not zero")}}
    return _chart([bars], axis | ({"type": "log"} if wide else {}), {"title": {"text": "rows"}})


def over_time(X: pd.DataFrame, y: np.ndarray, roles: Roles) -> Chart:
    """How often and how much, over time."""
    column = X[str(roles.time)]
    groups, middle = _binned(column, int(np.clip(len(y) // 20, 12, 120)))
    table = pd.DataFrame({"on": (y != 0).astype(float), "mean": y}).groupby(groups).mean()
    x = [middle[i] for i in table.index]
    share = _trace(x, table["on"], "share that is not zero", _BLUE)
    mean = _trace(x, table["mean"], f"mean {roles.target}", _ORANGE, dash="dot") | {"yaxis": "y2"}
    when: Chart = {"title": {"text": escape(str(roles.time))}}
    if pd.api.types.is_numeric_dtype(column.dtype) and (column == column.round()).all():
        when |= {"tickformat": "d"}  # years have no commas
    share_axis = {"title": {"text": "share not zero"}, "rangemode": "tozero"}
    chart = _chart([share, mean], when, share_axis)
    chart["layout"]["yaxis2"] = {
        "title": {"text": escape(f"mean {roles.in_unit}")},
        "overlaying": "y",
        "side": "right",
        "showgrid": False,
        "nticks": 5,
        "rangemode": "tozero",
    }
    return chart


def calibration(verdict: Verdict) -> dict[str, Chart]:
    """Whether probabilities and intervals mean what they say."""
    table = verdict.reliability
    ideal = {
        "x": [0, 1], "y": [0, 1], "mode": "lines", "name": "if all is right",
        "line": {"color": _GREY, "dash": "dash"}, "hoverinfo": "skip",
    }  # fmt: skip
    found = {
        "x": _short(table["predicted"]),
        "y": _short(table["observed"]),
        "text": [f"{n:,} rows" for n in table["rows"]],
        "mode": "lines+markers",
        "name": "found",
        "line": {"color": _BLUE},
        "marker": {"size": 8},
        "hovertemplate": "predicted %{x:.2f}, observed %{y:.2f}: %{text}<extra></extra>",
    }
    reliable = _chart(
        [ideal, found],
        {"title": {"text": "predicted probability of not zero"}, "range": [-0.02, 1.02]},
        {"title": {"text": "how often it was not zero"}, "range": [-0.02, 1.02]},
    )
    share, edges = np.histogram(verdict.pit, 20, (0.0, 1.0))
    bars = {
        "type": "bar",
        "x": _short(0.5 * (edges[1:] + edges[:-1])),
        "y": _short(share / share.mean()),
        "marker": {"color": _BLUE},
        "hovertemplate": "%{y:.2f}<extra></extra>",
    }
    pit = _chart(
        [bars],
        {"title": {"text": "where observations fell in their predicted distribution"}},
        {"title": {"text": "how often, 1 if all is right"}},
    )
    pit["layout"]["shapes"] = [
        {
            "type": "line",
            "x0": 0,
            "x1": 1,
            "y0": 1,
            "y1": 1,
            "line": {"color": _GREY, "dash": "dash"},
        }
    ]
    return {"reliability": reliable, "pit": pit}


def predicted_and_observed(trial: Trial, verdict: Verdict, roles: Roles) -> Chart:
    """Each observation against its prediction."""
    pick = _some(len(trial.y))
    top = float(max(trial.y.max(), verdict.mean.max()))
    low = float(min(trial.y.min(), verdict.mean.min(), 0.0))
    dots = {
        "x": _short(verdict.mean[pick]), "y": _short(trial.y[pick]), "mode": "markers",
        "marker": {"color": _BLUE, "size": 5, "opacity": 0.5}, "name": "rows",
        "hovertemplate": "predicted %{x}, observed %{y}<extra></extra>",
    }  # fmt: skip
    ideal = {
        "x": [low, top], "y": [low, top], "mode": "lines", "name": "if equal",
        "line": {"color": _GREY, "dash": "dash"}, "hoverinfo": "skip",
    }  # fmt: skip
    return _chart(
        [ideal, dots],
        {"title": {"text": escape(f"{roles.in_unit}: predicted")}},
        {"title": {"text": "observed"}},
    )


def line(X: pd.DataFrame, y: np.ndarray, model: Any, name: str, roles: Roles) -> Chart:
    """One input: data, prediction and its interval."""
    order = X[name].argsort().to_numpy()
    pick = order[_some(len(y))]
    here = X.iloc[pick]
    inside = model.predict_interval(here, 0.9)
    x = _axis(here[name])
    band = {
        "x": [*x, *x[::-1]],
        "y": [*_short(inside["upper"]), *_short(inside["lower"][::-1])],
        "fill": "toself", "fillcolor": "rgba(0,114,178,0.2)", "line": {"width": 0},
        "name": "nine of ten observations", "hoverinfo": "skip",
    }  # fmt: skip
    mean = _trace(x, model.predict(here), "predicted", _BLUE)
    dots = _trace(x, y[pick], "observed", "#333333") | {"mode": "markers", "marker": {"size": 4}}
    dots["marker"]["color"] = "#555555"
    return _chart(
        [band, mean, dots],
        {"title": {"text": escape(name)}},
        {"title": {"text": escape(roles.in_unit)}},
    )


def along(X: pd.DataFrame, y: np.ndarray, mean: np.ndarray, name: str, roles: Roles) -> Chart:
    """Means over parts of one input's range, observed and predicted."""
    if X[name].dtype == "category":
        groups: Any = X[name].astype(str).to_numpy()
        middle: Any = {level: escape(level) for level in np.unique(groups)}
    else:
        groups, middle = _binned(X[name], 12)
    table = pd.DataFrame({"observed": y, "predicted": mean}).groupby(groups).mean()
    x = [middle[i] for i in table.index]
    seen = _trace(x, table["observed"], "observed", "#555555") | {"mode": "markers"}
    said = _trace(x, table["predicted"], "predicted", _BLUE)
    if X[name].dtype == "category":
        said["mode"] = "markers"
        said["marker"] = {"symbol": "diamond-open", "size": 10, "color": _BLUE}
    return _chart(
        [seen, said],
        {"title": {"text": escape(name)}},
        {"title": {"text": escape(f"mean {roles.in_unit}")}, "rangemode": "tozero"},
    )


def training(model: Any) -> Chart:
    """The bound as it rose."""
    parts = {"": model}
    if hasattr(model, "regressor_"):
        parts = {"whether": model.classifier_, "how much": model.regressor_}
    traces = []
    for (name, part), colour in zip(parts.items(), (_BLUE, _ORANGE), strict=False):
        bounds = np.asarray(part.bounds_)
        pick = _some(len(bounds))
        trace = _trace((pick + 1).tolist(), bounds[pick], name or "bound", colour)
        traces.append(trace)
    lowest = min(float(np.quantile(np.asarray(p.bounds_), 0.05)) for p in parts.values())
    highest = max(float(np.max(np.asarray(p.bounds_))) for p in parts.values())
    room = 0.05 * (highest - lowest) or 1.0
    return _chart(
        traces,
        {"title": {"text": "step"}},
        {"title": {"text": "bound on log p(data)"}, "range": [lowest - room, highest + room]},
    )


# ---------------------------------------------------------------------------------------------


def coloured(maps: Maps, roles: Roles, latent_is_log: bool) -> list[dict[str, Any]]:
    """What each map shows, and in which colours: amounts on one scale, signs apart from zero."""
    seen = maps.values["observed"]
    on = np.abs(seen[np.nan_to_num(seen) != 0])
    top = float(np.quantile(on, 0.98)) if len(on) else 1.0
    signed = bool(np.nanmin(seen) < 0)
    shared = {"scale": "RdBu", "low": -top, "high": top} if signed else _amounts(top)
    unit = escape(roles.unit or roles.target)
    every = [
        {"key": "observed", "title": f"{roles.target}: observed", "dry": True, "unit": unit}
        | shared,
        {"key": "predicted", "title": f"{roles.target}: predicted", "unit": unit} | shared,
        {"key": "support", "title": "Support: how far it is switched on", "unit": "0 off, 1 on",
         "scale": "Cividis", "low": 0.0, "high": 1.0},
    ]  # fmt: skip
    if "latent" in maps.values:
        latent = maps.values["latent"]
        middle = float(np.median(latent)) if latent_is_log else 0.0
        reach = float(np.quantile(np.abs(latent - middle), 0.98)) or 1.0
        what = "Logarithm of the amount, where on" if latent_is_log else "Amount, if it were on"
        every.append(
            {"key": "latent", "title": what, "unit": "log" if latent_is_log else unit,
             "scale": "RdBu", "low": middle - reach, "high": middle + reach}
        )  # fmt: skip
    return [one for one in every if one["key"] in maps.values]


def _amounts(top: float) -> dict[str, Any]:
    white_to_dark = [[0.0, "#f7fbff"], [0.15, "#c6dbef"], [0.4, "#6baed6"], [0.7, "#2171b5"],
                     [1.0, "#08204a"]]  # fmt: skip
    return {"scale": white_to_dark, "low": 0.0, "high": top}


def _chart(traces: Sequence[Chart], x: Chart, y: Chart) -> Chart:
    several = sum("name" in trace for trace in traces) > 1
    return {
        "data": list(traces),
        "layout": {"xaxis": x, "yaxis": y, "showlegend": several},
    }


def _trace(x: Sequence[Any], y: Any, name: str, colour: str, dash: str = "solid") -> Chart:
    return {
        "x": list(x),
        "y": _short(y),
        "mode": "lines",
        "name": escape(name),
        "line": {"color": colour, "dash": dash, "width": 2},
        "marker": {"color": colour, "size": 7},
    }


def _binned(column: pd.Series, most: int) -> tuple[np.ndarray, dict[int, Any]]:
    """The part of its range that each value lies in, and the middle of each part."""
    number = as_number(column)
    values = np.unique(number)
    if len(values) <= most:
        part = np.searchsorted(values, number)
    else:
        edges = np.linspace(values[0], values[-1], most + 1)
        part = np.clip(np.searchsorted(edges, number, side="right") - 1, 0, most - 1)
    shown = _axis(column)
    middle = {}
    for one in np.unique(part):
        inside = np.flatnonzero(part == one)
        middle[int(one)] = shown[inside[np.argsort(number[inside])[len(inside) // 2]]]
    return part, middle


def _axis(column: pd.Series) -> list[Any]:
    """Values as plotly's axes take them."""
    if pd.api.types.is_numeric_dtype(column.dtype):
        return [float(one) for one in column]
    return [escape(str(one)) for one in column]


def _some(count: int) -> np.ndarray:
    return np.unique(np.linspace(0, count - 1, min(count, _MOST_POINTS)).astype(int))


def _short(values: Any) -> list[float | None]:
    """Numbers with the digits that a screen can show."""
    return [float(f"{v:.5g}") if np.isfinite(v) else None for v in np.asarray(values, float)]
