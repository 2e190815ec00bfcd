"""Scores of predictions of zero-inflated data: amounts, zero or not, and whole distributions."""

from collections.abc import Callable

import numpy as np
from scipy.stats import kstest
from sklearn.metrics import f1_score, precision_score, recall_score

_CRPS_NODES = 24  # of a Gauss–Legendre rule, on either side of the observation


def amount_scores(y: np.ndarray, mean: np.ndarray, threshold: float) -> dict[str, float]:
    """Return RMSE and MAE of amounts, and F1, accuracy, precision and recall of "not zero".

    Negative predictions count as zero. An observation is on where y > 0, a prediction where it
    reaches the threshold, the resolution of the data.
    """
    amount = np.clip(mean, 0.0, None)
    return errors(y, amount) | class_scores(y > 0, amount >= threshold)


def errors(y: np.ndarray, mean: np.ndarray) -> dict[str, float]:
    """Return RMSE and MAE of predicted amounts."""
    error = mean - y
    return {"rmse": float(np.sqrt(np.mean(error**2))), "mae": float(np.mean(np.abs(error)))}


def class_scores(truth: np.ndarray, guess: np.ndarray) -> dict[str, float]:
    """Return F1, accuracy, precision and recall of a binary prediction."""
    return {
        "f1": float(f1_score(truth, guess, zero_division=0.0)),
        "accuracy": float(np.mean(truth == guess)),
        "precision": float(precision_score(truth, guess, zero_division=0.0)),
        "recall": float(recall_score(truth, guess, zero_division=0.0)),
    }


def best_threshold(truth: np.ndarray, score: np.ndarray, cost_ratio: float | None = None) -> float:
    """Return the threshold of a score from which predicting True is best.

    Parameters
    ----------
    truth : ndarray of bool
        Whether each observation is one to predict, such as a non-zero one.
    score : ndarray
        Score of each observation, such as its predicted amount.
    cost_ratio : float, optional
        The cost of missing a True, in false alarms. The threshold then has the least cost on these
        observations; without it, the largest F1.

    Returns
    -------
    float
        The threshold. A score that reaches it predicts True.

    Examples
    --------
    >>> best_threshold(np.array([False, False, True]), np.array([0.1, 0.4, 2.5]))
    2.5
    """
    if cost_ratio is not None and not cost_ratio > 0:
        raise ValueError(f"cost_ratio must be positive, not {cost_ratio!r}.")
    order = np.argsort(-score, kind="stable")
    ranked = score[order]
    hits = np.cumsum(truth[order])
    said = np.arange(1, len(score) + 1)
    last = np.append(np.diff(ranked) != 0, True)  # a threshold cannot separate equal scores
    if cost_ratio is None:
        value = 2.0 * hits / (said + truth.sum())
    else:
        value = -(cost_ratio * (truth.sum() - hits) + (said - hits))
        if value[last].max() < -cost_ratio * truth.sum():
            return float(np.nextafter(ranked[0], np.inf))  # never predicting True costs least
    best = np.flatnonzero(last)[np.argmax(value[last])]
    return float(ranked[best])


# A value recorded to a resolution stands for the cell that it was rounded from, so that densities
# and distributions with atoms can be compared.


def log_score(
    y: np.ndarray, log_between: Callable[[np.ndarray, np.ndarray], np.ndarray], resolution: float
) -> np.ndarray:
    """Return −log P(y − τ/2 < Y ≤ y + τ/2), the cell of width τ around each observation."""
    return -log_between(y - 0.5 * resolution, y + 0.5 * resolution)


def pit(
    y: np.ndarray, below: Callable[[np.ndarray], np.ndarray], resolution: float, seed: int = 0
) -> np.ndarray:
    """Return P(Y ≤ y), drawn at random within each observation's cell: uniform if calibrated."""
    edges = below(np.stack([y - 0.5 * resolution, y + 0.5 * resolution], axis=1))
    u = np.random.default_rng(seed).random(len(y))
    return edges[:, 0] + u * (edges[:, 1] - edges[:, 0])


def distance_from_uniform(values: np.ndarray) -> float:
    """Return the largest difference of the values' distribution from the uniform one, 0 to 1."""
    return float(kstest(values, "uniform").statistic)


def crps(
    y: np.ndarray,
    below: Callable[[np.ndarray], np.ndarray],
    reach: np.ndarray,
    lowest: np.ndarray | float = 0.0,
) -> np.ndarray:
    """Return ∫ (P(Y ≤ t) − [t ≥ y])² dt for each observation, from `lowest` to `reach`.

    With `lowest` 0 it is that of the distribution clipped at zero; otherwise nothing must lie
    outside the two. `below` takes thresholds [rows, T]. The nodes crowd near zero and near y.
    """
    x, w = np.polynomial.legendre.leggauss(_CRPS_NODES)
    s, w = 0.5 * (1.0 + x), 0.5 * w
    crowded, weight = s * s * (3.0 - 2.0 * s), 6.0 * s * (1.0 - s) * w  # t = s²(3 − 2s)
    y = np.maximum(y, lowest)
    ends = np.stack([np.broadcast_to(v, y.shape) for v in (lowest, 0.0, y, reach)], axis=1)
    ends = np.sort(np.clip(ends, ends[:, :1], np.maximum(ends[:, 3:], y[:, None])), axis=1)
    start, length = ends[:, :-1, None], np.diff(ends, axis=1)[..., None]
    t = start + length * crowded  # [rows, 3 parts, nodes]
    p = below(t.reshape(len(y), -1)).reshape(t.shape)
    gap = p - (t >= y[:, None, None])
    return np.sum(length * weight * gap**2, axis=(1, 2))


def crps_counts(
    y: np.ndarray, below: Callable[[np.ndarray], np.ndarray], reach: np.ndarray
) -> np.ndarray:
    """Return Σ_k (P(Y ≤ k) − [k ≥ y])² over whole numbers k from 0 to the largest reach."""
    total = np.zeros(len(y))
    counts = np.arange(int(np.ceil(np.max(reach))) + 1)
    for block in np.array_split(counts, 1 + len(counts) // 64):
        k = np.broadcast_to(block.astype(float), (len(y), len(block)))
        total += np.sum((below(k) - (k >= y[:, None])) ** 2, axis=1)
    return total
