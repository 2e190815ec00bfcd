"""Figures hold what they are said to show."""

from __future__ import annotations

import numpy as np

from zigp import GPNetworkRegressor
from zigp.plots import lattice_panels, network_panels


def test_lattice_panels_show_data_prediction_gate_and_latent():
    rng = np.random.default_rng(0)
    observed = np.where(rng.random((4, 6)) > 0.2, np.maximum(rng.normal(size=(4, 6)), 0), np.nan)
    parts = [rng.random((4, 6)) for _ in range(3)]
    figure = lattice_panels(observed, *parts, rows="station", columns="hour", unit="mm")
    panels = [ax for ax in figure.axes if ax.images]
    assert len(panels) == 4
    shown = panels[0].images[0].get_array()
    np.testing.assert_array_equal(np.ma.getmaskarray(shown), np.isnan(observed))
    for ax, values in zip(panels[1:], parts, strict=True):
        np.testing.assert_array_equal(ax.images[0].get_array(), values)
    assert panels[-1].get_xlabel() == "hour"


def test_network_panels_show_every_latent_weight_support_and_output():
    rng = np.random.default_rng(0)
    X, Y = rng.uniform(0, 5, (40, 2)), rng.normal(size=(40, 3))
    Y[::4, 0] = np.nan
    model = GPNetworkRegressor(2, n_restarts=1, steps=5, n_inducing=5).fit(X, Y)
    parts = model.predict_network(X)
    figure = network_panels(X, parts, model.predict(X), observed=(X, Y), outputs=["a", "b", "c"])
    titles = [
        ax.get_title(loc="left")
        for ax in figure.axes
        if ax.collections and ax.get_title(loc="left")
    ]
    assert titles.count("latent 1") == titles.count("latent 2") == 1
    assert sum(t.startswith("weight of latent") for t in titles) == 6
    assert sum(t.startswith("support of latent") for t in titles) == 6
    assert sum(t.endswith(", predicted") for t in titles) == 3
    assert sum(t.endswith(", observed") for t in titles) == 3
    by_title = {ax.get_title(loc="left"): ax.collections[0] for ax in figure.axes if ax.collections}
    np.testing.assert_array_equal(
        by_title["support of latent 2 in c"].get_array(), parts.support[:, 1, 2]
    )
