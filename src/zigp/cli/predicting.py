"""`zigp predict`, and draws from a model."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import typer

from zigp.cli.data import as_fitted, as_written
from zigp.cli.printing import plain
from zigp.data.tables import (
    LATTICE_KINDS,
    LATTICES,
    TABLES,
    FileError,
    check_writable,
    locate,
    read,
    read_parts,
    write_dataset,
    writing,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Asked", "draw_to_file", "predict_file"]

_CELLS = 1_000_000  # of a lattice, in memory at once


class Asked(NamedTuple):
    """What is to be predicted beside mean and standard deviation."""

    level: float = 0.9
    below: float | None = None
    prefix: str = ""


def predict_file(
    model: Path, data: Path | str, out: str, asked: Asked, *, rows: int, force: bool, quiet: bool
) -> int:
    """Predictions for a file into another, a part at a time; how many there were."""
    from zigp import load

    fitted = load(model)
    if locate(data).kind in LATTICE_KINDS:
        return _predict_lattice(fitted, data, out, asked, force)
    check_writable(out, force, TABLES)
    count = 0
    with writing(out, force) as file:
        for part in read_parts(data, rows):
            X = as_fitted(data, part, fitted)
            new = _predicted(fitted, X, asked)
            _tell_of_nonsense(new)
            file.add(_beside(data, as_written(part, X, out), new))
            count += len(part)
            if not quiet and count % rows == 0:
                typer.echo(f"{count:,} rows", err=True)
    return count


def _predicted(model: Any, X: pd.DataFrame, asked: Asked) -> dict[str, np.ndarray]:
    """New columns; of several outputs each has its own."""
    if hasattr(model, "classes_"):
        if asked.below is not None:
            raise ValueError("The model is a classifier, which has no amounts: leave --below out.")
        found = {"class": model.predict(X), "prob_on": model.prob_on(X)}
    else:
        distribution = model.predict_distribution(X)
        found = {"mean": distribution.point, "sd": distribution.sd}
        if distribution.prob_on is not None:
            found["prob_on"] = distribution.prob_on
        tail = 0.5 * (1.0 - asked.level)
        found |= {"lower": distribution.quantile(tail), "upper": distribution.quantile(1.0 - tail)}
        if asked.below is not None:
            found[f"prob_below_{asked.below:g}"] = distribution.probability(-np.inf, asked.below)
    return _apart({f"{asked.prefix}{name}": values for name, values in found.items()}, model)


def _tell_of_nonsense(new: Mapping[str, np.ndarray]) -> None:
    """A line for each column in which numbers are missing or infinite."""
    for name, values in new.items():
        if values.dtype.kind == "f" and (bad := np.count_nonzero(~np.isfinite(values))):
            typer.echo(plain(f"Look at this: {bad:,} of {name} are not finite."), err=True)


def _apart(columns: Mapping[str, np.ndarray], model: Any) -> dict[str, np.ndarray]:
    """Columns of several outputs [rows, P] as one for each of them."""
    outputs = getattr(model, "_output_names", None)
    if outputs is None:
        return dict(columns)
    return {
        f"{name}_{output}": values[:, p]
        for name, values in columns.items()
        for p, output in enumerate(outputs)
    }


def _beside(path: Path | str, part: pd.DataFrame, new: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """The rows of a table with new columns."""
    import pandas as pd

    if taken := [name for name in new if name in part.columns]:
        raise FileError(
            f"{path} has a column {taken[0]!r} already, which the prediction would be called: "
            "rename it, or put a --prefix before what is predicted."
        )
    return pd.concat([part, pd.DataFrame(dict(new), part.index)], axis=1)


def _predict_lattice(model: Any, path: Path | str, out: str, asked: Asked, force: bool) -> int:
    from zigp.models.predictions import block_shape

    if not hasattr(model, "predict_lattice"):
        raise ValueError("The model is a classifier, which predicts at the rows of a table.")
    check_writable(out, force, endings=LATTICES)
    tail = 0.5 * (1.0 - asked.level)
    target: Any = read(path, lazy=True)
    if find_spec("dask"):  # in parts, whatever the chunks of the file
        names, sizes = list(target.sizes), tuple(target.sizes.values())
        if 0 in sizes:
            empty = names[sizes.index(0)]
            raise FileError(f"Dimension {empty!r} of {path} is empty: there are no places in it.")
        target = target.chunk(dict(zip(names, block_shape(sizes, _CELLS), strict=True)))
    answer = model.predict_lattice(target, (tail, 0.5, 1.0 - tail), asked.below)
    count = int(answer["mean"].size)
    write_dataset(answer.rename({name: asked.prefix + str(name) for name in answer}), out, force)
    return count


def draw_to_file(model: Path, data: Path, out: str, draws: int, seed: int, force: bool) -> None:
    """Joint draws at the rows of a table, a column for each."""
    import pandas as pd

    from zigp import load

    fitted = load(model)
    if not hasattr(fitted, "sample"):
        raise ValueError(f"{model} holds a {type(fitted).__name__}, which has no amounts to draw.")
    table = read(data)
    if not isinstance(table, pd.DataFrame):
        raise FileError(f"{data} is a lattice: draws from a model need a table.")
    X = as_fitted(data, table, fitted)
    drawn = fitted.sample(X, draws, random_state=seed)
    new = _apart({f"draw_{i + 1}": one for i, one in enumerate(drawn)}, fitted)
    with writing(out, force) as file:
        file.add(_beside(data, as_written(table, X, out), new))
