"""How values are put on a map: as dots at places, or as the cells of a lattice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from zigp.data.names import is_globe, is_plane
from zigp.plots.canvas import ZERO, Scale, mark_dates
from zigp.plots.labels import (
    column,
    is_time,
    names_of,
    place_columns,
    place_label,
    with_unit,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Cells", "Marks", "Places", "add_colours", "grey_words"]

_FEWEST, _SPARSEST = 4, 2  # coordinates to either side of a lattice, and cells for each place in it
_MOST_NAMES = 12  # of coordinates that are text


class Marks(Protocol):
    """What can draw values on a map, and labels its axes."""

    def draw(self, ax: Axes, values: np.ndarray, scale: Scale) -> Any:
        """Draw values on axes; what is coloured is returned, for a colour bar."""

    def as_dots(self) -> bool:
        """Whether values are dots, not cells."""

    def ratio(self) -> float | None:
        """Width over height as on the ground, where that is known."""


@dataclass(frozen=True)
class Places:
    """Scattered places, each with a value."""

    across: np.ndarray
    up: np.ndarray
    names: tuple[str, str]

    @classmethod
    def of(cls, X: Any, columns: Sequence[int | str] | None, model: Any = None) -> Places:
        """The places of the rows of a table."""
        across, up = place_columns(X, columns, model)
        names = names_of(X, model)
        where = [np.asarray(column(X, c)) for c in (across, up)]
        return cls(where[0], where[1], (names[across], names[up]))

    def rows(self, which: np.ndarray) -> Places:
        """Some of the places."""
        return Places(self.across[which], self.up[which], self.names)

    def count(self) -> int:
        """How many of them are different."""
        return len(set(zip(self.across.tolist(), self.up.tolist(), strict=True)))

    def draw(self, ax: Axes, values: np.ndarray, scale: Scale) -> Any:
        """Cells where the places fill a lattice, dots where they do not."""
        if self.as_dots():
            return self.draw_dots(ax, values, scale)
        columns, rows = np.unique(self.across), np.unique(self.up)
        cells = np.full((len(rows), len(columns)), np.nan)
        cells[np.searchsorted(rows, self.up), np.searchsorted(columns, self.across)] = values
        self._label(ax)
        _hatch_ground(ax, values, scale)
        return _draw_cells(ax, columns, rows, cells, scale)

    def as_dots(self) -> bool:
        """Whether values are dots, not cells."""
        columns, rows = (len(np.unique(place)) for place in (self.across, self.up))
        return min(columns, rows) < _FEWEST or columns * rows > _SPARSEST * len(self.up)

    def ratio(self) -> float | None:
        """Width over height as on the ground, where that is known."""
        return ground_ratio(*self.names, self.across, self.up)

    def draw_dots(self, ax: Axes, values: np.ndarray, scale: Scale) -> Any:
        """Coloured dots, small grey ones for zeros, and rings where nothing is known."""
        size = float(np.clip(3000.0 / max(len(values), 1), 5.0, 30.0))
        missing, zero = ~np.isfinite(values), scale.zeros(values)
        on = np.flatnonzero(~missing & ~zero)
        on = on[np.argsort(np.abs(values[on]))]  # what is large lies on top
        across, up = self.across, self.up
        ax.scatter(across[zero], up[zero], s=0.4 * size, color=ZERO, linewidths=0, gid="zero")
        ax.scatter(
            across[missing],
            up[missing],
            s=0.6 * size,
            facecolors="none",
            edgecolors="0.6",
            linewidths=0.5,
            gid="missing",
        )
        self._label(ax)
        return ax.scatter(
            across[on],
            up[on],
            c=values[on],
            s=size,
            linewidths=0.3,
            edgecolors="0.3",
            gid="values",
            **scale.drawn,
        )

    def _label(self, ax: Axes) -> None:
        across, up = self.names
        ax.set(xlabel=place_label(across), ylabel=place_label(up))
        _as_on_the_ground(ax, across, up, self.up)


@dataclass(frozen=True)
class Cells:
    """The cells of a DataArray of two dimensions."""

    grid: Any  # the first dimension runs up, the second across

    @classmethod
    def of(cls, grid: Any, what: str) -> Cells:
        """Turn a lattice so that longitudes or times run across."""
        if hasattr(grid, "data_vars") or grid.ndim != 2:
            raise ValueError(
                f"{what} draws a DataArray of two dimensions; this has "
                f"{', '.join(map(str, grid.dims))}. Choose one value of the others, for example "
                "with .isel(time=0)."
            )
        up, across = map(str, grid.dims)
        if is_globe(up, across) or is_time(up, grid[up].dtype):
            grid = grid.transpose(across, up)
        return cls(grid)

    @property
    def values(self) -> np.ndarray:
        return np.asarray(self.grid.values, float)

    def draw(self, ax: Axes, values: np.ndarray, scale: Scale) -> Any:
        """Coloured cells over the lattice's coordinates."""
        up, across = map(str, self.grid.dims)
        east, north = self._coordinate(across), self._coordinate(up)
        for dim, axis in ((across, ax.xaxis), (up, ax.yaxis)):
            coordinate = self.grid[dim]
            axis.set_label_text(with_unit(self._name(dim), coordinate.attrs.get("units", "")))
            if _is_text(coordinate):
                step = -(-len(coordinate) // _MOST_NAMES)
                axis.set_ticks(np.arange(len(coordinate))[::step], coordinate.values[::step])
            mark_dates(axis, coordinate.values)
        _as_on_the_ground(ax, across, up, north)
        _hatch_ground(ax, values, scale)
        return _draw_cells(ax, east, north, values, scale)

    def as_dots(self) -> bool:
        """Whether values are dots, not cells."""
        return False

    def ratio(self) -> float | None:
        """Width over height as on the ground, where that is known."""
        up, across = map(str, self.grid.dims)
        return ground_ratio(across, up, self._coordinate(across), self._coordinate(up))

    def _coordinate(self, dim: str) -> np.ndarray:
        coordinate = self.grid[dim]
        return np.arange(len(coordinate)) if _is_text(coordinate) else coordinate.values

    def _name(self, dim: str) -> str:
        return self.grid[dim].attrs.get("axis_label", dim)


def _is_text(coordinate: Any) -> bool:
    """Whether coordinates are names, not numbers or times of any calendar."""
    first = coordinate.values.flat[0]
    return coordinate.dtype.kind in "OUS" and not hasattr(first, "calendar")


def _draw_cells(ax: Axes, across: Any, up: Any, values: np.ndarray, scale: Scale) -> Any:
    """Coloured cells, grey for zeros; where nothing is known the ground shows."""
    from matplotlib.colors import ListedColormap

    how: dict[str, Any] = {"shading": "nearest", "rasterized": True}
    zero = scale.zeros(values)
    if zero.any():
        flat = np.ma.masked_where(~zero, np.zeros(values.shape))
        ax.pcolormesh(across, up, flat, cmap=ListedColormap([ZERO]), gid="zero", **how)
    known = np.ma.masked_where(zero | ~np.isfinite(values), values)
    return ax.pcolormesh(across, up, known, gid="values", **scale.drawn, **how)


def _hatch_ground(ax: Axes, values: np.ndarray, scale: Scale) -> None:
    """Hatch what lies behind the cells, if some are missing and white is one of the colours."""
    if scale.tol is None and not np.isfinite(values).all():
        ax.patch.set(hatch="/////", edgecolor="0.75", facecolor="white")


def _as_on_the_ground(ax: Axes, across: str, up: str, heights: np.ndarray) -> None:
    """Both directions to the same scale, and few numbers, where the axes are places."""
    shrink = _shrink(across, up, heights)
    if shrink is None:
        return
    from matplotlib.ticker import MaxNLocator

    ax.set_aspect(1.0 / shrink)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=2, steps=[1, 2, 4, 5, 10]))


