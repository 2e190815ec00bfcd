"""`zigp fit`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zigp.cli.data import Columns, Data, read_data
from zigp.cli.options import listed, sizes
from zigp.cli.processes import ALONE, Process
from zigp.cli.streams import open_if_large
from zigp.data.grids import is_lattice
from zigp.data.tables import FileError, check_writable
from zigp.training import InterruptedFitError, hold_checkpoints

__all__ = ["Settings", "fit_file", "in_groups", "make_model"]

_MODELS = ("ZeroInflatedGPRegressor", "HurdleGPRegressor", "SparseGPRegressor")
_LOOKED_AT = 1000  # rows of a stream, to tell its columns by
# Options, and the settings of a model that they stand for, which a model that goes on keeps.
_KEPT = {
    "kernel": "kernel",
    "inducing": "n_inducing",
    "dtype": "dtype",
    "likelihood": "likelihood",
    "gate_inputs": "gate_inputs",
    "exposure": "exposure",
}


@dataclass(frozen=True)
class Settings:
    """How to fit, as options say it."""

    likelihood: str
    gate_inputs: list[str]
    shared: dict[str, Any]  # by every model

    @classmethod
    def of(cls, options: Mapping[str, Any], *, verbose: bool) -> Settings:
        shared = {
            "kernel": str(options["kernel"]),
            "n_inducing": sizes(options["inducing"]),
            "steps": options["steps"],
            "max_seconds": options["max_seconds"],
            "batch_size": options["batch_size"],
            "method": str(options.get("method", "auto")),
            "devices": str(options.get("divide", "one")),
            "resume": bool(options.get("resume", False)),
            "checkpoint_seconds": float(options.get("checkpoint_seconds", 300.0)),
            "random_state": options["seed"],
            "dtype": str(options["dtype"]),
            "verbose": verbose,
        }
        return cls(str(options["likelihood"]), listed(options["gate_inputs"]), shared)


def make_model(name: str, columns: Columns, settings: Settings) -> Any:
    """The estimator that options describe; --likelihood is of zigp alone."""
    from zigp import HurdleGPRegressor, SparseGPRegressor, ZeroInflatedGPRegressor

    shared = settings.shared | {"latlon": columns.latlon}
    gate: dict[str, Any] = {"gate_inputs": settings.gate_inputs} if settings.gate_inputs else {}
    if name != "zigp" and (columns.exposure or settings.likelihood != "auto"):
        raise ValueError("--exposure and --likelihood belong to --model zigp.")
    if name == "gp":
        if gate:
            raise ValueError("--gate-inputs belongs to --model zigp or hurdle.")
        return SparseGPRegressor(**shared)
    if name == "hurdle":
        return HurdleGPRegressor(combine="expectation", **gate, **shared)
    return ZeroInflatedGPRegressor(
        likelihood=settings.likelihood, exposure=columns.exposure, **gate, **shared
    )


def in_groups(model: Any, columns: Columns, data: Data) -> Any:
    """The model with the groups of columns that a lattice has, or that --inducing names."""
    given = model.n_inducing
    if data.groups:
        if isinstance(given, dict):
            model.set_params(n_inducing=_by_dimension(given, columns, data.groups))
        # Along axes of their own latitude and longitude have no common distance.
        places = columns.latlon or ["nowhere"]
        together = any(set(places) <= set(group) for group in data.groups.values())
        return model.set_params(column_groups=data.groups, latlon=places if together else None)
    if isinstance(given, dict):
        named = {name: columns.of_group(name) for name in given}
        have = [column for group in named.values() for column in group]
        _check_sizes(have, [name for name in data.X.columns if name != columns.exposure])
        model.set_params(column_groups=named)
    return model


def _by_dimension(
    sizes: dict[str, int], columns: Columns, groups: dict[str, list[str]]
) -> dict[str, int]:
    """Numbers of inducing points by dimension, also where what runs along it is named."""
    dims = {frozenset(group): dim for dim, group in groups.items()}
    named = {dims.get(frozenset(columns.of_group(name)), name): n for name, n in sizes.items()}
    _check_sizes(named, groups)
    return named


def _check_sizes(named: Collection[str], wanted: Collection[str]) -> None:
    for name in named:
        if name not in wanted:
            raise ValueError(f"--inducing names {name!r}, but inputs are {', '.join(wanted)}.")
    if missing := [name for name in wanted if name not in named]:
        raise ValueError(
            f"--inducing has no number for {missing[0]!r}: give one for every input, such as "
            f"{','.join(f'{name}=20' for name in wanted)}, or one number for all."
        )


def fit_file(
    path: Path | str,
    columns: Columns,
    model: Any,
    out: str,
    *,
    start: Path | None,
    given: Collection[str],
    force: bool,
    command: Sequence[str],
    stream: bool | None = None,
    passes: float = 1.0,
    process: Process = ALONE,
) -> Iterator[str]:
    """Fit a model to a file and save it; what happened comes line by line.

    With a file to start from, its model goes on; what was given that it cannot heed is an error.
    """
    if isinstance(path, Path) and Path(out).resolve() == path.resolve():
        raise FileError(f"--out {out} is the data: choose another name for the model.")
    check_writable(out, force or model.resume, endings=())
    left = _use_checkpoints(model, out, force)
    if start is not None:
        model = _going_on(start, model, columns, given)
    streamed = _opened(path, columns, model, start, stream, process)
    if streamed is not None and not hasattr(model, "fit_stream"):
        raise FileError(
            f"{path} would be read block by block, and a hurdle looks at all of its rows at once: "
            "add --no-stream if they fit in memory, or take --model zigp or gp."
        )
    if streamed is None:
        if process.of > 1:
            raise ValueError("Several processes divide a stream among them: add --stream.")
        if passes != 1.0:
            raise ValueError("--passes counts how often a stream is gone through: add --stream.")
        data = read_data(path, columns, like=None if start is None else model)
    else:
        if {"passes", "steps"} <= set(given):
            raise ValueError("--passes and --steps both say how long to train: give one of them.")
        if "passes" in given:
            model.set_params(steps=None)  # those of the model that goes on
        X, y = streamed.sample(_LOOKED_AT, 0)
        data = Data(X, y, groups=streamed.groups)
        yield f"{path} has {streamed.rows:,} rows and is read block by block."
    yield from data.notes
    if not is_lattice(data.X) and len(data.X) < 2:
        raise FileError(f"{path} has a single row with a {columns.target}: too few to learn from.")
    if start is None:
        model = in_groups(model, columns, data)
    elif not is_lattice(data.X):
        data = _in_its_order(start, model, data)
    with hold_checkpoints(model.checkpoint, replace=left):
        stopped = _fitted(model, data if streamed is None else None, streamed, passes)
        if streamed is not None or not is_lattice(data.X):
            model.units_ = {columns.target: ""}  # as a lattice would have said
        model.made_by_ = {  # for a report to tell
            "command": list(command),
            "space": list(columns.space),
            "time": columns.time,
        }
        told = []
        if process.first and model.__sklearn_is_fitted__():
            _save(model, out)  # before it is told: perhaps nobody is left to listen
            told = [*_summary(model), f"Saved {out}."]
        if stopped is not None:
            yield from [*told, _how_to_go_on(model, stopped)]
            raise stopped.__cause__ or stopped
    yield from told


def _opened(
    path: Path | str,
    columns: Columns,
    model: Any,
    start: Path | None,
    asked: bool | None,
    process: Process,
) -> Any:
    """A stream of the file, if it is to be one; for a model that goes on, of its own columns."""
    names = [] if start is None else list(getattr(model, "feature_names_in_", ()))
    if start is None or not names:
        return open_if_large(path, columns, asked, process)
    levels = [] if model.table_ is None else [names[c] for c in model.table_.categories]
    own = Columns(columns.target, inputs=names, categories=levels)
    streamed = open_if_large(path, own, asked, process)
    if streamed is not None and columns.named:
        _refuse_others(start, names, columns.named)
    return streamed


def _fitted(
    model: Any, data: Data | None, streamed: Any, passes: float
) -> InterruptedFitError | None:
    """Fit, and return what stopped it if somebody did."""
    try:
        if data is None:
            model.fit_stream(streamed, passes)
        else:
            model.fit(data.X, data.y)
    except InterruptedFitError as stop:
        return stop
    return None


def _save(model: Any, out: str) -> None:
    try:
        model.save(out)
    except OSError as error:
        kept = _checkpoints_in(Path(model.checkpoint))
        more = "type the same command with --resume: what was learned is kept" if kept else "fit it"
        raise FileError(
            f"Cannot save {out}: {error.strerror or error}. Make room there, then {more}."
        ) from error


def _how_to_go_on(model: Any, stopped: InterruptedFitError) -> str:
    some = model.__sklearn_is_fitted__()
    have = "That is what was learned so far" if some else "There is no model yet"
    if not _checkpoints_in(Path(model.checkpoint)):
        return f"{have} ({stopped.reason})."
    return f"{have} ({stopped.reason}). --resume goes on from there."


def _checkpoints_in(folder: Path) -> list[Path]:
    return list(folder.rglob("step-*.checkpoint"))


def _use_checkpoints(model: Any, out: str, force: bool) -> bool:
    """Write checkpoints beside the model, and return whether they replace those of earlier fits."""
    folder = Path(f"{out}.checkpoint")
    left = _checkpoints_in(folder)
    if left and not model.resume and not force:
        raise FileError(
            f"{folder} is left of a fit that was interrupted: --resume goes on from it, "
            "--force starts anew."
        )
    if model.resume and not left:
        raise FileError(
            f"There is nothing to resume: no checkpoint in {folder} is left of an interrupted fit. "
            "Leave --resume out."
        )
    model.set_params(checkpoint=str(folder))
    return bool(left) and not model.resume


def _going_on(path: Path, wanted: Any, columns: Columns, given: Collection[str]) -> Any:
    """The model of a file, to be trained on for the steps that were asked for."""
    from zigp import load

    model = load(path)
    if type(model).__name__ not in _MODELS:
        raise FileError(f"{path} holds a {type(model).__name__}: train it on in Python.")
    other = "" if type(model) is type(wanted) or "model" not in given else "model"
    for option, setting in _KEPT.items():
        have = [getattr(model, name, None) for name in (setting, f"{setting}_")]
        if option in given and getattr(wanted, setting, None) not in have:
            other = option
    if columns.target not in (getattr(model, "units_", None) or {columns.target}):
        other = "target"
    if other:
        raise FileError(
            f"--{other.replace('_', '-')} is not what {path} was fitted with, and a model goes on "
            "with its own settings: leave it out, or fit anew without --from."
        )
    settings = ["steps", "max_seconds", "batch_size", "verbose"]
    settings += ["checkpoint", "resume", "checkpoint_seconds"]
    # What has a default stays as it was for the model, unless it was typed.
    typed = {"method": "method", "divide": "devices", "seed": "random_state"}
    settings += [setting for option, setting in typed.items() if option in given]
    settings += ["random_state"] * (model.random_state is None)  # checkpoints need a number
    new = {name: v for name in settings if (v := getattr(wanted, name)) is not None}
    return model.set_params(warm_start=True, **new)


def _in_its_order(path: Path, model: Any, data: Data) -> Data:
    """The same columns as a model was fitted with."""
    names, have = list(getattr(model, "feature_names_in_", ())), list(data.X.columns)
    _refuse_others(path, names, have)
    return Data(data.X[names], data.y)


def _refuse_others(path: Path, names: Sequence[str], have: Sequence[str]) -> None:
    if set(have) != set(names):
        raise FileError(f"{path} was fitted with {', '.join(names)}, not with {', '.join(have)}.")


def _summary(model: Any) -> Iterator[str]:
    """What a user should know of a fit."""
    one = getattr(model, "regressor_", model)
    if getattr(model, "likelihood", None) == "auto":
        yield f"likelihood auto: the values suggest {model.likelihood_!r}."
    if one.on_lattice_:
        groups = zip(one.layout_.names, one.layout_.groups, strict=True)
        sizes = " × ".join(name for name, _ in groups)
        yield f"The rows fill a lattice, {sizes}, and were fitted as one."
    elif len(one.layout_.groups) > 1:
        yield "The rows do not fill a lattice and were fitted one by one."
    parts = [model] if one is model else [model.classifier_, model.regressor_]
    for part in parts:
        bound = float(np.asarray(part.bounds_)[-1])
        yield f"{part.n_iter_} steps in {part.seconds_:.0f} s, bound {bound:,.1f}: {part.stopped_}."
    for said in model.sanity():
        yield f"Look at this: {said}"
