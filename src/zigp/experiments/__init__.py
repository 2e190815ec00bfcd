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
    """Run one experiment, or `all`, write the results into folders, and return them.

    With `resume`, the experiments that an earlier run into the same folder finished are read.
    """
    chosen = list(EXPERIMENTS) if experiment == "all" else [experiment]
    folders = [out / name if experiment == "all" else out for name in chosen]
    for name in chosen:
        if not resume:
            LOADERS[name](data_dir)  # missing data fail now, not after other experiments
    records: list[Record] = []
    for name, folder in zip(chosen, folders, strict=True):
        folder.mkdir(parents=True, exist_ok=True)
        if resume and (folder / "results.json").exists():
            records.append(_finished(folder, name, fast))
        else:
            records.append(EXPERIMENTS[name](data_dir, folder, fast=fast))
    return records


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
