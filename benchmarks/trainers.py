"""Which way of training is the default: what each reaches on data that it has not seen.

    .venv/bin/python benchmarks/trainers.py [DATA_DIR]

Every case is fitted twice by each method with the method's own defaults; the second fit, which
compiles nothing, is timed, and how much longer the very first took. Scores are of rows that were
held out: root mean squared error in standard deviations of the output, and the mean log density, of
rain the log probability of its 0.1 mm cell. Writes results/trainers.json.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from run import RESULTS, machine

from zigp import GPNetworkRegressor, ZeroInflatedGPRegressor
from zigp.datasets import load_jura, simulate_rain
from zigp.experiments.jura import METALS, PLACE

METHODS = ("adam", "natural")
FOLDS = 3
RESOLUTION = 0.1  # mm
Case = tuple[str, Any, Any, Any, np.ndarray]


def cases(folder: Path | None) -> Iterator[Case]:
    """A name, an estimator, inputs and outputs, and which rows are held out."""
    soil, _ = load_jura(folder)
    fold = np.random.default_rng(0).permutation(len(soil)) % FOLDS
    for noise, name in ((False, "a network (Jura)"), (True, "the same with latent noise")):
        for k in range(FOLDS):
            network = GPNetworkRegressor(n_restarts=4, latent_noise=noise)
            yield name, network, soil[PLACE], soil[METALS], fold == k
    for seed in range(FOLDS):
        rain = simulate_rain(seed=seed).sample(800, random_state=seed)
        held = np.arange(len(rain)) % 4 == 0
        rows, amounts = rain[["lat", "lon", "hour"]].to_numpy(), rain["rain_mm"]
        scattered = ZeroInflatedGPRegressor(n_inducing=100)
        yield "zero-inflated, scattered rows", scattered, rows, amounts, held
    for seed in range(2):
        rain = simulate_rain(seed=seed)
        held = np.random.default_rng(seed).random(len(rain)) < 0.2
        yield (
            "zero-inflated, on a lattice",
            ZeroInflatedGPRegressor(latlon=["lat", "lon"]),
            rain[["lat", "lon", "hour"]],
            rain["rain_mm"],
            held,
        )


def tried(estimator: Any, X: Any, y: Any, held: np.ndarray) -> dict[str, float]:
    """Fit without the rows that are held out, and score there."""
    seen, hidden = (X[~held], y[~held]), (X[held], np.asarray(y[held], float))
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        estimator.fit(*seen)
        seconds.append(time.perf_counter() - start)
    mean, sd = estimator.predict(hidden[0], return_std=True)
    error = (mean - hidden[1]) / np.std(hidden[1], axis=0)
    if isinstance(estimator, ZeroInflatedGPRegressor):
        low, high = hidden[1] - 0.5 * RESOLUTION, hidden[1] + 0.5 * RESOLUTION
        density = estimator.log_prob_between(hidden[0], low, high)
    else:
        density = -0.5 * ((mean - hidden[1]) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)
    return {
        "first_seconds": seconds[0],
        "seconds": seconds[1],
        "steps": int(estimator.n_iter_),
        "bound": float(estimator.bounds_[-1]),
        "error": float(np.sqrt(np.mean(error**2))),
        "log_density": float(np.mean(density)),
    }


def main(folder: Path | None) -> None:
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    for name, estimator, X, y, held in cases(folder):
        for method in METHODS:
            one = tried(estimator.set_params(method=method), X, y, held)
            found.setdefault(name, {}).setdefault(method, []).append(one)
            print(name, method, json.dumps(one), flush=True)
    for runs in (runs for methods in found.values() for runs in methods.values()):
        for run in runs:  # only the first of a shape compiles
            run["compiling"] = runs[0]["first_seconds"] - runs[0]["seconds"]
    table = [
        {
            "": name,
            "method": method,
            "data sets": len(runs),
            **{
                heading: float(np.mean([run[key] for run in runs]))
                for heading, key in (
                    ("seconds", "seconds"),
                    ("compiling", "compiling"),
                    ("steps", "steps"),
                    ("bound", "bound"),
                    ("error", "error"),
                    ("log density", "log_density"),
                )
            },
        }
        for name, methods in found.items()
        for method, runs in methods.items()
    ]
    whole = {"table": table, "runs": found, "on": machine()}
    (RESULTS / "trainers.json").write_text(json.dumps(whole) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
