"""Values on a map, as dots at places or as the cells of a lattice."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.ticker import MaxNLocator

from zigp.data.columns import is_globe, is_plane
from zigp.plots.canvas import MOST_VECTORS, ZERO, Scale, mark_dates
from zigp.plots.labels import as_table, degrees_of, place_columns, place_label

_FEWEST, _SPARSEST = 4, 2  # coordinates to either side of a lattice, and cells for each place in it
_MOST_NAMES = 12  # tick labels of coordinates that are text


@dataclass(frozen=True)
class Marks:
    """Places of values on a map, drawn as dots or as the cells of a lattice."""

    across: np.ndarray  # of each value
    up: np.ndarray
    labels: tuple[str, str]  # of the two directions
    stretch: float | None  # height of a unit up over the width of a unit across, if comparable
    cells: bool

    @classmethod
    def of_table(
        cls,
        X: Any,
        columns: Sequence[int | str] | None,
        model: Any = None,
        *,
        cells: bool | None = None,
    ) -> Self:
        """Return cells if the places of the rows nearly fill a lattice, dots otherwise.

        With `cells`, they are cells or dots all the same.
        """
        table = as_table(X, model)
        pair = place_columns(table.columns.to_list(), columns, model)
        names = (table.columns[pair[0]], table.columns[pair[1]])
        across, up = (table[name].to_numpy() for name in names)
        if cells is None:
            sides = (len(np.unique(across)), len(np.unique(up)))
            cells = min(sides) >= _FEWEST and sides[0] * sides[1] <= _SPARSEST * len(table)
        units = table.attrs.get("units", {})
        labels = (place_label(names[0], units), place_label(names[1], units))
        return cls(across, up, labels, _stretch(*names, up, model), cells)

    def only(self, rows: np.ndarray) -> Self:
        """Return the marks of some of the rows of a table."""
        return replace(self, across=self.across[rows], up=self.up[rows])

    @property
    def ratio(self) -> float | None:
        """Width over height as on the ground; None if that is not known."""
        if self.stretch is None or not np.ptp(self.up) > 0:
            return None
        return float(np.ptp(self.across) / np.ptp(self.up) / self.stretch)

    def draw(self, ax: Axes, values: np.ndarray, scale: Scale) -> Any:
        """Draw values and label the axes; return what is coloured, for a colour bar."""
        ax.set(xlabel=self.labels[0], ylabel=self.labels[1])
        mark_dates(ax.xaxis, self.across)
        mark_dates(ax.yaxis, self.up)
        if self.stretch is not None:
            ax.set_aspect(self.stretch)
            ax.xaxis.set_major_locator(MaxNLocator(nbins=2, steps=[1, 2, 4, 5, 10]))
        draw = _draw_cells if self.cells else _draw_dots
        return draw(ax, self.across, self.up, values, scale)

    def key(self, values: np.ndarray, scale: Scale) -> str:
        """Return the meaning of the marks without a colour, if there are any."""
        missing = "rings" if not self.cells else "hatched" if scale.tol is None else "white"
        words = ["grey: zero"] * bool(scale.zeros(values).any())
        return ", ".join(words + [f"{missing}: missing"] * (not np.isfinite(values).all()))


def _stretch(across: str, up: str, heights: np.ndarray, model: Any = None) -> float | None:
    """Return the height of a unit up over the width of a unit across, if the two compare."""
    if is_globe(across, up) or (across, up) == degrees_of(model):
        return float(1.0 / np.cos(np.deg2rad(np.clip(np.mean(heights), -80.0, 80.0))))
    return 1.0 if is_plane(across, up) else None


def dot_size(count: int) -> float:
    """Return the area of each of so many dots, in square points."""
    return float(np.clip(3000.0 / max(count, 1), 5.0, 30.0))


def _draw_dots(
    ax: Axes, across: np.ndarray, up: np.ndarray, values: np.ndarray, scale: Scale
) -> Any:
    """Draw coloured dots, small grey ones for zeros and rings for missing values."""
    size = dot_size(len(values))
    missing, zero = ~np.isfinite(values), scale.zeros(values)
    on = np.flatnonzero(~missing & ~zero)
    on = on[np.argsort(np.abs(values[on]))]  # the largest on top
    pixels = len(values) > MOST_VECTORS
    for name, rows, style in (
        ("zero", zero, {"s": 0.4 * size, "color": ZERO, "linewidths": 0}),
        (
            "missing",
            missing,
            {"s": 0.6 * size, "facecolors": "none", "edgecolors": "0.6", "linewidths": 0.5},
        ),
        (
            "values",
            on,
            {"s": size, "c": values[on], "linewidths": 0.3, "edgecolors": "0.3", **scale.drawn},
        ),
    ):
        drawn = ax.scatter(across[rows], up[rows], gid=name, rasterized=pixels, **style)
    return drawn


def _draw_cells(
    ax: Axes, across: np.ndarray, up: np.ndarray, values: np.ndarray, scale: Scale
) -> Any:
    """Draw coloured cells, grey ones for zeros and none for missing values."""
    if scale.tol is None and not np.isfinite(values).all():  # white is one of the colours
        ax.patch.set(hatch="/////", edgecolor="0.75", facecolor="white")
    for axis, places in ((ax.xaxis, across), (ax.yaxis, up)):
        if places.dtype.kind in "OUS":
            axis.set_major_locator(MaxNLocator(_MOST_NAMES, integer=True))
    (column, east), (row, north) = (
        pd.factorize(places, sort=places.dtype.kind not in "OUS") for places in (across, up)
    )
    grid = np.full((len(north), len(east)), np.nan)
    grid[row, column] = values
    style: dict[str, Any] = {"shading": "nearest", "rasterized": True}
    zero = scale.zeros(grid)
    if zero.any():
        flat = np.ma.masked_where(~zero, grid)
        ax.pcolormesh(east, north, flat, cmap=ListedColormap([ZERO]), gid="zero", **style)
    other = np.ma.masked_where(zero | ~np.isfinite(grid), grid)
    return ax.pcolormesh(east, north, other, gid="values", **scale.drawn, **style)


def draw_group(
    drawings: Sequence[tuple[Axes, Any, np.ndarray, str]],
    scale: Scale,
    label: str | None,
    panels: Sequence[Axes] | None = None,
    size: str = "medium",
    **bar: Any,
) -> None:
    """Draw marks with values and titles on axes, and a colour bar for them all if it has a label.

    The bar is placed next to the panels, which are the axes drawn on by default. Its key says what
    the marks without a colour mean.
    """
    for ax, marks, values, title in drawings:
        drawn = marks.draw(ax, values, scale)
        if title:
            ax.set_title(title, loc="left", fontsize=size)
    if label is not None and drawn is not None:
        key = marks.key(np.concatenate([values for _, _, values, _ in drawings]), scale)
        axes = list(panels or [ax for ax, *_ in drawings])
        colours = ax.figure.colorbar(drawn, ax=axes, extend=scale.extend, **bar)
        colours.set_label(f"{label}\n({key})" if key else label, fontsize="small")
