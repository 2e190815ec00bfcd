"""`zigp simulate`."""

from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from zigp import load
from zigp.cli.data import as_fitted, with_columns
from zigp.cli.messages import using
from zigp.cli.options import Debug, Force
from zigp.data.tables import FileError, read, writing
from zigp.datasets import simulate_rain


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
    if (model is None) != (data is None):
        raise ValueError("--model and --data go together: draw from the model at rows of the data.")
    with writing(out, force) as file, using(model):
        if model is None or data is None:
            file.add(simulate_rain(stations, hours, seed))
        else:
            file.add(_draws(model, data, out, draws, seed))


def _draws(model: Path, data: Path, out: str, draws: int, seed: int) -> pd.DataFrame:
    """Return a table with a column for each joint draw at its rows."""
    fitted = load(model)
    if not hasattr(fitted, "sample"):
        raise ValueError(f"{model} holds a {type(fitted).__name__}, which has no amounts to draw.")
    table = read(data)
    if not isinstance(table, pd.DataFrame):
        raise FileError(f"{data} is a lattice: draws from a model need a table.")
    X = as_fitted(data, table, fitted)
    drawn = fitted.sample(X, draws, random_state=seed)
    new = {f"draw_{i + 1}": one for i, one in enumerate(drawn)}
    return with_columns(data, table, X, new, fitted, out)
