"""What is drawn on and with: axes, figures, colours, line styles, legends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure, SubFigure

__all__ = [
    "DATA",
    "SIGNAL",
    "ZERO",
    "Scale",
    "axes_for",
    "colour_scale",
    "figure_for",
    "legend_above",
    "mark_dates",
    "next_line",
    "titled",
]

DATA, SIGNAL, ZERO = "0.45", "#0072B2", "0.78"
# Told apart without colour by their dashes, and by the colour-blind (Okabe and Ito's colours).
_LINES = (
    ("#0072B2", "-"),
    ("#D55E00", "--"),
    ("#009E73", "-."),
    ("#CC79A7", ":"),
    ("#000000", (0, (5, 1, 1, 1, 1, 1))),
)
_KINDS = ("amount", "signed", "share")
_HIGHEST = 0.99  # of the amounts that are not zero: a few that are larger share the last colour


def axes_for(ax: Axes | None) -> Axes:
    """The axes given, or those that pyplot would draw on."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.gca()


def figure_for(
    figure: Figure | SubFigure | None, width: float, height: float
) -> Figure | SubFigure:
    """The figure given, or a new one of pyplot's, in inches, its panels close together."""
    if figure is not None:
        return figure
    import matplotlib.pyplot as plt

    return plt.figure(figsize=(width, height), layout="compressed")


def next_line(ax: Axes) -> dict[str, Any]:
    """Colour and dashes of the next curve, different from those that are on the axes already."""
    drawn = sum(line.get_gid() == "curve" for line in [*ax.lines, *ax.patches])
    colour, dashes = _LINES[drawn % len(_LINES)]
    return {"color": colour, "linestyle": dashes, "gid": "curve"}


def legend_above(ax: Axes, ncols: int = 3) -> None:
    """A legend outside the data, if there is anything to name."""
    if ax.get_legend_handles_labels()[1]:
        ax.legend(
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            ncols=ncols,
            frameon=False,
            fontsize="small",
            borderaxespad=0.2,
            handlelength=1.4,
            handletextpad=0.4,
            columnspacing=0.9,
        )


def mark_dates(axis: Axis, values: np.ndarray) -> None:
    """Few and short dates along an axis of times; numbers are left as they are."""
    if np.asarray(values).dtype.kind != "M":
        return
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(minticks=2, maxticks=5)
    axis.set_major_locator(locator)
    axis.set_major_formatter(ConciseDateFormatter(locator))


def titled(ax: Axes, title: str, size: str = "medium") -> None:
    ax.set_title(title, loc="left", fontsize=size)


@dataclass(frozen=True)
class Scale:
    """Colours for numbers, and which of them count as zero and are drawn in grey instead."""

    colours: Any  # a matplotlib colormap
    low: float
    high: float
    tol: float | None  # None where zero is a number like any other
    extend: str  # on which sides values lie beyond the colours

    def zeros(self, values: np.ndarray) -> np.ndarray:
        """Which values are zero."""
        return np.zeros(values.shape, bool) if self.tol is None else np.abs(values) <= self.tol

    @property
    def drawn(self) -> dict[str, Any]:
        return {"cmap": self.colours, "vmin": self.low, "vmax": self.high}


def colour_scale(
    values: np.ndarray,
    kind: str | None = None,
    limits: tuple[float, float] | None = None,
    tol: float = 0.0,
) -> Scale:
    """The colours for values of a kind: `amount`, `signed` (zero in the middle) or `share`.

    Without a kind values are amounts unless some are negative.
    """
    import matplotlib as mpl
    from matplotlib.colors import ListedColormap

    if kind not in (None, *_KINDS):
        raise ValueError(f"kind must be {', '.join(map(repr, _KINDS))} or None, not {kind!r}.")
    if tol < 0:
        raise ValueError(f"tol must not be negative; it is {tol!r}.")
    known = values[np.isfinite(values)]
    if kind is None:
        kind = "signed" if np.any(known < -tol) else "amount"
    if kind == "share":
        greys = ListedColormap(mpl.colormaps["Greys"](np.linspace(0.06, 1.0, 256)), "shares")
        return Scale(greys, *(limits or (0.0, 1.0)), None, "neither")
    if kind == "signed":
        far = float(np.quantile(np.abs(known), _HIGHEST)) if known.size else 0.0
        low, high = limits or (-(far or 1.0), far or 1.0)
        return Scale(mpl.colormaps["RdBu_r"], low, high, None, _beyond(known, low, high))
    # From light to dark, without the palest yellow, which paper swallows.
    colours = ListedColormap(mpl.colormaps["viridis"](np.linspace(0.93, 0.0, 256)), "amounts")
    on = known[np.abs(known) > tol]
    top = float(np.quantile(on, _HIGHEST)) if on.size else 1.0
    bottom = 0.0 if on.size < known.size or not on.size else float(on.min())
    low, high = limits or (bottom, top if top > bottom else bottom + 1.0)
    return Scale(colours, low, high, tol, _beyond(on, low, high))


def _beyond(values: np.ndarray, low: float, high: float) -> str:
    below, above = bool(np.any(values < low)), bool(np.any(values > high))
    return {(0, 0): "neither", (1, 0): "min", (0, 1): "max", (1, 1): "both"}[below, above]
