"""The main job on a simulated rain field: hold cells out, fit, score, draw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from zigp.cli.options import Debug, typed_words
from zigp.cli.printing import print_scores
from zigp.data.tables import check_writable
from zigp.datasets import simulate_rain
from zigp.diagnostics.scores import amount_scores
from zigp.estimators import SparseGPRegressor, ZeroInflatedGPRegressor
from zigp.plots import component_maps
from zigp.report import Roles, write_report
from zigp.report.trial import Trial
from zigp.runtime.atomic import replacing

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

RESOLUTION = 0.1  # mm
INPUTS = ["lat", "lon", "hour"]


def demo(
    out: Annotated[Path, typer.Option(help="Folder for figure and report.")] = Path("zigp-demo"),
    seed: Annotated[int, typer.Option(help="Seed of the simulated rain.", min=0)] = 2018,
    debug: Debug = False,
) -> None:
    """Fit, score and draw simulated rain.

    Example: zigp demo --out rain-demo
    """
    figure = out / "rain.png"
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"Cannot write {figure}: {error.strerror}. Choose another --out."
        ) from None
    check_writable(figure, force=True, endings=())  # better now than after the fit
    result = run_demo(seed)
    rain, stations = result.rain, len(result.rain[["lat", "lon"]].drop_duplicates())
    typer.echo(
        f"{len(rain)} hourly readings at {stations} stations, {(rain['rain_mm'] == 0).mean():.1%} "
        f"of them zero; scores on the {result.held_out.sum()} that were held out:"
    )
    print_scores(result.scores)
    with replacing(figure) as part:
        result.figure.savefig(part, dpi=130, format="png")
    typer.echo(f"Figure: {figure}")
    page = write_report(
        result.model, rain[INPUTS], rain["rain_mm"], out / "report.html",
        roles=Roles("rain_mm", ("lon", "lat"), "hour", "mm"),
        trial=result.trial, command=typed_words(),
    )  # fmt: skip
    typer.echo(f"Report: {page} (open it in a browser)")


@dataclass
class Demo:
    """The results of the demo."""

    rain: pd.DataFrame
    held_out: np.ndarray
    scores: dict[str, dict[str, float]]
    figure: Figure
    model: ZeroInflatedGPRegressor
    trial: Trial


def run_demo(seed: int = 2018, *, verbose: bool = True) -> Demo:
    """Simulate rain, hold a fifth of the readings out, and compare Zero, GPr and ZiGP on them."""
    rain = simulate_rain(seed=seed)
    held_out = np.random.default_rng(seed).random(len(rain)) < 0.2
    train, test = rain[~held_out], rain[held_out]
    where = {"column_groups": {"space": ["lat", "lon"], "time": ["hour"]}, "latlon": ["lat", "lon"]}
    y = test["rain_mm"].to_numpy()

    scores = {"Zero": amount_scores(y, np.zeros(len(y)), RESOLUTION)}
    estimators: dict[str, Callable[..., SparseGPRegressor | ZeroInflatedGPRegressor]] = {
        "GPr": SparseGPRegressor,
        "ZiGP": ZeroInflatedGPRegressor,
    }
    fitted: dict[str, SparseGPRegressor | ZeroInflatedGPRegressor] = {}
    for name, make in estimators.items():
        fitted[name] = model = make(**where, verbose=verbose).fit(train[INPUTS], train["rain_mm"])
        mean = np.asarray(model.predict(test[INPUTS]))
        scores[name] = amount_scores(y, mean, RESOLUTION)
    assert isinstance(model, ZeroInflatedGPRegressor)
    told = (
        f"A fifth of the readings ({held_out.sum():,}), picked at random, was hidden from the "
        "models while they were fitted; they are judged by what they predict there."
    )
    models = {"Plain GP": fitted["GPr"], "Zero-inflated GP": model}
    trial = Trial(test[INPUTS], y, models, "Zero-inflated GP", told)
    return Demo(rain, held_out, scores, _figure(model, rain, held_out), model, trial)


def _figure(model: ZeroInflatedGPRegressor, rain: pd.DataFrame, held_out: np.ndarray) -> Figure:
    """Every station and hour, stations from south to north; what was held out is missing."""
    import xarray as xr
    from matplotlib.figure import Figure

    places, station = np.unique(rain[["lat", "lon"]].to_numpy(), axis=0, return_inverse=True)
    hours = np.arange(rain["hour"].max() + 1)
    seen = np.full((len(places), len(hours)), np.nan)
    train = rain[~held_out]
    seen[station.reshape(-1)[~held_out], train["hour"]] = train["rain_mm"]
    cells = xr.DataArray(
        seen,
        coords={
            "lat": ("station", places[:, 0]),
            "lon": ("station", places[:, 1]),
            "hour": hours,
        },
        dims=("station", "hour"),
        name="rain",
        attrs={"units": "mm per hour"},
    )
    figure = Figure(figsize=(10, 10), layout="constrained")
    axes = component_maps(model, cells, tol=0.5 * RESOLUTION, ncols=1, figure=figure)
    for ax in axes:
        ax.set_ylabel("station, south to north")
    return figure
