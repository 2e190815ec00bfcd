"""What a GPU does: gradients against the card's own floors, a fit, a billion cells.

python benchmarks/gpu.py [folder of the data]

Writes benchmarks/results/gpu.json (or the file that ZIGP_GPU_RESULTS names). Floors are measured on
the same card in the same run: how fast it copies memory, multiplies matrices and exponentiates, and
what the projection takes alone.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from run import machine, summary

from zigp.gp.batch import Batch, Lattice
from zigp.gp.inducing import place
from zigp.gp.kernels import SquaredExponential
from zigp.gp.latent import LatentGP
from zigp.gp.projection import default_jitter, whitened
from zigp.math.special import _nodes
from zigp.models.likelihoods import Gaussian
from zigp.models.model import Model, zero_inflated_gp
from zigp.models.objective import bound
from zigp.runtime.session import session
from zigp.training import TrainingSettings, train
from zigp.training.natural import natural_sweep

COLUMNS = ((0, 1), (2,))
# stations, hours, inducing points among each
SIZES = {
    "paper": (105, 1_080, 10, 100),
    "11.3 million cells": (105, 108_000, 10, 100),
    "40 x 1000 inducing points": (105, 1_080, 40, 1_000),
}
# Of a fold: natural gradients as in convergence.py, and Adam at its best rate there.
TRAINING: dict[str, dict[str, Any]] = {
    "natural": {
        "learning_rate": {"variational": 0.2, "kernel": 0.2, "inducing": 0.01, "noise": 0.5},
        "schedule": "constant", "steps": 1000,
    },
    "adam": {"learning_rate": 0.02, "steps": 3000},
}  # fmt: skip
_EXPS = 64  # exponentials in a row
_INSIDE = 20  # gradients in one compiled loop, so that nothing of Python is measured


def case(stations: int, hours: int, near: int, far: int, dtype: str) -> tuple[Model, Batch]:
    """A zero-inflated GP on a lattice of made-up data; the time does not depend on the values."""
    rng = np.random.default_rng(0)
    space = rng.uniform(60, 70, (stations, 2))
    time_axis = np.arange(float(hours))[:, None]
    few = time_axis[np.linspace(0, hours - 1, far).astype(int)]
    kernels = (SquaredExponential().filled(space, 0.3), SquaredExponential().filled(few, 1.0 / far))
    Z = (place(space, near, seed=0), few)
    f, g = (
        LatentGP.create(kernels, Z, COLUMNS, covariance="diagonal", dtype=dtype) for _ in range(2)
    )
    model = zero_inflated_gp(f, g, Gaussian.of_variance(0.1, dtype))
    at = Lattice((space.astype(dtype), time_axis.astype(dtype)), COLUMNS)
    y = jnp.maximum(jax.random.normal(jax.random.key(0), at.shape, dtype), 0)
    return jax.tree.map(jnp.asarray, model), jax.tree.map(
        jnp.asarray, Batch(at, y, jnp.ones(at.shape, dtype))
    )


def timed(function: Callable, *args: Any, repeats: int = 7) -> list[float]:
    """Times of a call whose result is there, compilation apart."""
    jax.block_until_ready(function(*args))
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(function(*args))
        found.append(time.perf_counter() - start)
    return found


def seconds(function: Callable, *args: Any, repeats: int = 7) -> float:
    """The median of them."""
    return statistics.median(timed(function, *args, repeats=repeats))


@eqx.filter_jit
def swept(model: Model, batch: Batch) -> Model:
    """The model after a natural-gradient step of every latent."""
    return natural_sweep(model, batch, model.project(batch.at))[0]


def gradient_loop(model: Model, batch: Batch) -> Callable:
    """Several gradients, each at parameters that the one before has touched."""

    @eqx.filter_jit
    def loop(model: Model, batch: Batch) -> Model:
        def one(_: int, model: Model) -> Model:
            gradient = jax.grad(bound)(model, batch)
            return jax.tree.map(lambda p, d: p + jnp.asarray(1e-12, p.dtype) * d, model, gradient)

        return jax.lax.fori_loop(0, _INSIDE, one, model)

    return loop


def floors(dtype: str) -> dict[str, float]:
    """What the card does in a second."""
    big, n = jnp.ones(2**28, dtype), 8192
    square = jnp.ones((n, n), dtype)
    copied = seconds(jax.jit(lambda a: a + 1), big)
    multiplied = seconds(jax.jit(lambda a: jnp.matmul(a, a, precision="highest")), square)
    exps = seconds(jax.jit(exponentials), jnp.ones(2**24, dtype))
    return {
        "bytes_per_second": 2 * big.nbytes / copied,
        "flops_per_second": 2 * n**3 / multiplied,
        "exps_per_second": _EXPS * 2**24 / exps,
    }


def exponentials(x: jax.Array) -> jax.Array:
    """One after another in registers, so that memory is not what is measured."""
    for _ in range(_EXPS):
        x = jnp.exp(-x)
    return x


def floor_of(sizes: tuple[int, int, int, int], dtype: str, card: dict[str, float]) -> dict:
    """The least that a gradient takes: bytes that move, operations that happen, steps in a row.

    Bytes: y and weights are read; the means and variances of two latents are written and read, and
    so are the derivatives with respect to them: 18 numbers a cell. Operations: for each of two
    latents, the contractions of mean and variance with two transposed ones each, and along each
    axis a Cholesky factor, a solve, and five products of that size for their derivatives.
    Exponentials: one for each node of the gate's quadrature, and three more. In a row: the
    factorisation of the larger axis and its derivatives, which wait for each other, measured by
    themselves.
    """
    stations, hours, near, far = sizes
    cells, width = stations * hours, np.dtype(dtype).itemsize
    moved = 18 * cells * width / card["bytes_per_second"]
    products = 4 * 3 * (near * far * hours + near * stations * hours)
    for m, n in ((near, stations), (far, hours)):
        products += 2 * (m**3 // 3 + m**2 * n + 3 * m**2 * n + 2 * m**3)
    floors = {
        "bytes": moved,
        "operations": 2 * products / card["flops_per_second"],
        "exponentials": cells * (len(_nodes(dtype)[0]) + 3) / card["exps_per_second"],
        "in_a_row": chain(far, hours, dtype),
    }
    return floors | {"floor": max(floors.values())}


def chain(m: int, n: int, dtype: str) -> float:
    """Seconds for A = L⁻¹ K(Z, X) and its derivatives, of both latents at once."""
    Z = jnp.linspace(0.0, m / 3.0, m, dtype=dtype)
    X = jnp.linspace(0.0, m / 3.0, n, dtype=dtype)
    K = jnp.exp(-0.5 * (Z[:, None] - Z) ** 2) + 1e-3 * jnp.eye(m, dtype=dtype)
    both = jnp.stack([K] * 2), jnp.stack([jnp.exp(-0.5 * (Z[:, None] - X) ** 2)] * 2)

    def value(K: jax.Array, C: jax.Array) -> jax.Array:
        return jnp.sum(jax.vmap(whitened)(K, C) ** 2)

    def ten_times(both: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        def one(_: int, both: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            slopes = jax.grad(value, (0, 1))(*both)
            return jax.tree.map(lambda a, d: a + jnp.asarray(1e-12, a.dtype) * d, both, slopes)

        return jax.lax.fori_loop(0, 10, one, both)

    return seconds(jax.jit(ten_times), both) / 10


def accuracy(model: Model, batch: Batch) -> float:
    """How far the bound in float32 is from that in float64, relatively, with equal jitter."""
    jitter = default_jitter("float32")
    exact = eqx.tree_at(
        lambda m: [gp.jitter for gp in m.latents.values()], model, [jnp.asarray(jitter)] * 2
    )
    small = jax.tree.map(lambda v: v.astype("float32"), (exact, batch))
    value = eqx.filter_jit(bound)
    return abs(float(value(*small)) / float(value(exact, batch)) - 1.0)


def main(data: Path | None) -> None:
    found: dict[str, Any] = {"on": {"device": jax.devices()[0].device_kind} | machine()}
    with session():
        for dtype in ("float32", "float64"):
            floor = floors(dtype)
            found[dtype] = {"card": floor, "gradients": {}}
            say(dtype, floor)
            for name, sizes in SIZES.items():
                model, batch = case(*sizes, dtype)
                start = time.perf_counter()
                jax.block_until_ready(eqx.filter_jit(jax.grad(bound))(model, batch))
                compiled = time.perf_counter() - start
                loop = gradient_loop(model, batch)
                times = summary([t / _INSIDE for t in timed(loop, model, batch, repeats=5)])
                took = times.pop("median")
                least = floor_of(sizes, dtype, floor)
                sweep = seconds(swept, model, batch, repeats=3)
                cells = batch.y.size
                found[dtype]["gradients"][name] = {
                    "cells": cells, "seconds": took, **times, "cells_per_second": cells / took,
                    "compile_seconds": compiled, "sweep_seconds": sweep, **least,
                    "ratio": took / least["floor"],
                }  # fmt: skip
                say(name, found[dtype]["gradients"][name])
                del model, batch
        found["float32_error"] = accuracy(*case(*SIZES["paper"], "float64"))
        say("float32 error", found["float32_error"])
        if data is not None:
            found["fold"] = fold(data)
        found["billion"] = billion()
        say("billion", found["billion"])
    at = Path(os.environ.get("ZIGP_GPU_RESULTS", Path(__file__).parent / "results" / "gpu.json"))
    at.write_text(json.dumps(found, indent=2) + "\n")


def fold(data: Path) -> dict[str, Any]:
    """Precipitation, fold 0, the paper's lattice: to convergence, by both methods."""
    from sklearn.model_selection import KFold

    from zigp import ZeroInflatedGPRegressor
    from zigp.experiments.precipitation import INPUTS, SETTINGS

    if data.suffix == ".npz":
        held = np.load(data)
        X, y = held["X"], held["y"]
    else:
        from zigp.datasets import load_precipitation

        rain = load_precipitation(data)
        X, y = rain[INPUTS].to_numpy(), rain["rain_mm"].to_numpy()
    import pandas as pd

    train_rows, test = next(iter(KFold(5, shuffle=True, random_state=1234).split(X)))
    frame = pd.DataFrame(X, columns=INPUTS)
    found = {}
    for dtype in ("float32", "float64"):
        for method, how in TRAINING.items():
            settings = SETTINGS["paper"] | {"dtype": dtype, "likelihood": "gaussian"} | how
            runs = []
            for _ in range(2):  # the second has nothing to compile
                model = ZeroInflatedGPRegressor(method=method, **settings)
                start = time.perf_counter()
                model.fit(frame.iloc[train_rows], y[train_rows])
                runs.append((time.perf_counter() - start, float(model.seconds_)))
            error = model.predict(frame.iloc[test]) - y[test]
            found[f"{method}, {dtype}"] = {
                "steps": int(model.n_iter_), "bound": float(model.bounds_[-1]),
                "seconds": runs[1][1], "whole_fit": runs[1][0], "with_compilation": runs[0][0],
                "rmse": float(np.sqrt(np.mean(error**2))), "stopped": model.stopped_,
            }  # fmt: skip
            say(f"fold, {method}, {dtype}", found[f"{method}, {dtype}"])
    return found


