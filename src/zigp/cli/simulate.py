"""`zigp simulate`."""

from pathlib import Path
from typing import Annotated

import typer

from zigp.cli.errors import using
from zigp.cli.options import Debug, Force


def simulate(
    out: Annotated[str, typer.Option(help="File to write, or -.")] = "-",
    model: Annotated[
        Path | None, typer.Option(help="Draw from this model, at the rows of --data.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Table of where to draw.")] = None,
    draws: Annotated[
        int, typer.Option(help="Number of joint draws from a model.", min=1, max=100_000)
    ] = 10,
    stations: Annotated[int, typer.Option(help="Stations of simulated rain.", min=1)] = 40,
    hours: Annotated[int, typer.Option(help="Hours of simulated rain.", min=1)] = 240,
    seed: Annotated[int, typer.Option(help="Seed of everything random.", min=0)] = 2018,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Simulate rain at stations, or draw from a model.

    Example: zigp simulate --out rain.csv
    """
    from zigp.cli.predicting import draw_to_file
    from zigp.data.tables import TABLES, check_writable, writing
    from zigp.datasets import simulate_rain

    if (model is None) != (data is None):
        raise ValueError("--model and --data go together: draw from the one at rows of the other.")
    check_writable(out, force, TABLES)
    if model is not None and data is not None:
        with using(model):
            draw_to_file(model, data, out, draws, seed, force)
        return
    with writing(out, force) as file:
        file.add(simulate_rain(stations, hours, seed))
