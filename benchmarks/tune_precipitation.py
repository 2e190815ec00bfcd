"""How the settings of the precipitation experiment were chosen: on training rows alone.

    .venv/bin/python benchmarks/tune_precipitation.py DATA_DIR [part of a candidate's name]

A fifth of a fold's training rows is held out (random rows, or whole hours where the fold itself
holds out hours), a model is fitted to the rest with each candidate, and scored on that fifth. A
fold's own test rows are not read for it. Adds to benchmarks/results/tune_precipitation.json.

All candidates take hours on two cores. What is kept there was computed on two cores for the paper's
lattice and for the peers, and on an H200 for the finer lattices. The last choice was how fast the
noise learns: 0.4, beyond which −log P a row fell by less than 0.001.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklego.meta import ZeroInflatedRegressor

from zigp import ZeroInflatedGPRegressor
from zigp.datasets import load_precipitation
from zigp.diagnostics.scores import amount_scores, distance_from_uniform, log_score, pit
from zigp.experiments.precipitation import INPUTS, RESOLUTION, SETTINGS, splits
from zigp.gp.kernels import SquaredExponential

RESULTS = Path(__file__).parent / "results" / "tune_precipitation.json"


def paper(north: float, east: float, hours: float) -> ZeroInflatedGPRegressor:
    """The paper's lattice, with length-scales to start from in degrees and hours."""
    kernel = {"space": SquaredExponential((north, east)), "time": SquaredExponential(hours)}
    return ZeroInflatedGPRegressor(likelihood="gaussian", **SETTINGS["paper"] | {"kernel": kernel})


def own(
    space: int = 105,
    hours: int = 1080,
    kernel: str | tuple[str, str] = "matern32",
    rate: float | dict[str, float] = 0.02,
    likelihood: str = "gated",
    **more: Any,
) -> ZeroInflatedGPRegressor:
    """A lattice of our own choice."""
    kernels = (kernel, kernel) if isinstance(kernel, str) else kernel
    settings = {
        "column_groups": {"space": ["lat", "lon"], "time": ["hour"]},
        "latlon": ["lat", "lon"],
        "n_inducing": {"space": space, "time": hours},
        "kernel": dict(zip(("space", "time"), kernels, strict=True)),
        "learn_inducing": False,
        "learning_rate": rate if isinstance(rate, dict) else paces(rate, rate),
        "steps": 1000,
        "tol": 0.0,
    }
    return ZeroInflatedGPRegressor(likelihood=likelihood, **settings | more)


def paces(rate: float, noise: float) -> dict[str, float]:
    return {"variational": rate, "kernel": rate, "inducing": 0.0, "noise": noise}


def default(noise: float) -> ZeroInflatedGPRegressor:
    """What is the default but for the rate of the noise."""
    return ZeroInflatedGPRegressor(learning_rate=paces(0.05, noise))


def trees(leaves: int, n: int, power: float) -> LGBMRegressor:
    return LGBMRegressor(
        objective="tweedie", tweedie_variance_power=power, num_leaves=leaves, n_estimators=n,
        random_state=0, verbose=-1,
    )  # fmt: skip


def forest(leaf: int) -> ZeroInflatedRegressor:
    options = {"min_samples_leaf": leaf, "n_jobs": -1, "random_state": 0}
    return ZeroInflatedRegressor(
        RandomForestClassifier(**options), RandomForestRegressor(**options)
    )


def boosted(leaves: int, n: int) -> ZeroInflatedRegressor:
    options = {"num_leaves": leaves, "n_estimators": n, "random_state": 0, "verbose": -1}
    return ZeroInflatedRegressor(LGBMClassifier(**options), LGBMRegressor(**options))


