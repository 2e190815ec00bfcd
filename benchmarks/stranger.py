"""What a stranger gets on the rain data with nothing set: through pandas, and typed as commands.

    .venv/bin/python benchmarks/stranger.py [DATA_DIR]

The first fold of the experiment: its training rows are fitted, its test rows are scored. Writes
benchmarks/results/stranger.json, with the experiment's own scores of that fold beside it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from run import machine

from zigp import ZeroInflatedGPRegressor
from zigp.datasets import load_precipitation
from zigp.diagnostics.scores import amount_scores
from zigp.experiments.precipitation import INPUTS, RESOLUTION, splits

RESULTS = Path(__file__).parent / "results" / "stranger.json"
ZIGP = Path(sys.executable).with_name("zigp")
SCORES = ("rmse", "mae", "f1", "accuracy")


def scored(y: np.ndarray, mean: np.ndarray) -> dict[str, float]:
    found = amount_scores(y, mean, RESOLUTION)
    return {name: round(found[name], 4) for name in SCORES}


def main(data: Path | None) -> None:
    rain = load_precipitation(data)
    _, train, test = next(splits(rain, "kfold"))
    y = rain["rain_mm"].to_numpy()[test]
    start = time.perf_counter()
    model = ZeroInflatedGPRegressor().fit(rain[INPUTS].iloc[train], rain["rain_mm"].iloc[train])
    found: dict[str, dict[str, float]] = {
        "pandas": {"fit_seconds": round(time.perf_counter() - start, 1)}
        | scored(y, model.predict(rain[INPUTS].iloc[test]))
    }
    with tempfile.TemporaryDirectory() as folder:
        rain.iloc[train].to_csv(Path(folder, "train.csv.gz"), index=False)
        rain[INPUTS].iloc[test].to_csv(Path(folder, "new.csv"), index=False)
        named = ["--target", "rain_mm", "--space", "lat,lon", "--time", "hour"]
        start = time.perf_counter()
        fit = [ZIGP, "fit", "train.csv.gz", *named, "--out", "rain.zigp"]
        subprocess.run(fit, cwd=folder, check=True)
        seconds = time.perf_counter() - start
        predict = [ZIGP, "predict", "rain.zigp", "new.csv", "--out", "predicted.csv"]
        subprocess.run(predict, cwd=folder, check=True)
        mean = pd.read_csv(Path(folder, "predicted.csv"))["mean"].to_numpy()
    found["command line"] = {"fit_seconds": round(seconds, 1)} | scored(y, mean)
    RESULTS.write_text(json.dumps({"fold": 0, "on": machine()} | found, indent=2) + "\n")
    print(RESULTS.read_text())


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
