"""The paper's experiments, from raw data to tables and figures."""

from __future__ import annotations

import time
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
) -> list[Path]:
    """Run one experiment, or `all`, and write what it found; returns the folders written to."""
    chosen = list(EXPERIMENTS) if experiment == "all" else [experiment]
    folders = [out / name if experiment == "all" else out for name in chosen]
    start = time.perf_counter()
    records: list[Record] = []
    for name, folder in zip(chosen, folders, strict=True):
        folder.mkdir(parents=True, exist_ok=True)
        records.append(EXPERIMENTS[name](data_dir, folder, fast=fast))
    text = results_page(
        records,
        command=f"zigp reproduce {experiment}" + (" --fast" if fast else ""),
        fast=fast,
        seconds=time.perf_counter() - start,
    )
    for target in [out / "results.md", *([page] if page else [])]:
        target.write_text(text)
    return folders
