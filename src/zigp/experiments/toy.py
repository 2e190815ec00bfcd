"""A signal that is switched off in places, with noise: the paper's Figures 1 and 2."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from zigp import scores
from zigp.batch import Rows
from zigp.datasets import load_toy
from zigp.estimators import SparseGPRegressor, ZeroInflatedGPRegressor
from zigp.experiments.record import Record, say
from zigp.plots import fits_and_truth, signal_and_kernels
from zigp.runtime import session

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["run"]

FAST_STEPS = 150


def run(data_dir: Path | None, out: Path, *, fast: bool = False) -> Record:
    """Fit both models to the noisy y, and score their signals against the true f."""
    toy = load_toy(data_dir)
    X, y, f = toy[["x"]], toy["y"].to_numpy(), toy["f"].to_numpy()
    record = Record("toy", fast=fast)
    settings: dict[str, Any] = {"kernel": "squared_exponential", "steps": 1000}
    if fast:
        settings["steps"] = FAST_STEPS
    bands = {}
    models: dict[str, Any] = {
        "GPr": SparseGPRegressor(**settings),
        "ZiGP": ZeroInflatedGPRegressor(likelihood="gaussian", **settings),
    }
    for name, model in models.items():
        start = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - start
        mean, observation_sd = model.predict(X, return_std=True)
        sd = np.sqrt(np.maximum(observation_sd**2 - model.noise_sd_**2, 0.0))  # of the signal
        columns: dict[str, Any] = {"row": np.arange(len(f)), "output": "f", "y": f}
        columns |= {"mean": mean, "sd": sd}
        found = {
            "rmse": float(np.sqrt(np.mean((mean - f) ** 2))),
            "mae": float(np.mean(np.abs(mean - f))),
            "coverage90": float(np.mean(np.abs(f - mean) <= 1.6449 * np.maximum(sd, 1e-12))),
        }
        if name == "ZiGP":
            columns["prob_on"] = model.prob_on(X)
            found |= scores.class_scores(f != 0, columns["prob_on"] >= 0.5)
        record.add(found, columns, model=name, elbo=model.elbo(X, y), seconds=seconds)
        bands[name] = (mean, sd)
        say(f"toy: {name} RMSE {found['rmse']:.4f}, MAE {found['mae']:.4f} ({seconds:.0f} s)")
    x = toy["x"].to_numpy()
    titles = {"ZiGP": "zero-inflated GP", "GPr": "GP regression"}
    fits = {titles[name]: bands[name] for name in titles}
    fits_and_truth(x, y, f, fits).savefig(out / "figure1-fits.png", dpi=110)
    signal_and_kernels(x, y, **_parts(models["ZiGP"], toy)).savefig(
        out / "figure2-signal-and-kernels.png", dpi=110
    )
    record.write(out)
    return record


def _parts(model: ZeroInflatedGPRegressor, toy: pd.DataFrame) -> dict[str, Any]:
    """Signal, latent, support and g with their spread, and the kernels behind them."""
    table = model.predict_components(toy[["x"]])
    bands = {
        name: (table[name].to_numpy(), table[f"{name}_sd"].to_numpy())
        for name in ("signal", "latent", "gate")
    }
    with session():
        latents = model.model_.latents
        X = jnp.asarray(toy[["x"]].to_numpy() - model.layout_.centre)
        g = latents["g"].marginal(Rows(X))
        bands["g"] = (np.asarray(g.mean), np.sqrt(np.asarray(g.var)))
        kernels = {
            name: np.asarray(latents[name].variance * latents[name].kernels[0](X, X))
            for name in ("f", "g")
        }
    on = bands["gate"][0]
    scale = model.y_scale_**2
    return {
        "bands": bands,
        "kernels": {
            "signal": scale * np.outer(on, on) * kernels["f"],
            "latent": scale * kernels["f"],
            "gate": np.outer(on, on),
            "g": kernels["g"],
        },
    }
