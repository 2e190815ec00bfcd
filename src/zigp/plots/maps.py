"""Values on maps: at scattered places, on lattices, at several times, and part by part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from zigp.data.grids import is_lattice
from zigp.data.layout import column_index
from zigp.estimators.families import LOG_AMOUNTS
from zigp.plots.canvas import axes_for, colour_scale, figure_for, titled
from zigp.plots.labels import column, input_names, is_time, names_of, target_label
from zigp.plots.marks import Cells, Marks, Places, add_colours, grey_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from zigp.estimators import ZeroInflatedGPRegressor

__all__ = ["component_maps", "lattice_map", "scatter_map", "time_slices"]

Limits = tuple[float, float]
Slice = tuple[str, Marks, np.ndarray]  # a time in words, and what is there

_PARTS = ("signal", "gate", "latent")


def scatter_map(
    X: Any,
    values: ArrayLike,
    *,
    columns: Sequence[int | str] | None = None,
    kind: str | None = None,
    limits: Limits | None = None,
    tol: float = 0.0,
    label: str | None = None,
    colorbar: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw values at scattered places as coloured dots; zeros are small grey dots.

    `columns` names the two columns of X that run across and up the map; without it they are
    longitude and latitude, by name, or the only two. `kind` is `amount` (light to dark), `signed`
    (blue to red with white at zero, taken where values are negative) or `share` (0 to 1). Values up
    to `tol` count as zero, which is of use for predictions. `limits` are the values at both ends of
    the colours; without them the top hundredth shares the last colour.

    >>> from zigp import plots
    >>> from zigp.datasets import simulate_rain
    >>> rain = simulate_rain(30, 24)
    >>> now = rain[rain["hour"] == 6]
    >>> ax = plots.scatter_map(now[["lat", "lon"]], now["rain_mm"])
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('lon, °E', 'lat, °N')
    """
    v = np.asarray(values, float)
    if v.shape != (len(X),):
        raise ValueError(f"values has shape {v.shape}, but X has {len(X)} rows.")
    places = Places.of(X, columns)
    scale, ax = colour_scale(v, kind, limits, tol), axes_for(ax)
    dots = places.draw_dots(ax, v, scale)
    if colorbar:
        text = target_label(y=values) if label is None else label
        add_colours([ax], dots, scale, text, grey_words(v, scale, dotted=True))
    return ax


