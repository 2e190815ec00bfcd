"""Amounts in the data: their distribution, and their means along an input."""

from __future__ import annotations

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
    draw_once,
    legend_above,
    mark_dates,
    next_line,
)
from zigp.plots.labels import one_per_row, target_label

__all__ = ["amount_histogram", "means_along"]

_WIDE = 30.0  # largest over smallest amount, from which on the axis is logarithmic
_MARKERS = ("o", "D", "s", "^", "v")


def amount_histogram(
    y: ArrayLike, *, bins: int = 40, unit: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw a histogram of the values that are not zero.

    The axis is logarithmic if the amounts are positive and span more than a factor of 30. No bin is
    narrower than the step in which y is recorded.

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
    if low > 0 and high > _WIDE * low:
        # Edges lie between the values that can be recorded.
        steps = np.geomspace(low - 0.5 * step, high + 0.5 * step, bins + 1) / step
        edges = (np.unique(np.round(steps - 0.5)) + 0.5) * step
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter("{x:g}")
        ax.tick_params(which="minor", labelbottom=False)
    else:
        count = np.clip(round((high - low) / step) + 1, 1, bins)
        edges = np.linspace(low - 0.5 * step, high + 0.5 * step, int(count) + 1)
    counts, _ = np.histogram(on, edges)
    ax.stairs(counts, edges, fill=True, color=SIGNAL, edgecolor="white", linewidth=0.4)
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
        Number of equal parts of the range of numbers or times, if there are more distinct ones.
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
    style: dict[str, Any] = next_line(ax) | {"marker": _MARKERS[len(curves(ax)) % len(_MARKERS)]}
    if not (pd.api.types.is_numeric_dtype(x) or pd.api.types.is_datetime64_any_dtype(x)):
        means = pd.Series(numbers).groupby(x.astype(str)).mean()
        places: Any = means.index.to_numpy()
        style["linestyle"] = "none"
    else:
        parts = x if x.nunique() <= bins else pd.cut(x, bins, labels=False)
        table = pd.DataFrame({"x": x, "mean": numbers}).groupby(parts.to_numpy()).mean()
        places, means = table["x"].to_numpy(), table["mean"]
    ax.plot(places, means.to_numpy(), markersize=4, fillstyle="none", label=label, **style)
    draw_once(ax, "zero", ax.axhline, 0.0, color="0.8")
    ax.set_ylabel(f"mean {target_label(y=values, unit=unit)}")
    ax.set_xlabel("x" if x.name is None else str(x.name))
    mark_dates(ax.xaxis, places)
    legend_above(ax)
    return ax
