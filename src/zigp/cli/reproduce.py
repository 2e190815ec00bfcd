"""`zigp reproduce`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from zigp.cli.options import Debug

Experiment = StrEnum("Experiment", ["toy", "precipitation", "jura", "all"])


def reproduce(
    experiment: Annotated[Experiment, typer.Argument(help="Experiment of the paper.")],
    out: Annotated[Path, typer.Option(help="Folder for tables, predictions and figures.")],
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Folder with the data (default: download).", envvar="ZIGP_DATA"),
    ] = None,
    fast: Annotated[
        bool, typer.Option("--fast", help="Trial run: few steps, one fold, few restarts.")
    ] = False,
    page: Annotated[
        Path | None, typer.Option(help="Also write the page of results to this file.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite results in --out.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep the experiments finished in --out.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Run the paper's experiments.

    Example: zigp reproduce toy --data-dir data --out toy-results
    """
    from zigp.experiments import EXPERIMENTS
    from zigp.experiments import reproduce as run

    if force and resume:
        raise ValueError("--force runs everything again and --resume does not: give one of them.")
    names = list(EXPERIMENTS) if experiment == "all" else [""]
    if not (force or resume) and any((out / name / "results.json").exists() for name in names):
        raise ValueError(
            f"{out} already holds results. Choose another --out, or add --resume or --force."
        )
    folders = run(experiment.value, data_dir, out, fast=fast, page=page, resume=resume)
    for path in sorted(p for folder in folders for p in folder.iterdir() if p.is_file()):
        typer.echo(path)
    typer.echo(out / "results.md")
