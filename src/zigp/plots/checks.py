"""Whether a model can be believed, as pictures: of errors, of probabilities, of its training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom, norm
from sklearn.utils.validation import check_is_fitted

from zigp import diagnostics
from zigp.diagnostics import scores
from zigp.plots.canvas import axes_for, legend_above, next_line
from zigp.plots.labels import target_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["bound", "error_distribution", "pit_histogram", "precision_recall", "reliability"]

_REFERENCE: dict[str, Any] = {"color": "0.4", "linewidth": 0.8, "zorder": 0.5}


def error_distribution(
    y: ArrayLike,
    predicted: ArrayLike,
    *,
    resolution: float | None = None,
    unit: str | None = None,
    label: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw how often absolute errors exceed a size, on logarithmic axes.

    Lower is better. `resolution` is the step that y is recorded in: errors below it, which hardly
    matter, are drawn on a linear scale and marked off.

    >>> import numpy as np
    >>> from zigp import plots
    >>> y = np.array([0.0, 0.0, 0.3, 1.2])
    >>> ax = plots.error_distribution(y, np.full(4, 0.2), resolution=0.1, unit="mm")
    >>> ax.get_xlabel()
    'absolute error of y, mm'
    """
    truth, guess = (np.asarray(v, float) for v in (y, predicted))
    if truth.shape != guess.shape or truth.ndim != 1:
        raise ValueError(f"y has shape {truth.shape} and predicted {guess.shape}: give one each.")
    if resolution is not None and not resolution > 0:
        raise ValueError(f"resolution must be positive, not {resolution!r}.")
    ax = axes_for(ax)
    size = np.sort(np.abs(guess - truth))
    share = 1.0 - np.arange(len(size)) / len(size)
    ax.plot(size, share, drawstyle="steps-post", label=label, **next_line(ax))
    ax.set(yscale="log", xlabel=f"absolute error of {target_label(y=y, unit=unit)}")
    ax.set_ylabel("share with a larger error")
    if resolution is None:
        ax.set_xscale("log")
    else:
        ax.set_xscale("symlog", linthresh=resolution, linscale=0.5)
        _once(ax, "resolution", lambda: ax.axvline(resolution, gid="resolution", **_REFERENCE))
        largest = max(float(np.max(line.get_xdata())) for line in _curves(ax))
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
    """Draw how often observations were not zero against how probable the model held it.

    On the diagonal probabilities are right; below it the model says "not zero" too often. Bars
    span the shares that two standard errors leave possible; grey columns show the share of rows
    with such a probability. The numbers are those of `zigp.diagnostics.reliability`, where `tol` is
    how far from zero still counts as zero.

    >>> from zigp import ZeroInflatedGPRegressor, plots
    >>> from zigp.datasets import simulate_rain
    >>> rain = simulate_rain(12, 48)
    >>> X, y = rain[["lat", "lon", "hour"]], rain["rain_mm"]
    >>> model = ZeroInflatedGPRegressor(steps=20).fit(X, y)
    >>> ax = plots.reliability(model, X, y, tol=0.05)
    >>> ax.get_ylabel()
    'share of rain_mm not zero'
    """
    table = diagnostics.reliability(model, X, y, tol, bins)
    ax = axes_for(ax)
    p, seen, rows = (table[name].to_numpy() for name in ("predicted", "observed", "rows"))
    left = [float(str(name).split(" to ")[0]) for name in table.index]
    alone = _once(ax, "perfect", lambda: ax.plot([0, 1], [0, 1], gid="perfect", **_REFERENCE))
    if alone:  # the rows of several models would hide one another
        ax.bar(left, rows / rows.sum(), 1 / bins, align="edge", color="0.9", zorder=0, gid="rows")
    line = next_line(ax)
    lower, upper = _possible(seen, rows)
    span = np.maximum([seen - lower, upper - seen], 0.0)
    ax.errorbar(
        p, seen, span, fmt="none", ecolor=line["color"], elinewidth=0.8, zorder=2, gid="errors"
    )
    ax.plot(p, seen, marker="o", markersize=4, label=label, zorder=3, **line)
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="predicted probability of not zero")
    ax.set_ylabel(f"share of {_name(y)} not zero")
    legend_above(ax)
    return ax


