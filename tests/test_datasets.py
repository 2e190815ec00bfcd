"""The simulated rain is what its docstring says."""

from __future__ import annotations

import numpy as np
import pytest

from zigp.datasets import simulate_rain


@pytest.mark.parametrize("seed", [2018, 0, 1, 2, 3])
def test_simulated_rain(seed):
    rain = simulate_rain(seed=seed)
    assert list(rain) == ["lat", "lon", "hour", "rain_mm"]
    assert rain[["lat", "lon"]].drop_duplicates().shape[0] == 40
    assert rain["hour"].nunique() == 240
    assert 0.85 <= (rain["rain_mm"] == 0).mean() <= 0.90
    assert 0.95 < len(rain) / (40 * 240) < 0.98  # some are missing
    tenths = rain["rain_mm"].to_numpy() * 10
    np.testing.assert_allclose(tenths, tenths.round(), atol=1e-9)
    assert rain["rain_mm"].min() == 0
    assert not rain.duplicated(["lat", "lon", "hour"]).any()


def test_storms_move():
    """The rain of one hour resembles that of the next more than that of ten hours later."""
    rain = simulate_rain().pivot_table(index=["lat", "lon"], columns="hour", values="rain_mm")
    wet = (rain.fillna(0) > 0).astype(float).to_numpy()

    def overlap(lag: int) -> float:
        return np.corrcoef(wet[:, :-lag].ravel(), wet[:, lag:].ravel())[0, 1]

    assert overlap(1) > 0.5 > 0.2 > overlap(10)


def test_the_seed_decides():
    assert simulate_rain(seed=5).equals(simulate_rain(seed=5))
    assert not simulate_rain(seed=5).equals(simulate_rain(seed=6))