M12, M32, M52, SE = "matern12", "matern32", "matern52", "squared_exponential"
ONE, BOTH = (("kfold", 0),), (("kfold", 0), ("kfold", 1))
WITH_HOURS, EACH = (*BOTH, ("time", 0)), (*ONE, ("time", 0))
CANDIDATES: dict[str, tuple[Any, tuple[tuple[str, int], ...]]] = {
    "paper, start 2.6 and 3.0 degrees, 20 h": (paper(2.6, 3.0, 20.0), BOTH),
    "paper, start 1.0 and 1.2 degrees, 8 h": (paper(1.0, 1.2, 8.0), BOTH),
    "paper, start 0.4 and 0.5 degrees, 3 h": (paper(0.4, 0.5, 3.0), BOTH),
    "gated, 40 x 360, 3/2 x 1/2, rate 0.03": (own(40, 360, (M32, M12), 0.03), ONE),
    "gated, 60 x 540, 3/2 x 1/2, rate 0.03": (own(60, 540, (M32, M12), 0.03), ONE),
    "gated, 105 x 540, 3/2 x 1/2, rate 0.03": (own(105, 540, (M32, M12), 0.03), ONE),
    "gated, 3/2 x 1/2, rate 0.03": (own(kernel=(M32, M12), rate=0.03), ONE),
    "gated, 3/2 x 1/2, rate 0.05": (own(kernel=(M32, M12), rate=0.05), ONE),
    "gated, 3/2 x 1/2, rate 0.1": (own(kernel=(M32, M12), rate=0.1), ONE),
    "gated, 3/2 x 1/2, rate 0.03, 500 steps": (own(kernel=(M32, M12), rate=0.03, steps=500), ONE),
    "gated, 3/2 x 1/2, rate 0.03, 2000 steps": (own(kernel=(M32, M12), rate=0.03, steps=2000), ONE),
    "gated, SE x 1/2, rate 0.03": (own(kernel=(SE, M12), rate=0.03), ONE),
    "gated, 1/2 x 1/2, rate 0.03": (own(kernel=M12, rate=0.03), ONE),
    "gated, 3/2 x 3/2, rate 0.03": (own(rate=0.03), ONE),
    "gated, 3/2 x 1/2, rate 0.03, resolution 0.2": (
        own(kernel=(M32, M12), rate=0.03, resolution=0.2), ONE,
    ),
    "gated, 3/2 x 1/2, rate 0.03, resolution 0.05": (
        own(kernel=(M32, M12), rate=0.03, resolution=0.05), ONE,
    ),
    "gaussian, 3/2 x 1/2, rate 0.03": (
        own(kernel=(M32, M12), rate=0.03, likelihood="gaussian"), ONE,
    ),
    "hurdle_lognormal, 3/2 x 1/2, rate 0.03": (
        own(kernel=(M32, M12), rate=0.03, likelihood="hurdle_lognormal"), ONE,
    ),
    "hurdle_gamma, 3/2 x 1/2, rate 0.03": (
        own(kernel=(M32, M12), rate=0.03, likelihood="hurdle_gamma"), ONE,
    ),
    "gated, 3/2 x 1/2, rate 0.02": (own(kernel=(M32, M12)), WITH_HOURS),
    "gated, 1/2 x 1/2, rate 0.02": (own(kernel=M12), WITH_HOURS),
    "gated, 1/2 x 3/2, rate 0.02": (own(kernel=(M12, M32)), WITH_HOURS),
    "gated, 3/2 x 3/2, rate 0.02": (own(), WITH_HOURS),
    "gated, 3/2 x 5/2, rate 0.02": (own(kernel=(M32, M52)), EACH),
    "gated, 1/2 x 1/2, rate 0.015": (own(kernel=M12, rate=0.015), WITH_HOURS),
    "gated, 1/2 x 1/2, rate 0.02, 700 steps": (own(kernel=M12, steps=700), WITH_HOURS),
    "gated, 105 x 800, 1/2 x 1/2, rate 0.02": (own(105, 800, M12), WITH_HOURS),
    "gated, 3/2 x 3/2, rate 0.02, noise 0.03": (own(rate=paces(0.02, 0.03)), EACH),
    "gated, 3/2 x 3/2, rate 0.02, noise 0.04": (own(rate=paces(0.02, 0.04)), EACH),
    "gated, 3/2 x 3/2, rate 0.02, noise 0.06": (own(rate=paces(0.02, 0.06)), EACH),
    "gated, 3/2 x 3/2, rate 0.02, noise 0.1": (own(rate=paces(0.02, 0.1)), EACH),
    **{
        f"default, noise {rate}": (default(rate), WITH_HOURS)
        for rate in (0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8)
    },
    "LightGBM, 31 leaves, 100 trees, power 1.5": (trees(31, 100, 1.5), BOTH),
    "LightGBM, 31 leaves, 1000 trees, power 1.5": (trees(31, 1000, 1.5), BOTH),
    "LightGBM, 127 leaves, 500 trees, power 1.3": (trees(127, 500, 1.3), BOTH),
    "LightGBM, 127 leaves, 500 trees, power 1.5": (trees(127, 500, 1.5), BOTH),
    "LightGBM, 127 leaves, 500 trees, power 1.7": (trees(127, 500, 1.7), BOTH),
    "LightGBM, 127 leaves, 1500 trees, power 1.5": (trees(127, 1500, 1.5), BOTH),
    "LightGBM, 255 leaves, 1000 trees, power 1.5": (trees(255, 1000, 1.5), BOTH),
    "scikit-lego, boosted, 31 leaves, 500 trees": (boosted(31, 500), BOTH),
    "scikit-lego, boosted, 127 leaves, 500 trees": (boosted(127, 500), BOTH),
    "scikit-lego, forests, leaves of 1": (forest(1), BOTH),
    "scikit-lego, forests, leaves of 3": (forest(3), BOTH),
}  # fmt: skip


