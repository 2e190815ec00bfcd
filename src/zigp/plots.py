"""Pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["lattice_panels"]


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
