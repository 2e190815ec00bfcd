"""Maps of values at scattered places or on lattices, at several times, and of components."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from zigp.data.columns import is_time
from zigp.data.grids import is_lattice
from zigp.data.layout import column_index
from zigp.estimators import ZeroInflatedGPRegressor
from zigp.estimators.families import LOG_AMOUNTS
from zigp.plots.canvas import (
    Canvas,
    as_table,
    axes_for,
    check_can,
    figure_for,
    input_names,
    label_outer,
    one_per_row,
    target_label,
    time_label,
)
from zigp.plots.marks import (
    Limits,
    Marks,
    Scale,
    across_and_up,
    colour_scale,
    draw_group,
    place_columns,
    rows_of,
)


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

    Parameters
    ----------
    X : DataFrame or array-like of shape (n_rows, n_columns)
        A table with the places.
    values : array-like of shape (n_rows,)
        Values to draw; NaN where missing.
    columns : pair of int or str, default=None
        Columns of X that run across and up the map. By default longitude and latitude, by name, or
        the only two there are.
    kind : {"amount", "signed", "share"}, default=None
        Colours: from light to dark, from blue to red with white at zero, or grey from 0 to 1. By
        default "signed" if some values are negative, otherwise "amount".
    limits : pair of float, default=None
        Values at both ends of the colours. By default the top hundredth shares the last colour.
    tol : float, default=0.0
        Largest absolute value that counts as zero, useful for predictions.
    label : str, default=None
        Label of the colour bar; the name and the unit of `values` by default.
    colorbar : bool, default=True
        Whether to add a colour bar.
    ax : matplotlib.axes.Axes, default=None
        Axes to draw on; pyplot's current ones by default.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on.

    Examples
    --------
    >>> from zigp import plots
    >>> from zigp.datasets import simulate_rain
    >>> rain = simulate_rain(30, 24)
    >>> now = rain[rain["hour"] == 6]
    >>> ax = plots.scatter_map(now[["lat", "lon"]], now["rain_mm"])
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('lon, °E', 'lat, °N')
    """
    numbers, marks = one_per_row(values, X, "values"), Marks.of_table(X, columns, cells=False)
    scale = colour_scale(numbers, kind, limits, tol)
    text = target_label(y=values) if label is None else label
    return _draw_map(ax, marks, numbers, scale, text if colorbar else None)


