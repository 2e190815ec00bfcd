"""Example data: simulated rain, and the data of the paper."""

from zigp.datasets.paper import load_jura, load_precipitation, load_toy
from zigp.datasets.simulated import simulate_rain, simulate_rain_grid

__all__ = ["load_jura", "load_precipitation", "load_toy", "simulate_rain", "simulate_rain_grid"]