def ground_ratio(across: str, up: str, east: np.ndarray, north: np.ndarray) -> float | None:
    """Width over height as on the ground, or None where the axes are no places."""
    shrink = _shrink(across, up, north)
    if shrink is None or not np.ptp(north) > 0:
        return None
    return float(shrink * np.ptp(east) / np.ptp(north))


def _shrink(across: str, up: str, heights: np.ndarray) -> float | None:
    """How wide a unit across is, in units up; None where they cannot be compared."""
    if is_globe(across, up):
        return float(np.cos(np.deg2rad(np.mean(heights))))
    return 1.0 if is_plane(across, up) else None


def grey_words(values: np.ndarray, scale: Scale, *, dotted: bool = False) -> str:
    """What marks without a colour mean, where they are to be seen."""
    zero, missing = scale.zeros(values).any(), not np.isfinite(values).all()
    words = ["grey: zero"] if zero else []
    if missing:
        words.append(
            f"{'rings' if dotted else 'hatched' if scale.tol is None else 'white'}: missing"
        )
    return ", ".join(words)


def add_colours(
    beside: Sequence[Axes], drawn: Any, scale: Scale, text: str, greys: str = "", **where: Any
) -> None:
    """A colour bar beside axes, which also says what is not coloured."""
    bar = beside[0].figure.colorbar(drawn, ax=list(beside), extend=scale.extend, **where)
    bar.set_label(f"{text}\n({greys})" if greys else text, fontsize="small")
