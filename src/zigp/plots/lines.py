"""Models of one input: the fit as a curve, and what it is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from zigp.data.grids import as_cells, is_lattice
from zigp.estimators.families import LOG_AMOUNTS
from zigp.gp.batch import Rows
from zigp.plots.canvas import DATA, SIGNAL, axes_for, figure_for, legend_above, mark_dates, titled
from zigp.plots.labels import column, input_names, outputs_of, target_label
from zigp.runtime.session import entry_point

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from zigp.estimators import ZeroInflatedGPRegressor

__all__ = ["components_1d", "draw_band", "fit_1d"]

Band = tuple[np.ndarray, np.ndarray]  # mean and standard deviation

Limits = tuple[float | None, float | None]

_SPREAD = 2.0  # standard deviations to either side


@dataclass(frozen=True)
class _Curve:
    """The data of a model with one input, and evenly spaced inputs to draw it at."""

    x: Any  # of the data
    y: np.ndarray | None
    grid: Any  # a table or an array, as the model was given
    along: Any  # its one column
    across: str
    up: str


def fit_1d(
    model: Any,
    X: Any,
    y: ArrayLike | None = None,
    *,
    level: float | None = 0.9,
    points: int = 300,
    ax: Axes | None = None,
) -> Axes:
    """Draw a fit over its one input: the data, the signal, and how sure the model is of it.

    The dark band is the signal with two standard deviations to either side. The light band is the
    central interval that holds a new observation, noise included, with probability `level`; None
    leaves it out. Curves are drawn at `points` evenly spaced inputs over the range of X.

    >>> import numpy as np
    >>> from zigp import ZeroInflatedGPRegressor, plots
    >>> x = np.linspace(0, 10, 100)[:, None]
    >>> y = np.where(x[:, 0] > 5, 2 + np.sin(x[:, 0]), 0)
    >>> model = ZeroInflatedGPRegressor(steps=20).fit(x, y)
    >>> ax = plots.fit_1d(model, x, y)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['data', 'signal ± 2 sd', '90 % interval']
    """
    curve = _curve("fit_1d", model, X, y, points)
    if not hasattr(model, "predict_interval"):
        raise ValueError(
            f"fit_1d draws amounts, and {type(model).__name__} predicts classes. Draw its "
            "prob_on yourself, or precision_recall."
        )
    ax = axes_for(ax)
    if curve.y is not None:
        ax.plot(curve.x, curve.y, ".", color=DATA, markersize=3, label="data", zorder=1)
    mean, sd = _signal(model, curve.grid)
    if sd is None:
        ax.plot(curve.along, mean, color=SIGNAL, label="signal", zorder=3)
    else:
        draw_band(ax, curve.along, (mean, sd), label="signal ± 2 sd", limits=_range_of(model))
    if level is not None:
        inside = model.predict_interval(curve.grid, level)
        ax.fill_between(
            curve.along,
            inside["lower"].to_numpy(),
            inside["upper"].to_numpy(),
            color=SIGNAL,
            alpha=0.15,
            linewidth=0,
            label=f"{100 * level:g} % interval",
            zorder=0,
        )
    ax.set(xlabel=curve.across, ylabel=curve.up)
    ax.margins(x=0)
    mark_dates(ax.xaxis, curve.along)
    legend_above(ax)
    return ax


def components_1d(
    model: ZeroInflatedGPRegressor,
    X: Any,
    y: ArrayLike | None = None,
    *,
    points: int = 200,
    figure: Figure | SubFigure | None = None,
) -> np.ndarray:
    """Draw what a zero-inflated fit of one input is made of, each part beside its kernel.

    From the top: the signal with the data, the latent amount f, the support Φ(g) and the switch g
    behind it, each with two standard deviations to either side; on the right how alike each is at
    two inputs. The kernel of the signal is that of the latent with both supports multiplied on, so
    that rows and columns vanish where the signal is off. With hurdles and counts f is a logarithm
    and the signal has no such kernel; its panel stays empty. Returns the axes, [4, 2].

    >>> import numpy as np
    >>> from zigp import ZeroInflatedGPRegressor, plots
    >>> x = np.linspace(0, 10, 100)[:, None]
    >>> y = np.where(x[:, 0] > 5, 2 + np.sin(x[:, 0]), 0)
    >>> model = ZeroInflatedGPRegressor(steps=20).fit(x, y)
    >>> plots.components_1d(model, x, y).shape
    (4, 2)
    """
    curve = _curve("components_1d", model, X, y, points)
    if not hasattr(model, "predict_components"):
        raise ValueError(
            f"components_1d needs a ZeroInflatedGPRegressor, which has a gate and a latent; "
            f"{type(model).__name__} has none. Use fit_1d."
        )
    bands, kernels = _parts(model, curve.grid)
    logarithm = model.likelihood_ in LOG_AMOUNTS
    rows = {
        "signal": ("signal Φ(g) f", curve.up, "sparse kernel Φ(g) Φ(g′) k(f)"),
        "latent": ("latent f", "log of amount" if logarithm else curve.up, "kernel of f"),
        "gate": ("support Φ(g)", "0 off, 1 on", "support of pairs Φ(g) Φ(g′)"),
        "g": ("switch g", "g", "kernel of g"),
    }
    if logarithm:
        rows["signal"] = ("signal, from support and latent", curve.up, "")
    figure = figure_for(figure, 6.4, 7.2)
    axes = figure.subplots(4, 2, width_ratios=(1.7, 1.0), sharex=True)
    for (left, right), (name, (title, unit, kernel)) in zip(axes, rows.items(), strict=True):
        if name == "signal" and curve.y is not None:
            left.plot(curve.x, curve.y, ".", color=DATA, markersize=3, label="data")
        limits = {"signal": _range_of(model), "gate": (0.0, 1.0)}.get(name)
        draw_band(left, curve.along, bands[name], limits=limits)
        titled(left, title)
        left.set_ylabel(unit)
        left.margins(x=0)
        if not kernel:
            right.set_axis_off()
            continue
        x, how = curve.along, {"shading": "nearest", "cmap": "viridis", "rasterized": True}
        image = right.pcolormesh(x, x, kernels[name], vmin=0.0, **how)
        right.invert_yaxis()
        mark_dates(right.yaxis, x)
        titled(right, kernel)
        right.set_ylabel(f"{curve.across}′")
        figure.colorbar(image, ax=right)
    for ax in axes[-1]:
        ax.set_xlabel(curve.across)
        mark_dates(ax.xaxis, curve.along)
    return axes


def draw_band(
    ax: Axes,
    x: Any,
    band: Band,
    *,
    label: str | None = None,
    limits: Limits | None = None,
) -> None:
    """A mean with two standard deviations to either side, cut off at the limits."""
    mean, sd = band
    edges = np.clip([mean - _SPREAD * sd, mean + _SPREAD * sd], *(limits or (None, None)))
    ax.fill_between(x, *edges, color=SIGNAL, alpha=0.35, linewidth=0, zorder=2)
    ax.plot(x, mean, color=SIGNAL, label=label, zorder=3)


def _range_of(model: Any) -> Limits:
    """What a signal cannot lie beyond: that of log amounts is positive."""
    return (0.0, None) if getattr(model, "likelihood_", "") in LOG_AMOUNTS else (None, None)


def _curve(what: str, model: Any, X: Any, y: Any, points: int) -> _Curve:
    """The data, or an error that says why they make no curve."""
    names, outputs = input_names(model), outputs_of(model)
    if len(names) != 1:
        raise ValueError(
            f"{what} draws a model of one input; this one has {len(names)} ({', '.join(names)}). "
            "Use component_maps or scatter_map."
        )
    if outputs:
        raise ValueError(
            f"{what} draws one output; this model has {len(outputs)} ({', '.join(outputs)}). "
            "Use network_panels."
        )
    up = target_label(model, X if is_lattice(X) and y is None else y)
    if is_lattice(X):
        cells = as_cells(X, y)
        X, y = cells.X, cells.y
    x = column(X, 0)
    grid = _grid(names[0], X, x, points)
    seen = None if y is None else np.asarray(y, float)
    if seen is not None and seen.shape != (len(x),):
        raise ValueError(f"y has shape {seen.shape}, but X has {len(x)} rows.")
    return _Curve(np.asarray(x), seen, grid, np.asarray(column(grid, 0)), names[0], up)


def _grid(name: str, X: Any, x: Any, points: int) -> Any:
    """Evenly spaced inputs over the range of the data, as a table where the data are one."""
    import pandas as pd

    kinds = pd.api.types
    if not hasattr(X, "columns"):
        return np.linspace(np.min(x), np.max(x), points, dtype=float)[:, None]
    if kinds.is_datetime64_any_dtype(x):
        values: Any = pd.date_range(x.min(), x.max(), periods=points)
    elif kinds.is_numeric_dtype(x):
        values = np.linspace(x.min(), x.max(), points, dtype=float)
    else:
        raise ValueError(
            f"Column {name!r} holds {x.dtype}, which has no curve. Only numbers and times have."
        )
    return pd.DataFrame({X.columns[0]: values})


def _signal(model: Any, grid: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """The signal and its standard deviation without the noise, where the model knows that."""
    if hasattr(model, "predict_components"):
        parts = model.predict_components(grid)
        return parts["signal"].to_numpy(), parts["signal_sd"].to_numpy()
    mean, sd = model.predict(grid, return_std=True)
    if not hasattr(model, "noise_sd_"):
        return mean, None
    return mean, np.sqrt(np.maximum(sd**2 - model.noise_sd_**2, 0.0))


@entry_point
def _parts(model: Any, grid: Any) -> tuple[dict[str, Band], dict[str, np.ndarray]]:
    """Signal, latent, gate and g with their spread, and the kernels behind them, in y's units."""
    table = model.predict_components(grid)
    bands = {
        name: (table[name].to_numpy(), table[f"{name}_sd"].to_numpy())
        for name in ("signal", "latent", "gate")
    }
    latents, X = model.model_.latents, jnp.asarray(model._checked(grid) - model.layout_.centre)
    g = latents["g"].marginal(Rows(X))
    bands["g"] = (np.asarray(g.mean), np.sqrt(np.asarray(g.var)))
    k = {
        name: np.asarray(latents[name].variance * latents[name].kernels[0](X, X))
        for name in ("f", "g")
    }
    pairs, amount = np.outer(bands["gate"][0], bands["gate"][0]), model.y_scale_**2 * k["f"]
    return bands, {"signal": pairs * amount, "latent": amount, "gate": pairs, "g": k["g"]}
