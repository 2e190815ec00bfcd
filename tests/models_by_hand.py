"""Small models with random parameters, for the tests of several rooms."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from zigp.gp.batch import Lattice
from zigp.gp.kernels import Kernel, Matern32, SquaredExponential
from zigp.gp.latent import LatentGP
from zigp.models import objective
from zigp.training import natural

COLUMNS = ((0, 1), (2,))

# Compiled whole, once for all models of a structure: left to themselves, each of their operations
# is compiled alone, which takes longer.
bound = eqx.filter_jit(objective.bound)
whole_objective = eqx.filter_jit(objective.objective)


@eqx.filter_jit
def natural_sweep(model, batch, rate=1.0, names=None):
    return natural.natural_sweep(model, batch, model.project(batch.at), rate, names=names)[0]


@eqx.filter_jit
def marginals(model, at):
    return model.marginals(at)


@eqx.filter_jit
def marginal(latent: LatentGP, at):
    return latent.marginal(at)


@eqx.filter_jit
def kl(latent: LatentGP):
    return latent.kl()


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
    columns = np.asarray(_coloured(latent)).reshape(np.size(latent.q_mean), -1)
    return columns.T @ columns


@eqx.filter_jit
def _coloured(latent: LatentGP):
    shape = jnp.shape(latent.q_mean)
    units = jnp.eye(int(np.prod(shape))).reshape(-1, *shape)
    return jax.vmap(latent.q_cov.colour)(units)
