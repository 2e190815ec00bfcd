"""Where the time of a full-data gradient goes, and how little it could be on this machine.

    .venv/bin/python benchmarks/floor.py

The parts of the gradient are timed one by one, forwards and with their derivatives, in the setting
of `cases/gradient_zigp.py`. The floor is the work that no arrangement avoids: the multiplications
of the contractions at the rate of a large matrix product, and the exponentials, error functions,
divisions and roots of the cells at the rate of the same function over numbers that stay in cache.
Writes results/floor.json.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from cases.gradient_zigp import setting
from jax import Array
from jax.scipy.special import erfc
from run import summary, write

from zigp.gp.batch import Batch
from zigp.math.special import probit_moments
from zigp.models.model import Model
from zigp.models.objective import bound
from zigp.runtime.session import session

REPETITIONS = 60
CACHED = 4_096  # numbers that stay in a core's cache
PASSES = 200  # over them
CORES = os.cpu_count() or 1


def seconds(function: Callable, *arguments: Any) -> dict[str, float]:
    """Seconds of a compiled call, once it has been compiled."""
    jax.block_until_ready(function(*arguments))
    times = []
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        times.append(time.perf_counter() - start)
    return summary(times)


def both_ways(function: Callable, *arguments: Any) -> dict[str, dict[str, float]]:
    """Seconds of a function, and of it together with the derivatives of all it depends on."""

    def with_derivatives(*arguments: Any) -> Any:
        value, back = eqx.filter_vjp(function, *arguments)
        return value, back(jax.tree.map(jnp.ones_like, value))

    return {
        "forwards": seconds(eqx.filter_jit(function), *arguments),
        "with derivatives": seconds(eqx.filter_jit(with_derivatives), *arguments),
    }


# -- the parts ------------------------------------------------------------------------------------


def parts(model: Model, batch: Batch) -> dict[str, Any]:
    """Each part of the bound on its own, its inputs as the part before leaves them."""
    projections = projected(model, batch)
    marginals = moments(model, projections)
    gate = gated(marginals)
    return {
        "kernels, Cholesky, solves": both_ways(lambda m: projected(m, batch), model),
        "contractions over the lattice": both_ways(moments, model, projections),
        "moments of the gate": both_ways(gated, marginals),
        "product and likelihood": both_ways(
            lambda model, f, gate: likelihood(model, f, gate, batch), model, marginals["f"], gate
        ),
    }


def projected(model: Model, batch: Batch) -> Any:
    return {name: latent.project(batch.at) for name, latent in model.latents.items()}


def moments(model: Model, projections: Any) -> dict[str, tuple[Array, Array]]:
    found = {}
    for name, latent in model.latents.items():
        seen = projections[name]
        var = seen.unexplained() + latent.q_cov.quadratic(seen)
        found[name] = (seen.mean(latent.q_mean), latent.variance * var)
    return found


def gated(marginals: dict[str, tuple[Array, Array]]) -> tuple[Array, Array]:
    return tuple(probit_moments(*marginals["g"]))


def likelihood(
    model: Model, f: tuple[Array, Array], gate: tuple[Array, Array], batch: Batch
) -> Array:
    (m, v), (p, w) = f, gate
    noise = model.likelihood.noise
    error = (batch.y - p * m) ** 2 + p**2 * v + m**2 * w + v * w
    return jnp.sum(batch.weight * -0.5 * (jnp.log(2.0 * np.pi * noise) + error / noise))


# -- the floor ------------------------------------------------------------------------------------


def rates() -> dict[str, float]:
    """Operations a second of this machine, all cores together, in float64."""
    n, values = 1_500, jnp.linspace(0.1, 0.9, CACHED)
    square = jnp.ones((n, n))
    found = {"multiply-add": n**3 / seconds(jax.jit(jnp.matmul), square, square)["median"]}
    functions = {
        "exp": lambda x: jnp.exp(-x),
        "erfc": erfc,
        "divide": lambda x: 1.0 / (1.0 + x),
        "root": lambda x: jnp.sqrt(1.0 + x) - 0.9,
    }
    for name, function in functions.items():
        found[name] = CORES * rate(function, values)
    return found


def rate(function: Callable, values: Array) -> float:
    """Evaluations a second on one core: a function over and over, on numbers in its cache."""

    def repeated(values: Array) -> Array:
        return jax.lax.fori_loop(0, PASSES, lambda _, x: function(x), values)

    return PASSES * values.size / seconds(jax.jit(repeated), values)["median"]


def work(model: Model, batch: Batch) -> dict[str, int]:
    """How many operations of each kind one gradient cannot do without."""
    stations, hours = batch.at.shape
    cells = stations * hours
    near, far = model.latents["f"].q_mean.shape
    # Mean and variance of two latents, and twice as much again for their derivatives.
    contraction = near * far * hours + stations * near * hours
    nodes = 20  # of the quadrature that float64 needs
    return {
        "multiply-add": 2 * 2 * 3 * contraction,
        "exp": cells * (nodes + 3),
        "erfc": cells,
        "divide": cells * (nodes + 2),
        "root": 3 * cells,
    }


def main() -> None:
    model, batch = setting()
    value = eqx.filter_jit(bound)
    gradient = eqx.filter_jit(eqx.filter_value_and_grad(bound))
    whole = {
        "forwards": seconds(value, model, batch),
        "with derivatives": seconds(gradient, model, batch),
    }
    each, speed, needed = parts(model, batch), rates(), work(model, batch)
    least = {name: needed[name] / speed[name] for name in needed}
    found = {
        "gradient": whole,
        "parts": each,
        "floor": {
            name: {"operations": needed[name], "per_second": speed[name], "seconds": least[name]}
            for name in needed
        },
        "floor_seconds": sum(least.values()),
        "ratio_to_floor": whole["with derivatives"]["median"] / sum(least.values()),
        "cells": int(batch.y.size),
    }
    write("floor", found)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    with session():
        main()
