"""The work of `zigp report`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from zigp.cli.data import Columns, read_data
from zigp.data.tables import FileError, check_writable

__all__ = ["report_file"]


def report_file(
    model: Path,
    data: Path,
    out: str,
    *,
    target: str | None,
    space: Sequence[str],
    time: str | None,
    quick: bool,
    verbose: bool,
    force: bool,
    command: Sequence[str],
    say: Callable[[str], object],
) -> None:
    """Write a report on the model in a file and the data in another."""
    from zigp import load
    from zigp.report import Roles, write_report

    check_writable(out, force, (".html", ".htm"))
    fitted = load(model)
    roles = Roles.of(fitted, target=target, space=list(space) or None, time=time)
    if not target and not getattr(fitted, "units_", {}):
        raise FileError(f"{model} does not name its target: name it with --target.")
    read = read_data(data, Columns(roles.target), like=fitted)
    for note in read.notes:
        say(note)
    write_report(
        fitted, read.X, read.y, out,
        roles=roles, quick=quick, verbose=verbose, command=command, say=say,
    )  # fmt: skip
