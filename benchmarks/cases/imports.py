"""Seconds to import jax and scikit-learn, and zigp's estimators: in fresh processes, in turn.

`import zigp` alone returns at once, and loads an estimator when it is first asked for.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

ROUNDS = 9
PROGRAMS = {
    "jax and scikit-learn": "import jax, sklearn",
    "zigp": "from zigp import ZeroInflatedGPRegressor",
}


def main() -> None:
    seconds: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for _ in range(ROUNDS):
        for name, program in PROGRAMS.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", program], check=True)
            seconds[name].append(time.perf_counter() - start)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
