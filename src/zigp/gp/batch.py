"""The data of a bound: inputs as rows or as a lattice, and the observations there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

Array = jax.Array | np.ndarray
AlongAxis = Callable[[Any, int], Any]  # of an array and one of its axes

_SMALLEST = 256


class Rows(eqx.Module):
    """Inputs listed row by row."""

    X: Float[Array, "N D"]

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.X.shape[0],)

    def rows(self) -> Rows:
        """Return the inputs as rows."""
        return self

    def along(self, axis: int, function: AlongAxis) -> Rows:
        """Return the inputs with a function applied along their axis."""
        return Rows(function(self.X, axis))

    def exposures(self, column: int) -> jax.Array:
        """Return the exposure at every input, which is in the given column."""
        return jnp.asarray(self.X)[:, column]


class Lattice(eqx.Module):
    """All combinations of the coordinates of several groups of input columns.

    `axes[i]` holds the coordinates of group i, one row each, and `columns[i]` their input columns.
    A cell is one coordinate from every group. Missing cells are not left out: they have weight 0 in
    the batch. The exposure is an input column that no kernel uses, with a value for every cell.
    """

    axes: tuple[Float[Array, "_ _"], ...]
    columns: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    exposure: Float[Array, " *shape"] | None = None
    exposure_column: int | None = eqx.field(static=True, default=None)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(axis.shape[0] for axis in self.axes)

    def along(self, axis: int, function: AlongAxis) -> Lattice:
        """Return the inputs with a function applied along one of their axes."""
        axes = tuple(function(a, 0) if i == axis else a for i, a in enumerate(self.axes))
        exposure = None if self.exposure is None else function(self.exposure, axis)
        return Lattice(axes, self.columns, exposure, self.exposure_column)

    def exposures(self, column: int) -> jax.Array:
        """Return the exposure in every cell."""
        assert column == self.exposure_column
        return jnp.asarray(self.exposure)

    def rows(self) -> Rows:
        """Return every cell as a row, the last group running fastest."""
        extra = () if self.exposure_column is None else (self.exposure_column,)
        width = 1 + max(c for group in (*self.columns, extra) for c in group)
        X = jnp.zeros((*self.shape, width), self.axes[0].dtype)
        for i, (axis, group) in enumerate(zip(self.axes, self.columns, strict=True)):
            ahead = (1,) * i + (axis.shape[0],) + (1,) * (len(self.axes) - i - 1)
            X = X.at[..., jnp.asarray(group)].set(axis.reshape(*ahead, len(group)))
        if self.exposure_column is not None:
            X = X.at[..., self.exposure_column].set(self.exposure)
        return Rows(X.reshape(-1, width))


class Batch(eqx.Module):
    """Observations y at inputs, each counted `weight` times.

    Weight 0 means missing, masked or padding. Weights are the product of sample weights and, in a
    minibatch, the factor N/B that makes its bound an unbiased estimate of the bound of all data.
    """

    at: Rows | Lattice
    y: Float[Array, " *shape"]
    weight: Float[Array, " *shape"]

    @property
    def longest(self) -> int:
        """The longest axis of the inputs, which minibatches and devices divide."""
        return int(np.argmax(self.at.shape))

    def along(self, axis: int, function: AlongAxis) -> Batch:
        """Return the data with a function applied along one of the axes of the inputs."""
        back = axis - len(self.at.shape)
        y, weight = (function(values, back % values.ndim) for values in (self.y, self.weight))
        return Batch(self.at.along(axis, function), y, weight)

    def part(self, axis: int, places: slice, size: int) -> Batch:
        """Return some places along an axis, padded to a size with places of weight 0."""
        whole = self.along(axis, partial(padded_part, rows=places, size=size))
        shape = [-1 if i == axis else 1 for i in range(len(self.at.shape))]
        real = (np.arange(size) < places.stop - places.start).reshape(shape)
        return Batch(whole.at, whole.y, whole.weight * real.astype(whole.weight.dtype))


def distinct(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct rows of X in order, and for each row its index among them."""
    if X.shape[1] == 1:  # many times faster than comparing rows
        values, which = np.unique(X[:, 0], return_inverse=True)
        return values[:, None], which
    values, which = np.unique(X, axis=0, return_inverse=True)
    return values, which.reshape(-1)


def padded_size(n: int) -> int:
    """Return the smallest of the sizes 256, 384, 512, 768, … that holds n rows.

    With few sizes one compiled program serves many numbers of rows.
    """
    size = _SMALLEST
    while size < n:
        if size * 3 // 2 >= n:
            return size * 3 // 2
        size *= 2
    return size


def padded(values: np.ndarray, size: int) -> np.ndarray:
    """Pad rows to a size with copies of the first one."""
    filler = np.broadcast_to(values[:1], (size - len(values), *values.shape[1:]))
    return np.concatenate([values, filler])


def padded_part(values: Array, axis: int, rows: slice, size: int) -> np.ndarray:
    """Return some rows along an axis, padded to a size with copies of the last one."""
    places = np.minimum(rows.start + np.arange(size), rows.stop - 1)
    return np.take(np.asarray(values), places, axis)
