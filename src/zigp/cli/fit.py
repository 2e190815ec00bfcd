"""`zigp fit`."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import jax
import typer

from zigp import load
from zigp.cli.data import (
    MODELS,
    ColumnRoles,
    Data,
    grouped,
    new_estimator,
    open_if_large,
    read_data,
)
from zigp.cli.messages import tell, using
from zigp.cli.options import (
    ANY_DATA,
    Category,
    Config,
    Debug,
    Force,
    Inputs,
    Quiet,
    Space,
    Target,
    Time,
    as_toml,
    default_of,
    given,
    options_of,
    positive,
    typed_words,
    with_settings,
)
from zigp.cli.processes import joined
from zigp.data.grids import is_lattice
from zigp.data.streams import Stream
from zigp.data.tables import FileError, check_writable
from zigp.training import InterruptedFitError, hold_checkpoints

_SCOPES = ("model", "training", "run")
_LOOKED_AT = 1000  # first rows of a stream, which show the types of its columns


@with_settings(MODELS.values(), *_SCOPES)
def fit(
    context: typer.Context,
    data: Annotated[str, typer.Argument(help=ANY_DATA)],
    target: Target,
    out: Annotated[str, typer.Option(help="Model file to write.")],
    settings: Mapping[str, Any],
    space: Space = None,
    time: Time = None,
    inputs: Inputs = None,
    category: Category = None,
    model: Annotated[
        Literal["zigp", "hurdle", "gp"],
        typer.Option(help="zigp; hurdle: zero or not, then the amount; gp: plain regression."),
    ] = "zigp",
    stream: Annotated[
        bool | None,
        typer.Option(help="Read Parquet or Zarr block by block (default: if large or remote)."),
    ] = None,
    passes: Annotated[
        float, typer.Option(help="Number of passes over the stream.", callback=positive)
    ] = 1.0,
    distributed: Annotated[
        bool, typer.Option("--distributed", help="Run as one worker of a distributed job.")
    ] = False,
    coordinator: Annotated[str | None, typer.Option(help="Address of worker 0: a:1234.")] = None,
    num_processes: Annotated[int | None, typer.Option(help="Number of workers.", min=1)] = None,
    process_id: Annotated[int | None, typer.Option(help="Number of this worker.", min=0)] = None,
    from_: Annotated[Path | None, typer.Option("--from", help="Model to train further.")] = None,
    config: Config = None,
    write_config: Annotated[
        bool, typer.Option("--write-config", help="Also print all options, for --config to read.")
    ] = False,
    force: Force = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Fit a model to a table or a lattice.

    Example: zigp fit rain.csv --target rain_mm --space lat,lon --time hour --out rain.zigp
    """
    if write_config:
        typer.echo(as_toml(context))
    with using(from_), joined(distributed, coordinator, num_processes, process_id):
        first = jax.process_index() == 0
        columns, typed = ColumnRoles.of(context.params), given(context)
        replaced = _check_output(out, data, settings["resume"], force)
        _refuse_settings_of_others(model, settings)
        estimator = new_estimator(model, columns, settings)
        if from_ is not None:
            estimator = _continued(from_, model, columns, settings, typed)
        estimator.set_params(checkpoint=f"{out}.checkpoint", verbose=first and not quiet)
        rows, streamed = _training_data(data, columns, estimator, from_, stream)
        _check_passes(estimator, passes, typed, streamed)
        tell(*rows.notes, quiet=not first)
        if from_ is None:
            grouped(estimator, columns, rows)
        with hold_checkpoints(estimator.checkpoint, replace=replaced):
            stop = _train(estimator, rows, streamed, passes)
            estimator.set_origin(target, command=typed_words(), space=columns.space, time=time)
            lines = _finish(estimator, out, stop) if first else []
            if stop is not None:
                tell(*lines)
                raise stop.__cause__ or stop
        tell(*lines)


# ---------------------------------------------------------------------------------------------
# Before training


def _check_output(out: str, source: str, resume: bool, force: bool) -> bool:
    """Check that the model can be written, and return whether checkpoints are replaced."""
    if Path(out).resolve() == Path(source).resolve():
        raise FileError(f"--out {out} is the data: choose another name for the model.")
    check_writable(out, force or resume, endings=())
    folder = Path(f"{out}.checkpoint")
    left = _checkpoints_in(folder)
    if left and not (resume or force):
        raise FileError(
            f"{folder} is left of a fit that was interrupted: --resume continues it, --force "
            "starts anew."
        )
    if resume and not left:
        raise FileError(
            f"There is nothing to resume: no checkpoint in {folder} is left of an interrupted fit. "
            "Leave --resume out."
        )
    return bool(left) and not resume


def _checkpoints_in(folder: Path) -> list[Path]:
    return list(folder.rglob("step-*.checkpoint"))


def _refuse_settings_of_others(model: str, settings: Mapping[str, Any]) -> None:
    for option, setting in options_of(MODELS.values(), *_SCOPES).items():
        owners = [name for name, cls in MODELS.items() if setting.name in cls().get_params()]
        if model not in owners and settings[setting.name] != default_of(setting):
            raise ValueError(f"{_flag(option)} belongs to --model {' or '.join(owners)}.")


