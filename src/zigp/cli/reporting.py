"""`zigp report`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from zigp.cli.data import Columns, Data, read_data
from zigp.files import FileError, check_writable

__all__ = ["report_file"]


def report_file(
    model: Path,
    data: Path,
    out: str,
    *,
    target: str | None,
    space: Sequence[str],
    time: str | None,
    refit: bool,
    verbose: bool,
    force: bool,
    command: Sequence[str],
    say: Callable[[str], object],
) -> None:
    """A page about the model of a file and the data of another."""
    from zigp import load
    from zigp.report import Roles, Trial, write_report

    check_writable(out, force, (".html", ".htm"))
    fitted = load(model)
    if not hasattr(fitted, "predict_interval") or hasattr(fitted, "n_outputs_"):
        raise FileError(
            f"{model} holds a {type(fitted).__name__}: reports are of what zigp fit writes."
        )
    roles = Roles.of(fitted, target=target, space=list(space) or None, time=time)
    if not target and not getattr(fitted, "units_", {}):
        raise FileError(f"{model} does not say what it was fitted to: name it with --target.")
    read = read_data(data, Columns(roles.target), like=fitted)
    for note in read.notes:
        say(note)
    table = _as_table(fitted, read, roles.target)
    trial = Trial.of(fitted, table.X, table.y, seen=not refit, verbose=verbose, say=say)
    write_report(fitted, table.X, table.y, out, roles=roles, trial=trial, command=command, say=say)


def _as_table(model: Any, data: Data, target: str) -> Data:
    from zigp.lattices import as_cells, is_lattice

    if not is_lattice(data.X):
        return replace(data, X=data.X.reset_index(drop=True))
    cells = as_cells(data.X, target, exposure=getattr(model, "exposure", None))
    return Data(cells.X, cells.y)
