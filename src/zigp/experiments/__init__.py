"""The paper's experiments, from raw data to tables and figures."""

from __future__ import annotations

from pathlib import Path

from zigp.datasets import load_jura, load_precipitation, load_toy
from zigp.experiments import jura, precipitation, toy
from zigp.experiments.record import Record

__all__ = ["EXPERIMENTS", "reproduce"]

LOADERS = {"toy": load_toy, "precipitation": load_precipitation, "jura": load_jura}
EXPERIMENTS = {"toy": toy.run, "precipitation": precipitation.run, "jura": jura.run}


def reproduce(
    experiment: str,
    data_dir: Path | None,
    out: Path,
    *,
    fast: bool = False,
    resume: bool = False,
) -> list[Record]:
    """Run one experiment, or `all`, and write its results into a folder each.

    With `resume`, experiments that an earlier run into the same folder has finished are read.
    """
    chosen = list(EXPERIMENTS) if experiment == "all" else [experiment]
    folders = [out / name if experiment == "all" else out for name in chosen]
    for name in chosen:
        if not resume:
            LOADERS[name](data_dir)  # better missed now than after the experiments before it
    records: list[Record] = []
    out.mkdir(parents=True, exist_ok=True)  # not before, as that can fail
    for name, folder in zip(chosen, folders, strict=True):
        folder.mkdir(parents=True, exist_ok=True)
        if resume and (folder / "results.json").exists():
            records.append(_finished(folder, name, fast))
        else:
            records.append(EXPERIMENTS[name](data_dir, folder, fast=fast))
    return records


def _finished(folder: Path, name: str, fast: bool) -> Record:
    """The record in a folder, if it is of this experiment and of as thorough a run."""
    record = Record.read(folder)
    if (record.experiment, record.fast) != (name, fast):
        kind = "fast" if record.fast else "full"
        raise ValueError(
            f"{folder} holds a {kind} run of {record.experiment}: resuming needs the same. Choose "
            "another folder, or --force."
        )
    return record
