"""The paper's experiments, from raw data to tables and figures."""

from __future__ import annotations

from pathlib import Path

from zigp.experiments import jura, precipitation, toy
from zigp.experiments.page import results_page
from zigp.experiments.record import Record

__all__ = ["EXPERIMENTS", "reproduce"]

EXPERIMENTS = {"toy": toy.run, "precipitation": precipitation.run, "jura": jura.run}


def reproduce(
    experiment: str,
    data_dir: Path | None,
    out: Path,
    *,
    fast: bool = False,
    page: Path | None = None,
    resume: bool = False,
) -> list[Path]:
    """Run one experiment, or `all`, and write what it found; returns the folders written to.

    With `resume`, experiments that an earlier run into the same folder has finished are read.
    """
    chosen = list(EXPERIMENTS) if experiment == "all" else [experiment]
    folders = [out / name if experiment == "all" else out for name in chosen]
    records: list[Record] = []
    if page is not None:
        page.open("ab").close()  # better now than after all the fits
    for name, folder in zip(chosen, folders, strict=True):
        folder.mkdir(parents=True, exist_ok=True)
        if resume and (folder / "results.json").exists():
            records.append(Record.read(folder))
        else:
            records.append(EXPERIMENTS[name](data_dir, folder, fast=fast))
    command = f"zigp reproduce {experiment}" + (" --fast" if fast else "")
    text = results_page(records, command=command, fast=fast)
    for target in [out / "results.md", *([page] if page else [])]:
        target.write_text(text)
    return folders
