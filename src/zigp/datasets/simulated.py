"""Rain that is no draw from any model of this package."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["simulate_rain"]

_KM_PER_DEGREE = 111.2


def simulate_rain(n_stations: int = 40, n_hours: int = 240, seed: int = 2018) -> pd.DataFrame:
    """Hourly rain at scattered stations, made of moving storm cells.

    Storms are born at random over a region of 8 by 8 degrees, drift with the wind, grow and
    fade. It rains where they are strong, with gamma distributed amounts around their strength
    recorded to 0.1 mm; 85 to 90 % of the readings are exactly zero. Three in a hundred readings
    are missing, and one station is silent for a day. This is no draw from any model of this
    package.

    Returns one row per reading, with columns lat, lon, hour and rain_mm.
    """
    import pandas as pd

    rng = np.random.default_rng(seed)
    lat = np.round(rng.uniform(60.0, 68.0, n_stations), 3)
    lon = np.round(rng.uniform(21.0, 29.0, n_stations), 3)
    north = (lat - 64.0) * _KM_PER_DEGREE
    east = (lon - 25.0) * _KM_PER_DEGREE * np.cos(np.deg2rad(64.0))
    strength = _storms(rng, east, north, n_hours)

    wet = strength > np.quantile(strength, 0.865)
    amount = rng.gamma(2.0, 0.5 * strength)
    rain = np.where(wet, np.round(amount, 1), 0.0)

    present = rng.random(rain.shape) > 0.03
    day = rng.integers(0, max(n_hours - 24, 1))
    present[rng.integers(n_stations), day : day + 24] = False
    station, hour = np.nonzero(present)
    columns = {"lat": lat[station], "lon": lon[station], "hour": hour, "rain_mm": rain[present]}
    return pd.DataFrame(columns)


def _storms(
    rng: np.random.Generator, east: np.ndarray, north: np.ndarray, n_hours: int
) -> np.ndarray:
    """How strong the storms are at each station and hour, in mm/h at their hearts."""
    hours = np.arange(n_hours)
    strength = np.zeros((len(east), n_hours))
    for _ in range(rng.poisson(0.5 * (n_hours + 24))):
        born, life = rng.uniform(-24, n_hours), rng.uniform(6, 24)
        age = (hours - born) / life
        alive = np.sin(np.pi * np.clip(age, 0.0, 1.0))
        speed, heading = rng.uniform(15, 45), rng.normal(0.6, 0.5)
        x = rng.uniform(-450, 250) + speed * np.cos(heading) * (hours - born)
        y = rng.uniform(-600, 500) + speed * np.sin(heading) * (hours - born)
        radius, peak = rng.uniform(40, 130), rng.gamma(2.0, 1.0)
        squared = (east[:, None] - x) ** 2 + (north[:, None] - y) ** 2
        strength += peak * alive * np.exp(-0.5 * squared / radius**2)
    return strength
