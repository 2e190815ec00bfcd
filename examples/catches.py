"""Catches of a survey: counts with effort, and the yearly index of a fishery.

python examples/catches.py
"""

import numpy as np
import pandas as pd

from zigp import ZeroInflatedGPRegressor, load
from zigp.diagnostics import zero_count

# Two hundred hauls over five years: the fish live in the north and decline.
rng = np.random.default_rng(2)
hauls = pd.DataFrame(
    {
        "east": rng.uniform(0, 100, 200),
        "north": rng.uniform(0, 100, 200),
        "year": rng.integers(2021, 2026, 200),
        "hours": rng.uniform(0.5, 2.0, 200),
    }
)
present = rng.random(200) < 1 / (1 + np.exp(-(hauls["north"] - 50) / 8))
per_hour = 20 * np.exp(-0.3 * (hauls["year"] - 2021))
catches = rng.negative_binomial(3, 3 / (3 + present * per_hour * hauls["hours"] + 1e-9))

# Counts with the hours fished as effort. The gate depends on the place alone.
model = ZeroInflatedGPRegressor(
    likelihood="auto", exposure="hours", gate_inputs=["east", "north"], n_inducing=40, steps=400
).fit(hauls, catches)
print("likelihood:", model.likelihood_, model.noise_)
print(zero_count(model, hauls, catches))

# The index: the expected catch per hour, averaged over the same grid in every year.
grid = pd.DataFrame(
    [
        (e, n, y, 1.0)
        for e in range(5, 100, 10)
        for n in range(5, 100, 10)
        for y in range(2021, 2026)
    ],
    columns=list(hauls),
).astype({"year": int})
index = model.aggregate(grid, by=grid["year"], how="mean", noise=False, random_state=0)
print(index)

# Save the model and load it.
model.save("catches.zigp")
assert np.array_equal(load("catches.zigp").predict(grid), model.predict(grid))
