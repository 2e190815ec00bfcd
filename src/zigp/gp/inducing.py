"""Inducing inputs of a sparse GP, and their initial locations.

Each group of input columns has one set of locations. A single group gives plain inducing points;
several give a lattice, all combinations of the groups' locations.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax import stop_gradient
from jax.typing import ArrayLike
from jaxtyping import Float

from zigp.gp.batch import distinct

_LARGEST_SAMPLE = 20_000


class Inducing(eqx.Module):
    """Locations Z of one group: Z = origin + spread ∘ offset.

    Only the offset is learned, so that one learning rate suits columns in any unit.
    """

    offset: Float[ArrayLike, "*lead M D"]
    origin: Float[ArrayLike, "*lead D"]
    spread: Float[ArrayLike, "*lead D"]

    @classmethod
    def at(cls, Z: np.ndarray) -> Inducing:
        """Return inducing inputs that start at the rows of Z."""
        Z = np.asarray(Z, float)
        origin, spread = Z.mean(axis=0), Z.std(axis=0)
        spread = np.where(spread > 0, spread, 1.0)
        return cls((Z - origin) / spread, origin, spread)

    @property
    def Z(self) -> Float[Array, "M D"]:
        """The locations."""
        constant = stop_gradient((jnp.asarray(self.origin), jnp.asarray(self.spread)))
        return constant[0] + constant[1] * jnp.asarray(self.offset)


def place(
    X: np.ndarray,
    M: int,
    seed: int,
    *,
    latlon: bool = False,
    discrete: tuple[int, ...] = (),
) -> np.ndarray:
    """Choose M inducing inputs for the rows of X, or all distinct rows if there are fewer.

    In one column they are spread evenly over the distinct values. In several they are k-means
    centres of the distinct rows, with every column in its own standard deviations (latitude and
    longitude in equal distances). In discrete columns a centre takes the value of the nearest row.
    """
    every, _ = distinct(np.asarray(X, float))
    if len(every) <= M:
        return every
    if every.shape[1] == 1 and discrete:
        return every[np.linspace(0, len(every) - 1, M).round().astype(int)]
    if every.shape[1] == 1:
        return np.quantile(every, (np.arange(M) + 0.5) / M, axis=0, method="linear")
    rng = np.random.default_rng(seed)
    if len(every) > _LARGEST_SAMPLE:
        every = rng.choice(every, _LARGEST_SAMPLE, replace=False)
    if latlon:
        unit = np.array([1.0, 1.0 / max(np.cos(np.deg2rad(every[:, 0].mean())), 1e-3)])
    else:
        unit = np.where(every.std(axis=0) > 0, every.std(axis=0), 1.0)

    from sklearn.cluster import KMeans  # slow to import, and only needed here

    scaled = every / unit
    means = KMeans(M, n_init=1, random_state=int(rng.integers(2**31))).fit(scaled)
    centres = means.cluster_centers_ * unit
    for column in discrete:
        nearest = np.array([np.argmin(((scaled - c) ** 2).sum(axis=1)) for c in centres / unit])
        centres[:, column] = every[nearest, column]
    return centres


def pick(X: np.ndarray, M: int, seed: int) -> np.ndarray:
    """Choose M distinct rows of X at random, or all of them if there are fewer."""
    every, _ = distinct(np.asarray(X, float))
    rng = np.random.default_rng(seed)
    return rng.choice(every, min(M, len(every)), replace=False)
