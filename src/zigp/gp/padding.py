"""Padding of rows to one of a few sizes, so that one compiled program serves many row counts."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

_SMALLEST = 256


def padded_size(n: int) -> int:
    """Return the smallest of the sizes 256, 384, 512, 768, … that holds n rows."""
    size = _SMALLEST
    while size < n:
        if size * 3 // 2 >= n:
            return size * 3 // 2
        size *= 2
    return size


def chunks(X: np.ndarray, rows: int) -> Iterable[tuple[slice, np.ndarray]]:
    """Yield parts of X, padded to one size, each with the slice of X that it holds."""
    size = min(padded_size(len(X)), rows)
    for start in range(0, len(X), size):
        part = X[start : start + size]
        yield slice(start, start + len(part)), padded(part, size)


def padded(values: np.ndarray, size: int) -> np.ndarray:
    """Pad values to a size with copies of the first one."""
    filler = np.broadcast_to(values[:1], (size - len(values), *values.shape[1:]))
    return np.concatenate([values, filler])
