"""Hourly rain at stations in Finland: the paper's Table 1, Figures 3 and 4."""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.spatial import cKDTree
from sklearn.dummy import DummyRegressor
from sklearn.metrics import average_precision_score
from sklearn.model_selection import KFold

from zigp import plots
from zigp.diagnostics import scores
from zigp.diagnostics.validation import row_scores
from zigp.estimators import (
    HurdleGPRegressor,
    SparseGPClassifier,
    SparseGPRegressor,
    ZeroInflatedGPRegressor,
)
from zigp.experiments.record import Record, say, timed
from zigp.gp.kernels import SquaredExponential

INPUTS = ["lat", "lon", "hour"]
RESOLUTION = 0.1  # mm, of the gauges
TEST_HOURS = 216
DAYS = 7  # on maps
_JOINT = ("GPc", "GPr", "Hurdle", "ZiGP")  # each one model of all rows
FAST_STEPS = 60
# Models that users would pick otherwise, if installed (pip install 'zigp[peers]'): their names in
# the tables, and the packages they come from.
PEERS = {"LightGBM": "lightgbm", "scikit-lego": "sklego"}

# `paper`: 10 × 100 inducing points, squared exponential kernels with a length-scale for each of
# latitude, longitude and time, Gaussian noise. The initial length-scales (degrees, hours) were
# chosen on training rows alone (benchmarks/tune_precipitation.py). `own` is the defaults, which
# were chosen in the same way.
SETTINGS: dict[str, dict[str, Any]] = {
    "paper": {
        "column_groups": {"space": ["lat", "lon"], "time": ["hour"]},
        "kernel": {
            "space": SquaredExponential((0.4, 0.5)),  # type: ignore[call-arg, arg-type]
            "time": SquaredExponential(3.0),  # type: ignore[call-arg, arg-type]
        },
        "n_inducing": {"space": 10, "time": 100},
        "learn_inducing": True,
        "learning_rate": 0.05,
        "steps": 1000,
        "tol": 0.0,
    },
    "own": {},
}
# The paper's Table 1.
PAPER: dict[str, dict[str, float]] = {
    "Zero": {"rmse": 0.615, "mae": 0.104, "f1": 0.0, "accuracy": 0.898, "precision": 0.0,
             "recall": 0.0},
    "GPc": {"f1": 0.367, "accuracy": 0.911, "precision": 0.675, "recall": 0.252},
    "GPr": {"rmse": 0.569, "mae": 0.159, "f1": 0.401, "accuracy": 0.750, "precision": 0.266,
            "recall": 0.817},
    "GPcr": {"rmse": 0.589, "mae": 0.102, "f1": 0.366, "accuracy": 0.911, "precision": 0.679,
             "recall": 0.251},
    "GPcr0": {"rmse": 0.575, "mae": 0.101, "f1": 0.358, "accuracy": 0.912, "precision": 0.712,
              "recall": 0.240},
    "ZiGP": {"rmse": 0.561, "mae": 0.121, "f1": 0.448, "accuracy": 0.861, "precision": 0.381,
             "recall": 0.558},
}  # fmt: skip