def lattice_map(
    values: Any,
    across: ArrayLike | None = None,
    up: ArrayLike | None = None,
    *,
    kind: str | None = None,
    limits: Limits | None = None,
    tol: float = 0.0,
    label: str | None = None,
    colorbar: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw a lattice of values as coloured cells: zeros are grey, missing cells white.

    `values` is a DataArray of two dimensions, whose names, coordinates and units are put on the
    axes, or an array [up, across] with coordinates of its own. Longitudes and times run across, as
    do columns. The other options are those of `scatter_map`.

    >>> from zigp import plots
    >>> from zigp.datasets import simulate_rain_grid
    >>> radar = simulate_rain_grid(24, 8, 8)
    >>> ax = plots.lattice_map(radar.isel(time=6))
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('lon, °E', 'lat, °N')
    """
    grid = values if is_lattice(values) else _with_coordinates(values, across, up)
    cells = Cells.of(grid, "lattice_map")
    scale, ax = colour_scale(cells.values, kind, limits, tol), axes_for(ax)
    drawn = cells.draw(ax, cells.values, scale)
    if colorbar:
        text = target_label(y=grid) if label is None else label
        add_colours([ax], drawn, scale, text, grey_words(cells.values, scale))
    return ax


def time_slices(
    X: Any,
    values: ArrayLike | None = None,
    *,
    time: int | str | None = None,
    at: int | Sequence[Any] = 6,
    columns: Sequence[int | str] | None = None,
    kind: str | None = None,
    limits: Limits | None = None,
    tol: float = 0.0,
    label: str | None = None,
    ncols: int = 3,
    figure: Figure | SubFigure | None = None,
) -> np.ndarray:
    """Draw maps at several times, side by side with the same colours.

    X is a DataArray of time and two more dimensions, or a table with values. `time` names the
    dimension or the column; without it it is the one that holds times or is called such. `at` gives
    the times, or how many to choose, evenly spread. Panels are placed `ncols` to a row; the other
    options are those of `scatter_map`. Returns the axes, one for each time.

    >>> from zigp import plots
    >>> from zigp.datasets import simulate_rain
    >>> rain = simulate_rain(30, 24)
    >>> axes = plots.time_slices(rain[["lat", "lon", "hour"]], rain["rain_mm"], at=[3, 6, 9])
    >>> [ax.get_title(loc="left") for ax in axes]
    ['hour 3', 'hour 6', 'hour 9']
    """
    if is_lattice(X):
        slices, observed = _slices_of_lattice(X, time, at), X
    elif values is None:
        raise ValueError("time_slices needs the values to draw beside the table X.")
    else:
        slices, observed = _slices_of_table(X, values, columns, time, at), values
    everything = np.concatenate([v.ravel() for _, _, v in slices])
    scale = colour_scale(everything, kind, limits, tol)
    panels = _panels(figure, len(slices), ncols, slices[0][1].ratio())
    for ax, (moment, marks, v) in zip(panels, slices, strict=True):
        drawn = marks.draw(ax, v, scale)
        titled(ax, moment)
    _label_outer(panels, ncols)
    text = target_label(y=observed) if label is None else label
    greys = grey_words(everything, scale, dotted=slices[0][1].as_dots())
    add_colours(list(panels), drawn, scale, text, greys, aspect=30)
    return panels


def component_maps(
    model: ZeroInflatedGPRegressor,
    X: Any,
    y: ArrayLike | None = None,
    *,
    columns: Sequence[int | str] | None = None,
    tol: float = 0.0,
    ncols: int = 2,
    figure: Figure | SubFigure | None = None,
) -> np.ndarray:
    """Draw data, signal, gate and latent of a zero-inflated fit as maps.

    X holds the rows of one map, such as all stations at one hour; or it is a DataArray of two
    dimensions that holds the data itself, such as stations and hours. Data and signal share their
    colours; of both, values up to `tol` count as zero. `columns` names the columns that run across
    and up. Panels are placed `ncols` to a row. Returns the axes, four of them, or three where no
    data are given.

    >>> from zigp import ZeroInflatedGPRegressor, plots
    >>> from zigp.datasets import simulate_rain
    >>> rain = simulate_rain(12, 48)
    >>> X, y = rain[["lat", "lon", "hour"]], rain["rain_mm"]
    >>> model = ZeroInflatedGPRegressor(steps=20).fit(X, y)
    >>> now = X["hour"] == 30
    >>> axes = plots.component_maps(model, X[now], y[now], tol=0.05)
    >>> [ax.get_title(loc="left") for ax in axes]
    ['observed', 'signal', 'gate', 'latent']
    """
    input_names(model)  # it must have been fitted
    if not hasattr(model, "predict_components"):
        raise ValueError(
            f"component_maps needs a ZeroInflatedGPRegressor, which has a gate and a latent; "
            f"{type(model).__name__} has none. Use scatter_map with its predictions."
        )
    if is_lattice(X):
        unit, (marks, found) = target_label(model, X), _parts_on_lattice(model, X)
    else:
        unit, (marks, found) = target_label(model, y), _parts_at_places(model, X, y, columns)
    amounts = np.concatenate([found[n].ravel() for n in ("observed", "signal") if n in found])
    # Where no datum is negative the signal is an amount too, though it may dip below zero.
    negative = np.nanmin(next(iter(found.values()))) < -tol
    scale = colour_scale(amounts, "signed" if negative else "amount", None, tol)
    latent_unit = "log of amount" if model.likelihood_ in LOG_AMOUNTS else unit
    scales = {
        "observed": (scale, unit),
        "signal": (scale, unit),
        "gate": (colour_scale(found["gate"], "share"), "0 off, 1 on"),
        "latent": (colour_scale(found["latent"], "signed"), latent_unit),
    }
    panels = _panels(figure, len(found), ncols, marks.ratio(), bars=True)
    for ax, (name, values) in zip(panels, found.items(), strict=True):
        own, text = scales[name]
        greys = grey_words(values, own, dotted=marks.as_dots())
        add_colours([ax], marks.draw(ax, values, own), own, text, greys)
        titled(ax, name)
    _label_outer(panels, ncols)
    return panels


# ---------------------------------------------------------------------------------------------
# The parts of a fit


def _parts_on_lattice(model: Any, X: Any) -> tuple[Marks, dict[str, np.ndarray]]:
    """Data and parts in every cell of a DataArray."""
    cells = Cells.of(X, "component_maps")
    table = cells.grid.rename("_values").to_dataframe().reset_index()
    names = input_names(model)
    if missing := [name for name in names if name not in table]:
        raise ValueError(
            f"The model was fitted with {', '.join(names)}, but the lattice has no coordinate "
            f"{missing[0]!r}."
        )
    parts = model.predict_components(table[names])
    found = {"observed": cells.values} if np.isfinite(cells.values).any() else {}
    return cells, found | {n: parts[n].to_numpy().reshape(cells.values.shape) for n in _PARTS}


def _parts_at_places(
    model: Any, X: Any, y: Any, columns: Sequence[int | str] | None
) -> tuple[Marks, dict[str, np.ndarray]]:
    """Data and parts at each row."""
    places = Places.of(X, columns, model)
    if (count := places.count()) < len(X):
        raise ValueError(
            f"X has {len(X)} rows at {count} places ({', '.join(places.names)}), so a map would "
            "hide some. Give the rows of one time, or name other columns."
        )
    found = {} if y is None else {"observed": np.asarray(y, float)}
    if y is not None and found["observed"].shape != (len(X),):
        raise ValueError(f"y has shape {found['observed'].shape}, but X has {len(X)} rows.")
    parts = model.predict_components(X)
    return places, found | {name: parts[name].to_numpy() for name in _PARTS}


def _with_coordinates(values: Any, across: Any, up: Any) -> Any:
    """An array with coordinates as a DataArray; a coordinate that has a name keeps it."""
    import xarray as xr

    v = np.asarray(values, float)
    if v.ndim != 2:
        raise ValueError(f"lattice_map draws arrays [up, across]; this has shape {v.shape}.")
    grid = xr.DataArray(v, dims=("up", "across"))
    for dim, given, what in (("up", up, "rows"), ("across", across, "columns")):
        if given is None:
            grid = grid.assign_coords({dim: np.arange(grid.sizes[dim])})
            grid[dim].attrs["axis_label"] = what.removesuffix("s")
            continue
        if len(given) != grid.sizes[dim]:
            raise ValueError(
                f"{dim} has {len(given)} coordinates, but the array has {grid.sizes[dim]} {what}."
            )
        grid = grid.assign_coords({dim: np.asarray(given)})
        grid[dim].attrs["axis_label"] = str(getattr(given, "name", None) or "")
    return grid


# ---------------------------------------------------------------------------------------------
# Times and panels


def _slices_of_lattice(X: Any, time: int | str | None, at: int | Sequence[Any]) -> list[Slice]:
    if hasattr(X, "data_vars") or X.ndim != 3:
        raise ValueError(
            "time_slices draws a DataArray of time and two more dimensions; this has "
            f"{', '.join(map(str, X.dims))}."
        )
    names = [str(dim) for dim in X.dims]
    when = _time_among(names, [X[name].dtype for name in names], time)
    chosen = _chosen_times(X[when].values, at, when)
    cells = [Cells.of(X.sel({when: moment}), "time_slices") for moment in chosen]
    return [
        (_in_words(when, t, "\n"), one, one.values) for t, one in zip(chosen, cells, strict=True)
    ]


def _slices_of_table(
    X: Any,
    values: ArrayLike,
    columns: Sequence[int | str] | None,
    time: int | str | None,
    at: int | Sequence[Any],
) -> list[Slice]:
    v, names = np.asarray(values, float), names_of(X)
    if v.shape != (len(X),):
        raise ValueError(f"values has shape {v.shape}, but X has {len(X)} rows.")
    when = _time_among(
        names, [getattr(column(X, c), "dtype", None) for c in range(len(names))], time
    )
    times, places = np.asarray(column(X, names.index(when))), Places.of(X, columns)
    chosen = _chosen_times(times, at, when)
    return [(_in_words(when, t, "\n"), places.rows(times == t), v[times == t]) for t in chosen]


def _time_among(names: list[str], kinds: list[Any], time: int | str | None) -> str:
    """The name of the dimension or column that holds times."""
    if time is not None:
        return names[column_index(time, len(names), names)]
    found = [name for name, kind in zip(names, kinds, strict=True) if is_time(name, kind)]
    if len(found) != 1:
        raise ValueError(
            f"Which of {', '.join(names)} is the time? Say so, for example time={names[0]!r}."
        )
    return found[0]


def _chosen_times(every: np.ndarray, at: int | Sequence[Any], name: str) -> np.ndarray:
    """The times given, or as many as asked for, evenly spread over those there are."""
    known = np.unique(every)
    if isinstance(at, (int, np.integer)):
        if at < 1:
            raise ValueError(f"at must be at least 1, or a list of times, not {at!r}.")
        return known[np.unique(np.linspace(0, len(known) - 1, at).round().astype(int))]
    chosen = np.asarray(at, known.dtype)
    if absent := [moment for moment in chosen if moment not in known]:
        raise ValueError(
            f"There is nothing at {_in_words(name, absent[0])}: times run from "
            f"{_in_words(name, known[0])} to {_in_words(name, known[-1])}."
        )
    return chosen


def _in_words(name: str, moment: Any, between: str = " ") -> str:
    """A date as such, with its hour where it has one, and a number with its name."""
    if isinstance(moment, np.datetime64):
        import pandas as pd

        stamp = pd.Timestamp(moment)
        return f"{stamp:%Y-%m-%d}" + (
            f"{between}{stamp:%H:%M}" if stamp != stamp.normalize() else ""
        )
    return f"{name} {moment:g}" if isinstance(moment, (int, float, np.number)) else str(moment)


def _panels(
    figure: Any, count: int, ncols: int, ratio: float | None, bars: bool = False
) -> np.ndarray:
    """Axes for so many maps, row by row, as wide as their ratio asks for, with bars or without."""
    if ncols < 1:
        raise ValueError(f"ncols must be at least 1, not {ncols!r}.")
    wide = min(ncols, count)
    high = -(-count // wide)
    width = float(np.clip(2.2 * (ratio or 1.2), 1.2, 4.0)) + (0.9 if bars else 0.1)
    figure = figure_for(figure, wide * width + (0.5 if bars else 1.3), 2.2 * high + 0.5)
    axes = figure.subplots(high, wide, sharex=True, sharey=True, squeeze=False).ravel()
    for ax in axes[count:]:
        ax.set_axis_off()
    return axes[:count]


def _label_outer(panels: np.ndarray, ncols: int) -> None:
    """Labels and numbers only at the left and at the bottom."""
    for i, ax in enumerate(panels):
        lowest = i + ncols >= len(panels)
        ax.tick_params(labelbottom=lowest, labelleft=i % ncols == 0)
        ax.set_xlabel(ax.get_xlabel() if lowest else "")
        ax.set_ylabel(ax.get_ylabel() if i % ncols == 0 else "")
