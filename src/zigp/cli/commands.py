"""The commands and their options; what they do is in the modules that they import."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from zigp.cli.options import (
    Config,
    Device,
    Divided,
    Dtype,
    Kernel,
    Likelihood,
    Method,
    ModelName,
    as_toml,
    command_of,
    finite,
    given,
    listed,
    place,
    positive,
    share,
    use_device,
)
from zigp.cli.printing import plain

__all__ = ["app"]

app = typer.Typer(
    help="Zero-inflated Gaussian processes: regression where most observations are exactly zero.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_DATA = "A table (CSV, gzipped or not, or Parquet) or a lattice (NetCDF or Zarr)."
_ANYWHERE = (
    "A table (CSV, gzipped or not, Parquet, or a folder of Parquet files) or a lattice (NetCDF or "
    "Zarr); Parquet and Zarr also at an address such as s3://bucket/rain."
)
Target = Annotated[str, typer.Option(help="The column to be explained.")]
Space = Annotated[str | None, typer.Option(help="Columns of places, such as lat,lon (then in km).")]
Time = Annotated[str | None, typer.Option(help="The column of times: numbers or dates.")]
Inputs = Annotated[str | None, typer.Option(help="Other columns to learn from: depth,temp.")]
Category = Annotated[str | None, typer.Option(help="Columns of levels, without an order: gear.")]
GateInputs = Annotated[
    str | None, typer.Option(help="Columns that decide on zero or not, if not all do.")
]
Exposure = Annotated[str | None, typer.Option(help="A column of efforts, areas or hours.")]
Model = Annotated[
    ModelName,
    typer.Option(help="zigp; hurdle: zero or not, then how much; gp: plain regression."),
]
Noise = Annotated[Likelihood, typer.Option(help="What is observed; auto decides by the values.")]
Kernels = Annotated[Kernel, typer.Option(help="How smooth: matern12 is roughest.")]
Inducing = Annotated[
    str | None, typer.Option(help="Inducing points: 200 in all, or lat,lon=50,hour=200.")
]
Steps = Annotated[int | None, typer.Option(help="Training steps.", min=1)]
Seconds = Annotated[
    float | None, typer.Option(help="Stop training after so many seconds.", callback=positive)
]
BatchSize = Annotated[
    int | None,
    typer.Option(help="Rows looked at in a step; else all, or 16,384 of a stream.", min=1),
]
How = Annotated[
    Method, typer.Option(help="adam, the paper's; natural: natural gradients; auto: the better.")
]
Seed = Annotated[int, typer.Option(help="Seed of everything random.", min=0)]
Precision = Annotated[Dtype, typer.Option(help="float32 needs half the memory.")]
On = Annotated[Device, typer.Option(help="What to compute on.")]
Out = Annotated[str, typer.Option(help="The file to write.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite what is there.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
WriteConfig = Annotated[
    bool, typer.Option("--write-config", help="Also print these options, for --config to read.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show where in the code a mistake arose.")]


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"zigp {version('zigp')}")
        raise typer.Exit


@app.callback()
def zigp(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Say which zigp this is."),
    ] = False,
) -> None:
    """Zero-inflated Gaussian processes: regression where most observations are exactly zero."""


@app.command()
def fit(
    context: typer.Context,
    data: Annotated[str, typer.Argument(help=_ANYWHERE)],
    target: Target,
    out: Out,
    space: Space = None,
    time: Time = None,
    inputs: Inputs = None,
    category: Category = None,
    gate_inputs: GateInputs = None,
    exposure: Exposure = None,
    model: Model = ModelName.zigp,
    likelihood: Noise = Likelihood.auto,
    kernel: Kernels = Kernel.matern32,
    inducing: Inducing = None,
    steps: Steps = None,
    max_seconds: Seconds = None,
    batch_size: BatchSize = None,
    method: How = Method.auto,
    stream: Annotated[
        bool | None,
        typer.Option(
            help="Read Parquet or Zarr block by block; if not said, where it is large or far."
        ),
    ] = None,
    passes: Annotated[
        float, typer.Option(help="How often a stream is gone through.", callback=positive)
    ] = 1.0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from where this fit was interrupted.")
    ] = False,
    checkpoint_seconds: Annotated[
        float,
        typer.Option(help="Keep where training stands every so many seconds.", callback=positive),
    ] = 300.0,
    checkpoint_steps: Annotated[
        int | None, typer.Option(help="Or every so many steps, if given.", min=1)
    ] = None,
    divide: Annotated[
        Divided, typer.Option(help="What all devices of this machine divide among them.")
    ] = Divided.one,
    distributed: Annotated[
        bool, typer.Option("--distributed", help="One of several processes; a launcher says which.")
    ] = False,
    coordinator: Annotated[
        str | None, typer.Option(help="Or say so: address and port of the first, such as a:1234.")
    ] = None,
    num_processes: Annotated[int | None, typer.Option(help="How many there are.", min=1)] = None,
    process_id: Annotated[
        int | None, typer.Option(help="Which one this is, from 0.", min=0)
    ] = None,
    seed: Seed = 0,
    dtype: Precision = Dtype.float64,
    device: On = Device.auto,
    from_: Annotated[
        Path | None, typer.Option("--from", help="Go on from this model, with its settings.")
    ] = None,
    config: Config = None,
    write_config: WriteConfig = False,
    force: Force = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Learn from a table or a lattice, and keep what was learned in a file.

    Example: zigp fit rain.csv --target rain_mm --space lat,lon --time hour --out rain.zigp
    """
    from zigp.cli.data import Columns
    from zigp.cli.fitting import Settings, fit_file, make_model
    from zigp.cli.models import using
    from zigp.cli.processes import joined

    if write_config:
        typer.echo(as_toml(context))
    with using(from_), joined(distributed, coordinator, num_processes, process_id) as process:
        use_device(device)
        columns = Columns.of(context.params)
        settings = Settings.of(context.params, verbose=not quiet and process.first)
        made = make_model(model.value, columns, settings)
        for line in fit_file(
            place(data), columns, made, out, start=from_, given=given(context), force=force,
            command=command_of(context), stream=stream, passes=passes, process=process,
        ):  # fmt: skip
            if process.first:
                typer.echo(plain(line), err=True)


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="A file that `zigp fit` wrote.")],
    data: Annotated[str, typer.Argument(help=f"Where to predict. {_ANYWHERE}")],
    out: Annotated[
        str, typer.Option(help="The file to write (.csv, .csv.gz, .parquet; .nc, .zarr), or -.")
    ] = "-",
    level: Annotated[
        float, typer.Option(help="Of the interval from lower to upper.", callback=share)
    ] = 0.9,
    below: Annotated[
        float | None,
        typer.Option(help="Also the probability of an amount up to this.", callback=finite),
    ] = None,
    prefix: Annotated[str, typer.Option(help="Put before the names of what is predicted.")] = "",
    chunk_rows: Annotated[int, typer.Option(help="Rows held in memory at once.", min=1)] = 50_000,
    device: On = Device.auto,
    force: Force = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Predict at the rows of a table, or in the cells of a lattice.

    To the columns of a table come mean, sd, prob_on where there is one, lower and upper. Columns
    that the model does not look at stay as they are.

    Example: zigp predict rain.zigp new.csv --out predicted.csv
    """
    from zigp.cli.models import using
    from zigp.cli.predicting import Asked, predict_file

    use_device(device)
    asked = Asked(level, below, prefix)
    with using(model):
        count = predict_file(
            model, place(data), out, asked, rows=chunk_rows, force=force, quiet=quiet
        )
    if not quiet:
        typer.echo(f"Predicted {count:,} places.", err=True)


@app.command()
def evaluate(
    context: typer.Context,
    data: Annotated[Path, typer.Argument(help=_DATA)],
    target: Target,
    space: Space = None,
    time: Time = None,
    inputs: Inputs = None,
    category: Category = None,
    gate_inputs: GateInputs = None,
    exposure: Exposure = None,
    models: Annotated[str, typer.Option(help="Any of zero,gp,hurdle,zigp.")] = "zero,gp,zigp",
    cv: Annotated[int, typer.Option(help="How many folds.", min=2)] = 5,
    cv_random: Annotated[
        bool, typer.Option("--cv-random", help="Random rows, not stretches of time or regions.")
    ] = False,
    resolution: Annotated[
        float | None,
        typer.Option(help="The step that the target is recorded in.", callback=positive),
    ] = None,
    likelihood: Noise = Likelihood.auto,
    kernel: Kernels = Kernel.matern32,
    inducing: Inducing = None,
    steps: Steps = None,
    max_seconds: Seconds = None,
    batch_size: BatchSize = None,
    seed: Seed = 0,
    dtype: Precision = Dtype.float64,
    device: On = Device.auto,
    as_json: Annotated[bool, typer.Option("--json", help="Every fold's scores as JSON.")] = False,
    config: Config = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Compare models by what they predict for rows they have not seen.

    Folds are stretches of time where --time is named, regions where only --space is, and random
    rows otherwise.

    Example: zigp evaluate rain.csv --target rain_mm --space lat,lon --time hour --cv 5
    """
    from zigp.cli.data import Columns
    from zigp.cli.evaluating import evaluate_file
    from zigp.cli.fitting import Settings

    use_device(device)
    columns, settings = Columns.of(context.params), Settings.of(context.params, verbose=False)
    evaluate_file(
        data, columns, listed(models), settings,
        folds=cv, at_random=cv_random, resolution=resolution, as_json=as_json, quiet=quiet,
    )  # fmt: skip