def splits(
    rain: pd.DataFrame, split: str, folds: int = 5
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yield each fold with its training rows and test rows.

    `kfold`: five random folds over rows, as in the paper's table. `time`: whole hours held out, as
    in the paper's text; the fold is the seed that draws them.
    """
    if split == "kfold":
        parts = KFold(5, shuffle=True, random_state=1234).split(rain)
        for fold, (train, test) in zip(range(folds), parts, strict=False):
            yield fold, train, test
        return
    hours = np.sort(rain["hour"].unique())
    for seed in range(folds):
        held_out = np.random.default_rng(seed).permutation(hours)[:TEST_HOURS]
        test_rows = rain["hour"].isin(held_out).to_numpy()
        yield seed, np.flatnonzero(~test_rows), np.flatnonzero(test_rows)


def run(rain: pd.DataFrame, out: Path, *, fast: bool = False) -> Record:
    """Run every model on every fold of both splits; draw Figures 3 and 4 into `out`."""
    record = Record("precipitation", fast=fast)
    for setting, split in product(SETTINGS, ["kfold"] if fast else ["kfold", "time"]):
        for fold, train, test in splits(rain, split, folds=1 if fast else 5):
            models, seconds = _fitted(rain.iloc[train], setting, fast)
            if not record.rows:
                _rain_maps(rain, models["ZiGP"]).savefig(out / "figure3-maps.png", dpi=110)
            for name, model in models.items():
                scored = _scored(name, model, rain.iloc[test], test)
                record.add(
                    *scored, model=name, setting=setting, split=split, fold=fold,
                    elbo=_bound(name, model, rain.iloc[train]), seconds=seconds[name],
                )  # fmt: skip
                say(f"precipitation, {setting}, {split} {fold}: {name} ({seconds[name]:.0f} s)")
    shown = record.predictions().query("setting == 'paper' and split == 'kfold'")
    _error_figure(shown).savefig(out / "figure4-errors.png", dpi=110)
    return record


def _fitted(
    train: pd.DataFrame, setting: str, fast: bool
) -> tuple[dict[str, Any], dict[str, float]]:
    """Return fitted models and their seconds by name; hurdles share the classifier."""
    settings = SETTINGS[setting] | ({"steps": FAST_STEPS} if fast else {})
    X, y = train[INPUTS], train["rain_mm"].to_numpy()
    models: dict[str, Any] = {}
    seconds: dict[str, float] = {}

    def fit(name: str, model: Any, rows: Any = slice(None), target: np.ndarray = y) -> None:
        seconds[name] = timed(model.fit, X[rows], target[rows])
        models[name] = model

    if setting == "own":
        own = {} if fast else {"ZiGP": ZeroInflatedGPRegressor(**settings)}
        for name, model in (installed_peers() | own).items():
            fit(name, model)
        return models, seconds
    fit("Zero", DummyRegressor(strategy="constant", constant=0.0))
    fit("GPc", SparseGPClassifier(**settings), target=(y > 0) * 1)
    fit("GPr", SparseGPRegressor(**settings))
    for name, combine, amount_rows, rows in (
        ("GPcr", "class", "all", slice(None)),
        ("GPcr0", "class", "predicted", models["GPc"].predict(X) == 1),
        ("Hurdle", "expectation", "positive", y > 0),
    ):
        fit(name, SparseGPRegressor(**settings), rows)
        models[name] = HurdleGPRegressor.from_parts(
            models["GPc"], models[name], combine=combine, amount_rows=amount_rows, **settings
        )
        seconds[name] += seconds["GPc"]
    fit("ZiGP", ZeroInflatedGPRegressor(likelihood="gaussian", **settings))
    return models, seconds


def installed_peers() -> dict[str, Any]:
    """Return regressors of the installed packages, by name.

    Their settings were chosen on training rows alone (benchmarks/tune_precipitation.py).
    """
    found: dict[str, Any] = {}
    if find_spec(PEERS["LightGBM"]):
        from lightgbm import LGBMRegressor

        found["LightGBM"] = LGBMRegressor(
            objective="tweedie",
            tweedie_variance_power=1.7,
            num_leaves=127,
            n_estimators=500,
            random_state=0,
            verbose=-1,
        )
    if find_spec(PEERS["scikit-lego"]):
        from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
        from sklego.meta import ZeroInflatedRegressor

        forest = {"min_samples_leaf": 3, "n_jobs": -1, "random_state": 0}
        found["scikit-lego"] = ZeroInflatedRegressor(
            RandomForestClassifier(**forest), RandomForestRegressor(**forest)
        )
    return found


def _bound(name: str, model: Any, train: pd.DataFrame) -> float | None:
    """Return the bound on all training rows, if the model has one."""
    if name not in _JOINT:
        return None
    y = train["rain_mm"].to_numpy()
    return model.elbo(train[INPUTS], (y > 0) * 1 if name == "GPc" else y)


def _scored(
    name: str, model: Any, test: pd.DataFrame, rows: np.ndarray
) -> tuple[dict[str, float], dict[str, Any]]:
    """Return all scores that a model has, and the predictions they follow from."""
    X, y = test[INPUTS], test["rain_mm"].to_numpy()
    columns: dict[str, Any] = {"row": rows, "output": "rain_mm", "y": y}
    if name in ("Zero", *PEERS):
        columns["mean"] = model.predict(X)
        return scores.amount_scores(y, columns["mean"], RESOLUTION), columns
    found: dict[str, float] = {}
    if name != "GPr":
        columns["prob_on"] = model.prob_on(X)
        found["auprc"] = float(average_precision_score(y > 0, columns["prob_on"]))
    if name == "GPc":
        return found | scores.class_scores(y > 0, columns["prob_on"] >= 0.5), columns
    columns |= row_scores(model, X, y, RESOLUTION)
    lower, upper = model.predict_interval(X, 0.9).clip(lower=0.0).to_numpy().T
    columns["covered90"] = ((lower <= y) & (y <= upper)).astype(int)
    found |= scores.amount_scores(y, columns["mean"], RESOLUTION)
    for score, column in (("nlpd", "nlpd"), ("crps", "crps"), ("coverage90", "covered90")):
        found[score] = float(np.mean(columns[column]))
    found["pit_distance"] = scores.distance_from_uniform(columns["pit"])
    return found, columns


def _rain_maps(rain: pd.DataFrame, model: ZeroInflatedGPRegressor) -> Figure:
    """Figure 3: a week of rain on maps, at the wettest hour of each day.

    From the top: the readings, the prediction and the support, the latter two near stations.
    """
    hours = _wettest_hours(rain)
    grid = _near(rain[["lat", "lon"]].drop_duplicates(), hours)
    parts = model.predict_components(grid)
    shown = rain["rain_mm"][rain["hour"].isin(hours)]
    same: dict[str, Any] = {"limits": (0.0, float(shown[shown > 0].quantile(0.95))), "tol": 0.05}
    rows: list[tuple[Any, Any, str, dict[str, Any]]] = [
        (rain[INPUTS], rain["rain_mm"], "readings, mm", same),
        (grid, parts["signal"].clip(lower=0.0), "prediction, mm", same),
        (grid, parts["gate"], "support, 0 off, 1 on", {"kind": "share"}),
    ]
    figure = Figure((1.6 * DAYS + 0.8, 8.4), layout="constrained")
    subfigures: Any = figure.subfigures(3, 1)
    for part, (X, values, label, how) in zip(subfigures, rows, strict=True):
        axes = plots.time_slices(X, values, at=hours, ncols=DAYS, label=label, figure=part, **how)
        for ax, hour in zip(axes, hours, strict=True):
            text = f"day {hour // 24 + 1}, {hour % 24:02d}:00"
            ax.set_title(text, loc="left", fontsize="medium")
    return figure


def _wettest_hours(rain: pd.DataFrame) -> list[int]:
    """Return the wettest hour of each day in the wettest run of days."""
    total = rain.groupby("hour")["rain_mm"].sum()
    by_day = total.groupby(total.index // 24)
    last = int(np.nanargmax(by_day.sum().rolling(DAYS).sum()))
    return by_day.idxmax().iloc[last - DAYS + 1 : last + 1].tolist()


def _near(stations: pd.DataFrame, hours: Sequence[int]) -> pd.DataFrame:
    """Return a grid over the stations at each hour, without places far from all of them."""
    lowest, highest = stations.min(), stations.max()
    lat, lon = (np.linspace(lowest[c], highest[c], n) for c, n in (("lat", 45), ("lon", 22)))
    grid = pd.DataFrame({"lat": lat}).merge(pd.DataFrame({"lon": lon}), how="cross")
    degrees = [1.0, np.cos(np.deg2rad(stations["lat"].mean()))]  # in those of latitude
    distance, _ = cKDTree(stations * degrees).query(grid * degrees)
    return grid[distance < 0.8].merge(pd.DataFrame({"hour": hours}), how="cross")


def _error_figure(predictions: pd.DataFrame) -> Figure:
    """Figure 4: how often absolute errors exceed a size, one line per model."""
    figure = Figure((6.4, 4.2), layout="constrained")
    ax = figure.subplots()
    for name in ("GPr", "ZiGP"):
        mine = predictions[predictions["model"] == name]
        y, mean = mine["y"].rename("held-out rain"), mine["mean"].clip(lower=0.0)
        plots.error_distribution(y, mean, resolution=RESOLUTION, unit="mm", label=name, ax=ax)
    return figure
