"""Pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from zigp.estimators.network import NetworkParts

__all__ = ["lattice_panels", "network_panels"]


def lattice_panels(
    observed: np.ndarray,
    predicted: np.ndarray,
    gate: np.ndarray,
    latent: np.ndarray,
    *,
    rows: str,
    columns: str,
    unit: str,
) -> Figure:
    """Data, prediction, gate and latent over a lattice, one above the other.

    Each array is [rows, columns]; cells of `observed` that are not known are NaN and drawn grey.
    Amounts share one colour scale, cut at the 99th percentile of what is not zero.
    """
    from matplotlib.figure import Figure

    positive = observed[np.nan_to_num(observed) > 0]
    top = float(np.quantile(positive, 0.99)) if positive.size else 1.0
    reach = float(np.quantile(np.abs(latent), 0.99)) or 1.0
    panels = [
        ("What was observed (grey: held out or missing)", observed, "viridis", 0.0, top, unit),
        ("What the model predicts", predicted, "viridis", 0.0, top, unit),
        ("Support: where the signal is switched on", gate, "cividis", 0.0, 1.0, "0 off, 1 on"),
        ("Latent: the amount, if it were on", latent, "RdBu_r", -reach, reach, unit),
    ]
    figure = Figure(figsize=(10, 10), layout="constrained")
    axes = figure.subplots(len(panels), 1, sharex=True, sharey=True)
    for ax, (title, values, colours, low, high, label) in zip(axes, panels, strict=True):
        ax.set_facecolor("0.75")
        image = ax.imshow(
            np.ma.masked_invalid(values),
            aspect="auto",
            interpolation="nearest",
            cmap=colours,
            vmin=low,
            vmax=high,
        )
        ax.set_title(title, loc="left", fontsize=11)
        ax.set_ylabel(rows)
        figure.colorbar(image, ax=ax, label=label, pad=0.01)
    axes[-1].set_xlabel(columns)
    return figure


def network_panels(
    X: np.ndarray,
    parts: NetworkParts,
    predicted: np.ndarray,
    *,
    observed: tuple[np.ndarray, np.ndarray] | None = None,
    outputs: Sequence[str],
    columns: tuple[str, str] = ("x", "y"),
) -> Figure:
    """A network on a map, as in the paper's Figures 5 and 6.

    From the left: the latents, the effective weights (white where they are switched off), their
    support, the predicted outputs and, if given, the data. `X` are the places [N, 2] at which
    `parts` (from `predict_network`) and `predicted` (from `predict`) were computed.
    """
    from matplotlib.figure import Figure

    P, Q = len(outputs), parts.latents.shape[1]
    wide = 2 * Q + 2 + (observed is not None)
    figure = Figure(figsize=(2.6 * wide, 2.4 * max(P, Q)), layout="constrained")
    axes = figure.subplots(max(P, Q), wide, sharex=True, sharey=True, squeeze=False)

    def draw(ax: Axes, places: np.ndarray, values: np.ndarray, title: str, **colours: Any) -> None:
        east, north = places.T
        dots = ax.scatter(east, north, c=values, s=12, marker="s", linewidths=0, **colours)
        ax.set_title(title, fontsize=9, loc="left")
        figure.colorbar(dots, ax=ax, pad=0.02)

    def around_zero(values: np.ndarray) -> dict[str, Any]:
        reach = float(np.abs(values).max()) or 1.0
        return {"cmap": "RdBu_r", "vmin": -reach, "vmax": reach}

    for q in range(Q):
        f = parts.latents[:, q]
        draw(axes[q, 0], X, f, f"latent {q + 1}", **around_zero(f))
    for p, name in enumerate(outputs):
        for q in range(Q):
            w, on = parts.effective_weights[:, q, p], parts.support[:, q, p]
            title = f"latent {q + 1} in {name}"
            draw(axes[p, 1 + q], X, w, f"weight of {title}", **around_zero(parts.effective_weights))
            support = {"cmap": "cividis", "vmin": 0.0, "vmax": 1.0}
            draw(axes[p, 1 + Q + q], X, on, f"support of {title}", **support)
        amounts = [predicted[:, p]]
        if observed is not None:
            amounts.append(observed[1][:, p][np.isfinite(observed[1][:, p])])
        low, high = np.min(np.concatenate(amounts)), np.max(np.concatenate(amounts))
        scale = {"cmap": "viridis", "vmin": low, "vmax": high}
        draw(axes[p, 1 + 2 * Q], X, predicted[:, p], f"{name}, predicted", **scale)
        if observed is not None:
            draw(axes[p, 2 + 2 * Q], observed[0], observed[1][:, p], f"{name}, observed", **scale)
    for ax in axes.ravel():
        if not ax.collections:
            ax.set_axis_off()
    for column in axes.T:
        [ax for ax in column if ax.collections][-1].set_xlabel(columns[0])
    for ax in axes[:, 0]:
        ax.set_ylabel(columns[1])
    return figure
