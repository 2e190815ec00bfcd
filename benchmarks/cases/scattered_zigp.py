"""Training steps of a sparse GP on scattered rows, in zigp: `scattered_zigp.py diagonal|dense`.

The step is that of `zigp.training.train`, a compiled loop over minibatches, so seconds are means
over chunks of steps; the bound that ends each chunk is counted in. Prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace

import jax
import numpy as np
from problem import BATCH, INDUCING, ROWS, rows

from zigp.gp.batch import Batch, Rows
from zigp.gp.kernels import SquaredExponential
from zigp.gp.latent import LatentGP
from zigp.models.likelihoods import Gaussian
from zigp.models.model import gp_regression
from zigp.runtime.session import session
from zigp.training import TrainingSettings, train

CHUNK, CHUNKS = 20, 3  # the first one warms up


def main(covariance: str) -> None:
    X, y, Z = rows()
    kernel = SquaredExponential(np.ones(3)).filled(X, 1.0)
    f = LatentGP.create((kernel,), (Z,), ((0, 1, 2),), covariance=covariance)
    model = gp_regression(f, Gaussian.of_variance(0.1))
    data = Batch(Rows(X), y, np.ones(ROWS))
    settings = TrainingSettings(
        steps=CHUNK * CHUNKS,
        chunk=CHUNK,
        batch_size=BATCH,
        learning_rate=0.01,
        schedule="constant",
        tol=0.0,
    )
    start = time.perf_counter()
    train(model, data, replace(settings, steps=1))
    compiled = time.perf_counter() - start
    ends: list[float] = []
    fit = train(model, data, settings, lambda _: ends.append(time.perf_counter()))
    seconds = np.diff(ends) / CHUNK
    found = {
        "seconds": seconds.tolist(),
        "compile_seconds": compiled - float(np.median(seconds)),
        "rows": BATCH,
        "inducing": INDUCING,
        "bound": [fit.bounds[0] / ROWS, fit.bounds[-1] / ROWS],
        "versions": {"jax": jax.__version__},
    }
    print(json.dumps(found))


if __name__ == "__main__":
    with session():
        main(sys.argv[1])
