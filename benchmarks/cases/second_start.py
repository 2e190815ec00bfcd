"""Seconds of `zigp fit` from typing it to the model file, in fresh processes, five steps long.

Once with nothing compiled, and once more with what the first run has left in the cache.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 3
ZIGP = [str(Path(sys.executable).with_name("zigp"))]
FIT = ["fit", "rain.csv", "--target", "rain_mm", "--space", "lat,lon", "--time", "hour"]


def main() -> None:
    seconds: dict[str, list[float]] = {"first": [], "second": []}
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            cache = {"JAX_COMPILATION_CACHE_DIR": str(Path(folder) / "compiled")}
            everywhere = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
            ran = {"cwd": folder, "check": True, "env": os.environ | cache | everywhere}
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            subprocess.run([*ZIGP, "simulate", "--out", "rain.csv"], **ran, **quiet)
            for name in seconds:
                typed = [*ZIGP, *FIT, "--steps", "5", "--out", f"{name}.zigp"]
                start = time.perf_counter()
                subprocess.run(typed, **ran, **quiet)
                seconds[name].append(time.perf_counter() - start)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