def lattice_map(
    values: Any,
    *,
    kind: str | None = None,
    limits: Limits | None = None,
    tol: float = 0.0,
    label: str | None = None,
    colorbar: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw a lattice of values as coloured cells: zeros are grey, missing cells white.

    Parameters
    ----------
    values : DataArray of two dimensions, or array-like of shape (n_up, n_across)
        Values to draw. Names, coordinates and units of a DataArray label the axes; longitudes and
        times run across.
    kind : {"amount", "signed", "share"}, default=None
        Colours: from light to dark, from blue to red with white at zero, or grey from 0 to 1. By
        default "signed" if some values are negative, otherwise "amount".
    limits : pair of float, default=None
        Values at both ends of the colours. By default the top hundredth shares the last colour.
    tol : float, default=0.0
        Largest absolute value that counts as zero, useful for predictions.
    label : str, default=None
        Label of the colour bar; the name and the unit of `values` by default.
    colorbar : bool, default=True
        Whether to add a colour bar.
    ax : matplotlib.axes.Axes, default=None
        Axes to draw on; pyplot's current ones by default.

    Returns
    -------
    matplotlib.axes.Axes
        The axes drawn on.

    Examples
    --------
    >>> from zigp import plots
    >>> from zigp.datasets import simulate_rain_grid
    >>> radar = simulate_rain_grid(24, 8, 8)
    >>> ax = plots.lattice_map(radar.isel(time=6))
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('lon, °E', 'lat, °N')
    """
    lattice = values if is_lattice(values) else xr.DataArray(values, dims=("row", "column"))
    table, numbers, dims = rows_of(lattice, 2, "lattice_map")
    marks = Marks.of_table(table, across_and_up(table, dims), cells=True)
    scale = colour_scale(numbers.to_numpy(), kind, limits, tol)
    text = target_label(y=numbers) if label is None else label
    return _draw_map(ax, marks, numbers.to_numpy(), scale, text if colorbar else None)


def _draw_map(
    ax: Axes | None, marks: Marks, values: np.ndarray, scale: Scale, label: str | None
) -> Axes:
    """Draw values on one map, with a colour bar if it has a label."""
    ax = axes_for(ax)
    draw_group([(ax, marks, values, "")], scale, label)
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
    figure: Canvas | None = None,
) -> np.ndarray:
    """Draw maps at several times, side by side with the same colours.

    Parameters
    ----------
    X : DataArray of time and two more dimensions, or DataFrame or array-like
        A lattice of values, or a table of places and times.
    values : array-like of shape (n_rows,), default=None
        Values to draw at the rows of a table.
    time : int or str, default=None
        The dimension or the column of times. By default the one that holds times or is named so.
    at : int or sequence, default=6
        The times, or how many to choose, evenly spread.
    columns : pair of int or str, default=None
        Columns of a table that run across and up the maps. By default longitude and latitude, by
        name.
    kind : {"amount", "signed", "share"}, default=None
        Colours: from light to dark, from blue to red with white at zero, or grey from 0 to 1. By
        default "signed" if some values are negative, otherwise "amount".
    limits : pair of float, default=None
        Values at both ends of the colours. By default the top hundredth shares the last colour.
    tol : float, default=0.0
        Largest absolute value that counts as zero, useful for predictions.
    label : str, default=None
        Label of the colour bar; the name and the unit of the values by default.
    ncols : int, default=3
        Number of panels in a row.
    figure : matplotlib Figure or SubFigure, default=None
        Figure to draw in; a new one of pyplot's by default.

    Returns
    -------
    ndarray of shape (n_times,)
        The axes.

    Examples
    --------
    >>> from zigp import plots
    >>> from zigp.datasets import simulate_rain
    >>> rain = simulate_rain(30, 24)
    >>> axes = plots.time_slices(rain[["lat", "lon", "hour"]], rain["rain_mm"], at=[3, 6, 9])
    >>> [ax.get_title(loc="left") for ax in axes]
    ['hour 3', 'hour 6', 'hour 9']
    """
    if cells := is_lattice(X):
        X, values, dims = rows_of(X, 3, "time_slices")
        X = X[dims]
    elif values is None:
        raise ValueError("time_slices needs the values to draw beside the table X.")
    table, numbers = as_table(X), one_per_row(values, X, "values")
    when = _time_among(dict(table.dtypes), time)
    if cells:
        columns = across_and_up(table, [dim for dim in dims if dim != when])
    times, slices = table[when].to_numpy(), []
    for moment in _chosen_times(times, at, when):
        now = times == moment
        marks = Marks.of_table(table[now], columns, cells=cells or None)
        slices.append((time_label(when, moment, "\n"), marks, numbers[now]))
    scale = colour_scale(np.concatenate([part for *_, part in slices]), kind, limits, tol)
    axes = _panels(figure, len(slices), ncols, slices[0][1].ratio)
    panels = axes.ravel()[: len(slices)]
    text = target_label(y=values) if label is None else label
    drawings = [(ax, m, v, title) for ax, (title, m, v) in zip(panels, slices, strict=True)]
    draw_group(drawings, scale, text, aspect=30)
    label_outer(axes)
    return panels


def component_maps(
    model: ZeroInflatedGPRegressor,
    X: Any,
    y: ArrayLike | None = None,
    *,
    columns: Sequence[int | str] | None = None,
    tol: float = 0.0,
    ncols: int = 2,
    figure: Canvas | None = None,
) -> np.ndarray:
    """Draw the data and the components of a zero-inflated fit as maps: signal, gate and latent.

    Data and signal share their colours.

    Parameters
    ----------
    model : ZeroInflatedGPRegressor
        A fitted model.
    X : DataFrame or array-like of shape (n_rows, n_columns), or DataArray of two dimensions
        The rows of one map, such as all stations at one hour; or a lattice that holds the data,
        such as stations and hours.
    y : array-like of shape (n_rows,), default=None
        Observations at the rows.
    columns : pair of int or str, default=None
        Columns that run across and up the maps. By default longitude and latitude.
    tol : float, default=0.0
        Largest absolute value of data and signal that counts as zero.
    ncols : int, default=2
        Number of panels in a row.
    figure : matplotlib Figure or SubFigure, default=None
        Figure to draw in; a new one of pyplot's by default.

    Returns
    -------
    ndarray of shape (4,)
        The axes, three of them if no data are given.

    Examples
    --------
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
    check_can(
        model,
        "predict_components",
        "component_maps needs a ZeroInflatedGPRegressor, which has a gate and a latent; {} has "
        "none. Use scatter_map with its predictions.",
    )
    if cells := is_lattice(X):
        table, y, dims = rows_of(X, 2, "component_maps")
        X, columns = table.filter(items=input_names(model)), across_and_up(table, dims)
    else:
        table = as_table(X, model)
        columns = place_columns(table.columns.to_list(), columns, model)
        places = table.iloc[:, list(columns)]
        if (count := len(places.drop_duplicates())) < len(places):
            raise ValueError(
                f"X has {len(places)} rows at {count} places ({', '.join(places.columns)}), so a "
                "map would hide some. Give the rows of one time, or name other columns."
            )
    values = {} if y is None else {"observed": one_per_row(y, X, "y")}
    marks = Marks.of_table(table, columns, model, cells=cells or None)
    components, label = model.predict_components(X), target_label(model, y)
    values |= {name: components[name].to_numpy() for name in ("signal", "gate", "latent")}
    scales = part_scales(values, label, tol, logarithm=model.likelihood_ in LOG_AMOUNTS)
    axes = _panels(figure, len(values), ncols, marks.ratio, bars=True)
    panels = axes.ravel()[: len(values)]
    for ax, (name, numbers) in zip(panels, values.items(), strict=True):
        draw_group([(ax, marks, numbers, name)], *scales[name])
    label_outer(axes)
    return panels


def part_scales(
    values: Mapping[str, np.ndarray], label: str, tol: float, *, logarithm: bool
) -> dict[str, tuple[Scale, str]]:
    """Return colours and labels of data, signal, gate and latent; data and signal share theirs."""
    amounts = np.concatenate(
        [values[name].ravel() for name in ("observed", "signal") if name in values]
    )
    # Where no datum is negative the signal is an amount too, though it may dip below zero.
    negative = np.nanmin(next(iter(values.values()))) < -tol
    shared = colour_scale(amounts, "signed" if negative else "amount", None, tol), label
    kinds = {
        "gate": ("share", "0 off, 1 on"),
        "latent": ("amount", "log of amount") if logarithm else ("signed", label),
    }
    return {"observed": shared, "signal": shared} | {
        name: (colour_scale(values[name], kind), text)
        for name, (kind, text) in kinds.items()
        if name in values
    }


def _time_among(dtypes: dict[str, Any], time: int | str | None) -> str:
    """Return the name of the dimension or column that holds times."""
    names = list(dtypes)
    if time is not None:
        return names[column_index(time, len(names), names)]
    times = [name for name, dtype in dtypes.items() if is_time(name, dtype)]
    if len(times) != 1:
        raise ValueError(
            f"Which of {', '.join(names)} is the time? Say so, for example time={names[0]!r}."
        )
    return times[0]


def _chosen_times(every: np.ndarray, at: int | Sequence[Any], name: str) -> np.ndarray:
    """Return the times given, or as many as asked for, evenly spread over those there are."""
    times = np.unique(every)
    if isinstance(at, (int, np.integer)):
        if at < 1:
            raise ValueError(f"at must be at least 1, or a list of times, not {at!r}.")
        return times[np.unique(np.linspace(0, len(times) - 1, at).round().astype(int))]
    chosen = np.asarray(at, times.dtype)
    if absent := [moment for moment in chosen if moment not in times]:
        raise ValueError(
            f"There is nothing at {time_label(name, absent[0])}: times run from "
            f"{time_label(name, times[0])} to {time_label(name, times[-1])}."
        )
    return chosen


def _panels(
    figure: Any, count: int, ncols: int, ratio: float | None, bars: bool = False
) -> np.ndarray:
    """Return axes [rows, columns] for maps of a ratio of width to height, with bars or without."""
    if ncols < 1:
        raise ValueError(f"ncols must be at least 1, not {ncols!r}.")
    columns = min(ncols, count)
    rows = -(-count // columns)
    width = float(np.clip(2.2 * (ratio or 1.2), 1.2, 4.0)) + (0.9 if bars else 0.1)
    figure = figure_for(figure, columns * width + (0.5 if bars else 1.3), 2.2 * rows + 0.5)
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for ax in axes.ravel()[count:]:
        ax.set_axis_off()
    return axes
