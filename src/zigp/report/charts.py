"""Charts and maps of the report, drawn by `zigp.plots` as SVG inside the page."""

import base64
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import StringIO
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text

from zigp import plots
from zigp.estimators.families import LOG_AMOUNTS
from zigp.plots.canvas import time_label
from zigp.plots.checks import draw_pit, draw_reliability
from zigp.plots.maps import part_scales
from zigp.plots.marks import ZERO, Marks, Scale, dot_size, draw_group
from zigp.report.roles import Roles
from zigp.report.trial import Evaluation, Trial

_HALF, _WIDE, _SQUARE = (4.6, 2.8), (9.4, 3.6), (4.6, 3.8)  # inches
_HIGH = 2.6  # inches of a map, without its labels
_STYLE = {
    "axes.edgecolor": "0.6",
    "axes.labelcolor": "0.2",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.facecolor": "none",
    "font.size": 8.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "zigp",
    "text.parse_math": False,
    "xtick.color": "0.3",
    "ytick.color": "0.3",
}
_MOST_INPUTS = 6
_MOST_CELLS = 150_000  # in all pictures together
_MOST_PLACES = 30_000
_MOST_PICTURES = 60  # if nearly every row has a time of its own
_ROWS_OF_A_TIME = 5  # on average, for a picture of each time
_STEPS = 65_534  # into which the range of values is divided; one more stands for missing
_LONGEST = 48  # characters of a label
# What matplotlib writes around a drawing, and names that would occur several times on the page.
_FRAME = re.compile(
    r'^.*?(?=<svg )|<metadata>.*?</metadata>|<style.*?</style>|(?<=<g) id="[^"]*"', re.S
)


@contextmanager
def _drawing() -> Iterator[None]:
    """Use the report's style; characters that matplotlib's font lacks are left to the browser."""
    with style.context(["default", _STYLE]), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def inline_svg(figure: Figure, description: str) -> Markup:
    """Return a figure as an SVG element with a description for those who cannot see it."""
    for text in figure.findobj(Text):
        if len(text.get_text()) > _LONGEST:
            text.set_text(f"{text.get_text()[:_LONGEST]}…")
    drawn = StringIO()
    figure.savefig(drawn, format="svg", dpi=200)
    svg = re.sub(r' width="[^"]*" height="[^"]*"', "", _FRAME.sub("", drawn.getvalue()), count=1)
    label = Markup('<svg role="img" aria-label="{}" ').format(description)
    return label + Markup(svg.removeprefix("<svg "))


def _chart(
    draw: Callable[..., Any],
    description: str,
    size: tuple[float, float] = _HALF,
    rows: int = 1,
) -> Markup:
    """Return what a function draws on axes, or on rows of axes."""
    with _drawing():
        figure = Figure(size, layout="constrained")
        draw(ax=figure.subplots(rows, sharex=True))
        return inline_svg(figure, description)


def draw_charts(
    model: Any, X: pd.DataFrame, y: np.ndarray, roles: Roles, trial: Trial, result: Evaluation
) -> dict[str, Markup]:
    """Return the charts by name; those of inputs are named like their columns, after a colon."""
    target, unit = roles.target, roles.unit
    observed, judged = pd.Series(y, name=target), pd.Series(trial.y, name=target)
    charts = {
        "amounts": _chart(
            partial(plots.amount_histogram, observed, unit=unit),
            f"Histogram of the non-zero values of {target}",
        ),
        "training": _chart(partial(plots.bound, model), "The bound over the steps of training"),
        "pairs": _chart(
            partial(plots.observed_vs_predicted, judged, result.mean, unit=unit),
            f"Observed against predicted {target}",
            _SQUARE,
        ),
        "reliability": _chart(
            partial(draw_reliability, result.reliability, target),
            f"Observed share of non-zero {target} against its predicted probability",
            _SQUARE,
        ),
        "pit": _chart(
            partial(draw_pit, result.pit, bins=20),
            "Histogram of the predicted probabilities of lower values",
            _SQUARE,
        ),
    }
    names = [str(name) for name in model.feature_names_in_]
    if roles.time:
        charts["time"] = _chart(
            partial(_draw_over_time, X[roles.time], observed, unit),
            f"{target} over {roles.time}",
            _WIDE,
            rows=2,
        )
    if len(names) == 1 and X[names[0]].dtype != "category":
        charts["line"] = _chart(
            partial(plots.fit_1d, model, X, observed),
            f"Observed {target} and the fit over {names[0]}",
            _WIDE,
        )
    others = [name for name in names if name not in (*(roles.places or ()), roles.time)]
    for name in others[:_MOST_INPUTS]:
        charts[f"input:{name}"] = _chart(
            partial(_draw_means, trial.X[name], judged, result.mean, unit),
            f"Means of observed and predicted {target} along {name}",
        )
    return charts


