"""Fits of one input: the fit as a curve, and its components with their kernels."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from zigp.data.grids import as_cells, is_lattice
from zigp.estimators import ZeroInflatedGPRegressor
from zigp.estimators.families import LOG_AMOUNTS
from zigp.gp.batch import Rows
from zigp.plots.canvas import (
    SIGNAL,
    Canvas,
    as_table,
    axes_for,
    check_can,
    draw_data,
    figure_for,
    input_names,
    mark_dates,
    one_per_row,
    output_names,
    target_label,
    with_legend,
)
from zigp.runtime.session import entry_point


def fit_1d(
    model: Any,
    X: Any,
    y: ArrayLike | None = None,
    *,
    level: float | None = 0.9,
    points: int = 300,
    ax: Axes | None = None,
) -> Axes:
    """Draw a fit over its one input: the data, the signal and its uncertainty.

    The dark band is the signal with two standard deviations to either side. The light band is the
    central interval that holds a new observation, noise included, with probability `level`.

    Parameters
    ----------
    model : estimator
        A fitted regression model of one input and one output.
    X : DataFrame or array-like of shape (n_rows, 1), or DataArray
        Inputs of the data; a DataArray holds the observations too.
    y : array-like of shape (n_rows,), default=None
        Observations. Without them only the fit is drawn.
    level : float, default=0.9
        Probability of the interval for new observations; None leaves the interval out.
    points : int, default=300
        Number of evenly spaced inputs, over the range of X, at which the fit is drawn.
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
    >>> ax = plots.fit_1d(model, x, y)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['data', 'signal ± 2 sd', '90 % interval']
    """
    check_can(
        model,
        "predict_interval",
        "fit_1d draws amounts, and {} predicts classes. Draw its prob_on yourself.",
    )
    x, values, grid, along, labels = _data("fit_1d", model, X, y, points)
    ax = axes_for(ax)
    if values is not None:
        draw_data(ax, x, values, label="data")
    mean, sd = _signal(model, grid)
    _draw_band(
        ax, along, mean, sd, _bounds_of(model), label="signal" + " ± 2 sd" * (sd is not None)
    )
    if level is not None:
        inside = model.predict_interval(grid, level)
        ax.fill_between(
            along,
            *inside[["lower", "upper"]].to_numpy().T,
            color=SIGNAL,
            alpha=0.15,
            linewidth=0,
            zorder=0,
            label=f"{100 * level:g} % interval",
        )
    ax.set(xlabel=labels[0], ylabel=labels[1])
    ax.margins(x=0)
    mark_dates(ax.xaxis, along)
    return with_legend(ax)


def components_1d(
    model: ZeroInflatedGPRegressor,
    X: Any,
    y: ArrayLike | None = None,
    *,
    points: int = 200,
    figure: Canvas | None = None,
) -> np.ndarray:
    """Draw the components of a zero-inflated fit of one input, each next to its kernel.

    From the top: the signal with the data, the latent amount f, the support Φ(g) and its latent g,
    each with two standard deviations to either side; on the right their covariances between two
    inputs. The kernel of the signal is that of the latent times the support at both inputs, so it
    vanishes where the signal is off. With hurdles and counts f is a logarithm and the signal has no
    such kernel; its panel stays empty.

    Parameters
    ----------
    model : ZeroInflatedGPRegressor
        A fitted model of one input.
    X : DataFrame or array-like of shape (n_rows, 1), or DataArray
        Inputs of the data; a DataArray holds the observations too.
    y : array-like of shape (n_rows,), default=None
        Observations. Without them only the fit is drawn.
    points : int, default=200
        Number of evenly spaced inputs, over the range of X, at which the fit is drawn.
    figure : matplotlib Figure or SubFigure, default=None
        Figure to draw in; a new one of pyplot's by default.

    Returns
    -------
    ndarray of shape (4, 2)
        The axes.

    Examples
    --------
    >>> import numpy as np
    >>> from zigp import ZeroInflatedGPRegressor, plots
    >>> x = np.linspace(0, 10, 100)[:, None]
    >>> y = np.where(x[:, 0] > 5, 2 + np.sin(x[:, 0]), 0)
    >>> model = ZeroInflatedGPRegressor(steps=20).fit(x, y)
    >>> plots.components_1d(model, x, y).shape
    (4, 2)
    """
    check_can(
        model,
        "predict_components",
        "components_1d needs a ZeroInflatedGPRegressor, which has a gate and a latent; {} has "
        "none. Use fit_1d.",
    )
    x, values, grid, along, (across, up) = _data("components_1d", model, X, y, points)
    bands, kernels = _components(model, grid)
    logarithm = model.likelihood_ in LOG_AMOUNTS
    if logarithm:
        del kernels["signal"]
    signal = "signal, from support and latent" if logarithm else "signal Φ(g) f"
    rows = {  # title, label and limits of the component, title of its kernel
        "signal": (signal, up, _bounds_of(model), "sparse kernel Φ(g) Φ(g′) k(f)"),
        "latent": ("latent f", "log of amount" if logarithm else up, None, "kernel of f"),
        "gate": ("support Φ(g)", "0 off, 1 on", (0.0, 1.0), "support of pairs Φ(g) Φ(g′)"),
        "g": ("latent g of the support", "g", None, "kernel of g"),
    }
    figure = figure_for(figure, 6.4, 7.2)
    axes = figure.subplots(4, 2, width_ratios=(1.7, 1.0), sharex=True)
    if values is not None:
        draw_data(axes[0, 0], x, values, label="data")
    for pair, (name, (title, label, bounds, kernel)) in zip(axes, rows.items(), strict=True):
        left, right = pair
        _draw_band(left, along, *bands[name], bounds)
        left.set_title(title, loc="left", fontsize="medium")
        left.set(ylabel=label, xmargin=0)
        if name not in kernels:
            right.set_axis_off()
            continue
        image = right.pcolormesh(
            along,
            along,
            kernels[name],
            vmin=0.0,
            cmap="viridis",
            shading="nearest",
            rasterized=True,
        )
        right.invert_yaxis()
        mark_dates(right.yaxis, along)
        right.set_title(kernel, loc="left", fontsize="medium")
        right.set_ylabel(f"{across}′")
        figure.colorbar(image, ax=right)
    for ax in axes[-1]:
        ax.set_xlabel(across)
        mark_dates(ax.xaxis, along)
    return axes


def _draw_band(
    ax: Axes,
    x: np.ndarray,
    mean: np.ndarray,
    sd: np.ndarray | None,
    bounds: tuple[float | None, float | None] | None,
    label: str | None = None,
) -> None:
    """Draw a mean with two standard deviations to either side, clipped to bounds."""
    if sd is not None:
        edges = np.clip([mean - 2.0 * sd, mean + 2.0 * sd], *(bounds or (None, None)))
        ax.fill_between(x, *edges, color=SIGNAL, alpha=0.35, linewidth=0, zorder=2)
    ax.plot(x, mean, color=SIGNAL, label=label, zorder=3)


def _bounds_of(model: Any) -> tuple[float, None] | None:
    """Return the bounds of the signal: it is positive if the latent is a logarithm."""
    return (0.0, None) if getattr(model, "likelihood_", "") in LOG_AMOUNTS else None


def _data(
    what: str, model: Any, X: Any, y: Any, points: int
) -> tuple[np.ndarray, np.ndarray | None, Any, np.ndarray, tuple[str, str]]:
    """Return the data of a model of one input and one output, and where to draw the model.

    These are inputs, observations, evenly spaced inputs as the model takes them and as numbers or
    times, and the labels of the axes.
    """
    names, outputs = input_names(model), output_names(model)
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
    table = as_table(X, model)
    x = table.iloc[:, 0]
    if not (pd.api.types.is_numeric_dtype(x) or pd.api.types.is_datetime64_any_dtype(x)):
        raise ValueError(
            f"Column {names[0]!r} holds {x.dtype}, which has no curve. Only numbers and times have."
        )
    along = x.min() + (x.max() - x.min()) * pd.Series(np.linspace(0.0, 1.0, points))
    grid = along.to_frame(X.columns[0]) if hasattr(X, "columns") else along.to_numpy()[:, None]
    values = None if y is None else one_per_row(y, table, "y")
    return x.to_numpy(), values, grid, along.to_numpy(), (names[0], up)


def _signal(model: Any, grid: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the signal and, if the model has it, its standard deviation without noise."""
    if hasattr(model, "predict_components"):
        table = model.predict_components(grid)
        return table["signal"].to_numpy(), table["signal_sd"].to_numpy()
    mean, sd = model.predict(grid, return_std=True)
    if not hasattr(model, "noise_sd_"):
        return mean, None
    return mean, np.sqrt(np.maximum(sd**2 - model.noise_sd_**2, 0.0))


@entry_point
def _components(
    model: Any, grid: Any
) -> tuple[dict[str, tuple[np.ndarray, np.ndarray]], dict[str, np.ndarray]]:
    """Return signal, latent, gate and g with their spread, and their kernels, in units of y."""
    table = model.predict_components(grid)
    bands = {
        name: (table[name].to_numpy(), table[f"{name}_sd"].to_numpy())
        for name in ("signal", "latent", "gate")
    }
    latents, at = model.model_.latents, Rows(model._checked(grid) - model.layout_.centre)
    g, X = model.model_.extended(at).marginals(at)["g"], at.X
    bands["g"] = (np.asarray(g.mean), np.sqrt(np.asarray(g.var)))
    k = {
        name: np.asarray(latents[name].variance * latents[name].kernels[0](X, X))
        for name in ("f", "g")
    }
    pairs, amount = np.outer(bands["gate"][0], bands["gate"][0]), model.y_scale_**2 * k["f"]
    return bands, {"signal": pairs * amount, "latent": amount, "gate": pairs, "g": k["g"]}
