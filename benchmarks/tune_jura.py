"""How the network for cadmium given nickel and zinc was chosen: on the training sites alone.

    .venv/bin/python benchmarks/tune_jura.py DATA_DIR

Five folds over the 259 training sites: cadmium is hidden in one, nickel and zinc stay known
everywhere, and the median over restarts is scored. Writes benchmarks/results/tune_jura.json; the
one kept there was computed on an NVIDIA H200.
"""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path

import numpy as np

from zigp import GPNetworkRegressor
from zigp.datasets import load_jura
from zigp.experiments.jura import METALS, PLACE

BASE = {
    "latent_noise": True,
    "y_transform": "log",
    "back_transform": "median",
    "n_inducing": 15,
    "n_restarts": 10,
    "method": "adam",
}
ROUGH = "matern32"
CANDIDATES = [
    {},
    {"n_latents": 1},
    {"n_latents": 3},
    {"n_inducing": 30},
    {"sparse_weights": False},
    {"kernel": ROUGH},
    {"kernel": "matern12"},
    {"kernel": ROUGH, "weight_kernel": "squared_exponential", "gate_kernel": "squared_exponential"},
    {"n_inducing": 50, "kernel": ROUGH},
    {"steps": 3000},
    {"learning_rate": 0.05},
    {"y_transform": None},
    {"y_transform": None, "sparse_weights": False},
    {"n_latents": 3, "sparse_weights": False},
    {"n_latents": 1, "sparse_weights": False, "kernel": ROUGH},
    {"n_inducing": 30, "sparse_weights": False, "kernel": ROUGH},
]


def main(data: Path) -> None:
    train, _ = load_jura(data)
    X, Y = train[PLACE].to_numpy(), train[METALS].to_numpy()
    fold = np.random.default_rng(0).permutation(len(X)) % 5
    table = []
    for candidate in CANDIDATES:
        median, best = np.empty(len(X)), np.empty(len(X))
        for k in range(5):
            hidden = fold == k
            known = np.where(hidden[:, None] & (np.arange(3) == 0), np.nan, Y)
            model = GPNetworkRegressor(**(BASE | candidate)).fit(X, known)
            answers = []
            for fit in model.restarts_:
                if not fit.failed:
                    one = copy.copy(model)
                    one.model_ = fit.model
                    answers.append(one.impute(X, known)[hidden, 0])
            median[hidden] = np.median(answers, axis=0)
            best[hidden] = model.impute(X, known)[hidden, 0]
        row = {
            "settings": candidate,
            "median_over_restarts": float(np.mean(np.abs(median - Y[:, 0]))),
            "best_by_objective": float(np.mean(np.abs(best - Y[:, 0]))),
        }
        table.append(row)
        print(json.dumps(row), flush=True)
    out = Path(__file__).parent / "results" / "tune_jura.json"
    out.write_text(json.dumps(table, indent=2) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
