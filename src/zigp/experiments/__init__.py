"""The paper's experiments, from raw data to tables and figures."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from zigp.datasets import load_jura, load_precipitation, load_toy
from zigp.experiments import jura, precipitation, toy
from zigp.experiments.record import Record

__all__ = ["EXPERIMENTS", "reproduce"]

LOADERS: dict[str, Callable[..., Any]] = {
    "toy": load_toy,
    "precipitation": load_precipitation,
    "jura": load_jura,
}
EXPERIMENTS: dict[str, Callable[..., Record]] = {
    "toy": toy.run,
    "precipitation": precipitation.run,
    "jura": jura.run,
}


def reproduce(
    experiment: str,
    data_dir: Path | None,
    out: Path,
    *,
    fast: bool = False,
    resume: bool = False,
) -> list[Record]:
    """Run one experiment, or `all`, write the results into folders, and return them.

    With `resume`, the experiments that an earlier run into the same folder finished are read.
    """
    every = {name: out / name for name in EXPERIMENTS}
    folders = every if experiment == "all" else {experiment: out}
    records = {
        name: _finished(folder, name, fast)
        for name, folder in folders.items()
        if resume and (folder / "results.json").exists()
    }
    # Missing data fail now, not after other experiments.
    data = {name: LOADERS[name](data_dir) for name in folders if name not in records}
    for name, tables in data.items():
        folders[name].mkdir(parents=True, exist_ok=True)
        records[name] = EXPERIMENTS[name](tables, folders[name], fast=fast)
        records[name].write(folders[name])
    return [records[name] for name in folders]


def _finished(folder: Path, name: str, fast: bool) -> Record:
    """Return the record in a folder if it is of this experiment, and as thorough."""
    record = Record.read(folder)
    if (record.experiment, record.fast) != (name, fast):
        kind = "fast" if record.fast else "full"
        raise ValueError(
            f"{folder} holds a {kind} run of {record.experiment}: resuming needs the same. Choose "
            "another folder, or --force."
        )
    return record
