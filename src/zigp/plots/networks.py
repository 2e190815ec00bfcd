"""GP networks: latents, the weights that mix them, and the outputs that come of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zigp.plots.canvas import SIGNAL, Scale, colour_scale, figure_for, mark_dates, titled
from zigp.plots.labels import column, input_names, outputs_of
from zigp.plots.marks import Marks, Places, add_colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from zigp.estimators import GPNetworkRegressor

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
    figure: Figure | SubFigure | None = None,
) -> np.ndarray:
    """Draw a network part by part, a row of panels for each output.

    X holds the places to draw, such as a grid over the region; `observed` is a pair of the places
    and outputs that were measured. Columns of panels are the latents, the weight of each latent in
    each output (white where it is switched off), their support, the predicted outputs and those
    observed, or what `show` names of these. A model of one input is drawn as curves. `columns`
    names the columns that run across and up, `outputs` what to call the outputs if not as in `fit`.
    Returns the axes, [rows, columns]; those without a part are switched off.

    >>> import numpy as np
    >>> from zigp import GPNetworkRegressor, plots
    >>> X = np.random.default_rng(0).uniform(0, 5, (60, 2))
    >>> Y = np.column_stack([np.sin(X[:, 0]), np.sin(X[:, 0]) * X[:, 1]])
    >>> model = GPNetworkRegressor(1, n_restarts=1, n_inducing=5, steps=20).fit(X, Y)
    >>> axes = plots.network_panels(model, X, show=["weights", "predicted"])
    >>> axes.shape
    (2, 2)
    """
    input_names(model)  # it must have been fitted
    if not hasattr(model, "predict_network"):
        raise ValueError(
            f"network_panels needs a GPNetworkRegressor; {type(model).__name__} is none. Use "
            "component_maps or fit_1d."
        )
    parts, predicted = model.predict_network(X), np.asarray(model.predict(X))
    predicted = predicted.reshape(len(predicted), -1)
    P, Q = predicted.shape[1], parts.latents.shape[1]
    shown = _shown(show, observed is not None)
    starts = np.cumsum([0, *(Q if part in ("weights", "support") else 1 for part in shown)])
    high = max(P, Q) if "latents" in shown else P
    figure = figure_for(figure, 1.7 * starts[-1] + 0.6, 1.6 * high + 0.7)
    marks = _marks(model, X, columns)
    maps = isinstance(marks, Places)
    axes = figure.subplots(high, starts[-1], sharex=True, sharey=maps, squeeze=False)
    block = {part: axes[:, a:b] for part, a, b in zip(shown, starts[:-1], starts[1:], strict=True)}
    names = _output_names(model, outputs, P)
    if "latents" in shown:
        titles = [[f"latent {q + 1}"] for q in range(Q)]
        values = parts.latents.T[:, None]
        _draw_block(block["latents"], marks, values, titles, "signed", "latents")
    for part, values, kind, text in (
        ("weight", parts.effective_weights, "signed", "weights, 0 where off"),
        ("support", parts.support, "share", "support, 0 off, 1 on"),
    ):
        name = "weights" if part == "weight" else part
        if name in shown:
            titles = [[f"{output}: {part} {q + 1}" for q in range(Q)] for output in names]
            _draw_block(block[name], marks, values.transpose(2, 1, 0), titles, kind, text)
    _draw_outputs(block, marks, predicted, names, observed, _marks_of(model, observed, columns))
    for ax in axes.ravel():
        if not ax.has_data():
            ax.set_axis_off()
    _label_outer(axes)
    return axes


def _draw_block(
    axes: np.ndarray,
    marks: Marks,
    values: np.ndarray,
    titles: list[list[str]],
    kind: str,
    text: str,
) -> None:
    """Values [rows, columns, places] on panels, with one colour bar below them all."""
    scale = colour_scale(values, kind)
    for row, column_ in np.ndindex(*values.shape[:2]):
        ax: Any = axes[row, column_]
        drawn = marks.draw(ax, values[row, column_], scale)
        titled(ax, titles[row][column_], size="small")
        if drawn is None and kind == "share":
            ax.set_ylim(-0.05, 1.05)
    if drawn is not None:
        below: dict[str, Any] = {"location": "bottom", "aspect": 15, "pad": 0.02}
        add_colours(list(axes.flat), drawn, scale, text, **below)


def _draw_outputs(
    block: dict[str, np.ndarray],
    marks: Marks,
    predicted: np.ndarray,
    names: Sequence[str],
    observed: tuple[Any, Any] | None,
    measured_at: Marks | None,
) -> None:
    """Outputs as predicted and as observed, with the same colours for both."""
    measured = None if observed is None else np.asarray(observed[1], float)
    if measured is not None and measured.reshape(len(measured), -1).shape[1] != len(names):
        raise ValueError(
            f"observed has shape {measured.shape}, but there are {len(names)} outputs."
        )
    for p, name in enumerate(names):
        values = {"predicted": predicted[:, p]}
        if measured is not None:
            values["observed"] = measured.reshape(len(measured), -1)[:, p]
        # An output that is never negative is an amount, also where its prediction dips below zero.
        negative = np.nanmin(list(values.values())[-1]) < 0
        kind = "signed" if negative else "amount"
        scale = colour_scale(np.concatenate(list(values.values())), kind)
        beside: list[Axes] = []
        for part, at in (("predicted", marks), ("observed", measured_at)):
            if part in block and at is not None:
                ax = block[part][p, 0]
                drawn = at.draw(ax, values[part], scale)
                titled(ax, f"{name}: {part}", size="small")
                beside.append(ax)
        if beside and drawn is not None:
            add_colours(beside, drawn, scale, name, pad=0.02)


@dataclass(frozen=True)
class _Curve:
    """Values along one input, as a line or as dots."""

    x: np.ndarray
    name: str
    dots: bool = False

    def draw(self, ax: Axes, values: np.ndarray, scale: Scale) -> None:
        """Draw values on axes; a curve needs no colours."""
        order = np.argsort(self.x)
        style = "." if self.dots else "-"
        ax.plot(self.x[order], values[order], style, color=SIGNAL, markersize=3)
        ax.set_xlabel(self.name)
        mark_dates(ax.xaxis, self.x)

    def as_dots(self) -> bool:
        """Whether values are dots, not lines."""
        return self.dots

    def ratio(self) -> None:
        """Curves have no place on the ground."""


def _marks(model: Any, X: Any, columns: Sequence[int | str] | None, dots: bool = False) -> Marks:
    """A map, or curves where there is but one input."""
    names = input_names(model)
    if len(names) == 1:
        return _Curve(np.asarray(column(X, 0)), names[0], dots)
    return Places.of(X, columns, model)


def _marks_of(
    model: Any, observed: tuple[Any, Any] | None, columns: Sequence[int | str] | None
) -> Marks | None:
    return None if observed is None else _marks(model, observed[0], columns, dots=True)


def _output_names(model: Any, given: Sequence[str] | None, P: int) -> list[str]:
    found = [f"output {n}" if n.isdigit() else n for n in outputs_of(model)] or ["y"]
    names = found if given is None else list(given)
    if len(names) != P:
        raise ValueError(f"outputs names {len(names)} outputs, but the model has {P}.")
    return names


def _shown(show: Sequence[str], with_data: bool) -> list[str]:
    """The parts to draw, in their order."""
    show = [show] if isinstance(show, str) else list(show)
    if unknown := [part for part in show if part not in _PARTS]:
        raise ValueError(f"show names {unknown[0]!r}; choose from {', '.join(_PARTS)}.")
    shown = [part for part in _PARTS if part in show and (part != "observed" or with_data)]
    if not shown:
        raise ValueError("There is nothing to show: name parts, and give observed=(X, Y) for data.")
    return shown


def _label_outer(axes: np.ndarray) -> None:
    """Names of inputs, and numbers of maps, only at the left and at the bottom of what is drawn."""
    for panels in axes.T:
        *above, last = [ax for ax in panels if ax.axison]
        last.tick_params(labelbottom=True)
        for ax in above:
            ax.set_xlabel("")
    for panels in axes:
        first, *rest = [ax for ax in panels if ax.axison]
        first.tick_params(labelleft=True)
        for ax in rest:
            ax.set_ylabel("")
