"""The data of a bound: inputs as rows or as a lattice, and the observations there."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

Array = jax.Array | np.ndarray


class Rows(eqx.Module):
    """Inputs listed row by row."""

    X: Float[Array, "N D"]

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.X.shape[0],)

    def rows(self) -> Rows:
        """Return the inputs as rows."""
        return self

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


def distinct(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct rows of X in order, and for each row its index among them."""
    if X.shape[1] == 1:  # many times faster than comparing rows
        values, which = np.unique(X[:, 0], return_inverse=True)
        return values[:, None], which
    values, which = np.unique(X, axis=0, return_inverse=True)
    return values, which.reshape(-1)


def once_each(X: np.ndarray) -> np.ndarray:
    """Return the distinct rows of X, in their own order if none is repeated."""
    every, _ = distinct(X)
    return X if len(every) == len(X) else every
