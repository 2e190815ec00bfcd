"""The paper's Jura table, each setting with 30 restarts, and cadmium given nickel and zinc.

    .venv/bin/python benchmarks/jura.py DATA_DIR

Writes benchmarks/results/jura.json: for each setting the mean over restarts and the best by its
training objective, beside the predictors that cost nothing. Settings are the estimator's defaults.
"""

from __future__ import annotations

import copy
import json
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from zigp import GPNetworkRegressor, SparseGPRegressor

METALS = ["cd", "ni", "zn"]
PLACE = ["x", "y"]
RESTARTS = 30
PAPER = {  # RMSE and MAE of Cd, Ni, Zn
    "GPRN m=5": [0.732, 0.572, 6.807, 5.163, 34.41, 22.14],
    "sGPRN m=5": [0.728, 0.567, 6.631, 5.079, 35.09, 22.75],
    "GPRN m=10": [0.774, 0.586, 7.207, 5.656, 37.87, 25.10],
    "sGPRN m=10": [0.749, 0.573, 6.524, 5.054, 36.17, 23.63],
}


def main(data: Path) -> None:
    train, test = (pd.read_csv(data / f"jura_{part}.csv") for part in ("train", "test"))
    result = {
        "isotopic": isotopic(train, test),
        "free": free(train, test),
        "heterotopic_cd_mae": heterotopic(train, test),
    }
    out = Path(__file__).parent / "results" / "jura.json"
    out.write_text(json.dumps(result, indent=2) + "\n")


def errors(predicted: np.ndarray, truth: np.ndarray) -> list[float]:
    e = predicted - truth
    pairs = zip(np.sqrt(np.mean(e**2, axis=0)), np.mean(np.abs(e), axis=0), strict=True)
    return [float(v) for pair in pairs for v in pair]


def each_restart(model: GPNetworkRegressor, ask) -> list[np.ndarray]:
    """An answer from every restart that did not fail."""
    answers = []
    for fit in model.restarts_:
        if not fit.failed:
            one = copy.copy(model)
            one.model_ = fit.model
            answers.append(ask(one))
    return answers


def isotopic(train: pd.DataFrame, test: pd.DataFrame) -> dict:
    table, won, total = {}, 0, 0
    for name, paper in PAPER.items():
        start = time.perf_counter()
        model = GPNetworkRegressor(
            2, sparse_weights=name[0] == "s", n_inducing=int(name.split("=")[1]),
            latent_noise=False, n_restarts=RESTARTS,
        ).fit(train[PLACE], train[METALS])  # fmt: skip
        seconds = time.perf_counter() - start
        truth = test[METALS].to_numpy()
        scores = each_restart(model, lambda m, t=truth: errors(m.predict(test[PLACE]), t))
        mean = np.mean(scores, axis=0)
        table[name] = {
            "paper": paper,
            "mean": mean.tolist(),
            "best": errors(model.predict(test[PLACE]), truth),
            "seconds": seconds,
            "failed": RESTARTS - len(scores),
        }
        won, total = won + int(np.sum(mean <= paper)), total + len(paper)
        print(name, json.dumps(table[name]), flush=True)
    return {"settings": table, "reached": won, "of": total}


def free(train: pd.DataFrame, test: pd.DataFrame) -> dict:
    """What costs nothing: the training median, and a GP for each metal by itself."""
    truth = test[METALS].to_numpy()
    median = np.tile(train[METALS].median().to_numpy(), (len(test), 1))
    alone = [SparseGPRegressor().fit(train[PLACE], train[m]).predict(test[PLACE]) for m in METALS]
    table = {"median": errors(median, truth), "independent GPs": errors(np.stack(alone, 1), truth)}
    print(json.dumps(table), flush=True)
    return table


def heterotopic(train: pd.DataFrame, test: pd.DataFrame) -> dict:
    """Nickel and zinc known at the test sites, cadmium missing there: MAE of cadmium."""
    both = pd.concat([train, test], ignore_index=True)
    Y = both[METALS].to_numpy().copy()
    Y[len(train) :, 0] = np.nan
    truth, table = test["cd"].to_numpy(), {}
    for transform in (None, "log"):
        for noise in (True, False):
            model = GPNetworkRegressor(
                2, latent_noise=noise, transform=transform, back_transform="median",
                n_inducing=15, n_restarts=RESTARTS,
            ).fit(both[PLACE], Y)  # fmt: skip
            answers = each_restart(model, lambda m: m.impute(both[PLACE], Y)[len(train) :, 0])
            one_by_one = [float(np.mean(np.abs(a - truth))) for a in answers]
            name = f"{transform or 'raw'}, {'with' if noise else 'without'} latent noise"
            best = model.impute(both[PLACE], Y)[len(train) :, 0]
            table[name] = {
                "median_over_restarts": float(np.mean(np.abs(np.median(answers, 0) - truth))),
                "best_by_objective": float(np.mean(np.abs(best - truth))),
                "each": one_by_one,
            }
            print(name, json.dumps(table[name]), flush=True)
    return table


if __name__ == "__main__":
    main(Path(sys.argv[1]))
