"""The paper's figures, composed of `zigp.plots`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from zigp import plots
from zigp.estimators import GPNetworkRegressor, ZeroInflatedGPRegressor


def fits_and_truth(toy: pd.DataFrame, models: Mapping[str, Any]) -> Figure:
    """Figure 1: fits below each other, with the true signal."""
    figure = Figure((6.4, 2.4 * len(models)), layout="constrained")
    axes = figure.subplots(len(models), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for ax, (title, model) in zip(axes, models.items(), strict=True):
        plots.fit_1d(model, toy[["x"]], toy["y"], level=None, ax=ax)
        ax.plot(toy["x"], toy["f"], "k--", linewidth=1, label="truth")
        ax.get_legend().remove()
        ax.set_title(title, loc="left")
        ax.label_outer()
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=3, frameon=False)
    return figure


def parts_figure(toy: pd.DataFrame, model: ZeroInflatedGPRegressor) -> Figure:
    """Figure 2: the parts of the zero-inflated GP, each beside its kernel."""
    figure = Figure((8.0, 8.4), layout="constrained")
    plots.components_1d(model, toy[["x"]], toy["y"], figure=figure)
    return figure


def rain_maps(
    rain: pd.DataFrame, model: ZeroInflatedGPRegressor, inputs: Sequence[str], days: int = 7
) -> Figure:
    """Figure 3: a week of rain on maps, at the wettest hour of each day.

    From the top: the readings, the prediction and the support, the latter two near stations.
    """
    lat, lon, hour = inputs
    hours = _wettest_hours(rain, hour, days)
    stations = rain[[lat, lon]].drop_duplicates()
    grid = _near(stations[lat].to_numpy(), stations[lon].to_numpy(), hours, inputs)
    parts = model.predict_components(grid)
    shown = rain["rain_mm"][rain[hour].isin(hours)]
    same: dict[str, Any] = {"limits": (0.0, float(shown[shown > 0].quantile(0.95))), "tol": 0.05}
    rows: list[tuple[Any, Any, str, dict[str, Any]]] = [
        (rain[list(inputs)], rain["rain_mm"], "readings, mm", same),
        (grid, parts["signal"].clip(lower=0.0), "prediction, mm", same),
        (grid, parts["gate"], "support, 0 off, 1 on", {"kind": "share"}),
    ]
    figure = Figure((1.6 * days + 0.8, 8.4), layout="constrained")
    subfigures: Any = figure.subfigures(3, 1)
    for part, (X, values, label, how) in zip(subfigures, rows, strict=True):
        axes = plots.time_slices(
            X, values, time=hour, at=hours, ncols=days, label=label, figure=part, **how
        )
        for ax, at in zip(axes, hours, strict=True):
            day, clock = divmod(int(at), 24)
            ax.set_title(f"day {day + 1}, {clock:02d}:00", loc="left", fontsize="medium")
    return figure


def error_figure(predictions: pd.DataFrame, names: Sequence[str], resolution: float) -> Figure:
    """Figure 4: how often absolute errors exceed a size, one line per model."""
    figure = Figure((6.4, 4.2), layout="constrained")
    ax = figure.subplots()
    for name in names:
        mine = predictions[predictions["model"] == name]
        mean = np.clip(mine["mean"].to_numpy(float), 0.0, None)
        plots.error_distribution(
            mine["y"].rename("held-out rain"),
            mean,
            resolution=resolution,
            unit="mm",
            label=name,
            ax=ax,
        )
    return figure


def network_figure(
    model: GPNetworkRegressor, train: pd.DataFrame, place: Sequence[str], outputs: Mapping[str, str]
) -> Figure:
    """Figures 5 and 6: latents, weights, support, predictions and data on maps, in km."""
    low, high = train[list(place)].min(), train[list(place)].max()
    east, north = (np.linspace(low[c], high[c], 40) for c in place)
    grid = np.column_stack([part.ravel() for part in np.meshgrid(east, north)])
    figure = Figure((12.0, 6.4), layout="compressed")
    axes = plots.network_panels(
        model,
        pd.DataFrame(grid, columns=list(place)),
        observed=(train[list(place)], train[list(outputs)]),
        outputs=list(outputs.values()),
        figure=figure,
    )
    for ax in axes.ravel():
        ax.set_xlabel("east, km" if ax.get_xlabel() else "")
        ax.set_ylabel("north, km" if ax.get_ylabel() else "")
    return figure


def _wettest_hours(rain: pd.DataFrame, hour: str, days: int) -> list[int]:
    """Return the wettest hour of each day in the wettest run of days."""
    total = rain.groupby(hour)["rain_mm"].sum()
    by_day = total.groupby(total.index // 24)
    daily, wettest = by_day.sum().rolling(days).sum().to_numpy(), by_day.idxmax().to_numpy()
    last = int(np.nanargmax(daily))
    return [int(at) for at in wettest[last - days + 1 : last + 1]]


def _near(
    lat: np.ndarray, lon: np.ndarray, hours: Sequence[int], inputs: Sequence[str], size: int = 45
) -> pd.DataFrame:
    """Return a grid over the stations at each hour, without places far from all of them."""
    north, east = np.meshgrid(
        np.linspace(lat.min(), lat.max(), size), np.linspace(lon.min(), lon.max(), size // 2)
    )
    grid = np.column_stack([north.ravel(), east.ravel()])
    shrink = np.cos(np.deg2rad(lat.mean()))
    squared = (grid[:, :1] - lat) ** 2 + (shrink * (grid[:, 1:] - lon)) ** 2
    near = pd.DataFrame(grid[squared.min(axis=1) < 0.8**2], columns=list(inputs[:2]))
    return near.merge(pd.DataFrame({inputs[2]: list(hours)}), how="cross")
