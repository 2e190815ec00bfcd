"""The command line: results on stdout or in files, progress on stderr."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["app", "main"]

app = typer.Typer(
    help="Zero-inflated Gaussian processes: regression where most observations are exactly zero.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def zigp() -> None:
    """Zero-inflated Gaussian processes: regression where most observations are exactly zero."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figure.")] = Path("zigp-demo"),
    seed: Annotated[int, typer.Option(help="Seed of the simulated rain.", min=0)] = 2018,
) -> None:
    """Fit simulated rain, score against plain GP regression, and draw what was found.

    Example: zigp demo --out rain-demo
    """
    from zigp.demo import run_demo

    figure = out / "rain.png"
    try:
        out.mkdir(parents=True, exist_ok=True)
        figure.open("ab").close()  # better now than after the fit
    except OSError as error:
        typer.echo(f"Cannot write {figure}: {error.strerror}. Choose another --out.", err=True)
        raise typer.Exit(1) from None
    result = run_demo(seed)
    rain, stations = result.rain, len(result.rain[["lat", "lon"]].drop_duplicates())
    typer.echo(
        f"{len(rain)} hourly readings at {stations} stations, {(rain['rain_mm'] == 0).mean():.1%} "
        f"of them zero; scores on the {result.held_out.sum()} that were held out:"
    )
    _print_scores(result.scores)
    result.figure.savefig(figure, dpi=130)
    typer.echo(f"Figure: {figure}")


def _print_scores(scores: dict[str, dict[str, float]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table()
    names = {"rmse": "RMSE", "mae": "MAE", "f1": "F1"}
    columns = list(next(iter(scores.values())))
    table.add_column("model")
    for column in columns:
        table.add_column(names.get(column, column), justify="right")
    for model, row in scores.items():
        table.add_row(model, *(f"{row[column]:.3f}" for column in columns))
    Console().print(table)


def main() -> None:
    """What the `zigp` command runs."""
    app()
