"""Rows padded to one of a few sizes, so that one compiled program serves many row counts."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

__all__ = ["chunks", "padded", "padded_size"]

_SMALLEST = 256


def padded_size(n: int) -> int:
    """The next of the sizes 256, 384, 512, 768, …: few, so that little is compiled twice."""
    size = _SMALLEST
    while size < n:
        if size * 3 // 2 >= n:
            return size * 3 // 2
        size *= 2
    return size


def chunks(X: np.ndarray, rows: int) -> Iterable[tuple[slice, np.ndarray]]:
    """Parts of X of equal padded size, each with the slice of X that it stands for."""
    size = min(padded_size(len(X)), rows)
    for start in range(0, len(X), size):
        part = X[start : start + size]
        yield slice(start, start + len(part)), padded(part, size)


def padded(values: np.ndarray, size: int) -> np.ndarray:
    """Values followed by copies of the first one."""
    filler = np.broadcast_to(values[:1], (size - len(values), *values.shape[1:]))
    return np.concatenate([values, filler])
