"""Amounts, observed and predicted: their sizes, means along an input, and errors."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from zigp.estimators.families import resolution_of
from zigp.plots.canvas import (
    SIGNAL,
    axes_for,
    curves,
    draw_data,
    draw_once,
    mark_dates,
    next_line,
    one_per_row,
    target_label,
    with_legend,
)

_MARKERS = ("o", "D", "s", "^", "v")
_FEW = 30  # means, of which each has a marker
_WIDE = 1e3  # largest over smallest amount, from which on their axis is logarithmic


def amount_histogram(
    y: ArrayLike, *, bins: int = 40, unit: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw a histogram of the values that are not zero.

    Bins are multiples of the step in which y is recorded. The axis is logarithmic if the values are
    positive and span more than a factor of 1,000.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Observations; missing ones (NaN) are left out.
    bins : int, default=40
        Largest number of bins.
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
    >>> from zigp import plots
    >>> from zigp.datasets import simulate_rain
    >>> ax = plots.amount_histogram(simulate_rain(12, 48)["rain_mm"], unit="mm")
    >>> ax.get_xlabel()
    'rain_mm, mm (non-zero values)'
    """
    values = np.asarray(y, float)
    on = values[np.isfinite(values) & (values != 0)]
    ax, step = axes_for(ax), resolution_of(on)
    low, high = (on.min(), on.max()) if len(on) else (0.0, 0.0)
    count = min(bins, int(8 + 2 * np.sqrt(len(on))))
    if low > 0 and high > _WIDE * low:
        edges = np.geomspace(low, high, count + 1)
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter("{x:g}")
        ax.tick_params(which="minor", labelbottom=False)
    else:  # equally many of the values that can be recorded in each bin
        width = step * np.ceil(((high - low) / step + 1) / count)
        edges = np.arange(low - 0.5 * step, high + width, width)
    ax.stairs(*np.histogram(on, edges), fill=True, color=SIGNAL)
    ax.set(xlabel=f"{target_label(y=y, unit=unit)} (non-zero values)", ylabel="rows")
    return ax


def means_along(
    x: Any,
    values: ArrayLike,
    *,
    bins: int = 12,
    unit: str | None = None,
    label: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the mean of values over parts of an input's range, or at each of its levels.

    Observations and predictions, or several models, can be drawn on the same axes.

    Parameters
    ----------
    x : Series or array-like of shape (n_rows,)
        One input: numbers, times or levels.
    values : array-like of shape (n_rows,)
        Values to average.
    bins : int, default=12
        Number of equal parts of the range of numbers or times, if there are more distinct ones;
        of levels, how many of the most frequent are drawn.
    unit : str, default=None
        Unit of the values; the one in their attributes by default.
    label : str, default=None
        Name of the curve in the legend.
    ax : matplotlib.axes.Axes, default=None
        Axes to draw on; pyplot's current ones by default.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on.

    Examples
    --------
    >>> from zigp import plots
    >>> from zigp.datasets import simulate_rain
    >>> rain = simulate_rain(12, 48)
    >>> ax = plots.means_along(rain["hour"], rain["rain_mm"], unit="mm", label="observed")
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('hour', 'mean rain_mm, mm')
    """
    numbers, x = one_per_row(values, x, "values"), pd.Series(x).reset_index(drop=True)
    ax = axes_for(ax)
    line: dict[str, Any] = next_line(ax)
    marker = _MARKERS[len(curves(ax)) % len(_MARKERS)]
    if not (pd.api.types.is_numeric_dtype(x) or pd.api.types.is_datetime64_any_dtype(x)):
        levels = x.astype(str)
        means = pd.Series(numbers).groupby(levels).mean()[levels.value_counts().index[:bins]]
        places: Any = means.index.to_numpy()
        line["linestyle"] = "none"
        ax.tick_params(axis="x", labelrotation=90.0 * (len("".join(places)) > 40))
    else:
        parts = x if x.nunique() <= bins else pd.cut(x, bins, labels=False)
        table = pd.DataFrame({"x": x, "mean": numbers}).groupby(parts.to_numpy()).mean()
        places, means = table["x"].to_numpy(), table["mean"]
    few = {"marker": marker, "markersize": 4, "fillstyle": "none"} if len(places) < _FEW else {}
    ax.plot(places, means.to_numpy(), label=label, **line | few)
    draw_once(ax, "zero", ax.axhline, 0.0, color="0.8")
    ax.set(
        xlabel="x" if x.name is None else str(x.name),
        ylabel=f"mean {target_label(y=values, unit=unit)}",
    )
    mark_dates(ax.xaxis, places)
    return with_legend(ax)


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
    truth, mean = one_per_row(y, y, "y"), one_per_row(predicted, y, "predicted")
    ax = axes_for(ax)
    draw_data(ax, mean, truth, color=SIGNAL, alpha=0.4, markersize=4)
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
    truth, mean = one_per_row(y, y, "y"), one_per_row(predicted, y, "predicted")
    if resolution is not None and not resolution > 0:
        raise ValueError(f"resolution must be positive, not {resolution!r}.")
    ax = axes_for(ax)
    ax.ecdf(np.abs(mean - truth), complementary=True, label=label, **next_line(ax))
    ax.set(
        yscale="log",
        xlabel=f"absolute error of {target_label(y=y, unit=unit)}",
        ylabel="share with a larger error",
    )
    if resolution is None:
        ax.set_xscale("log")
    else:
        ax.set_xscale("symlog", linthresh=resolution, linscale=0.5)
        draw_once(ax, "resolution", ax.axvline, resolution)
        ax.set_xlim(0.0, 1.1 * ax.dataLim.xmax)
    return with_legend(ax)
