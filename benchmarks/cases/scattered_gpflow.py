"""Training steps of a sparse GP on scattered rows, in GPflow: `scattered_gpflow.py dense`.

Runs in the peer's environment; prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_USE_LEGACY_KERAS": "1"}

import gpflow
import numpy as np
import tensorflow as tf
from problem import BATCH, COLUMNS, INDUCING, ROWS, WARM_UP, batches, rows


def main(covariance: str) -> None:
    X, y, Z = rows()
    model = gpflow.models.SVGP(
        gpflow.kernels.SquaredExponential(lengthscales=np.ones(COLUMNS)),
        gpflow.likelihoods.Gaussian(variance=0.1),
        Z,
        mean_function=gpflow.functions.Constant(np.zeros(1)),
        q_diag=covariance == "diagonal",
        whiten=True,
        num_data=ROWS,
    )
    inputs, outputs = tf.constant(X), tf.constant(y[:, None])
    optimiser = tf.keras.optimizers.Adam(0.01)

    @tf.function
    def step(order: tf.Tensor) -> tf.Tensor:
        batch = tf.gather(inputs, order), tf.gather(outputs, order)
        with tf.GradientTape() as tape:
            loss = model.training_loss(batch)
        variables = model.trainable_variables
        optimiser.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    seconds, bounds = [], []
    for order in map(tf.constant, batches()):
        start = time.perf_counter()
        bounds.append(-float(step(order).numpy()) / ROWS)
        seconds.append(time.perf_counter() - start)
    found = {
        "seconds": seconds[WARM_UP:],
        "compile_seconds": seconds[0] - float(np.median(seconds[WARM_UP:])),
        "rows": BATCH,
        "inducing": INDUCING,
        "bound": [bounds[0], bounds[-1]],
        "versions": {"gpflow": gpflow.__version__, "tensorflow": tf.__version__},
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
