"""The main job on a simulated rain field: hold cells out, fit, score, draw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from zigp.datasets import simulate_rain
from zigp.estimators import SparseGPRegressor, ZeroInflatedGPRegressor
from zigp.plots import lattice_panels
from zigp.scores import amount_scores

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["Demo", "run_demo"]

RESOLUTION = 0.1  # mm
INPUTS = ["lat", "lon", "hour"]


@dataclass
class Demo:
    """What the demo found."""

    rain: pd.DataFrame
    held_out: np.ndarray
    scores: dict[str, dict[str, float]]
    figure: Figure


def run_demo(seed: int = 2018, *, verbose: bool = True) -> Demo:
    """Simulate rain, hold a fifth of the readings out, and compare Zero, GPr and ZiGP on them."""
    rain = simulate_rain(seed=seed)
    held_out = np.random.default_rng(seed).random(len(rain)) < 0.2
    train, test = rain[~held_out], rain[held_out]
    where = {"column_groups": {"space": ["lat", "lon"], "time": ["hour"]}, "latlon": ["lat", "lon"]}
    y = test["rain_mm"].to_numpy()

    scores = {"Zero": amount_scores(y, np.zeros(len(y)), RESOLUTION)}
    estimators: dict[str, Callable[..., SparseGPRegressor | ZeroInflatedGPRegressor]] = {
        "GPr": SparseGPRegressor,
        "ZiGP": ZeroInflatedGPRegressor,
    }
    for name, make in estimators.items():
        model = make(**where, verbose=verbose).fit(train[INPUTS], train["rain_mm"])
        mean = np.asarray(model.predict(test[INPUTS]))
        scores[name] = amount_scores(y, mean, RESOLUTION)
    assert isinstance(model, ZeroInflatedGPRegressor)
    return Demo(rain, held_out, scores, _figure(model, rain, held_out))


def _figure(model: ZeroInflatedGPRegressor, rain: pd.DataFrame, held_out: np.ndarray) -> Figure:
    """Every station and hour, stations from north to south."""
    import pandas as pd

    stations = rain[["lat", "lon"]].drop_duplicates().sort_values("lat", ascending=False)
    hours = np.arange(rain["hour"].max() + 1)
    grid = pd.merge(stations, pd.DataFrame({"hour": hours}), how="cross")
    shape = (len(stations), len(hours))
    seen = grid.merge(rain[~held_out], on=INPUTS, how="left")["rain_mm"].to_numpy()
    parts = model.predict_components(grid[INPUTS])
    return lattice_panels(
        seen.reshape(shape),
        np.clip(parts["signal"].to_numpy(), 0.0, None).reshape(shape),
        parts["gate"].to_numpy().reshape(shape),
        parts["latent"].to_numpy().reshape(shape),
        rows="station, north to south",
        columns="hour",
        unit="mm per hour",
    )
