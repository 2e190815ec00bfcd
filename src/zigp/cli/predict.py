"""`zigp predict`."""

from pathlib import Path
from typing import Annotated

import typer

from zigp.cli.errors import using
from zigp.cli.options import (
    ANY_DATA,
    Debug,
    Device,
    Force,
    OnDevice,
    Quiet,
    finite,
    place,
    share,
    use_device,
)


def predict(
    model: Annotated[Path, typer.Argument(help="Model file.")],
    data: Annotated[str, typer.Argument(help=f"Where to predict. {ANY_DATA}")],
    out: Annotated[
        str, typer.Option(help="File to write (.csv, .csv.gz, .parquet; .nc, .zarr), or -.")
    ] = "-",
    level: Annotated[
        float, typer.Option(help="Level of the interval from lower to upper.", callback=share)
    ] = 0.9,
    below: Annotated[
        float | None,
        typer.Option(help="Also predict the probability of at most this amount.", callback=finite),
    ] = None,
    prefix: Annotated[str, typer.Option(help="Prefix of the names of new columns.")] = "",
    chunk_rows: Annotated[int, typer.Option(help="Rows in memory at once.", min=1)] = 50_000,
    device: OnDevice = Device.auto,
    force: Force = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Predict at the rows of a table or the cells of a lattice.

    Adds the columns mean, sd, prob_on (if the model has a gate), lower and upper. All columns of
    the table are kept.

    Example: zigp predict rain.zigp new.csv --out predicted.csv
    """
    from zigp.cli.predicting import Asked, predict_file

    use_device(device)
    asked = Asked(level, below, prefix)
    with using(model):
        count = predict_file(
            model, place(data), out, asked, rows=chunk_rows, force=force, quiet=quiet
        )
    if not quiet:
        typer.echo(f"Predicted {count:,} places.", err=True)
