"""Seconds to import jax and scikit-learn, and to import zigp: each in fresh processes, in turn."""

from __future__ import annotations

import json
import subprocess
import sys
import time

ROUNDS = 9
PROGRAMS = {"jax and scikit-learn": "import jax, sklearn", "zigp": "import zigp"}


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
