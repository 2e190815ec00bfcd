"""A cube of simulated rain, (time, lat, lon): fit with nothing given, predict twice as finely.

    .venv/bin/python benchmarks/cube.py

A tenth of the cells is held out and scored. The finer grid is predicted through dask, a chunk at a
time. Writes benchmarks/results/cube.json.
"""

from __future__ import annotations

import json
import resource
import time
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from run import machine

from zigp import ZeroInflatedGPRegressor
from zigp.datasets import simulate_rain_grid
from zigp.diagnostics.scores import amount_scores

RESULTS = Path(__file__).parent / "results" / "cube.json"
SHAPE = (500, 60, 80)


def finer(cube: xr.DataArray) -> xr.DataArray:
    """A lazy grid with twice as many places along each axis, of nothing but coordinates."""
    import dask.array as da

    when = pd.date_range(cube["time"].values[0], cube["time"].values[-1], 2 * SHAPE[0])
    lat, lon = (np.linspace(*cube[d].values[[0, -1]], 2 * cube.sizes[d]) for d in ("lat", "lon"))
    empty = da.zeros((len(when), len(lat), len(lon)), chunks=(50, -1, -1))
    return xr.DataArray(empty, {"time": when, "lat": lat, "lon": lon}, ("time", "lat", "lon"))


def main() -> None:
    cube = simulate_rain_grid(*SHAPE)
    aside = np.random.default_rng(0).random(SHAPE) < 0.1
    model = ZeroInflatedGPRegressor(verbose=True)
    start = time.perf_counter()
    model.fit(cube.where(~aside))
    fitted = time.perf_counter() - start
    start = time.perf_counter()
    answer = model.predict_lattice(finer(cube), quantiles=())
    # The largest mean and sd of each chunk: all is predicted, and little is kept.
    answer[["mean", "sd", "prob_on"]].max().compute()
    predicted = time.perf_counter() - start
    at = model.predict_lattice(cube, quantiles=())["mean"].values
    held = aside & np.isfinite(cube.values)
    y = cube.values[held]
    scores = amount_scores(y, at[held], 0.1)
    zero = amount_scores(y, np.zeros_like(y), 0.1)
    found = {
        "cells": int(np.prod(SHAPE)),
        "zeros": round(float((cube == 0).sum() / cube.notnull().sum()), 4),
        "inducing": [len(z) for z in model.model_.latents["f"].Z],
        "fit_seconds": round(fitted, 1),
        "predicted_cells": int(answer["mean"].size),
        "predict_seconds": round(predicted, 1),
        "peak_megabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "held_out": {k: round(scores[k], 4) for k in ("rmse", "mae", "f1", "accuracy")},
        "zero_rmse": round(zero["rmse"], 4),
        "on": machine(),
    }
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
