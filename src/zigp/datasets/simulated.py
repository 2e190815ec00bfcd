"""Simulated rain, which is not a draw from any model of this package."""

import numpy as np
import pandas as pd
import xarray as xr

_KM_PER_DEGREE = 111.2


def simulate_rain(n_stations: int = 40, n_hours: int = 240, seed: int = 2018) -> pd.DataFrame:
    """Simulate hourly rain at scattered stations, made of moving storm cells.

    Storms start at random over a region of 8 by 8 degrees, drift with the wind, grow and fade. It
    rains where they are strong, with gamma distributed amounts around their strength, recorded to
    0.1 mm; 85 to 90 % of the readings are exactly zero. Three in a hundred readings are missing,
    and one station reports nothing for a day.

    Parameters
    ----------
    n_stations : int, default=40
        Number of stations.
    n_hours : int, default=240
        Number of hours.
    seed : int, default=2018
        Seed of the random numbers.

    Returns
    -------
    DataFrame
        One row per reading, with the columns `lat`, `lon`, `hour` and `rain_mm`.

    Examples
    --------
    >>> list(simulate_rain(n_stations=5, n_hours=48))
    ['lat', 'lon', 'hour', 'rain_mm']
    """
    rng = np.random.default_rng(seed)
    lat = np.round(rng.uniform(60.0, 68.0, n_stations), 3)
    lon = np.round(rng.uniform(21.0, 29.0, n_stations), 3)
    rain = _rain(rng, lat, lon, n_hours)

    present = rng.random(rain.shape) > 0.03
    day = rng.integers(0, max(n_hours - 24, 1))
    present[rng.integers(n_stations), day : day + 24] = False
    station, hour = np.nonzero(present)
    columns = {"lat": lat[station], "lon": lon[station], "hour": hour, "rain_mm": rain[present]}
    return pd.DataFrame(columns)


def simulate_rain_grid(
    n_hours: int = 240, n_lat: int = 20, n_lon: int = 20, seed: int = 2018, dry: float = 0.88
) -> xr.DataArray:
    """Simulate rain on a grid of time, latitude and longitude, as a radar would record it.

    Parameters
    ----------
    n_hours : int, default=240
        Number of hours.
    n_lat, n_lon : int, default=20
        Number of latitudes and longitudes.
    seed : int, default=2018
        Seed of the random numbers.
    dry : float, default=0.88
        Share of cells without rain. One cell in a hundred is missing.

    Returns
    -------
    DataArray
        Rain in mm, with the dimensions `time`, `lat` and `lon`.

    Examples
    --------
    >>> dict(simulate_rain_grid(n_hours=24, n_lat=6, n_lon=8).sizes)
    {'time': 24, 'lat': 6, 'lon': 8}
    """
    rng = np.random.default_rng(seed)
    lat, lon = np.linspace(60.0, 68.0, n_lat), np.linspace(21.0, 29.0, n_lon)
    north, east = (axis.ravel() for axis in np.meshgrid(lat, lon, indexing="ij"))
    rain = _rain(rng, north, east, n_hours, dry)
    rain[rng.random(rain.shape) < 0.01] = np.nan
    return xr.DataArray(
        rain.T.reshape(n_hours, n_lat, n_lon),
        coords={
            "time": pd.date_range("2018-07-01", periods=n_hours, freq="h"),
            "lat": ("lat", lat, {"units": "degrees_north"}),
            "lon": ("lon", lon, {"units": "degrees_east"}),
        },
        dims=("time", "lat", "lon"),
        name="rain_mm",
        attrs={"units": "mm", "long_name": "hourly rain"},
    )


def _rain(
    rng: np.random.Generator, lat: np.ndarray, lon: np.ndarray, n_hours: int, dry: float = 0.865
) -> np.ndarray:
    """Return rain at each place and hour, rounded to 0.1 mm."""
    north = (lat - 64.0) * _KM_PER_DEGREE
    east = (lon - 25.0) * _KM_PER_DEGREE * np.cos(np.deg2rad(64.0))
    strength = _storms(rng, east, north, n_hours)
    wet = strength > np.quantile(strength, dry)
    amount = rng.gamma(2.0, 0.5 * strength)
    return np.where(wet, np.round(amount, 1), 0.0)


def _storms(
    rng: np.random.Generator, east: np.ndarray, north: np.ndarray, n_hours: int
) -> np.ndarray:
    """Return the strength of storms at each station and hour, in mm/h at their centres."""
    hours = np.arange(n_hours)
    strength = np.zeros((len(east), n_hours))
    for _ in range(rng.poisson(0.5 * (n_hours + 24))):
        born, life = rng.uniform(-24, n_hours), rng.uniform(6, 24)
        during = slice(max(int(np.ceil(born)), 0), max(int(born + life) + 1, 0))
        since = hours[during] - born
        alive = np.sin(np.pi * np.clip(since / life, 0.0, 1.0))
        speed, heading = rng.uniform(15, 45), rng.normal(0.6, 0.5)
        x = rng.uniform(-450, 250) + speed * np.cos(heading) * since
        y = rng.uniform(-600, 500) + speed * np.sin(heading) * since
        radius, peak = rng.uniform(40, 130), rng.gamma(2.0, 1.0)
        squared = (east[:, None] - x) ** 2 + (north[:, None] - y) ** 2
        strength[:, during] += peak * alive * np.exp(-0.5 * squared / radius**2)
    return strength
