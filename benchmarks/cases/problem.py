"""The data that the scattered cases train on, the same for zigp and its peers."""

from __future__ import annotations

import numpy as np

ROWS, BATCH, INDUCING, COLUMNS = 20_000, 1_000, 1_000, 3
STEPS, WARM_UP = 20, 3  # of a peer; zigp takes its steps in chunks


def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, outputs, and where the inducing inputs start."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, COLUMNS))
    y = np.sin(2.0 * X).sum(axis=1) + 0.3 * rng.normal(size=ROWS)
    return X, y, rng.normal(size=(INDUCING, COLUMNS))


def batches() -> list[np.ndarray]:
    """The rows of every step: a pass over the data in random order, then another."""
    rng = np.random.default_rng(1)
    passes = -(-(STEPS + WARM_UP) * BATCH // ROWS)
    order = np.concatenate([rng.permutation(ROWS) for _ in range(passes)])
    return list(order[: (STEPS + WARM_UP) * BATCH].reshape(-1, BATCH))
