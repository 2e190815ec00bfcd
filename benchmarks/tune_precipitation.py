"""How the settings of the precipitation experiment were chosen: on training rows alone.

    .venv/bin/python benchmarks/tune_precipitation.py DATA_DIR

A fifth of every fold's training rows is held out at random, ZiGP is fitted to the rest with each
candidate, and scored on that fifth. A fold's own test rows are not read for it. Writes
benchmarks/results/tune_precipitation.json.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

from zigp import ZeroInflatedGPRegressor
from zigp.datasets import load_precipitation
from zigp.experiments.precipitation import INPUTS, RESOLUTION, SETTINGS, splits
from zigp.kernels import SquaredExponential
from zigp.scores import amount_scores


def start(north: float, east: float, hours: float) -> dict:
    """Length-scales to start from, in degrees and hours."""
    space, time = SquaredExponential((north, east)), SquaredExponential(hours)
    return SETTINGS["paper"] | {"kernel": {"space": space, "time": time}}


def lattice(space: int, time: int, kernel: str = "squared_exponential") -> dict:
    return SETTINGS["own"] | {"n_inducing": {"space": space, "time": time}, "kernel": kernel}


CANDIDATES = {
    "paper, start 2.6 and 3.0 degrees, 20 h": (start(2.6, 3.0, 20.0), 5),
    "paper, start 1.0 and 1.2 degrees, 8 h": (start(1.0, 1.2, 8.0), 5),
    "paper, start 0.4 and 0.5 degrees, 3 h": (start(0.4, 0.5, 3.0), 5),
    "own, 20 x 200": (lattice(20, 200), 2),
    "own, 30 x 270": (lattice(30, 270), 2),
    "own, 40 x 360": (lattice(40, 360), 2),
    "own, 30 x 270, Matern 3/2": (lattice(30, 270, "matern32"), 2),
}


def main(data: Path) -> None:
    rain = load_precipitation(data)
    table = {}
    for name, (settings, folds) in CANDIDATES.items():
        found, began = [], time.perf_counter()
        for fold, train, _ in splits(rain, "kfold", folds):
            held_out = np.random.default_rng(fold).random(len(train)) < 0.2
            fitted, scored = rain.iloc[train[~held_out]], rain.iloc[train[held_out]]
            model = ZeroInflatedGPRegressor(**settings).fit(fitted[INPUTS], fitted["rain_mm"])
            y = scored["rain_mm"].to_numpy()
            found.append(amount_scores(y, np.asarray(model.predict(scored[INPUTS])), RESOLUTION))
        mean = {key: float(np.mean([f[key] for f in found])) for key in found[0]}
        table[name] = mean | {"folds": folds, "seconds": time.perf_counter() - began}
        print(name, json.dumps(table[name]), flush=True)
    out = Path(__file__).parent / "results" / "tune_precipitation.json"
    out.write_text(json.dumps(table, indent=2) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
