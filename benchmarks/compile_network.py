"""Compile time of a sparse network's training step at two sizes: Q=2, P=3 and Q=6, P=20.

Writes results/compile_network.json: seconds to compile, and to run fifty steps afterwards.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
from run import machine

from zigp import GPNetworkRegressor


def main() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(259, 2))
    GPNetworkRegressor(1, n_restarts=1, steps=1).fit(X[:, :1], X[:, 1:])  # warm up the process
    result = {}
    for Q, P in ((2, 3), (6, 20)):
        Y = rng.normal(size=(259, P))
        times = []
        for _ in range(2):
            start = time.perf_counter()
            model = GPNetworkRegressor(Q, n_restarts=2, steps=50, tol=0.0).fit(X, Y)
            times.append(time.perf_counter() - start)
        first, again = times
        result[f"Q={Q}, P={P}"] = {"compile": first - again, "50 steps": model.seconds_}
    print(json.dumps(result))
    out = Path(__file__).parent / "results" / "compile_network.json"
    out.write_text(json.dumps(result | {"on": machine()}, indent=2) + "\n")


if __name__ == "__main__":
    main()
