"""The main job on a simulated rain field: hold cells out, fit, score, draw."""

from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer
from matplotlib.figure import Figure

from zigp.cli.messages import print_scores
from zigp.cli.options import Debug, typed_words
from zigp.data.tables import check_writable
from zigp.data.tables.errors import file_errors
from zigp.datasets import simulate_rain
from zigp.diagnostics.scores import amount_scores
from zigp.estimators import SparseGPRegressor, ZeroInflatedGPRegressor
from zigp.plots import component_maps
from zigp.report import Roles, Trial, write_report
from zigp.runtime.atomic import replacing

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
    picture = out / "rain.png"
    with file_errors("write", picture):
        out.mkdir(parents=True, exist_ok=True)
    check_writable(picture, force=True, endings=())  # better now than after the fit
    rain = simulate_rain(seed=seed)
    hidden = np.random.default_rng(seed).random(len(rain)) < 0.2
    train, test = rain[~hidden], rain[hidden]
    groups = {"space": ["lat", "lon"], "time": ["hour"]}
    plain, model = (
        kind(column_groups=groups, latlon=["lat", "lon"], verbose=True).fit(
            train[INPUTS], train["rain_mm"]
        )
        for kind in (SparseGPRegressor, ZeroInflatedGPRegressor)
    )
    y = test["rain_mm"].to_numpy()
    typer.echo(
        f"{len(rain)} hourly readings at {rain.groupby(['lat', 'lon']).ngroups} stations, "
        f"{(rain['rain_mm'] == 0).mean():.1%} of them zero; scores on the {len(y)} that were held "
        "out:"
    )
    means = {
        "Zero": np.zeros(len(y)),
        "GPr": plain.predict(test[INPUTS]),
        "ZiGP": model.predict(test[INPUTS]),
    }
    print_scores({name: amount_scores(y, mean, RESOLUTION) for name, mean in means.items()})
    with replacing(picture) as part:
        _figure(model, rain.assign(rain_mm=rain["rain_mm"].mask(hidden))).savefig(
            part, dpi=130, format="png"
        )
    typer.echo(f"Figure: {picture}")
    note = (
        f"A fifth of the readings ({len(y):,}), picked at random, was hidden from the models while "
        "they were fitted; they are judged by what they predict there."
    )
    models = {"Plain GP": plain, "Zero-inflated GP": model}
    page = write_report(
        model, rain[INPUTS], rain["rain_mm"], out / "report.html",
        roles=Roles("rain_mm", ("lon", "lat"), "hour", "mm"),
        trial=Trial(test[INPUTS], y, models, "Zero-inflated GP", note), command=typed_words(),
    )  # fmt: skip
    typer.echo(f"Report: {page} (open it in a browser)")


def _figure(model: ZeroInflatedGPRegressor, rain: pd.DataFrame) -> Figure:
    """Draw the components at every station and hour, stations from south to north."""
    stations = rain.groupby(["lat", "lon"])
    table = pd.DataFrame(
        {"station": stations.ngroup(), "hour": rain["hour"], "rain": rain["rain_mm"]}
    )
    cells = table.set_index(["station", "hour"])["rain"].to_xarray().drop_vars("station")
    lat, lon = np.transpose(list(stations.groups))
    cells = cells.assign_coords(lat=("station", lat), lon=("station", lon))
    cells.attrs["units"] = "mm per hour"
    figure = Figure(figsize=(10, 10), layout="constrained")
    for ax in component_maps(model, cells, tol=0.5 * RESOLUTION, ncols=1, figure=figure):
        ax.set_ylabel("station, south to north")
    return figure
