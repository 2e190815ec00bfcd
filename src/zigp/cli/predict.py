"""`zigp predict`."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from zigp import load
from zigp.cli.data import as_fitted, with_columns
from zigp.cli.messages import tell, using
from zigp.cli.options import (
    ANY_DATA,
    Debug,
    Force,
    Quiet,
    finite,
    share,
)
from zigp.data.tables import (
    LATTICE_KINDS,
    LATTICES,
    check_writable,
    locate,
    read,
    read_parts,
    write_dataset,
    writing,
)
from zigp.models.predictions import block_shape

_CELLS = 1_000_000  # of a lattice, in memory at once


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
    force: Force = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Predict at the rows of a table or the cells of a lattice.

    Adds the columns mean, sd, prob_on (if the model has a gate), lower and upper. All columns of
    the table are kept.

    Example: zigp predict rain.zigp new.csv --out predicted.csv
    """
    count = 0
    with using(model):
        fitted = load(model)
        if locate(data).kind in LATTICE_KINDS:
            check_writable(out, force, endings=LATTICES)
            answer = _lattice(fitted, data, level, below)
            count = int(answer["mean"].size)
            names = {name: prefix + str(name) for name in answer}
            write_dataset(answer.rename(names), out, force)
        else:
            with writing(out, force) as file:
                for part in read_parts(data, chunk_rows):
                    X = as_fitted(data, part, fitted)
                    columns = _columns(fitted, X, level, below)
                    new = {prefix + name: values for name, values in columns.items()}
                    table = with_columns(data, part, X, new, fitted, out)
                    added = table.iloc[:, part.shape[1] :].select_dtypes("float")
                    for name, bad in (~np.isfinite(added)).sum().items():
                        tell(f"Look at this: {bad:,} of {name} are not finite.", quiet=not bad)
                    file.add(table)
                    count += len(part)
                    if count % chunk_rows == 0:
                        tell(f"{count:,} rows", quiet=quiet)
    tell(f"Predicted {count:,} places.", quiet=quiet)


def _columns(
    model: Any, X: pd.DataFrame, level: float, below: float | None
) -> dict[str, np.ndarray]:
    """Return the new columns, from one pass through the model."""
    if hasattr(model, "classes_"):
        if below is not None:
            raise ValueError("The model is a classifier, which has no amounts: leave --below out.")
        return {"class": model.predict(X), "prob_on": model.prob_on(X)}
    distribution = model.predict_distribution(X)
    columns = {"mean": distribution.point, "sd": distribution.sd}
    if distribution.prob_on is not None:
        columns["prob_on"] = distribution.prob_on
    tail = 0.5 * (1.0 - level)
    columns |= {"lower": distribution.quantile(tail), "upper": distribution.quantile(1.0 - tail)}
    if below is not None:
        columns[f"prob_below_{below:g}"] = distribution.probability(-np.inf, below)
    return columns


def _lattice(model: Any, path: str, level: float, below: float | None) -> Any:
    """Return predictions in every cell of a lattice, lazily where dask is installed."""
    if not hasattr(model, "predict_lattice"):
        raise ValueError("The model is a classifier, which predicts at the rows of a table.")
    target: Any = read(path, lazy=True)
    sizes = tuple(target.sizes.values())
    if find_spec("dask") and all(sizes):  # in parts, whatever the chunks of the file
        target = target.chunk(dict(zip(target.sizes, block_shape(sizes, _CELLS), strict=True)))
    tail = 0.5 * (1.0 - level)
    return model.predict_lattice(target, (tail, 0.5, 1.0 - tail), below)
