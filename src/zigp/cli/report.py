"""`zigp report`."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from zigp import load
from zigp.cli.data import ColumnRoles, read_data
from zigp.cli.messages import tell, using
from zigp.cli.options import (
    DATA,
    Debug,
    Force,
    Quiet,
    listed,
    typed_words,
)
from zigp.data.tables import FileError, check_writable
from zigp.report import Roles, write_report


def report(
    model: Annotated[Path, typer.Argument(help="Model file.")],
    data: Annotated[Path, typer.Option(help=f"Data that the model was fitted to. {DATA}")],
    out: Annotated[str, typer.Option(help="Page to write (.html).")] = "report.html",
    target: Annotated[
        str | None, typer.Option(help="Column that was explained, if the model has no record.")
    ] = None,
    space: Annotated[
        str | None, typer.Option(help="Two columns for maps: east,north or lat,lon.")
    ] = None,
    time: Annotated[str | None, typer.Option(help="Column of times for the maps.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Score on the training rows: nothing is fitted again.")
    ] = False,
    force: Force = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write a report on a model and its data.

    The report is one page that opens in any browser, offline. To score predictions, the model and
    plain regression are fitted again without a fifth of the rows, which takes about twice as long
    as `zigp fit` did; --quick leaves that out.

    Example: zigp report rain.zigp --data rain.csv --out report.html
    """
    say = partial(tell, quiet=quiet)
    check_writable(out, force, (".html", ".htm"))
    with using(model):
        fitted = load(model)
        roles = Roles.of(fitted, target=target, space=listed(space) or None, time=time)
        if not target and not fitted.units_:
            raise FileError(f"{model} does not record its target: name it with --target.")
        rows = read_data(data, ColumnRoles(roles.target), like=fitted)
        say(*rows.notes)
        write_report(
            fitted, rows.X, rows.y, out,
            roles=roles, quick=quick, verbose=not quiet, command=typed_words(), say=say,
        )  # fmt: skip
    say(f"Report: {out}")
