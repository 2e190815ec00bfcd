"""Axes, figures, colours, line styles and legends shared by all plots."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import Colormap, ListedColormap
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure, SubFigure

Canvas = Figure | SubFigure
Limits = tuple[float, float]

DATA, SIGNAL, ZERO = "0.45", "#0072B2", "0.78"
REFERENCE: dict[str, Any] = {"color": "0.4", "linewidth": 0.8, "zorder": 0.5}
# Okabe and Ito's colours, which colour-blind readers can distinguish; the dashes work in grey.
_LINES = (
    ("#0072B2", "-"),
    ("#D55E00", "--"),
    ("#009E73", "-."),
    ("#CC79A7", ":"),
    ("#000000", (0, (5, 1, 1, 1, 1, 1))),
)
_HIGHEST = 0.99  # quantile of the non-zero amounts at which the colours end
MOST_VECTORS = 1_000  # dots in a vector graphic; more are drawn as pixels


def axes_for(ax: Axes | None) -> Axes:
    """Return the given axes, or pyplot's current ones."""
    return plt.gca() if ax is None else ax


def figure_for(figure: Canvas | None, width: float, height: float) -> Canvas:
    """Return the given figure, or a new one of pyplot's; width and height are in inches."""
    return figure or plt.figure(figsize=(width, height), layout="compressed")


def curves(ax: Axes) -> list[Any]:
    """Return the curves on the axes that stand for a model or a series."""
    return [one for one in [*ax.lines, *ax.patches] if one.get_gid() == "curve"]


def next_line(ax: Axes) -> dict[str, Any]:
    """Return colour and dashes of the next curve, distinct from those already on the axes."""
    colour, dashes = _LINES[len(curves(ax)) % len(_LINES)]
    return {"color": colour, "linestyle": dashes, "gid": "curve"}


def draw_once(ax: Axes, gid: str, draw: Callable[..., Any], *args: Any, **style: Any) -> bool:
    """Draw a reference shared by all curves, unless it is there; return whether it was drawn."""
    if any(artist.get_gid() == gid for artist in ax.get_children()):
        return False
    draw(*args, gid=gid, **REFERENCE | style)
    return True


def draw_data(ax: Axes, x: Any, y: Any, **style: Any) -> None:
    """Draw observations as small grey dots."""
    dots: dict[str, Any] = {"color": DATA, "markersize": 3, "zorder": 1, **style}
    ax.plot(x, y, ".", rasterized=len(y) > MOST_VECTORS, **dots)


def with_legend(ax: Axes) -> Axes:
    """Add a legend above the axes if anything on them is labelled, and return the axes."""
    if ax.get_legend_handles_labels()[1]:
        ax.legend(
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            ncols=3,
            frameon=False,
            fontsize="small",
            borderaxespad=0.2,
            handlelength=1.4,
            handletextpad=0.4,
            columnspacing=0.9,
        )
    return ax


def mark_dates(axis: Axis, values: Any) -> None:
    """Label an axis of times with a few short dates; leave an axis of numbers as it is."""
    if np.asarray(values).dtype.kind == "M":
        locator = AutoDateLocator(minticks=2, maxticks=5)
        axis.set_major_locator(locator)
        axis.set_major_formatter(ConciseDateFormatter(locator))


def label_outer(axes: np.ndarray) -> None:
    """Keep axis labels and numbers only at the left and at the bottom of the panels in use."""
    for lines, axis, side in (
        (axes.T, "xaxis", "labelbottom"),
        (axes[:, ::-1], "yaxis", "labelleft"),
    ):
        for line in lines:
            *inner, outer = [ax for ax in line if ax.axison]
            outer.tick_params(**{side: True})
            for ax in inner:
                getattr(ax, axis).set_label_text("")


@dataclass(frozen=True)
class Scale:
    """Colours for values; values that count as zero are drawn in grey instead."""

    colours: Colormap
    low: float
    high: float
    tol: float | None  # largest absolute value that counts as zero; None: zero has a colour
    extend: str  # on which sides values lie beyond the colours

    def zeros(self, values: np.ndarray) -> np.ndarray:
        """Return which values are zero."""
        return np.zeros(values.shape, bool) if self.tol is None else np.abs(values) <= self.tol

    @property
    def drawn(self) -> dict[str, Any]:
        """Arguments for matplotlib."""
        return {"cmap": self.colours, "vmin": self.low, "vmax": self.high}


def colour_scale(
    values: np.ndarray,
    kind: str | None = None,
    limits: Limits | None = None,
    tol: float = 0.0,
) -> Scale:
    """Return the colours for values of a kind: `amount`, `signed` (zero in the middle) or `share`.

    Without a kind, values are amounts unless some are negative.
    """
    if kind not in ("amount", "signed", "share", None):
        raise ValueError(f"kind must be 'amount', 'signed', 'share' or None, not {kind!r}.")
    if tol < 0:
        raise ValueError(f"tol must not be negative; it is {tol!r}.")
    finite = values[np.isfinite(values)]
    if kind == "share":
        greys = ListedColormap(mpl.colormaps["Greys"](np.linspace(0.06, 1.0, 256)), "shares")
        return Scale(greys, *(limits or (0.0, 1.0)), None, "neither")
    if kind == "signed" or (kind is None and np.any(finite < -tol)):
        far = float(np.quantile(np.abs(finite), _HIGHEST)) if finite.size else 0.0
        low, high = limits or (-(far or 1.0), far or 1.0)
        return Scale(mpl.colormaps["RdBu_r"], low, high, None, _beyond(finite, low, high))
    # From light to dark, without the palest yellow, which is hard to see on white.
    colours = ListedColormap(mpl.colormaps["viridis"](np.linspace(0.93, 0.0, 256)), "amounts")
    on = finite[np.abs(finite) > tol]
    top = float(np.quantile(on, _HIGHEST)) if on.size else 1.0
    bottom = 0.0 if on.size < finite.size or not on.size else float(on.min())
    low, high = limits or (bottom, top if top > bottom else bottom + 1.0)
    return Scale(colours, low, high, tol, _beyond(on, low, high))


def _beyond(values: np.ndarray, low: float, high: float) -> str:
    sides = ("neither", "min", "max", "both")
    return sides[int(np.any(values < low)) + 2 * int(np.any(values > high))]
