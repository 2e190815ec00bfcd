"""Seconds of posterior sampling at a few sizes, written to results/sampling.json.

    python benchmarks/sampling.py              all sizes
    python benchmarks/sampling.py 150x40       one of them

Each size is sampled twice in one process: the first run compiles, the second is measured. Seconds
of both cores together (`cpu_seconds`) tell more than wall time where other work is going on.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import numpy as np
from scipy.special import ndtr

from zigp import ZeroInflatedGPRegressor

RESULTS = Path(__file__).parent / "results" / "sampling.json"
# Rows, inducing points, draws and warm-up: the whole of the first, of the others a part.
SIZES = {
    "150x40": (150, 40, 1000, 500),
    "500x60": (500, 60, 100, 100),
    "2000x100": (2000, 100, 15, 15),
}
CHAINS = 4


def problem(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and observations of a zero-inflated GP, from random Fourier features."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 10, (rows, 1))
    functions = []
    for length in (1.0, 1.5):
        frequency = rng.standard_t(3, 500) / length  # the spectrum of a Matérn 3/2
        waves = np.cos(X * frequency + rng.uniform(0, 2 * np.pi, 500))
        functions.append(2.0 * waves @ rng.normal(size=500) * np.sqrt(2 / 500))
    f, g = functions
    return X, ndtr(g - 0.3) * f + 0.1 * rng.normal(size=rows)


def measured(rows: int, points: int, draws: int, warmup: int, likelihood: str) -> dict[str, float]:
    """Return the seconds of one run of all chains, and how they behaved."""
    model = ZeroInflatedGPRegressor(likelihood=likelihood, n_inducing=points).fit(*problem(rows))
    model.refine(2, CHAINS, 2, random_state=0)
    wall, cpu = time.perf_counter(), time.process_time()
    chains = model.refine(draws, CHAINS, warmup, random_state=0).draws_
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    transitions = (draws + warmup) / 1000.0
    return {
        "rows": rows,
        "inducing": points,
        "likelihood": likelihood,
        "chains": CHAINS,
        "draws": draws,
        "warmup": warmup,
        "seconds": wall,
        "cpu_seconds": cpu,
        "cpu_seconds_per_1000_transitions": cpu / transitions,
        "gradients": float(chains.gradients.mean()),
        "divergent": int(chains.divergent.sum()),
        "rhat": max(float(np.max(value)) for value in chains.rhat.values()),
        "ess": min(float(np.min(value)) for value in chains.ess.values()),
    }


def main(names: list[str]) -> None:
    """Measure the named sizes, and update the file of results."""
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in names or SIZES:
        for likelihood in ("gaussian", "gated") if name == "150x40" else ("gaussian",):
            key = f"{name} {likelihood}"
            found[key] = measured(*SIZES[name], likelihood) | {"cores": os.cpu_count()}
            print(key, found[key], flush=True)
            RESULTS.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