def billion() -> dict[str, float]:
    """One pass over a billion cells in the card's memory, a sixty-fourth of them in each step."""
    stations, hours = 1_000, 1_000_000
    model, _ = case(1_000, 2_000, 10, 100, "float32")
    rng = np.random.default_rng(0)
    space = rng.uniform(60, 70, (stations, 2)).astype("float32")
    hour = (np.arange(hours, dtype="float32") * (2_000 / hours))[:, None]
    at = Lattice((jnp.asarray(space), jnp.asarray(hour)), COLUMNS)
    draw = jax.jit(lambda key: jnp.maximum(jax.random.normal(key, at.shape, "float32"), 0))
    y = jax.block_until_ready(draw(jax.random.key(1)))
    batch = Batch(at, y, jnp.ones(at.shape, "float32"))
    steps = 64
    settings = TrainingSettings(
        steps=steps, batch_size=stations * hours // steps, tol=0.0, chunk=steps
    )
    train(model, batch, settings)
    start = time.perf_counter()
    fit = train(model, batch, settings)
    took = time.perf_counter() - start
    more = train(model, batch, replace(settings, steps=3 * steps))
    cells = stations * hours
    return {
        "cells": cells, "steps": steps, "seconds": took, "cells_per_second": cells / took,
        "seconds_of_another": (more.seconds - fit.seconds) / 2,
        "first_bound": float(fit.bounds[0]), "last_bound": float(fit.bounds[-1]),
    }  # fmt: skip


def say(name: str, what: Any) -> None:
    print(name, json.dumps(what), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
