"""Run the cases that compare zigp with its peers, in turn and several times over: `make bench`.

    .venv/bin/python benchmarks/run.py [gradient] [scattered] [imports] [second_start]

Every case is a program of its own in `cases/` that prints one line of JSON. What they say is put
together here, written to `results/`, and shown as one table.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PYTHON = {
    "zigp": sys.executable,
    "gpytorch": str(HERE / ".peers" / "gpytorch" / "bin" / "python"),
    "gpflow": str(HERE / ".peers" / "gpflow" / "bin" / "python"),
}
ROUNDS = 3


def busy_cores(seconds: float = 1.0) -> float:
    """How many cores are at work right now, while this process waits."""

    def ticks() -> tuple[int, int]:
        try:
            line = Path("/proc/stat").read_text().splitlines()[0]
        except OSError:  # not Linux
            return 0, 0
        user, nice, system, idle, waiting, *more = map(int, line.split()[1:9])
        return user + nice + system + sum(more), idle + waiting

    busy, idle = ticks()
    time.sleep(seconds)
    busy, idle = (after - before for after, before in zip(ticks(), (busy, idle), strict=True))
    return (os.cpu_count() or 1) * busy / max(busy + idle, 1)


BUSY = busy_cores()  # what else the machine was doing when this began

Runs = dict[str, list[dict[str, Any]]]


def main(*chosen: str) -> None:
    for case in (gradient, scattered, imports, second_start):
        if not chosen or case.__name__ in chosen:
            case()
    print("\n" + table())


# -- cases ----------------------------------------------------------------------------------------


def gradient() -> None:
    """All rows of the paper's precipitation setting, beside a peer's step on 1,000."""
    runs = in_turn({name: [f"gradient_{name}.py"] for name in ("zigp", "gpytorch")})
    write("gradient", compared(runs))
    peaks = {
        key: max(run[key] for run in runs["zigp"]) for key in ("peak_mb", "peak_above_idle_mb")
    }
    write("memory", peaks)


def scattered() -> None:
    """A training step on scattered rows: the same model in every program."""
    found = {}
    for covariance in ("diagonal", "dense"):
        runs = in_turn({name: [f"scattered_{name}.py", covariance] for name in PYTHON})
        found[covariance] = compared(runs)
    write("scattered", found)


def imports() -> None:
    """Seconds to import an estimator, beside those of what it stands on."""
    seconds = answer("zigp", ["imports.py"])
    found = {name: summary(times) for name, times in seconds.items()}
    ratio = found["zigp"]["median"] / found["jax and scikit-learn"]["median"]
    write("imports", found | {"ratio": ratio})


def second_start() -> None:
    """Seconds of a short `zigp fit`, before and after its programs were compiled and kept."""
    seconds = answer("zigp", ["second_start.py"])
    found = {name: summary(times) for name, times in seconds.items()}
    write("second_start", found | {"ratio": found["second"]["median"] / found["first"]["median"]})


# -- running them ---------------------------------------------------------------------------------


def in_turn(programs: dict[str, list[str]]) -> Runs:
    """What each program said in each round; they alternate, so that a busy moment hits all."""
    runs: Runs = {name: [] for name in programs}
    for _ in range(ROUNDS):
        for name, command in programs.items():
            runs[name].append(answer(name, command))
    return runs


def answer(name: str, command: list[str]) -> dict[str, Any]:
    script, *arguments = command
    typed = [PYTHON[name], str(HERE / "cases" / script), *arguments]
    print(name, *command, file=sys.stderr, flush=True)
    done = subprocess.run(typed, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed with {name}:\n{done.stderr}")
    return json.loads(done.stdout)


def compared(runs: Runs) -> dict[str, Any]:
    """Seconds of every program, and zigp's as a part of those of the fastest peer, by rounds.

    Where programs say what bound they began at, it is kept: it tells whether they had one model.
    """
    found: dict[str, Any] = {
        name: summary([s for run in each for s in run["seconds"]])
        | {
            "compile": statistics.median(run["compile_seconds"] for run in each),
            "rows": each[0]["rows"],
        }
        | {key: each[0][key][0] for key in ("bound",) if key in each[0]}
        for name, each in runs.items()
    }
    rounds = [
        {name: statistics.median(run["seconds"]) for name, run in zip(runs, each, strict=True)}
        for each in zip(*runs.values(), strict=True)
    ]
    ratios = [each.pop("zigp") / min(each.values()) for each in rounds]
    versions = {what: v for each in runs.values() for what, v in each[0]["versions"].items()}
    return found | {
        "ratio": statistics.median(ratios),
        "ratio_of_rounds": sorted(ratios),
        "versions": versions,
    }


def summary(seconds: list[float]) -> dict[str, float]:
    low, median, high = statistics.quantiles(seconds, n=4)
    return {"median": median, "lower_quartile": low, "upper_quartile": high}


# -- writing them down ----------------------------------------------------------------------------


def write(name: str, result: dict[str, Any]) -> None:
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(result | {"on": machine()}, indent=2)
    (RESULTS / f"{name}.json").write_text(text + "\n")


def machine() -> dict[str, Any]:
    """What it was measured on."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):  # not Linux on a PC
        cpu = platform.processor() or platform.machine()
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("zigp", "jax", "numpy")},
        "load_before": round(BUSY, 1),
    }


def table() -> str:
    """Every median with its quartiles, in seconds, and every ratio."""
    lines = [
        f"{'case':24s}{'program':22s}{'median':>8s}{'quartiles':>20s}{'compile':>9s}{'ratio':>8s}"
    ]
    for case, found in measured().items():
        for name, times in found.items():
            if not isinstance(times, dict) or "median" not in times:
                continue
            spread = f"{times['lower_quartile']:.4f} to {times['upper_quartile']:.4f}"
            compiled = f"{times['compile']:.2f}" if "compile" in times else ""
            ratio = f"{found['ratio']:.3f}" if name == "zigp" else ""
            lines.append(
                f"{case:24s}{name:22s}{times['median']:8.4f}{spread:>20s}{compiled:>9s}{ratio:>8s}"
            )
    return "\n".join(lines)


def measured() -> dict[str, dict[str, Any]]:
    names = ("gradient", "scattered", "imports")
    read = {name: json.loads((RESULTS / f"{name}.json").read_text()) for name in names}
    return {
        "full-data gradient": read["gradient"],
        "scattered, diagonal q": read["scattered"]["diagonal"],
        "scattered, dense q": read["scattered"]["dense"],
        "import": read["imports"],
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