def held_out(rain: pd.DataFrame, split: str, fold: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What is fitted and what is scored, both of a fold's training rows."""
    train = next(train for f, train, _ in splits(rain, split) if f == fold)
    if split == "kfold":
        aside = np.random.default_rng(fold).random(len(train)) < 0.2
    else:
        hours = rain["hour"].to_numpy()[train]
        drawn = np.random.default_rng(100 + fold).permutation(np.unique(hours))[:172]
        aside = np.isin(hours, drawn)
    return rain.iloc[train[~aside]], rain.iloc[train[aside]]


def pit_distance(model: ZeroInflatedGPRegressor, scored: pd.DataFrame) -> float:
    y = scored["rain_mm"].to_numpy()
    return distance_from_uniform(pit(y, lambda t: model.prob_below(scored[INPUTS], t), RESOLUTION))


def negative_log_probability(model: ZeroInflatedGPRegressor, scored: pd.DataFrame) -> float:
    y, X = scored["rain_mm"].to_numpy(), scored[INPUTS]
    return float(np.mean(log_score(y, lambda a, b: model.log_prob_between(X, a, b), RESOLUTION)))


def main(data: Path, only: str = "") -> None:
    rain = load_precipitation(data)
    table = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name, (model, where) in CANDIDATES.items():
        for split, fold in where if only in name else ():
            fitted, scored = held_out(rain, split, fold)
            began = time.perf_counter()
            model.fit(fitted[INPUTS], fitted["rain_mm"].to_numpy())
            seconds = time.perf_counter() - began
            mean = np.asarray(model.predict(scored[INPUTS]))
            found = amount_scores(scored["rain_mm"].to_numpy(), mean, RESOLUTION)
            row = {key: found[key] for key in ("rmse", "mae", "f1", "accuracy")}
            if isinstance(model, ZeroInflatedGPRegressor):
                row["nlpd"] = negative_log_probability(model, scored)
                row["pit_distance"] = pit_distance(model, scored)
            table.setdefault(name, {})[f"{split} {fold}"] = row | {"seconds": seconds}
            print(name, split, fold, json.dumps(row), flush=True)
            RESULTS.write_text(json.dumps(table, indent=2) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:3])
