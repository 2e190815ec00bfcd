"""`zigp reproduce`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from zigp.cli.options import Debug


def reproduce(
    experiment: Annotated[
        Literal["toy", "precipitation", "jura", "all"],
        typer.Argument(help="Experiment of the paper."),
    ],
    out: Annotated[Path, typer.Option(help="Folder for tables, predictions and figures.")],
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Folder with the data (default: download).", envvar="ZIGP_DATA"),
    ] = None,
    fast: Annotated[
        bool, typer.Option("--fast", help="Trial run: few steps, one fold, few restarts.")
    ] = False,
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
    for record in run(experiment, data_dir, out, fast=fast, resume=resume):
        typer.echo(f"{record.experiment}, means of {len(record.rows)} fits\n")
        typer.echo(f"{record.means().round(3).to_string(na_rep='')}\n")
    typer.echo(f"Results, predictions and figures: {out}")