def _possible(share: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's interval of two standard errors: 0 or 1 among few rows is not certain."""
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
    """Draw where observations fall in their predicted distributions: evenly, if these are right.

    A hump in the middle means distributions too wide, peaks at the ends too narrow, a slope a bias.
    In nine of ten cases a right model stays inside the grey band, bin by bin. With a `resolution`,
    the step that y is recorded in, an observation stands for the cell that it was rounded from
    (`zigp.diagnostics.scores.pit`); without it the numbers are those of `quantile_residuals`.

    >>> from zigp import ZeroInflatedGPRegressor, plots
    >>> from zigp.datasets import simulate_rain
    >>> rain = simulate_rain(12, 48)
    >>> X, y = rain[["lat", "lon", "hour"]], rain["rain_mm"]
    >>> model = ZeroInflatedGPRegressor(steps=20).fit(X, y)
    >>> ax = plots.pit_histogram(model, X, y, resolution=0.1)
    >>> ax.get_xlabel()
    'probability of less than was observed'
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
    u = u[np.isfinite(u)]
    ax = axes_for(ax)
    counts, edges = np.histogram(u, bins, (0.0, 1.0))
    even = len(u) / bins
    low, high = binom.ppf([0.05, 0.95], len(u), 1.0 / bins) / even

    def reference() -> None:
        ax.axhspan(low, high, color="0.88", zorder=0, gid="chance")
        ax.axhline(1.0, **_REFERENCE)

    _once(ax, "chance", reference)
    ax.stairs(counts / even, edges, linewidth=1.5, label=label, zorder=3, **next_line(ax))
    ax.set(xlim=(0, 1), xlabel="probability of less than was observed")
    ax.set_ylabel("rows, of those expected")
    highest = max(float(np.max(step.get_data().values)) for step in _curves(ax))
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
    """Draw how well a model ranks what is not zero above what is.

    For every threshold: how many of the observations that are not zero it finds (recall), and how
    many of those that it finds are not zero (precision). Rows are ranked by `prob_on`, or by the
    predicted amount where a model has none. The legend gives the area under the curve
    (`zigp.diagnostics.scores.auprc`); the line is what guessing reaches.

    >>> from zigp import ZeroInflatedGPRegressor, plots
    >>> from zigp.datasets import simulate_rain
    >>> rain = simulate_rain(12, 48)
    >>> X, y = rain[["lat", "lon", "hour"]], rain["rain_mm"]
    >>> model = ZeroInflatedGPRegressor(steps=20).fit(X, y)
    >>> ax = plots.precision_recall(model, X, y, label="ZiGP")
    >>> ax.get_legend().get_texts()[0].get_text().startswith("ZiGP, area 0.")
    True
    """
    from sklearn.metrics import precision_recall_curve

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
    ax = axes_for(ax)
    _once(ax, "guessing", lambda: ax.axhline(on.mean(), gid="guessing", **_REFERENCE))
    ax.plot(
        recall,
        precision,
        drawstyle="steps-post",
        label=area if label is None else f"{label}, {area}",
        **next_line(ax),
    )
    ax.set(xlim=(0, 1), ylim=(0, 1.02))
    ax.set_xlabel(f"recall: share of {_name(y)} ≠ 0 that is found")
    ax.set_ylabel("precision: share of finds ≠ 0")
    legend_above(ax, ncols=2)
    return ax


def bound(
    model: Any, by: str = "steps", *, label: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw how training went: the bound on log p(y) over `steps`, or over `seconds`.

    It should rise and level off. The first twentieth of the steps, where it rises steeply, may lie
    below the picture. Other restarts of a network are thin grey lines. Seconds include compilation,
    at the beginning.

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
    if hasattr(model, "regressor_") and hasattr(model, "classifier_"):
        raise ValueError(
            f"{type(model).__name__} was trained in two parts: draw the bounds of its classifier_ "
            "and of its regressor_."
        )
    ax = axes_for(ax)
    chosen = (model.bounds_, model.times_)
    for other in getattr(model, "restarts_", []):
        if len(other.bounds) and not np.array_equal(other.bounds, model.bounds_):
            ax.plot(*_path(other.bounds, other.times, by), color="0.75", linewidth=0.6, zorder=1)
    ax.plot(*_path(*chosen, by), label=label, zorder=2, **next_line(ax))
    ax.set(xlabel=by, ylabel="bound on log p(y)")
    ax.margins(x=0)
    _leave_out_the_start(ax)
    legend_above(ax)
    return ax


def _leave_out_the_start(ax: Axes) -> None:
    """Begin the picture where the curves are after a twentieth of their steps."""
    paths = [np.asarray(line.get_ydata()) for line in _curves(ax)]
    low, high = min(p[len(p) // 20] for p in paths), max(p.max() for p in paths)
    if high > low:
        ax.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))


def _path(bounds: np.ndarray, times: np.ndarray, by: str) -> tuple[np.ndarray, np.ndarray]:
    return (np.arange(len(bounds)) if by == "steps" else times), bounds


def _curves(ax: Axes) -> list[Any]:
    """What was drawn of each model."""
    return [one for one in [*ax.lines, *ax.patches] if one.get_gid() == "curve"]


def _name(y: Any) -> str:
    return target_label(y=y, unit="")


def _once(ax: Axes, gid: str, draw: Any) -> bool:
    """Draw a reference that further curves on the same axes share; whether it was drawn now."""
    if any(artist.get_gid() == gid for artist in ax.get_children()):
        return False
    draw()
    return True
