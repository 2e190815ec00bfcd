"""Checks of a fitted model: errors, calibration and training progress."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import ArrayLike
from scipy.stats import binom, norm
from sklearn.metrics import precision_recall_curve
from sklearn.utils.validation import check_is_fitted

from zigp import diagnostics
from zigp.diagnostics import scores
from zigp.plots.canvas import axes_for, curves, draw_data, draw_once, legend_above, next_line
from zigp.plots.labels import target_label

__all__ = [
    "bound",
    "draw_pit",
    "draw_reliability",
    "error_distribution",
    "observed_vs_predicted",
    "pit_histogram",
    "precision_recall",
    "reliability",
]


def observed_vs_predicted(
    y: ArrayLike, predicted: ArrayLike, *, unit: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw observations against predictions, one dot for each row.

    Dots on the line are predicted exactly.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Observations.
    predicted : array-like of shape (n_rows,)
        Predictions.
    unit : str, default=None
        Unit of y; the one in its attributes by default.
    ax : matplotlib.axes.Axes, default=None
        Axes to draw on; pyplot's current ones by default.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on.

    Examples
    --------
    >>> import numpy as np
    >>> from zigp import plots
    >>> ax = plots.observed_vs_predicted([0.0, 0.0, 0.3, 1.2], np.full(4, 0.2), unit="mm")
    >>> ax.get_ylabel()
    'observed y, mm'
    """
    truth, mean = _paired(y, predicted)
    ax = axes_for(ax)
    draw_data(ax, mean, truth, color="#0072B2", alpha=0.4, markersize=4)
    ends = [min(truth.min(), mean.min()), max(truth.max(), mean.max())]
    draw_once(ax, "exact", ax.plot, ends, ends)
    label = target_label(y=y, unit=unit)
    ax.set(aspect="equal", xlabel=f"predicted {label}", ylabel=f"observed {label}")
    return ax


