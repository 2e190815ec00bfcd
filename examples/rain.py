"""Rain at stations: where it rains, how much, and the totals.

python examples/rain.py
"""

import numpy as np

from zigp import ZeroInflatedGPRegressor
from zigp.datasets import simulate_rain
from zigp.diagnostics import score_table

rain = simulate_rain(n_stations=20, n_hours=120, seed=1)  # lat, lon, hour, rain_mm
train = np.random.default_rng(1).random(len(rain)) < 0.8
inputs = ["lat", "lon", "hour"]

# zigp detects that stations and hours form a lattice and fits them as one.
model = ZeroInflatedGPRegressor(latlon=["lat", "lon"], verbose=True)
model.fit(rain.loc[train, inputs], rain.loc[train, "rain_mm"])
print("sanity:", model.sanity() or "no problems")

# Scores on held-out readings. Rain is recorded in steps of 0.1 mm.
new = rain[~train]
for name, value in score_table(model, new[inputs], new["rain_mm"], resolution=0.1).items():
    print(f"{name:>14} {value:.3f}")

# A new place for each hour: the expected rain, and the probability of more than 1 mm.
place = rain[inputs].iloc[:24].assign(lat=64.0, lon=25.0, hour=range(48, 72))
mean, prob_on = model.predict(place), model.prob_on(place)
more = 1.0 - model.prob_below(place, 1.0)
for hour in range(0, 24, 6):
    print(
        f"hour {48 + hour}: {mean[hour]:.2f} mm, on {prob_on[hour]:.2f}, over 1 mm {more[hour]:.2f}"
    )

# A forecast: further ahead, the support approaches its average.
ahead = place.assign(hour=range(120, 144))
for hours in (0, 3, 23):
    print(f"{hours + 1:>2} hours ahead: on {model.prob_on(ahead)[hours]:.2f}")

# Daily totals over all stations, with intervals from joint draws.
everywhere = rain[inputs]
print(model.aggregate(everywhere, by=everywhere["hour"] // 24, n_samples=200, random_state=0))
