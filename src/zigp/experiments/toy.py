"""A noisy signal with stretches of zeros: the paper's Figures 1 and 2."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from zigp import plots
from zigp.diagnostics import scores
from zigp.estimators import SparseGPRegressor, ZeroInflatedGPRegressor
from zigp.experiments.record import Record, say, timed

STEPS, FAST_STEPS = 1000, 150


def run(toy: pd.DataFrame, out: Path, *, fast: bool = False) -> Record:
    """Fit both models to the noisy y, and score their signals against the true f."""
    X, y, f = toy[["x"]], toy["y"].to_numpy(), toy["f"].to_numpy()
    record = Record("toy", fast=fast)
    settings: dict[str, Any] = {
        "kernel": "squared_exponential",
        "steps": FAST_STEPS if fast else STEPS,
    }
    models: dict[str, Any] = {
        "GPr": SparseGPRegressor(**settings),
        "ZiGP": ZeroInflatedGPRegressor(likelihood="gaussian", **settings),
    }
    for name, model in models.items():
        seconds = timed(model.fit, X, y)
        mean, observation_sd = model.predict(X, return_std=True)
        sd = np.sqrt(np.maximum(observation_sd**2 - model.noise_sd_**2, 0.0))  # of the signal
        row = np.arange(len(f))
        columns: dict[str, Any] = {"row": row, "output": "f", "y": f, "mean": mean, "sd": sd}
        inside = np.abs(f - mean) <= 1.6449 * np.maximum(sd, 1e-12)
        found = scores.errors(f, mean) | {"coverage90": float(np.mean(inside))}
        if name == "ZiGP":
            columns["prob_on"] = model.prob_on(X)
            found |= scores.class_scores(f != 0, columns["prob_on"] >= 0.5)
        record.add(found, columns, model=name, elbo=model.elbo(X, y), seconds=seconds)
        say(f"toy: {name} RMSE {found['rmse']:.4f}, MAE {found['mae']:.4f} ({seconds:.0f} s)")
    shown = {"zero-inflated GP": models["ZiGP"], "GP regression": models["GPr"]}
    _fits_and_truth(toy, shown).savefig(out / "figure1-fits.png", dpi=110)
    parts = Figure((8.0, 8.4), layout="constrained")
    plots.components_1d(models["ZiGP"], X, toy["y"], figure=parts)
    parts.savefig(out / "figure2-signal-and-kernels.png", dpi=110)
    return record


def _fits_and_truth(toy: pd.DataFrame, models: Mapping[str, Any]) -> Figure:
    """Figure 1: fits below each other, with the true signal."""
    figure = Figure((6.4, 2.4 * len(models)), layout="constrained")
    axes = figure.subplots(len(models), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for ax, (title, model) in zip(axes, models.items(), strict=True):
        plots.fit_1d(model, toy[["x"]], toy["y"], level=None, ax=ax)
        ax.plot(toy["x"], toy["f"], "k--", linewidth=1, label="truth")
        ax.get_legend().remove()
        ax.set_title(title, loc="left")
        ax.label_outer()
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=3, frameon=False)
    return figure
