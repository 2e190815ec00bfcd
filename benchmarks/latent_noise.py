"""Which default for `latent_noise`: cross-validation on Jura's training rows and on simulated data.

    .venv/bin/python benchmarks/latent_noise.py DATA_DIR

Mean absolute error of held-out outputs in their standard deviations, five folds: with nothing known
at the held-out sites, and with the other outputs known there. Writes results/latent_noise.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold

from zigp import GPNetworkRegressor


def simulated(n: int = 200, P: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two smooth latents mixed by weights that vary, and noise on the outputs alone."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 5, size=(n, 2))
    squared = ((X[:, None] - X) ** 2).sum(axis=-1)

    def gp(lengthscale: float) -> np.ndarray:
        K = np.exp(-0.5 * squared / lengthscale**2) + 1e-8 * np.eye(n)
        return np.linalg.cholesky(K) @ rng.normal(size=n)

    f = [gp(1.0) for _ in range(2)]
    Y = np.column_stack([sum(gp(3.0) * fq for fq in f) for _ in range(P)])
    return X, Y + 0.3 * rng.normal(size=Y.shape)


def score(X: np.ndarray, Y: np.ndarray, latent_noise: bool) -> dict[str, float]:
    alone, given = [], []
    for train, test in KFold(5, shuffle=True, random_state=0).split(X):
        model = GPNetworkRegressor(
            2, latent_noise=latent_noise, n_restarts=4, method="adam", steps=800
        )
        model.fit(X[train], Y[train])
        sd = Y[train].std(axis=0)
        alone.append(np.abs(model.predict(X[test]) - Y[test]) / sd)
        for p in range(Y.shape[1]):
            known = Y[test].copy()
            known[:, p] = np.nan
            predicted = model.predict(X[test], known=known)
            given.append(np.abs(predicted - Y[test])[:, p] / sd[p])
    return {
        "nothing known": float(np.mean(np.concatenate(alone))),
        "others known": float(np.mean(np.concatenate(given))),
    }


def main(data: Path) -> None:
    jura = pd.read_csv(data / "jura_train.csv")
    sets = {
        "jura": (jura[["x", "y"]].to_numpy(), jura[["cd", "ni", "zn"]].to_numpy()),
        "simulated": simulated(),
    }
    result = {
        name: {("with" if noise else "without"): score(X, Y, noise) for noise in (False, True)}
        for name, (X, Y) in sets.items()
    }
    print(json.dumps(result))
    out = Path(__file__).parent / "results" / "latent_noise.json"
    out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
