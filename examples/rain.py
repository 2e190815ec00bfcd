"""Rain at stations: where it rains, how much, and how much fell in all.

python examples/rain.py
"""

import numpy as np

from zigp import ZeroInflatedGPRegressor
from zigp.datasets import simulate_rain
from zigp.diagnostics import morans_i, score_table

rain = simulate_rain(n_stations=20, n_hours=120, seed=1)  # lat, lon, hour, rain_mm
seen = np.random.default_rng(1).random(len(rain)) < 0.8
inputs = ["lat", "lon", "hour"]

# Stations and hours form a lattice, which is found and fitted as one.
model = ZeroInflatedGPRegressor(latlon=["lat", "lon"], verbose=True)
model.fit(rain.loc[seen, inputs], rain.loc[seen, "rain_mm"])
print("Anything wrong with the fit?", model.sanity() or "no")

# How good is it where it has not looked? Rain is recorded to 0.1 mm.
new = rain[~seen]
for name, value in score_table(model, new[inputs], new["rain_mm"], resolution=0.1).items():
    print(f"{name:>14} {value:.3f}")

# Is anything left in the residuals that neighbouring stations share?
residuals = model.quantile_residuals(new[inputs], new["rain_mm"])
print(morans_i(residuals, new[inputs]))

# One new place, hour by hour: what to expect, and the chance of more than 1 mm.
place = rain[inputs].iloc[:24].assign(lat=64.0, lon=25.0, hour=range(48, 72))
mean, prob_on = model.predict(place), model.prob_on(place)
more = 1.0 - model.prob_below(place, 1.0)
for hour in range(0, 24, 6):
    print(
        f"hour {48 + hour}: {mean[hour]:.2f} mm, on {prob_on[hour]:.2f}, over 1 mm {more[hour]:.2f}"
    )

# The hours after the last one: the further ahead, the closer to what is usual there.
ahead = place.assign(hour=range(120, 144))
for hours in (0, 3, 23):
    print(f"{hours + 1:>2} hours ahead: on {model.prob_on(ahead)[hours]:.2f}")

# Totals by day over all stations, with intervals from joint draws.
everywhere = rain[inputs]
print(model.aggregate(everywhere, by=everywhere["hour"] // 24, n_samples=200, random_state=0))
