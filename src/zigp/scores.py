"""How good predictions of zero-inflated data are: the amounts, and zero or not."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import f1_score, precision_score, recall_score

__all__ = ["amount_scores"]


def amount_scores(y: np.ndarray, mean: np.ndarray, threshold: float) -> dict[str, float]:
    """RMSE and MAE of predicted amounts, and F1, accuracy, precision, recall of "not zero".

    Negative predictions count as zero. An observation is on where y > 0, a prediction where it
    reaches the threshold, the resolution of the data.
    """
    amount = np.clip(mean, 0.0, None)
    truth, guess = y > 0, amount >= threshold
    return {
        "rmse": float(np.sqrt(np.mean((amount - y) ** 2))),
        "mae": float(np.mean(np.abs(amount - y))),
        "f1": float(f1_score(truth, guess, zero_division=0.0)),
        "accuracy": float(np.mean(truth == guess)),
        "precision": float(precision_score(truth, guess, zero_division=0.0)),
        "recall": float(recall_score(truth, guess, zero_division=0.0)),
    }
