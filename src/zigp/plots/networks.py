"""GP networks: latents, the weights that mix them, and the outputs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from zigp.estimators import GPNetworkRegressor
from zigp.plots.canvas import (
    SIGNAL,
    Canvas,
    as_table,
    check_can,
    draw_data,
    figure_for,
    input_names,
    label_outer,
    mark_dates,
    output_names,
)
from zigp.plots.marks import Marks, Scale, colour_scale, draw_group

_BAR: dict[str, Any] = {"pad": 0.02, "size": "small"}
_KINDS = {  # of colours, and the label of their bar
    "latents": ("signed", "latents"),
    "weights": ("signed", "weights, 0 where off"),
    "support": ("share", "support, 0 off, 1 on"),
}


def network_panels(
    model: GPNetworkRegressor,
    X: Any,
    *,
    observed: tuple[Any, Any] | None = None,
    columns: Sequence[int | str] | None = None,
    figure: Canvas | None = None,
) -> np.ndarray:
    """Draw the parts of a network, with a row of panels for each output.

    Columns of panels are the latents, the weight of each latent in each output (white where it is
    switched off), their support, the predicted and the observed outputs, with the names that they
    had in `fit`. A model of one input is drawn as curves, others as maps.

    Parameters
    ----------
    model : GPNetworkRegressor
        A fitted network.
    X : DataFrame or array-like of shape (n_rows, n_columns)
        Places to draw, such as a grid over a region.
    observed : pair of (X, Y), default=None
        Places and outputs that were measured.
    columns : pair of int or str, default=None
        Columns of X that run across and up the maps. By default longitude and latitude, by name, or
        the only two there are.
    figure : matplotlib Figure or SubFigure, default=None
        Figure to draw in; a new one of pyplot's by default.

    Returns
    -------
    ndarray of shape (n_rows, n_columns)
        The axes; those without a part are switched off.

    Examples
    --------
    >>> import numpy as np
    >>> from zigp import GPNetworkRegressor, plots
    >>> X = np.random.default_rng(0).uniform(0, 5, (60, 2))
    >>> Y = np.column_stack([np.sin(X[:, 0]), np.sin(X[:, 0]) * X[:, 1]])
    >>> model = GPNetworkRegressor(1, n_restarts=1, n_inducing=5, steps=20).fit(X, Y)
    >>> plots.network_panels(model, X).shape
    (2, 4)
    """
    check_can(
        model,
        "predict_network",
        "network_panels needs a GPNetworkRegressor; {} is none. Use component_maps or fit_1d.",
    )
    blocks = _blocks(model, X, observed, columns)
    names = [f"output {n}" if n.isdigit() else n for n in output_names(model)] or ["y"]
    wide = sum(values.shape[1] for _, values in blocks.values())
    high = max(len(values) for _, values in blocks.values())
    figure = figure_for(figure, 1.7 * wide + 0.6, 1.6 * high + 0.7)
    maps = len(input_names(model)) > 1
    axes: Any = figure.subplots(high, wide, sharex=True, sharey=maps, squeeze=False)
    rows: dict[str, list[Any]] = {name: [] for name in names}
    start = 0
    for part, (at, values) in blocks.items():
        panels = axes[:, start : start + values.shape[1]]
        start += values.shape[1]
        cells = np.ndindex(*values.shape[:2])
        drawings = [(panels[i, q], at, values[i, q], _title(part, names, i, q)) for i, q in cells]
        if part in _KINDS:
            kind, label = _KINDS[part]
            draw_group(
                drawings,
                colour_scale(values, kind),
                label,
                panels.flat,
                location="bottom",
                aspect=15,
                **_BAR,
            )
        else:
            for name, drawing in zip(names, drawings, strict=True):
                rows[name].append(drawing)
    for name, drawings in rows.items():
        # An output that is never negative is an amount, even if predicted below zero.
        kind = "signed" if np.nanmin(drawings[-1][2]) < 0 else "amount"
        scale = colour_scale(np.concatenate([values for _, _, values, _ in drawings]), kind)
        draw_group(drawings, scale, name, **_BAR)
    for ax in axes.flat:
        if not ax.has_data():
            ax.set_axis_off()
    label_outer(axes)
    return axes


def _blocks(
    model: Any, X: Any, observed: tuple[Any, Any] | None, columns: Sequence[int | str] | None
) -> dict[str, tuple[Any, np.ndarray]]:
    """Return the marks of each part, and its values [rows, columns, places]."""
    parts, predicted = model.predict_network(X), _by_output(model.predict(X))
    marks = _marks(model, X, columns)
    blocks = {
        "latents": (marks, parts.latents.T[:, None]),
        "weights": (marks, parts.effective_weights.transpose(2, 1, 0)),
        "support": (marks, parts.support.transpose(2, 1, 0)),
        "predicted": (marks, predicted),
    }
    if observed is not None:
        places, Y = observed[0], _by_output(observed[1])
        if len(Y) != len(predicted):
            raise ValueError(
                f"observed has shape {np.shape(observed[1])}, but there are {len(predicted)} "
                "outputs."
            )
        blocks["observed"] = (_marks(model, places, columns, cells=False), Y)
    return blocks


def _title(part: str, outputs: Sequence[str], row: int, q: int) -> str:
    """Return the title of a panel."""
    if part == "latents":
        return f"latent {row + 1}"
    return f"{outputs[row]}: {part.removesuffix('s')}" + f" {q + 1}" * (part in _KINDS)


@dataclass(frozen=True)
class _Curve:
    """Values along one input, as a line or as dots."""

    x: np.ndarray
    name: str
    dots: bool

    def draw(self, ax: Axes, values: np.ndarray, scale: Scale) -> None:
        """Draw values and label the axes; only a share needs its scale."""
        order = np.argsort(self.x)
        draw = draw_data if self.dots else Axes.plot
        draw(ax, self.x[order], values[order], color=SIGNAL)
        ax.set_xlabel(self.name)
        mark_dates(ax.xaxis, self.x)
        if scale.colours.name == "shares":
            ax.set_ylim(-0.05, 1.05)


def _marks(
    model: Any, X: Any, columns: Sequence[int | str] | None, cells: bool | None = None
) -> Marks | _Curve:
    """Return the marks of a map, or a curve if there is only one input."""
    if model.n_features_in_ == 1:
        (name,) = input_names(model)
        return _Curve(as_table(X, model).iloc[:, 0].to_numpy(), name, cells is False)
    return Marks.of_table(X, columns, model, cells=cells)


def _by_output(Y: Any) -> np.ndarray:
    """Return outputs as numbers [outputs, 1, places]."""
    values = np.asarray(Y, float)
    return values.reshape(len(values), -1).T[:, None]
