"""The command line: results on stdout or in files, progress on stderr."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

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


class Experiment(StrEnum):
    toy = "toy"
    precipitation = "precipitation"
    jura = "jura"
    all = "all"


@app.command()
def reproduce(
    experiment: Annotated[Experiment, typer.Argument(help="Which of the paper's experiments.")],
    out: Annotated[Path, typer.Option(help="Folder for tables, predictions and figures.")],
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="Folder with the data; without it they are downloaded.", envvar="ZIGP_DATA"
        ),
    ] = None,
    fast: Annotated[
        bool, typer.Option("--fast", help="A trial run: few steps, one fold, few restarts.")
    ] = False,
    page: Annotated[
        Path | None, typer.Option(help="Also write the page of results to this file.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite results in --out.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on: keep the experiments finished in --out.")
    ] = False,
) -> None:
    """Run the paper's experiments from raw data to tables and figures.

    Example: zigp reproduce toy --data-dir data --out toy-results
    """
    from zigp.experiments import EXPERIMENTS
    from zigp.experiments import reproduce as run

    if force and resume:
        _fail("--force runs all again and --resume keeps what is there: give one of them.")
    names = list(EXPERIMENTS) if experiment == "all" else [""]
    if not (force or resume) and any((out / name / "results.json").exists() for name in names):
        _fail(f"{out} already holds results. Choose another --out, or add --resume or --force.")
    try:
        out.mkdir(parents=True, exist_ok=True)
        folders = run(experiment.value, data_dir, out, fast=fast, page=page, resume=resume)
    except (OSError, ValueError) as error:
        _fail(str(error))
    for path in sorted(p for folder in folders for p in folder.iterdir() if p.is_file()):
        typer.echo(path)
    typer.echo(out / "results.md")


def _fail(message: str) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(1)


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
