"""`zigp predict`, and draws from a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from zigp.cli.data import as_fitted
from zigp.files import (
    LATTICES,
    TABLES,
    FileError,
    check_writable,
    kind_of,
    read,
    read_parts,
    write_dataset,
    writing,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["draw_to_file", "predict_file"]


def predict_file(
    model: Path,
    data: Path,
    out: str,
    *,
    level: float,
    below: float | None,
    rows: int,
    force: bool,
    quiet: bool,
) -> int:
    """Predictions for a file into another, a part at a time; how many there were."""
    from zigp import load

    fitted = load(model)
    if kind_of(data) in ("netcdf", "zarr"):
        return _predict_lattice(fitted, data, out, level, force)
    if fitted.table_ is None:
        raise FileError(f"{model} was fitted without column names: predict with it in Python.")
    check_writable(out, force, TABLES)
    count = 0
    with writing(out, force) as file:
        for part in read_parts(data, rows):
            file.add(_predicted(fitted, data, part, level, below))
            count += len(part)
            if not quiet and count % rows == 0:
                typer.echo(f"{count:,} rows", err=True)
    return count


def _predicted(
    model: Any, path: Path, part: pd.DataFrame, level: float, below: float | None
) -> pd.DataFrame:
    X = as_fitted(path, part, model)
    mean, sd = model.predict(X, return_std=True)
    new: dict[str, Any] = {"mean": mean, "sd": sd}
    if hasattr(model, "prob_on"):
        new["prob_on"] = model.prob_on(X)
    inside = model.predict_interval(X, level)
    new |= {"lower": inside["lower"], "upper": inside["upper"]}
    if below is not None:
        new[f"prob_below_{below:g}"] = model.prob_below(X, below)
    if taken := [name for name in new if name in part.columns]:
        raise FileError(
            f"{path} has a column {taken[0]!r} already, which the prediction would be called: "
            "rename it."
        )
    return part.assign(**new)


def _predict_lattice(model: Any, path: Path, out: str, level: float, force: bool) -> int:
    check_writable(out, force, endings=LATTICES)
    tail = 0.5 * (1.0 - level)
    answer = model.predict_lattice(read(path, lazy=True), (tail, 0.5, 1.0 - tail))
    write_dataset(answer, out, force)
    return int(answer["mean"].size)


def draw_to_file(model: Path, data: Path, out: str, draws: int, seed: int, force: bool) -> None:
    """Joint draws at the rows of a table, a column for each."""
    import pandas as pd

    from zigp import load

    fitted, table = load(model), read(data)
    if not isinstance(table, pd.DataFrame) or fitted.table_ is None:
        raise FileError("Draws from a model need a table, and a model fitted on one.")
    drawn = fitted.sample(as_fitted(data, table, fitted), draws, random_state=seed)
    names = [f"draw_{i + 1}" for i in range(draws)]
    with writing(out, force) as file:
        file.add(pd.concat([table, pd.DataFrame(drawn.T, table.index, names)], axis=1))
