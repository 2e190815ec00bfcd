"""GP networks: latents, the weights that mix them, and the outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from zigp.estimators import GPNetworkRegressor
from zigp.plots.canvas import (
    SIGNAL,
    Canvas,
    Scale,
    colour_scale,
    draw_data,
    figure_for,
    label_outer,
    mark_dates,
    titled,
)
from zigp.plots.labels import as_table, input_names, output_names
from zigp.plots.marks import Marks, add_colour_bar

__all__ = ["network_panels"]

_PARTS = ("latents", "weights", "support", "predicted", "observed")


def network_panels(
    model: GPNetworkRegressor,
    X: Any,
    *,
    observed: tuple[Any, Any] | None = None,
    columns: Sequence[int | str] | None = None,
    show: Sequence[str] = _PARTS,
    outputs: Sequence[str] | None = None,
    figure: Canvas | None = None,
) -> np.ndarray:
    """Draw the parts of a network, with a row of panels for each output.

    Columns of panels are the latents, the weight of each latent in each output (white where it is
    switched off), their support, the predicted and the observed outputs. A model of one input is
    drawn as curves, others as maps.

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
    show : sequence of str, default=("latents", "weights", "support", "predicted", "observed")
        The parts to draw.
    outputs : sequence of str, default=None
        Names of the outputs; those given to `fit` by default.
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
    >>> axes = plots.network_panels(model, X, show=["weights", "predicted"])
    >>> axes.shape
    (2, 2)
    """
    input_names(model)  # raises an error if the model is not fitted
    if not hasattr(model, "predict_network"):
        raise ValueError(
            f"network_panels needs a GPNetworkRegressor; {type(model).__name__} is none. Use "
            "component_maps or fit_1d."
        )
    parts, predicted = model.predict_network(X), _by_output(model.predict(X))
    P, Q = predicted.shape[1], parts.latents.shape[1]
    names = _output_labels(model, outputs, P)
    shown = _shown(show, observed is not None)
    widths = [Q if part in ("weights", "support") else 1 for part in shown]
    high = max(P, Q) if "latents" in shown else P
    figure = figure_for(figure, 1.7 * sum(widths) + 0.6, 1.6 * high + 0.7)
    marks = _marks(model, X, columns)
    maps = isinstance(marks, Marks)
    axes: Any = figure.subplots(high, sum(widths), sharex=True, sharey=maps, squeeze=False)
    ends = np.cumsum(widths)
    panels: dict[str, Any] = {
        part: axes[:, b - w : b] for part, w, b in zip(shown, widths, ends, strict=True)
    }
    for part, values, kind, label in (  # values [rows, columns, places]
        ("latents", parts.latents.T[:, None], "signed", "latents"),
        ("weights", parts.effective_weights.transpose(2, 1, 0), "signed", "weights, 0 where off"),
        ("support", parts.support.transpose(2, 1, 0), "share", "support, 0 off, 1 on"),
    ):
        if part in panels:
            drawings = [
                (panels[part][i, q], marks, values[i, q], _title(part, names, i, q))
                for i, q in np.ndindex(*values.shape[:2])
            ]
            _draw_group(panels[part], drawings, kind, label, location="bottom", aspect=15)
    outcomes = {"predicted": (marks, predicted)}
    if observed is not None:
        Y = _by_output(observed[1])
        if Y.shape[1] != P:
            shape = np.shape(observed[1])
            raise ValueError(f"observed has shape {shape}, but there are {P} outputs.")
        outcomes["observed"] = (_marks(model, observed[0], columns, dots=True), Y)
    for p, name in enumerate(names):
        drawings = [
            (panels[part][p, 0], at, values[:, p], f"{name}: {part}")
            for part, (at, values) in outcomes.items()
            if part in panels
        ]
        row = np.array([ax for ax, *_ in drawings])
        # An output that is never negative is an amount, also where its prediction dips below zero.
        *_, (_, last) = outcomes.values()
        _draw_group(row, drawings, "signed" if np.nanmin(last[:, p]) < 0 else "amount", name)
    for ax in axes.ravel():
        if not ax.has_data():
            ax.set_axis_off()
    label_outer(axes)
    return axes


def _title(part: str, outputs: Sequence[str], row: int, q: int) -> str:
    """Return the title of a panel of a latent, a weight or its support."""
    if part == "latents":
        return f"latent {row + 1}"
    return f"{outputs[row]}: {part.removesuffix('s')} {q + 1}"


def _draw_group(
    panels: np.ndarray, drawings: Sequence[_Drawing], kind: str, label: str, **bar: Any
) -> None:
    """Draw values with the same colours, and one colour bar next to all of the panels."""
    if not drawings:
        return
    scale = colour_scale(np.concatenate([values for _, _, values, _ in drawings]), kind)
    for ax, marks, values, title in drawings:
        drawn = marks.draw(ax, values, scale)
        titled(ax, title, size="small")
    if drawn is not None:
        add_colour_bar(panels.ravel().tolist(), drawn, scale, label, pad=0.02, **bar)


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


_Drawing = tuple[Axes, Marks | _Curve, np.ndarray, str]  # with a title


def _marks(
    model: Any, X: Any, columns: Sequence[int | str] | None, dots: bool = False
) -> Marks | _Curve:
    """Return the marks of a map, or a curve if there is only one input."""
    names = input_names(model)
    if len(names) == 1:
        return _Curve(as_table(X, model).iloc[:, 0].to_numpy(), names[0], dots)
    return Marks.of_table(X, columns, model)


def _by_output(Y: Any) -> np.ndarray:
    """Return outputs as numbers [rows, outputs]."""
    values = np.asarray(Y, float)
    return values.reshape(len(values), -1)


def _output_labels(model: Any, given: Sequence[str] | None, P: int) -> list[str]:
    own = [f"output {n}" if n.isdigit() else n for n in output_names(model)] or ["y"]
    names = own if given is None else list(given)
    if len(names) != P:
        raise ValueError(f"outputs names {len(names)} outputs, but the model has {P}.")
    return names


def _shown(show: Sequence[str], with_data: bool) -> list[str]:
    """Return the parts to draw, in their order."""
    show = [show] if isinstance(show, str) else list(show)
    if unknown := [part for part in show if part not in _PARTS]:
        raise ValueError(f"show names {unknown[0]!r}; choose from {', '.join(_PARTS)}.")
    shown = [part for part in _PARTS if part in show and (part != "observed" or with_data)]
    if not shown:
        raise ValueError("There is nothing to show: name parts, and give observed=(X, Y) for data.")
    return shown