def error_distribution(
    y: ArrayLike,
    predicted: ArrayLike,
    *,
    resolution: float | None = None,
    unit: str | None = None,
    label: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the share of absolute errors that exceed a size, on logarithmic axes.

    Lower is better. Errors of several models can be drawn on the same axes.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Observations.
    predicted : array-like of shape (n_rows,)
        Predictions.
    resolution : float, default=None
        The step in which y is recorded. Errors below it, which hardly matter, are drawn on a linear
        scale and marked off.
    unit : str, default=None
        Unit of y; the one in its attributes by default.
    label : str, default=None
        Name of the model in the legend.
    ax : matplotlib.axes.Axes, default=None
        Axes to draw on; pyplot's current ones by default.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on.

    Examples
    --------
    >>> import numpy as np
    >>> from zigp import plots
    >>> y = np.array([0.0, 0.0, 0.3, 1.2])
    >>> ax = plots.error_distribution(y, np.full(4, 0.2), resolution=0.1, unit="mm")
    >>> ax.get_xlabel()
    'absolute error of y, mm'
    """
    truth, mean = _paired(y, predicted)
    if resolution is not None and not resolution > 0:
        raise ValueError(f"resolution must be positive, not {resolution!r}.")
    ax = axes_for(ax)
    size = np.sort(np.abs(mean - truth))
    share = 1.0 - np.arange(len(size)) / len(size)
    ax.plot(size, share, drawstyle="steps-post", label=label, **next_line(ax))
    ax.set(yscale="log", xlabel=f"absolute error of {target_label(y=y, unit=unit)}")
    ax.set_ylabel("share with a larger error")
    if resolution is None:
        ax.set_xscale("log")
    else:
        ax.set_xscale("symlog", linthresh=resolution, linscale=0.5)
        draw_once(ax, "resolution", ax.axvline, resolution)
        largest = max(float(np.max(line.get_xdata())) for line in curves(ax))
        ax.set_xlim(0.0, 1.1 * max(largest, resolution))
    legend_above(ax)
    return ax


def reliability(
    model: Any,
    X: Any,
    y: ArrayLike,
    tol: float = 0.0,
    *,
    bins: int = 10,
    label: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the observed share of non-zero values against their predicted probability.

    On the diagonal probabilities are right; below it the model predicts non-zero values too often.
    Bars span two standard errors; grey columns show the share of rows with such a probability. The
    numbers are those of `zigp.diagnostics.reliability`.

    Parameters
    ----------
    model : estimator
        A fitted model with `prob_zero`.
    X : DataFrame or array-like of shape (n_rows, n_columns)
        Inputs.
    y : array-like of shape (n_rows,)
        Observations.
    tol : float, default=0.0
        Largest absolute value that counts as zero.
    bins : int, default=10
        Number of parts that the range of probabilities is divided into.
    label : str, default=None
        Name of the model in the legend.
    ax : matplotlib.axes.Axes, default=None
        Axes to draw on; pyplot's current ones by default.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on.

    Examples
    --------
    >>> from zigp import ZeroInflatedGPRegressor, plots
    >>> from zigp.datasets import simulate_rain
    >>> rain = simulate_rain(12, 48)
    >>> X, y = rain[["lat", "lon", "hour"]], rain["rain_mm"]
    >>> model = ZeroInflatedGPRegressor(steps=20).fit(X, y)
    >>> ax = plots.reliability(model, X, y, tol=0.05)
    >>> ax.get_ylabel()
    'observed share of non-zero rain_mm'
    """
    table = diagnostics.reliability(model, X, y, tol, bins)
    return draw_reliability(table, _name(y), label=label, ax=axes_for(ax))


def draw_reliability(table: pd.DataFrame, name: str, *, label: str | None = None, ax: Axes) -> Axes:
    """Draw a table of `zigp.diagnostics.reliability`."""
    p, share, rows = (table[column].to_numpy() for column in ("predicted", "observed", "rows"))
    edges = np.array([str(part).split(" to ") for part in table.index], float)
    if draw_once(ax, "perfect", ax.plot, [0, 1], [0, 1]):  # rows of several models would overlap
        style: dict[str, Any] = {"align": "edge", "color": "0.9", "zorder": 0, "gid": "rows"}
        ax.bar(edges[:, 0], rows / rows.sum(), np.diff(edges)[:, 0], **style)
    line = next_line(ax)
    lower, upper = _wilson_interval(share, rows)
    span = np.maximum([share - lower, upper - share], 0.0)
    ax.errorbar(p, share, span, fmt="none", ecolor=line["color"], elinewidth=0.8, zorder=2)
    ax.plot(p, share, marker="o", markersize=4, label=label, zorder=3, **line)
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    ax.set(xlabel="predicted probability of non-zero", ylabel=f"observed share of non-zero {name}")
    legend_above(ax)
    return ax


def _wilson_interval(share: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return Wilson's interval of two standard errors: 0 or 1 among few rows is not certain."""
    few = 4.0 / rows
    middle = (share + few / 2.0) / (1.0 + few)
    half = 2.0 / (1.0 + few) * np.sqrt(share * (1.0 - share) / rows + few / (4.0 * rows))
    return middle - half, middle + half


def pit_histogram(
    model: Any,
    X: Any,
    y: ArrayLike,
    resolution: float | None = None,
    *,
    bins: int = 10,
    label: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a histogram of the probability integral transform (PIT), which should be flat.

    The PIT of an observation is the predicted probability of a lower value. A hump in the middle
    means that the predicted distributions are too wide, peaks at the ends that they are too narrow,
    a slope that they are biased. In nine of ten cases a bin of a right model ends in the grey band.

    Parameters
    ----------
    model : estimator
        A fitted regression model.
    X : DataFrame or array-like of shape (n_rows, n_columns)
        Inputs.
    y : array-like of shape (n_rows,)
        Observations.
    resolution : float, default=None
        The step in which y is recorded: an observation then stands for the cell that it was rounded
        from (`zigp.diagnostics.scores.pit`). Without it the numbers are those of
        `quantile_residuals`.
    bins : int, default=10
        Number of bins.
    label : str, default=None
        Name of the model in the legend.
    ax : matplotlib.axes.Axes, default=None
        Axes to draw on; pyplot's current ones by default.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on.

    Examples
    --------
    >>> from zigp import ZeroInflatedGPRegressor, plots
    >>> from zigp.datasets import simulate_rain
    >>> rain = simulate_rain(12, 48)
    >>> X, y = rain[["lat", "lon", "hour"]], rain["rain_mm"]
    >>> model = ZeroInflatedGPRegressor(steps=20).fit(X, y)
    >>> ax = plots.pit_histogram(model, X, y, resolution=0.1)
    >>> ax.get_xlabel()
    'predicted probability of a lower value'
    """
    if not hasattr(model, "prob_below"):
        raise ValueError(f"pit_histogram needs predicted amounts; {type(model).__name__} has none.")
    if bins < 2:
        raise ValueError(f"bins must be at least 2, not {bins!r}.")
    values = np.asarray(y, float)
    if resolution is None:
        u = norm.cdf(model.quantile_residuals(X, values))
    else:
        u = scores.pit(values, lambda t: model.prob_below(X, t), resolution)
    return draw_pit(u, bins, label=label, ax=axes_for(ax))


def draw_pit(u: np.ndarray, bins: int = 10, *, label: str | None = None, ax: Axes) -> Axes:
    """Draw a histogram of values of the PIT; missing ones are left out."""
    u = u[np.isfinite(u)]
    counts, edges = np.histogram(u, bins, (0.0, 1.0))
    even = len(u) / bins
    low, high = binom.ppf([0.05, 0.95], len(u), 1.0 / bins) / even
    draw_once(ax, "chance", ax.axhspan, low, high, color="0.88", zorder=0)
    draw_once(ax, "even", ax.axhline, 1.0)
    ax.stairs(counts / even, edges, linewidth=1.5, label=label, zorder=3, **next_line(ax))
    ax.set(xlim=(0, 1), xlabel="predicted probability of a lower value")
    ax.set_ylabel("rows, relative to a flat histogram")
    highest = max(float(np.max(step.get_data().values)) for step in curves(ax))
    ax.set_ylim(0.0, 1.05 * max(highest, high))
    legend_above(ax)
    return ax


def precision_recall(
    model: Any,
    X: Any,
    y: ArrayLike,
    tol: float = 0.0,
    *,
    label: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw precision against recall of non-zero values, over all thresholds.

    Recall is the share of the non-zero observations that are predicted as such, precision the share
    of those predicted as non-zero that are. Rows are ranked by `prob_on`, or by the predicted
    amount if a model has none. The legend gives the area under the curve
    (`zigp.diagnostics.scores.auprc`); the line is the precision of guessing.

    Parameters
    ----------
    model : estimator
        A fitted model.
    X : DataFrame or array-like of shape (n_rows, n_columns)
        Inputs.
    y : array-like of shape (n_rows,)
        Observations, some of them zero.
    tol : float, default=0.0
        Largest absolute value that counts as zero.
    label : str, default=None
        Name of the model in the legend.
    ax : matplotlib.axes.Axes, default=None
        Axes to draw on; pyplot's current ones by default.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on.

    Examples
    --------
    >>> from zigp import ZeroInflatedGPRegressor, plots
    >>> from zigp.datasets import simulate_rain
    >>> rain = simulate_rain(12, 48)
    >>> X, y = rain[["lat", "lon", "hour"]], rain["rain_mm"]
    >>> model = ZeroInflatedGPRegressor(steps=20).fit(X, y)
    >>> ax = plots.precision_recall(model, X, y, label="ZiGP")
    >>> ax.get_legend().get_texts()[0].get_text().startswith("ZiGP, area 0.")
    True
    """
    check_is_fitted(model)
    on = np.abs(np.asarray(y, float)) > tol
    if on.all() or not on.any():
        raise ValueError(
            f"precision_recall needs zeros and others; {'none' if on.all() else 'all'} of the "
            f"{on.size} values of y are zero."
        )
    score = np.asarray(model.prob_on(X) if hasattr(model, "prob_on") else model.predict(X), float)
    precision, recall, _ = precision_recall_curve(on, score)
    area = f"area {scores.auprc(on, score):.3f}"
    text = area if label is None else f"{label}, {area}"
    ax = axes_for(ax)
    draw_once(ax, "guessing", ax.axhline, on.mean())
    ax.plot(recall, precision, drawstyle="steps-post", label=text, **next_line(ax))
    ax.set(xlim=(0, 1), ylim=(0, 1.02))
    ax.set_xlabel(f"recall: share of {_name(y)} ≠ 0 predicted as such")
    ax.set_ylabel("precision: share of predictions right")
    legend_above(ax, ncols=2)
    return ax


def bound(
    model: Any, by: str = "steps", *, label: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw training progress: the bound on log p(y) over steps or seconds.

    It should rise and level off. The first twentieth of the steps, where it rises steeply, may lie
    below the plot. Other restarts of a network are thin grey lines; a hurdle has a curve for each
    of its parts.

    Parameters
    ----------
    model : estimator
        A fitted model.
    by : {"steps", "seconds"}, default="steps"
        What runs across. Seconds include compilation, at the beginning.
    label : str, default=None
        Name of the model in the legend.
    ax : matplotlib.axes.Axes, default=None
        Axes to draw on; pyplot's current ones by default.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on.

    Examples
    --------
    >>> import numpy as np
    >>> from zigp import ZeroInflatedGPRegressor, plots
    >>> x = np.linspace(0, 10, 100)[:, None]
    >>> y = np.where(x[:, 0] > 5, 2 + np.sin(x[:, 0]), 0)
    >>> model = ZeroInflatedGPRegressor(steps=20).fit(x, y)
    >>> ax = plots.bound(model)
    >>> ax.get_xlabel()
    'steps'
    """
    if by not in ("steps", "seconds"):
        raise ValueError(f"by must be 'steps' or 'seconds', not {by!r}.")
    check_is_fitted(model)
    ax = axes_for(ax)
    for name, part in model.parts_.items():
        for other in getattr(part, "restarts_", []):
            if len(other.bounds) and not np.array_equal(other.bounds, part.bounds_):
                x = _across(other.bounds, other.times, by)
                ax.plot(x, other.bounds, color="0.75", linewidth=0.6, zorder=1)
        text = ": ".join(filter(None, (label, name))) or None
        x = _across(part.bounds_, part.times_, by)
        ax.plot(x, part.bounds_, label=text, zorder=2, **next_line(ax))
    ax.set(xlabel=by, ylabel="bound on log p(y)")
    ax.margins(x=0)
    _leave_out_the_start(ax)
    legend_above(ax)
    return ax


def _across(bounds: np.ndarray, times: np.ndarray, by: str) -> np.ndarray:
    return np.arange(len(bounds)) if by == "steps" else times


def _leave_out_the_start(ax: Axes) -> None:
    """Begin the vertical axis where the curves are after a twentieth of their steps."""
    paths = [np.asarray(line.get_ydata()) for line in curves(ax)]
    low, high = min(p[len(p) // 20] for p in paths), max(p.max() for p in paths)
    if high > low:
        ax.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))


def _paired(y: ArrayLike, predicted: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return observations and predictions as numbers."""
    truth, mean = np.asarray(y, float), np.asarray(predicted, float)
    if truth.shape != mean.shape or truth.ndim != 1:
        raise ValueError(f"y has shape {truth.shape} and predicted {mean.shape}: give one each.")
    return truth, mean


def _name(y: Any) -> str:
    return target_label(y=y, unit="")
