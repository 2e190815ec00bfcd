"""Run the benchmarks and write their results; with --check, read them and hold them to the bars."""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PEER = HERE / ".peers" / "gpytorch" / "bin" / "python"
ROUNDS = 3

BARS = {
    "gradient": ("full-data gradient / GPyTorch step on 1,000 rows", "ratio", 1 / 3),
    "memory": ("peak memory of the gradient's process, MB", "peak_mb", 1000.0),
    "imports": ("import zigp / import jax and scikit-learn", "ratio", 1.3),
}


def measure() -> None:
    ours, theirs = [], []
    for _ in range(ROUNDS):  # in turn, so that a busy moment hits both
        ours.append(_json(sys.executable, "gradient_zigp.py"))
        theirs.append(_json(str(PEER), "gradient_gpytorch.py"))
    zigp = _summary([s for run in ours for s in run["seconds"]])
    peer = _summary([s for run in theirs for s in run["seconds"]])
    _write(
        "gradient",
        {
            "zigp": zigp | {"rows": ours[0]["rows"], "compile": ours[0]["compile_seconds"]},
            "gpytorch": peer | {"rows": theirs[0]["rows"]},
            "ratio": zigp["median"] / peer["median"],
            "versions": ours[0]["versions"] | theirs[0]["versions"],
        },
    )
    _write(
        "memory",
        {
            "peak_mb": max(run["peak_mb"] for run in ours),
            "peak_above_idle_mb": max(run["peak_above_idle_mb"] for run in ours),
        },
    )
    seconds = _json(sys.executable, "imports.py")
    base, zigp = (_summary(seconds[name]) for name in ("jax and scikit-learn", "zigp"))
    ratio = zigp["median"] / base["median"]
    _write("imports", {"jax and scikit-learn": base, "zigp": zigp, "ratio": ratio})


def check() -> int:
    failed = 0
    for name, (what, key, limit) in BARS.items():
        value = json.loads((RESULTS / f"{name}.json").read_text())[key]
        verdict = "ok" if value <= limit else "FAILS"
        failed += value > limit
        print(f"{verdict:5s}  {what}: {value:.3g} (at most {limit:.3g})")
    return 1 if failed else 0


def _json(python: str, script: str) -> dict:
    command = [python, str(HERE / script)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def _summary(seconds: list[float]) -> dict[str, float]:
    low, median, high = statistics.quantiles(seconds, n=4)
    return {"median": median, "lower_quartile": low, "upper_quartile": high}


def _write(name: str, result: dict) -> None:
    machine = {"machine": platform.machine(), "python": platform.python_version()}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(result | {"on": machine}, indent=2) + "\n")
    print(name, json.dumps(result))


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(check())
    measure()