def _draw_over_time(times: pd.Series, y: pd.Series, unit: str, ax: np.ndarray) -> None:
    """Draw the share of non-zero values and the mean over time, one above the other."""
    top, bottom = ax
    bins = int(np.clip(len(y) // 20, 12, 120))
    plots.means_along(times, (y != 0).rename("share"), bins=bins, ax=top)
    plots.means_along(times, y, bins=bins, unit=unit, ax=bottom)
    top.set(xlabel="", ylabel="share non-zero")


def _draw_means(x: pd.Series, observed: pd.Series, mean: np.ndarray, unit: str, ax: Axes) -> None:
    """Draw means of observations and predictions along an input."""
    plots.means_along(x, observed, unit=unit, label="observed", ax=ax)
    plots.means_along(x, pd.Series(mean, name=observed.name), unit=unit, label="predicted", ax=ax)


# -- maps: one picture for each time, small enough for a page -----------------------------------


@dataclass(frozen=True)
class MapData:
    """Values at places, sorted by picture."""

    places: np.ndarray  # [P, 2], east and north
    place: np.ndarray  # of each value
    starts: np.ndarray  # of each picture among the values, and their number
    labels: list[str]  # of the pictures
    values: dict[str, np.ndarray]  # of each kind
    note: str  # on what was left out or averaged

    @property
    def first(self) -> int:
        """The picture with the most non-zero observations."""
        return int(np.argmax(np.add.reduceat(self.values["observed"] != 0, self.starts[:-1])))

    def packed(self) -> dict[str, Any]:
        """Return the data for a page: values as numbers of 16 bits, in base64."""
        values = {}
        for name, one in self.values.items():
            low, high = np.nanmin(one), np.nanmax(one)
            step = (high - low) / _STEPS if high > low else 1.0
            cells = np.where(np.isfinite(one), np.round((one - low) / step), _STEPS + 1)
            values[name] = {"low": float(low), "step": float(step), "cells": _text(cells, "<u2")}
        return {
            "east": self.places[:, 0].round(6).tolist(),
            "north": self.places[:, 1].round(6).tolist(),
            "place": _text(self.place, "<u4"),
            "starts": self.starts.tolist(),
            "labels": self.labels,
            "values": values,
            "first": self.first,
        }


def map_data(X: pd.DataFrame, roles: Roles, values: Mapping[str, np.ndarray], note: str) -> MapData:
    """Return the values of rows as pictures; several rows of a picture at a place are averaged."""
    picture, labels = _pictures(X, roles)
    where = X[list(roles.places or ())].to_numpy(float)
    places, place = np.unique(where, axis=0, return_inverse=True)
    cells, cell = np.unique(picture * len(places) + place.reshape(-1), return_inverse=True)
    count = np.bincount(cell)
    if count.max() > 1:
        note = f"{note} Rows at the same place and time are shown by their mean.".strip()
    return MapData(
        places,
        cells % len(places),
        np.searchsorted(cells // len(places), np.arange(len(labels) + 1)),
        labels,
        {name: np.bincount(cell, one) / count for name, one in values.items()},
        note,
    )


def chosen_rows(X: pd.DataFrame, roles: Roles) -> tuple[np.ndarray, str]:
    """Return rows that a page has room for, and a note: whole times if possible, else a sample."""
    rows, every = np.arange(len(X)), -(-len(X) // _MOST_CELLS)
    few_places = len(X[list(roles.places or ())].drop_duplicates()) <= _MOST_PLACES
    if few_places and every == 1:
        return rows, ""
    if few_places and roles.time is not None:
        at, times = pd.factorize(X[roles.time], sort=True)
        kept = at % every == 0
        if len(times) >= 2 * every and kept.sum() <= 2 * _MOST_CELLS:
            return rows[kept], f"One in {every} of the {len(times):,} times is shown."
    most = _MOST_CELLS if few_places else _MOST_PLACES
    some = np.sort(np.random.default_rng(0).permutation(rows)[:most])
    return some, f"A random sample of {most:,} of the {len(X):,} rows is shown."


def _pictures(X: pd.DataFrame, roles: Roles) -> tuple[np.ndarray, list[str]]:
    """Return the picture of each row, and the labels of the pictures."""
    if roles.time is None:
        return np.zeros(len(X), int), [""]
    times = X[roles.time].reset_index(drop=True)
    count = times.nunique()
    own = len(X) >= _ROWS_OF_A_TIME * count or count <= _MOST_PICTURES
    parts = times if own else pd.cut(times, _MOST_PICTURES, labels=False)
    picture, _ = pd.factorize(parts, sort=True)
    ends = times.groupby(picture).agg(["min", "max"])
    labels = [
        dict.fromkeys(time_label(roles.time, end) for end in pair)
        for pair in ends.itertuples(index=False)
    ]
    return picture, [" to ".join(label) for label in labels]


def _text(values: np.ndarray, dtype: str) -> str:
    return base64.b64encode(np.asarray(values).astype(dtype).tobytes()).decode()


def draw_maps(model: Any, maps: MapData, roles: Roles, tol: float) -> list[dict[str, Any]]:
    """Return the maps of the first picture, and what a browser needs to draw the others.

    Observed and predicted values up to `tol` count as zero.
    """
    table = pd.DataFrame(maps.places, columns=list(roles.places or ()))
    places = Marks.of_table(table, (0, 1), model)
    logarithm = getattr(model, "likelihood_", "") in LOG_AMOUNTS
    scales = part_scales(maps.values, roles.unit, tol, logarithm=logarithm)
    titles = {
        "observed": f"Observed {roles.target}",
        "signal": f"Predicted {roles.target}",
        "gate": "Support",
        "latent": "Latent amount",
    }
    return [_map(maps, places, name, titles[name], *scales[name]) for name in maps.values]


def _map(
    maps: MapData, places: Marks, name: str, title: str, scale: Scale, label: str
) -> dict[str, Any]:
    """Return a map of the first picture, and where its axes and colours are."""
    values, now = maps.values[name], slice(*maps.starts[maps.first : maps.first + 2])
    ratio = places.ratio or 1.2
    width = float(np.clip(_HIGH * ratio, 1.2, 3.2))
    size = (width + 1.0, min(_HIGH, width / ratio) + 0.5)
    with _drawing():
        figure = Figure(size, layout="compressed")
        ax = figure.subplots()
        draw_group([(ax, places.only(maps.place[now]), values[now], "")], scale, label)
        ax.update_datalim(maps.places)
        ax.autoscale_view()
        svg = inline_svg(figure, f"Map: {title}, {maps.labels[maps.first]}")
        box = ax.get_position()
    data = {
        "name": name,
        "unit": "" if name == "gate" else label,
        "box": [box.x0, 1.0 - box.y1, box.width, box.height],
        "x": ax.get_xlim(),
        "y": ax.get_ylim(),
        "cells": places.cells,
        "dot": float(np.sqrt(dot_size(now.stop - now.start)) / (72.0 * size[0])),
        "colours": [to_hex(colour) for colour in scale.colours(np.linspace(0.0, 1.0, 256))],
        "low": scale.low,
        "high": scale.high,
        "tol": scale.tol,
        "zero": to_hex(ZERO),
    }
    return {"svg": svg, "title": title, "data": data, "width": round(100 * size[0])}
