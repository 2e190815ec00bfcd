"""One full-data gradient of the paper's precipitation setting.

Two latents, 10 × 100 inducing points, 105 × 1,080 cells, float64.

Prints one line of JSON. Inputs are made up; neither time nor memory depends on their values.
"""

from __future__ import annotations

import json
import statistics
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from zigp.gp.batch import Batch, Lattice
from zigp.gp.inducing import place
from zigp.gp.kernels import SquaredExponential
from zigp.gp.latent import LatentGP
from zigp.models.likelihoods import Gaussian
from zigp.models.model import Model, zero_inflated_gp
from zigp.models.objective import bound
from zigp.runtime.session import session

REPETITIONS = 60


def setting() -> tuple[Model, Batch]:
    """The model and all cells, in float64."""
    rng = np.random.default_rng(0)
    space, hours = rng.uniform(60, 70, (105, 2)), np.arange(1080.0)[:, None]
    kernels = (SquaredExponential().filled(space, 1.0), SquaredExponential().filled(hours, 0.1))
    Z = (place(space, 10, seed=0), place(hours, 100, seed=0))
    columns = ((0, 1), (2,))
    f, g = (LatentGP.create(kernels, Z, columns, covariance="diagonal") for _ in range(2))
    model = jax.tree.map(jnp.asarray, zero_inflated_gp(f, g, Gaussian.of_variance(0.1)))
    at = Lattice((jnp.asarray(space), jnp.asarray(hours)), columns)
    y = jnp.asarray(np.maximum(rng.normal(size=at.shape), 0))
    return model, Batch(at, y, jnp.ones(at.shape))


def main() -> None:
    model, batch = setting()
    before = peak_megabytes()
    gradient = eqx.filter_jit(eqx.filter_value_and_grad(bound))
    start = time.perf_counter()
    jax.block_until_ready(gradient(model, batch))
    first = time.perf_counter() - start
    seconds = []
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        jax.block_until_ready(gradient(model, batch))
        seconds.append(time.perf_counter() - start)
    peak = peak_megabytes()
    print(
        json.dumps(
            {
                "seconds": seconds,
                "compile_seconds": first - statistics.median(seconds),
                "rows": int(batch.y.size),
                "peak_mb": peak,
                "peak_above_idle_mb": peak - before,
                "versions": {"jax": jax.__version__},
            }
        )
    )


def peak_megabytes() -> float:
    with open("/proc/self/status") as status:
        lines = dict(line.split(":", 1) for line in status)
    return int(lines["VmHWM"].split()[0]) / 1e3


if __name__ == "__main__":
    with session():
        main()
