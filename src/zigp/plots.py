"""Pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from zigp.estimators import ZeroInflatedGPRegressor
    from zigp.estimators.network import NetworkParts

__all__ = [
    "error_distribution",
    "fits_and_truth",
    "lattice_panels",
    "network_panels",
    "rain_maps",
    "signal_and_kernels",
]


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


Band = tuple[np.ndarray, np.ndarray]  # mean and standard deviation


def fits_and_truth(
    x: np.ndarray, y: np.ndarray, truth: np.ndarray, fits: dict[str, Band]
) -> Figure:
    """Fits of one-dimensional data below each other, with bands of two standard deviations.

    As in the paper's Figure 1.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 2.6 * len(fits)), layout="constrained")
    axes = figure.subplots(len(fits), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for ax, (title, band) in zip(axes, fits.items(), strict=True):
        ax.plot(x, y, ".", color="0.6", markersize=3, label="data")
        _draw_band(ax, x, band, "tab:blue", "signal, ± 2 standard deviations")
        ax.plot(x, truth, "k--", linewidth=1, label="truth")
        ax.set_title(title, loc="left", fontsize=11)
        ax.set_ylabel("y")
    axes[0].legend(frameon=False, fontsize=8, ncols=3)
    axes[-1].set_xlabel("x")
    return figure


def signal_and_kernels(
    x: np.ndarray, y: np.ndarray, *, bands: dict[str, Band], kernels: dict[str, np.ndarray]
) -> Figure:
    """What the zero-inflated GP is made of, each part beside its kernel (the paper's Figure 2)."""
    from matplotlib.figure import Figure

    rows = {
        "signal": ("signal Φ(g) f", "sparse kernel Φ(g) Φ(g′) k_f"),
        "latent": ("latent f", "its kernel k_f"),
        "gate": ("support Φ(g)", "support of pairs Φ(g) Φ(g′)"),
        "g": ("g", "its kernel k_g"),
    }
    figure = Figure(figsize=(9.0, 8.4), layout="constrained")
    axes = figure.subplots(4, 2, width_ratios=(2.2, 1.0))
    for (left, right), (name, (title, kernel)) in zip(axes, rows.items(), strict=True):
        if name == "signal":
            left.plot(x, y, ".", color="0.6", markersize=3)
        limits = (0.0, 1.0) if name == "gate" else None
        _draw_band(left, x, bands[name], "tab:blue", title, limits)
        left.set_title(title, loc="left", fontsize=10)
        left.set_xlim(x.min(), x.max())
        ends = (x.min(), x.max(), x.max(), x.min())
        image = right.imshow(kernels[name], extent=ends, cmap="viridis", vmin=0.0)
        right.set_title(kernel, loc="left", fontsize=10)
        right.set_ylabel("x′")
        figure.colorbar(image, ax=right)
    for ax in axes[-1]:
        ax.set_xlabel("x")
    return figure


def _draw_band(
    ax: Axes,
    x: np.ndarray,
    band: Band,
    colour: str,
    label: str,
    limits: tuple[float, float] | None = None,
) -> None:
    mean, sd = band
    edges = np.clip([mean - 2 * sd, mean + 2 * sd], *(limits or (None, None)))
    ax.fill_between(x, *edges, color=colour, alpha=0.2, linewidth=0)
    ax.plot(x, mean, color=colour, label=label)


def rain_maps(
    rain: pd.DataFrame, model: ZeroInflatedGPRegressor, inputs: Sequence[str], days: int = 7
) -> Figure:
    """A week of rain on the map, as in the paper's Figure 3: the wettest hour of each day.

    From the top: the readings (small grey dots are dry), the prediction, and the support, both
    wherever a station is near.
    """
    from matplotlib.figure import Figure

    lat, lon, hour = inputs
    hours = _wettest_hours(rain, hour, days)
    figure = Figure(figsize=(2.1 * days, 8.6), layout="constrained")
    axes = figure.subplots(3, len(hours), sharex=True, sharey=True, squeeze=False)
    stations = rain[[lat, lon]].drop_duplicates()
    grid = _places_near(stations[lat].to_numpy(), stations[lon].to_numpy())
    top = float(rain.loc[rain[hour].isin(hours) & (rain["rain_mm"] > 0), "rain_mm"].quantile(0.95))
    amounts = {"cmap": "YlGnBu", "vmin": 0.0, "vmax": top}
    for column, at in enumerate(hours):
        here = rain[rain[hour] == at]
        wet = here["rain_mm"] > 0
        parts = model.predict_components(_table(grid, at, inputs))
        cells = {"s": 14, "marker": "s", "linewidths": 0}
        top_ax, middle, bottom = axes[:, column]
        top_ax.scatter(here.loc[~wet, lon], here.loc[~wet, lat], s=5, c="0.75", linewidths=0)
        wet_at = (here.loc[wet, lon], here.loc[wet, lat])
        dots = top_ax.scatter(*wet_at, s=22, c=here.loc[wet, "rain_mm"], **amounts)
        middle.scatter(grid[:, 1], grid[:, 0], c=parts["signal"].clip(lower=0), **amounts, **cells)
        support = bottom.scatter(
            grid[:, 1], grid[:, 0], c=parts["gate"], cmap="cividis", vmin=0.0, vmax=1.0, **cells
        )
        day, clock = divmod(int(at), 24)
        top_ax.set_title(f"day {day + 1}, {clock:02d}:00", fontsize=9)
        bottom.set_xlabel("longitude")
        for ax in axes[:, column]:
            ax.set_aspect(1.0 / np.cos(np.deg2rad(float(stations[lat].mean()))))
    for ax, name in zip(axes[:, 0], ("readings", "prediction", "support"), strict=True):
        ax.set_ylabel(f"{name}\nlatitude")
    figure.colorbar(dots, ax=axes[:2], label="rain, mm per hour", pad=0.01, extend="max")
    figure.colorbar(support, ax=axes[2], label="0 off, 1 on", pad=0.01)
    return figure


def error_distribution(errors: dict[str, np.ndarray], *, unit: str, resolution: float) -> Figure:
    """How often absolute errors exceed a size, one line for each model (the paper's Figure 4)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    ax = figure.subplots()
    styles = ("-", "--", ":", "-.")
    for (name, values), style in zip(errors.items(), styles, strict=False):
        size = np.sort(values)
        share = 1.0 - np.arange(len(size)) / len(size)
        ax.plot(size, share, style, label=name)
    ax.set(yscale="log", xlabel=f"absolute error, {unit}")
    ax.set_xscale("symlog", linthresh=resolution)
    ax.set_xlim(0.0, None)
    ax.set_ylabel("share of held-out readings with a larger error")
    ax.axvline(resolution, color="0.6", linewidth=0.8)
    ax.text(resolution, ax.get_ylim()[0], " resolution", color="0.4", fontsize=8, va="bottom")
    ax.legend(frameon=False)
    return figure


def _wettest_hours(rain: pd.DataFrame, hour: str, days: int) -> list[int]:
    """In the wettest run of whole days, the wettest hour of each."""
    total = rain.groupby(hour)["rain_mm"].sum()
    by_day = total.groupby(total.index // 24)
    daily, wettest = by_day.sum().rolling(days).sum().to_numpy(), by_day.idxmax().to_numpy()
    last = int(np.nanargmax(daily))
    return [int(at) for at in wettest[last - days + 1 : last + 1]]


def _places_near(lat: np.ndarray, lon: np.ndarray, size: int = 45) -> np.ndarray:
    """A grid of places over the stations, without those far from all of them."""
    north, east = np.meshgrid(
        np.linspace(lat.min(), lat.max(), size), np.linspace(lon.min(), lon.max(), size // 2)
    )
    grid = np.column_stack([north.ravel(), east.ravel()])
    shrink = np.cos(np.deg2rad(lat.mean()))
    squared = (grid[:, :1] - lat) ** 2 + (shrink * (grid[:, 1:] - lon)) ** 2
    return grid[squared.min(axis=1) < 0.8**2]


def _table(places: np.ndarray, at: float, inputs: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    lat, lon, hour = inputs
    return pd.DataFrame({lat: places[:, 0], lon: places[:, 1], hour: at})[list(inputs)]
