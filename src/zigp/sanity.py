"""What looks wrong with a fit, in words that say what to do about it."""

from __future__ import annotations

from collections.abc import Iterator

import jax.numpy as jnp
import numpy as np
from scipy.spatial.distance import pdist

from zigp.batch import Rows
from zigp.kernels import Columns, Kernel, Product, Scaled, Stationary, Sum
from zigp.latent import LatentGP
from zigp.likelihoods import Gated, Gaussian, HurdleLognormal
from zigp.likelihoods.gaussian import NOISE_FLOOR
from zigp.models import Model
from zigp.signal import Gate

__all__ = ["findings"]

_RISING = 0.02  # nats a row, over the last tenth of the steps
_NEVER = 0.03  # a gate within this of 0 or 1 everywhere
_COLLAPSED = 1e-5  # of their spread, between two inducing inputs
_MOST_PLACES = 2000
_KM_PER_DEGREE = 111.2


def findings(
    model: Model, names: list[str], bounds: np.ndarray, rows: int, stopped: str
) -> list[str]:
    """A sentence for each thing that looks wrong; none if nothing does."""
    return [
        *_training(bounds, rows, stopped),
        *(
            sentence
            for name, latent in model.complete().items()
            if not latent.leading
            for sentence in _latent(name, latent, names)
        ),
        *_gates(model),
        *_noise(model),
    ]


def _training(bounds: np.ndarray, rows: int, stopped: str) -> Iterator[str]:
    tenth = max(len(bounds) // 10, 1)
    gain = float(bounds[-1] - bounds[-1 - tenth]) / max(rows, 1) if len(bounds) > tenth else np.inf
    if "not finite" in stopped or "stopped being finite" in stopped:
        yield f"Training failed. {stopped}"
    elif gain > _RISING:
        yield (
            f"Not converged: over the last {tenth} steps the bound still rose by {gain:.2g} a row. "
            "Raise steps."
        )


def _latent(name: str, latent: LatentGP, names: list[str]) -> Iterator[str]:
    for kernel, group, Z in zip(latent.kernels, latent.columns, latent.Z, strict=True):
        places = np.asarray(Z)
        yield from _collapsed(name, places)
        for part, columns in _stationary(kernel, list(range(len(group)))):
            lengths = np.broadcast_to(np.asarray(part.lengthscale), (len(columns),))
            here = places[:, columns]
            if part.metric == "chordal":  # kilometres on the ground, north and east
                here = _KM_PER_DEGREE * here * [1.0, np.cos(np.deg2rad(here[:, 0].mean()))]
            for i, column in enumerate(columns):
                yield from _length(name, float(lengths[i]), here[:, i], names[group[column]])


def _stationary(kernel: Kernel, columns: list[int]) -> Iterator[tuple[Stationary, list[int]]]:
    """The parts of a kernel that have length-scales, with the columns they look at."""
    match kernel:
        case Stationary():
            yield kernel, columns
        case Columns():
            yield from _stationary(kernel.kernel, [columns[i] for i in kernel.columns])
        case Scaled():
            yield from _stationary(kernel.kernel, columns)
        case Sum():
            for term in kernel.terms:
                yield from _stationary(term, columns)
        case Product():
            for factor in kernel.factors:
                yield from _stationary(factor, columns)


def _length(latent: str, length: float, places: np.ndarray, column: str) -> Iterator[str]:
    distinct = np.unique(places)
    if len(distinct) < 3:
        return
    extent, spacing = distinct[-1] - distinct[0], float(np.median(np.diff(distinct)))
    if length > 3.0 * extent:
        yield (
            f"{latent} hardly varies with {column}: its length-scale {length:.3g} is beyond the "
            f"data, which extend over {extent:.3g}. Leave the column out, or look at its unit."
        )
    elif length < 0.5 * spacing:
        yield (
            f"{latent} varies with {column} faster than can be seen: its length-scale {length:.3g} "
            f"is below the spacing of the inducing points, {spacing:.3g}. Give more of them, or "
            "a rougher kernel; between the points it predicts little."
        )


def _collapsed(latent: str, places: np.ndarray) -> Iterator[str]:
    some, spread = places[:_MOST_PLACES], places.std(axis=0)
    if len(some) > 1 and pdist(some / np.where(spread > 0, spread, 1.0)).min() < _COLLAPSED:
        yield (
            f"Inducing points of {latent} have collapsed onto each other: fewer would do. Lower "
            "n_inducing."
        )


def _gates(model: Model) -> Iterator[str]:
    """Gates that are open, or shut, at all inducing inputs."""
    gates = [factor for factor in model.signal.factors() if isinstance(factor, Gate)]
    latents = model.complete()
    for gate in gates:
        if len(gate.leaves) > 1 or latents[gate.leaves[0].name].leading:
            continue  # those of networks have many neighbours and are looked at in pictures
        name = gate.leaves[0].name
        latent = latents[name]
        sizes = [len(z) for z in latent.Z]
        pick = np.unique(np.linspace(0, np.prod(sizes) - 1, _MOST_PLACES).astype(int))
        cells = np.unravel_index(pick, sizes)
        X = np.zeros((len(pick), 1 + max(c for group in latent.columns for c in group)))
        for cell, group, Z in zip(cells, latent.columns, latent.Z, strict=True):
            X[:, list(group)] = np.asarray(Z)[cell]
        marginals = {name: latent.marginal(Rows(jnp.asarray(X)))}
        on = np.asarray(gate.moments(marginals).mean)
        if on.min() > 1.0 - _NEVER:
            yield (
                f"The gate {name} is open everywhere: nothing is switched off. "
                "SparseGPRegressor says the same with less."
            )
        if on.max() < _NEVER:
            yield f"The gate {name} is shut everywhere: the model predicts zero wherever it looks."


def _noise(model: Model) -> Iterator[str]:
    match model.likelihood:
        case Gated() as noise:
            values, what = noise.on, "Where the signal is on the noise"
        case Gaussian() | HurdleLognormal() as noise:
            values, what = noise.noise, "The noise"
        case _:
            return
    if np.any(np.asarray(values) < 2.0 * NOISE_FLOOR):
        yield (
            f"{what} is at its floor: the model passes through the observations. Look for "
            "duplicated rows or noise-free data, or use fewer inducing points."
        )
