"""Metals in the soil of the Jura: cadmium where only nickel and zinc were measured.

python examples/jura.py [FOLDER]

FOLDER contains the data; without it they are downloaded.
"""

import sys

import numpy as np

from zigp import GPNetworkRegressor
from zigp.datasets import load_jura

train, test = load_jura(*sys.argv[1:2])
metals = ["cd", "ni", "zn"]

# A network of two latents, fitted to logarithms because concentrations are skewed. Nickel and zinc
# are known at the new sites, so latent noise, which the metals of a site share, helps.
network = GPNetworkRegressor(
    2, y_transform="log", back_transform="median", latent_noise=True, n_restarts=3, verbose=True
).fit(train[["x", "y"]], train[metals])

known = test[metals].assign(cd=np.nan)
predictions = {
    "training median": np.full(len(test), train["cd"].median()),
    "place alone": network.predict(test[["x", "y"]])[:, 0],
    "place, nickel and zinc": network.predict(test[["x", "y"]], known=known)[:, 0],
}
for name, cadmium in predictions.items():
    print(f"{name:>22}: mean absolute error {np.abs(cadmium - test['cd']).mean():.3f} ppm")

# The effective number of latents that each metal uses.
parts = network.predict_network(test[["x", "y"]])
for name, count in zip(metals, parts.n_effective.mean(axis=0), strict=True):
    print(f"{name}: {count:.2f}")