@app.command()
def simulate(
    out: Annotated[str, typer.Option(help="The file to write, or -.")] = "-",
    model: Annotated[
        Path | None, typer.Option(help="Draw from this model, at the rows of --data.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="A table of where to draw.")] = None,
    draws: Annotated[
        int, typer.Option(help="How many joint draws from a model.", min=1, max=100_000)
    ] = 10,
    stations: Annotated[int, typer.Option(help="Of the simulated rain.", min=1)] = 40,
    hours: Annotated[int, typer.Option(help="Of the simulated rain.", min=1)] = 240,
    seed: Annotated[int, typer.Option(help="Seed of everything random.", min=0)] = 2018,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Make up data: rain at stations to try things on, or draws from a fitted model.

    Example: zigp simulate --out rain.csv
    """
    from zigp.cli.models import using
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


@app.command()
def info(
    model: Annotated[Path, typer.Argument(help="A file that `zigp fit` wrote.")],
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    debug: Debug = False,
) -> None:
    """Say what a model file holds: columns, training, noise, and what looks wrong.

    Example: zigp info rain.zigp
    """
    from zigp.cli.describing import described
    from zigp.cli.models import using

    with using(model):
        told = described(model, as_json=as_json)
    typer.echo(told)


@app.command()
def report(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help="A file that `zigp fit` wrote.")],
    data: Annotated[Path, typer.Option(help=f"What it was fitted to. {_DATA}")],
    out: Annotated[str, typer.Option(help="The page to write (.html).")] = "report.html",
    target: Annotated[
        str | None, typer.Option(help="The column that was explained, if the model does not know.")
    ] = None,
    space: Annotated[
        str | None, typer.Option(help="Two columns for the maps, east,north or lat,lon.")
    ] = None,
    time: Annotated[str | None, typer.Option(help="The column for the maps' slider.")] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Judge by rows that the model knows: nothing is fitted again."
        ),
    ] = False,
    device: On = Device.auto,
    force: Force = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write one page about a model and its data, to open in any browser, offline.

    To judge predictions the model and plain regression are fitted again without a fifth of the
    rows, which takes about twice as long as `zigp fit` did; --quick leaves that out.

    Example: zigp report rain.zigp --data rain.csv --out report.html
    """
    from zigp.cli.models import using
    from zigp.cli.reporting import report_file

    use_device(device)

    def say(line: str) -> None:
        if not quiet:
            typer.echo(plain(line), err=True)

    with using(model):
        report_file(
            model, data, out, target=target, space=listed(space), time=time, quick=quick,
            verbose=not quiet, force=force, command=command_of(context), say=say,
        )  # fmt: skip
    say(f"Report: {out}")


@app.command()
def demo(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="Folder for figure and report.")] = Path("zigp-demo"),
    seed: Annotated[int, typer.Option(help="Seed of the simulated rain.", min=0)] = 2018,
    debug: Debug = False,
) -> None:
    """Fit simulated rain, score against plain GP regression, draw, and write a report.

    Example: zigp demo --out rain-demo
    """
    from zigp.cli.demo import INPUTS, run_demo
    from zigp.cli.printing import print_scores
    from zigp.data.tables import beside, check_writable
    from zigp.report import Roles, write_report

    figure = out / "rain.png"
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"Cannot write {figure}: {error.strerror}. Choose another --out."
        ) from None
    check_writable(figure, force=True, endings=())  # better now than after the fit
    result = run_demo(seed)
    rain, stations = result.rain, len(result.rain[["lat", "lon"]].drop_duplicates())
    typer.echo(
        f"{len(rain)} hourly readings at {stations} stations, {(rain['rain_mm'] == 0).mean():.1%} "
        f"of them zero; scores on the {result.held_out.sum()} that were held out:"
    )
    print_scores(result.scores)
    with beside(figure) as part:
        result.figure.savefig(part, dpi=130, format="png")
    typer.echo(f"Figure: {figure}")
    page = write_report(
        result.model, rain[INPUTS], rain["rain_mm"], out / "report.html",
        roles=Roles("rain_mm", ("lon", "lat"), "hour", "mm"),
        trial=result.trial, command=command_of(context),
    )  # fmt: skip
    typer.echo(f"Report: {page} (open it in a browser)")


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
    debug: Debug = False,
) -> None:
    """Run the paper's experiments from raw data to tables and figures.

    Example: zigp reproduce toy --data-dir data --out toy-results
    """
    from zigp.experiments import EXPERIMENTS
    from zigp.experiments import reproduce as run

    if force and resume:
        raise ValueError(
            "--force runs all again and --resume keeps what is there: give one of them."
        )
    names = list(EXPERIMENTS) if experiment == "all" else [""]
    if not (force or resume) and any((out / name / "results.json").exists() for name in names):
        raise ValueError(
            f"{out} already holds results. Choose another --out, or add --resume or --force."
        )
    folders = run(experiment.value, data_dir, out, fast=fast, page=page, resume=resume)
    for path in sorted(p for folder in folders for p in folder.iterdir() if p.is_file()):
        typer.echo(path)
    typer.echo(out / "results.md")
