"""`zigp fit`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from zigp.cli.data import Columns, Data, read_data
from zigp.files import FileError, check_writable
from zigp.lattices import is_lattice

__all__ = ["fit_file", "in_groups", "make_model"]


def make_model(
    name: str,
    columns: Columns,
    likelihood: str,
    gate_inputs: Sequence[str],
    settings: dict[str, Any],
) -> Any:
    """The estimator that options describe; --likelihood is of zigp alone."""
    from zigp import HurdleGPRegressor, SparseGPRegressor, ZeroInflatedGPRegressor

    settings = settings | {"latlon": columns.latlon}
    gate: dict[str, Any] = {"gate_inputs": list(gate_inputs)} if gate_inputs else {}
    if name != "zigp" and (columns.exposure or (likelihood != "auto")):
        raise ValueError("--exposure and --likelihood belong to --model zigp.")
    if name == "gp":
        if gate:
            raise ValueError("--gate-inputs belongs to --model zigp or hurdle.")
        return SparseGPRegressor(**settings)
    if name == "hurdle":
        return HurdleGPRegressor(combine="expectation", **gate, **settings)
    return ZeroInflatedGPRegressor(
        likelihood=likelihood, exposure=columns.exposure, **gate, **settings
    )


def in_groups(model: Any, columns: Columns, data: Data) -> Any:
    """The model with the groups of columns that a lattice has, or that options name."""
    if is_lattice(data.X) or data.groups:
        # Along axes of their own latitude and longitude have no common distance.
        return model.set_params(column_groups=data.groups, latlon=None)
    if isinstance(model.n_inducing, dict):
        groups = {name: columns.of_group(name) for name in model.n_inducing}
        model.set_params(column_groups=groups)
    return model


def fit_file(
    path: Path, columns: Columns, model: Any, out: Path, *, start: Path | None, force: bool
) -> Iterator[str]:
    """Fit a model to a file and save it; what happened comes line by line."""
    if out.resolve() == path.resolve():
        raise FileError(f"--out {out} is the data: choose another name for the model.")
    check_writable(out, force, endings=())
    data = read_data(path, columns)
    yield from data.notes
    if start is not None:
        model = _going_on(start, model, data)
    if len(data.X) < 2 and not is_lattice(data.X):
        raise FileError(f"{path} has a single row with a {columns.target}: too few to learn from.")
    in_groups(model, columns, data).fit(data.X, data.y)
    yield from _summary(model)
    model.save(out)
    yield f"Saved {out}."


def _going_on(path: Path, wanted: Any, data: Data) -> Any:
    """The model of a file, to be trained on for the steps that were asked for."""
    from zigp import load

    model = load(path)
    names = list(getattr(model, "feature_names_in_", ()))
    have = list(data.X.columns) if hasattr(data.X, "columns") else names
    if set(have) != set(names):
        raise FileError(
            f"{path} was fitted with {', '.join(names)}, not with {', '.join(map(str, have))}."
        )
    for setting in ("steps", "max_seconds", "batch_size", "verbose"):
        if (value := getattr(wanted, setting)) is not None:
            model.set_params(**{setting: value})
    return model.set_params(warm_start=True)


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
