"""Small models with random parameters, for the tests of several rooms."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from zigp.batch import Lattice
from zigp.kernels import Kernel, Matern32, SquaredExponential
from zigp.latent import LatentGP

COLUMNS = ((0, 1), (2,))


def random_latent(
    seed: int,
    *,
    covariance: str = "dense",
    kernels: tuple[Kernel, ...] | None = None,
    sizes: tuple[int, ...] = (3, 4),
    columns: tuple[tuple[int, ...], ...] = COLUMNS,
    prior_mean: float = 0.0,
    jitter: float | None = None,
) -> LatentGP:
    """A latent over groups of columns with every parameter drawn at random."""
    rng = np.random.default_rng(seed)
    if kernels is None:
        kernels = (SquaredExponential([0.9, 1.4]), Matern32(0.8))[: len(columns)]
    Z = tuple(rng.normal(size=(m, len(c))) for m, c in zip(sizes, columns, strict=True))
    latent = LatentGP.create(
        kernels, Z, columns, covariance=covariance, variance=1.7, prior_mean=prior_mean
    )
    noisy = lambda leaf: np.asarray(leaf) + 0.3 * rng.normal(size=np.shape(leaf))  # noqa: E731
    latent = eqx.tree_at(
        lambda gp: (gp.q_mean, gp.q_cov),
        latent,
        (noisy(latent.q_mean), jax.tree.map(noisy, latent.q_cov)),
    )
    return latent if jitter is None else with_jitter(latent, jitter)


def with_jitter(latent: LatentGP, jitter: float) -> LatentGP:
    return eqx.tree_at(lambda gp: gp.jitter, latent, np.asarray(jitter))


def random_lattice(seed: int, shape: tuple[int, int] = (4, 6)) -> Lattice:
    rng = np.random.default_rng(seed)
    return Lattice((rng.normal(size=(shape[0], 2)), rng.normal(size=(shape[1], 1))), COLUMNS)


def dense_covariance(latent: LatentGP) -> np.ndarray:
    """S as a full matrix, by colouring unit vectors."""
    shape = np.shape(latent.q_mean)
    M = int(np.prod(shape))
    units = jnp.eye(M).reshape(M, *shape)
    root = np.stack([np.ravel(latent.q_cov.colour(unit)) for unit in units], axis=1)
    return root @ root.T