def _continued(
    start: Path,
    model: str,
    columns: ColumnRoles,
    settings: Mapping[str, Any],
    typed: Collection[str],
) -> Any:
    """Return the estimator of a file with the settings of training and of the run that are given.

    Settings of the model are its own: others are an error.
    """
    estimator = load(start)
    if type(estimator) not in MODELS.values():
        raise FileError(f"{start} holds a {type(estimator).__name__}: train it further in Python.")
    changed = [
        option
        for option, setting in options_of(MODELS.values(), "model").items()
        if option in typed
        and settings[setting.name]
        not in [getattr(estimator, name, None) for name in (setting.name, f"{setting.name}_")]
    ]
    changed += ["model"] * ("model" in typed and type(estimator) is not MODELS[model])
    units = getattr(estimator, "units_", None) or {columns.target: ""}
    changed += ["target"] * (columns.target not in units)
    if changed:
        raise FileError(
            f"{_flag(changed[0])} is not what {start} was fitted with, and a model that is trained "
            "further keeps its own settings: leave it out, or fit anew without --from."
        )
    names = [
        setting.name
        for option, setting in options_of(MODELS.values(), "training", "run").items()
        if option in typed or setting.metadata["scope"] == "run"
    ]
    names += ["random_state"] * (estimator.random_state is None)  # checkpoints need a number
    return estimator.set_params(warm_start=True, **{name: settings[name] for name in names})


def _flag(option: str) -> str:
    return f"--{option.replace('_', '-')}"


def _training_data(
    source: str,
    columns: ColumnRoles,
    estimator: Any,
    start: Path | None,
    stream: bool | None,
) -> tuple[Data, Stream | None]:
    """Read a file, or open it as a stream and read its first rows.

    A model that is trained further takes the columns that it was fitted with.
    """
    table = getattr(estimator, "table_", None)
    names = [] if table is None else list(table.columns)
    wanted = columns
    if table is not None:
        levels = [names[c] for c in table.categories]
        wanted = ColumnRoles(columns.target, inputs=names, categories=levels)
    streamed = open_if_large(source, wanted, stream)
    if streamed is not None:
        if not hasattr(estimator, "fit_stream"):
            raise FileError(
                f"{source} would be read block by block, and a hurdle looks at all of its rows at "
                "once: add --no-stream if they fit in memory, or take --model zigp or gp."
            )
        note = f"{source} has {streamed.rows:,} rows and is read block by block."
        rows = Data(*streamed.sample(_LOOKED_AT, 0), (note,), streamed.groups)
    elif jax.process_count() > 1:
        raise ValueError("Several workers divide a stream among them: add --stream.")
    else:
        rows = read_data(source, columns, like=None if start is None else estimator)
    if is_lattice(rows.X):
        return rows, streamed
    if len(rows.X) < 2:
        raise FileError(
            f"{source} has a single row with a {columns.target}: too few to learn from."
        )
    if names and columns.named and set(columns.named) != set(names):
        have = ", ".join(columns.named)
        raise FileError(f"{start} was fitted with {', '.join(names)}, not with {have}.")
    return rows, streamed


def _check_passes(
    estimator: Any, passes: float, typed: Collection[str], streamed: Stream | None
) -> None:
    """Let --passes say how long to train on a stream, unless --steps does."""
    if streamed is None:
        if passes != 1.0:
            raise ValueError("--passes is the number of passes over a stream: add --stream.")
    elif {"passes", "steps"} <= set(typed):
        raise ValueError("--passes and --steps both say how long to train: give one of them.")
    elif "passes" in typed:
        estimator.set_params(steps=None)  # those of a model that is trained further


# ---------------------------------------------------------------------------------------------
# Training, and after it


def _train(
    estimator: Any, rows: Data, streamed: Stream | None, passes: float
) -> InterruptedFitError | None:
    """Fit, and return the interruption if there was one."""
    try:
        if streamed is None:
            estimator.fit(rows.X, rows.y)
        else:
            estimator.fit_stream(streamed, passes)
    except InterruptedFitError as stop:
        return stop
    return None


def _finish(estimator: Any, out: str, stop: InterruptedFitError | None) -> list[str]:
    """Save the model if there is one, and only then return what to say: the reader may be gone."""
    fitted, lines = estimator.__sklearn_is_fitted__(), []
    kept = bool(_checkpoints_in(Path(estimator.checkpoint)))
    if fitted:
        try:
            estimator.save(out)
        except OSError as error:
            again = "type the same command with --resume: what was learned is kept"
            raise FileError(
                f"Cannot save {out}: {error.strerror or error}. Make room there, then "
                f"{again if kept else 'fit it'}."
            ) from error
        lines = [*_summary(estimator), f"Saved {out}."]
    if stop is not None:
        have = "That is what was learned so far" if fitted else "There is no model yet"
        lines.append(f"{have} ({stop.reason}).{' --resume goes on from there.' * kept}")
    return lines


def _summary(estimator: Any) -> Iterator[str]:
    """Yield what a user should know of a fit."""
    parts = list(estimator.parts_.values())
    if getattr(estimator, "likelihood", None) == "auto":
        yield f"likelihood auto: the values suggest {estimator.likelihood_!r}."
    if parts[-1].on_lattice_:
        axes = " × ".join(parts[-1].layout_.names)
        yield f"The rows fill a lattice, {axes}, and were fitted as one."
    elif len(parts[-1].layout_.groups) > 1:
        yield "The rows do not fill a lattice and were fitted one by one."
    for part in parts:
        seconds, bound = part.seconds_, float(part.bounds_[-1])
        yield f"{part.n_iter_} steps in {seconds:.0f} s, bound {bound:,.1f}: {part.stopped_}."
    for finding in estimator.sanity():
        yield f"Look at this: {finding}"
