"""How soon natural-gradient steps reach what 3,000 steps of Adam reach, from the same start.

python benchmarks/convergence.py [DATA_DIR]

Precipitation (fold 0, the paper's 10 × 100 lattice) and a sparse network on Jura (10 inducing
points). Adam has four learning rates to be judged by its best. Natural gradients have one setting:
on Jura the estimator's default, on precipitation the rates below, chosen among some twenty by how
soon they passed bounds there; what the default does there is shown beside it. All data in every
step, compilation done before the clock starts.
Writes results/convergence.json and docs/images/convergence.svg.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from run import RESULTS, machine

import zigp.estimators.fitting as base
from zigp import GPNetworkRegressor, ZeroInflatedGPRegressor
from zigp.datasets import load_jura, load_precipitation
from zigp.experiments.precipitation import INPUTS, SETTINGS, splits
from zigp.runtime.session import session
from zigp.training import TrainingSettings, train

RATES = (0.02, 0.05, 0.1, 0.2)
ADAM_STEPS = 3000
# Noise starts far from its end and inducing inputs near it. Steps that lower the bound are taken
# back and halved: no schedule need slow the others down.
BY_GROUP = {"variational": 0.2, "kernel": 0.2, "inducing": 0.01, "noise": 0.5}
DEFAULT = 0.1  # the rate of natural-gradient steps where nothing is said
NATURAL = {
    "precipitation": {"rate": BY_GROUP, "schedule": "constant", "steps": 600},
    "jura": {"rate": DEFAULT, "steps": 300},
}
AS_BY_DEFAULT = {"precipitation": {"rate": DEFAULT, "steps": 600}}
IMAGE = Path(__file__).parents[1] / "docs" / "images" / "convergence.svg"


@contextmanager
def begun() -> Iterator[dict[str, Any]]:
    """What an estimator would train from, without the training."""
    held: dict[str, Any] = {}

    def instead(models: Any, data: Any, settings: TrainingSettings, show: Any, **more: Any) -> None:
        held.update(model=models[0], data=data, settings=settings, shift=more["shift"])
        raise InterruptedError

    whole, base.train_restarts = base.train_restarts, instead
    try:
        with suppress(InterruptedError):
            yield held
    finally:
        base.train_restarts = whole


def cases(folder: Path | None) -> Iterator[tuple[str, dict[str, Any]]]:
    rain = load_precipitation(folder)
    _, rows, _ = next(splits(rain, "kfold"))
    with begun() as held:
        model = ZeroInflatedGPRegressor(likelihood="gaussian", random_state=0, **SETTINGS["paper"])
        model.fit(rain.iloc[rows][INPUTS], rain.iloc[rows]["rain_mm"].to_numpy())
    yield "precipitation", held
    soil, _ = load_jura(folder)
    with begun() as held:
        network = GPNetworkRegressor(n_inducing=10, n_restarts=1, random_state=0)
        network.fit(soil[["x", "y"]], soil[["cd", "ni", "zn"]])
    yield "jura", held


def path(held: dict[str, Any], rate: Any, steps: int, **how: Any) -> dict[str, Any]:
    """The bound over time, compiled programs given."""
    settings = replace(held["settings"], learning_rate=rate, tol=0.0, **how)
    with session():
        train(held["model"], held["data"], replace(settings, steps=6))
        fit = train(
            held["model"], held["data"], replace(settings, steps=steps), shift=held["shift"]
        )
    every = np.unique(np.linspace(0, len(fit.bounds) - 1, 300).astype(int))
    print(
        f"{settings.method} at {rate}: {fit.bounds[-1]:,.1f} after {fit.seconds:.1f} s", flush=True
    )
    return {
        "rate": rate,
        "steps": steps,
        "seconds": fit.seconds,
        "bound": float(fit.bounds[-1]),
        "path": [[float(fit.times[i]), float(fit.bounds[i])] for i in every],
        "bounds": fit.bounds,
        "times": fit.times,
    }


def compared(name: str, held: dict[str, Any]) -> dict[str, Any]:
    adam = [path(held, rate, ADAM_STEPS, method="adam") for rate in RATES]
    natural = path(held, method="natural", **NATURAL[name])
    usual = path(held, method="natural", **AS_BY_DEFAULT[name]) if name in AS_BY_DEFAULT else None
    best = max(adam, key=lambda run: run["bound"])
    for run in filter(None, (natural, usual)):
        there = np.flatnonzero(run["bounds"] >= best["bound"])
        run["steps_there"] = int(there[0]) if len(there) else None
        run["seconds_there"] = float(run["times"][there[0]]) if len(there) else None
    for run in filter(None, (*adam, natural, usual)):
        del run["bounds"], run["times"]
    reached = natural["seconds_there"]
    return {
        "adam": adam,
        "natural": natural,
        "natural as by default": usual,
        "best_rate": best["rate"],
        "adam_seconds": best["seconds"],
        "ratio": np.inf if reached is None else reached / best["seconds"],
    }


def row(name: str, case: dict[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    """A line of the table: natural gradients beside Adam at its best."""
    there = run["seconds_there"]
    return {
        "": name,
        "Adam's best rate": case["best_rate"],
        "its bound": round(max(each["bound"] for each in case["adam"]), 1),
        "in seconds": round(case["adam_seconds"], 2),
        "natural gradients there, seconds": "never" if there is None else round(there, 2),
        "and steps": "" if there is None else run["steps_there"],
        "of the time": "" if there is None else there / case["adam_seconds"],
        "their bound in the end": round(run["bound"], 1),
    }


def draw(found: dict[str, dict[str, Any]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(found), figsize=(9.5, 3.6), layout="constrained")
    for axis, (name, case) in zip(axes, found.items(), strict=True):
        for run in case["adam"]:
            chosen = run["rate"] == case["best_rate"]
            label = f"Adam, rate {run['rate']:g}" + " (best)" * chosen
            axis.plot(
                *np.transpose(run["path"]), label=label, alpha=1.0 if chosen else 0.45, lw=1.2
            )
        steps = case["natural"]
        axis.plot(*np.transpose(steps["path"]), color="black", lw=1.8, label="natural gradients")
        if usual := case["natural as by default"]:
            label = "natural gradients, default rates"
            axis.plot(*np.transpose(usual["path"]), color="black", lw=1.2, ls="--", label=label)
        goal = max(run["bound"] for run in case["adam"])
        axis.axhline(goal, color="grey", ls=":", lw=1)
        low = np.min([run["bound"] for run in case["adam"]]) - 4 * np.ptp(
            [run["bound"] for run in (*case["adam"], steps)]
        )
        axis.set(
            title=f"{name.capitalize()}: natural gradients reach\nAdam's best bound in "
            f"{case['ratio']:.2f} of its time",
            xlabel="seconds",
            ylabel="bound",
            ylim=(low, None),
        )
        axis.legend(fontsize=7, loc="lower right")
    figure.savefig(IMAGE, metadata={"Date": None})


def main(folder: Path | None) -> None:
    found = {name: compared(name, held) for name, held in cases(folder)}
    rows = []
    for name, case in found.items():
        rows.append(row(name.capitalize(), case, case["natural"]))
        if usual := case["natural as by default"]:
            rows.append(row(f"{name.capitalize()}, default rates", case, usual))
    ratios = {name: case["ratio"] for name, case in found.items()}
    whole = {"ratios": ratios, "table": rows, "cases": found, "on": machine()}
    (RESULTS / "convergence.json").write_text(json.dumps(whole) + "\n")
    draw(found)
    print(json.dumps(ratios))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
