"""Checks of a fitted model: calibration, ranking and training progress."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import ArrayLike
from scipy.stats import binom, binomtest, norm
from sklearn.utils.validation import check_is_fitted

from zigp import diagnostics
from zigp.diagnostics import scores
from zigp.plots.canvas import (
    axes_for,
    check_can,
    curves,
    draw_once,
    next_line,
    target_label,
    with_legend,
)

_TWO_SD = 0.9545  # probability within two standard deviations


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
    return draw_reliability(table, target_label(y=y, unit=""), label=label, ax=axes_for(ax))


def draw_reliability(table: pd.DataFrame, name: str, *, label: str | None = None, ax: Axes) -> Axes:
    """Draw a table of `zigp.diagnostics.reliability`."""
    p, share, rows = (table[column].to_numpy() for column in ("predicted", "observed", "rows"))
    edges = np.array([str(part).split(" to ") for part in table.index], float)
    if draw_once(ax, "perfect", ax.plot, [0, 1], [0, 1]):  # rows of several models would overlap
        ax.bar(
            edges[:, 0],
            rows / rows.sum(),
            np.diff(edges)[:, 0],
            align="edge",
            color="0.9",
            zorder=0,
            gid="rows",
        )
    line = next_line(ax)
    # Wilson's interval, as 0 or 1 among few rows is not certain.
    tests = [binomtest(round(s * n), n) for s, n in zip(share, rows.tolist(), strict=True)]
    ends = np.array([test.proportion_ci(_TWO_SD, "wilson") for test in tests])
    span = np.maximum([share - ends[:, 0], ends[:, 1] - share], 0.0)
    ax.errorbar(p, share, span, fmt="none", ecolor=line["color"], elinewidth=0.8, zorder=2)
    ax.plot(p, share, marker="o", markersize=4, label=label, zorder=3, **line)
    ax.set(
        xlim=(0, 1),
        ylim=(0, 1),
        aspect="equal",
        xlabel="predicted probability of non-zero",
        ylabel=f"observed share of non-zero {name}",
    )
    return with_legend(ax)


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
    check_can(model, "prob_below", "pit_histogram needs predicted amounts; {} has none.")
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
    highest = max(float(np.max(step.get_data().values)) for step in curves(ax))
    ax.set(
        xlim=(0, 1),
        ylim=(0.0, 1.05 * max(highest, high)),
        xlabel="predicted probability of a lower value",
        ylabel="rows, relative to a flat histogram",
    )
    return with_legend(ax)


def bound(
    model: Any, by: str = "steps", *, label: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw training progress: the bound on log p(y) over steps or seconds.

    It should rise and level off. The first twentieth of the steps, where it rises steeply, may lie
    below the plot. All restarts of a network are thin grey lines; a hurdle has a curve for each
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
            x = np.arange(len(other.bounds)) if by == "steps" else other.times
            ax.plot(x, other.bounds, color="0.75", linewidth=0.6, zorder=1)
        x = np.arange(len(part.bounds_)) if by == "steps" else part.times_
        text = ": ".join(filter(None, (label, name))) or None
        ax.plot(x, part.bounds_, label=text, zorder=2, **next_line(ax))
    ax.set(xlabel=by, ylabel="bound on log p(y)")
    ax.margins(x=0)
    paths = [np.asarray(line.get_ydata()) for line in curves(ax)]
    low, high = min(path[len(path) // 20] for path in paths), max(path.max() for path in paths)
    if high > low:
        ax.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
    return with_legend(ax)
