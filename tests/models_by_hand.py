"""Small models and data with random values, and comparisons, for the tests of several rooms."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from zigp.gp.batch import Batch, Lattice, Rows
from zigp.gp.kernels import Kernel, Matern32, SquaredExponential
from zigp.gp.latent import LatentGP, family
from zigp.models import objective
from zigp.models.likelihoods import Gaussian, LatentNoise, Likelihood
from zigp.models.model import Model, gp_network, zero_inflated_gp
from zigp.training import natural

COLUMNS = ((0, 1), (2,))
NOISE = np.array([0.3, 0.5, 0.2])  # of the outputs of a network
Q, P = 2, 3  # latents and outputs of a network

# Compiled as a whole, once for all models of a structure: compiling each operation takes longer.
bound = eqx.filter_jit(objective.bound)


@eqx.filter_jit
def natural_sweep(model, batch, rate=1.0, names=None):
    return natural.natural_sweep(model, batch, model.project(batch.at), rate, names)[0]


@eqx.filter_jit
def marginals(model, at):
    return model.marginals(at)


@eqx.filter_jit
def marginal(latent: LatentGP, at):
    return latent.marginal(at)


@eqx.filter_jit
def kl(latent: LatentGP | Model):
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
    """Return a latent over groups of columns with random parameters."""
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


def one_point_latent(x: float, mean: float, var: float, prior_mean: float = 0.0) -> LatentGP:
    """Return a latent with its inducing input at x, where q is N(mean, var)."""
    latent = LatentGP.create(
        (SquaredExponential(1.0),), (np.array([[x]]),), ((0,),), prior_mean=prior_mean
    )
    q = np.array([mean - prior_mean]), np.array([[0.5 * np.log(var)]])
    latent = eqx.tree_at(lambda gp: (gp.q_mean, gp.q_cov.factor), latent, q)
    return with_jitter(latent, 0.0)


def with_jitter(latent: LatentGP, jitter: float) -> LatentGP:
    return eqx.tree_at(lambda gp: gp.jitter, latent, np.asarray(jitter))


def random_zigp(
    seed: int, covariance: str = "dense", likelihood: Likelihood | None = None
) -> Model:
    """Return a zero-inflated GP, with Gaussian noise of variance 0.3 by default."""
    f = random_latent(seed, covariance=covariance)
    g = random_latent(seed + 100, covariance=covariance, prior_mean=-0.6)
    return zero_inflated_gp(f, g, Gaussian.of_variance(0.3) if likelihood is None else likelihood)


def random_family(seed: int, shape: tuple[int, ...], *, shared: bool = False, **settings):
    members = [random_latent(100 * seed + i, **settings) for i in range(int(np.prod(shape)))]
    return family(members, shape, shared=shared)


def random_network(
    seed: int, *, weights: bool = True, latents: bool = False, latent_noise=None, shared=False
) -> Model:
    """Return a network with gates on its weights, on its latents, on both or on none."""

    def gate(seed, shape):
        gates = random_family(seed, shape, shared=shared, prior_mean=0.4)
        return dataclasses.replace(gates, inducing=None)

    likelihood = Gaussian.of_variance(NOISE)
    if latent_noise is not None:
        likelihood = LatentNoise.of_variances(NOISE, latent_noise)
    return gp_network(
        random_family(seed, (Q,), shared=shared),
        random_family(seed + 1, (Q, P), shared=shared),
        likelihood,
        g=gate(seed + 2, (Q, P)) if weights else None,
        k=gate(seed + 3, (Q,)) if latents else None,
    )


def random_lattice(seed: int, shape: tuple[int, int] = (4, 6)) -> Lattice:
    rng = np.random.default_rng(seed)
    return Lattice((rng.normal(size=(shape[0], 2)), rng.normal(size=(shape[1], 1))), COLUMNS)


def random_batch(seed: int, at: Rows | Lattice) -> Batch:
    """Return normal observations at inputs."""
    rng = np.random.default_rng(seed)
    return Batch(at, rng.normal(size=at.shape), np.ones(at.shape))


def with_exposure(seed: int) -> tuple[Model, Batch]:
    """Return a zero-inflated GP whose amount has an exposure, and observations at rows."""
    X = np.asarray(random_lattice(seed).rows().X)
    X = np.column_stack([X, np.random.default_rng(seed).uniform(0.5, 2.0, len(X))])
    return dataclasses.replace(random_zigp(seed), exposure=3), random_batch(seed, Rows(X))


def random_outputs(seed: int, missing: float = 0.0) -> Batch:
    """Return observations of the outputs of a network, of which some are missing."""
    at = random_lattice(seed, (3, 4)).rows()
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(P, *at.shape))
    weight = (rng.random(y.shape) >= missing).astype(float)
    return Batch(at, np.where(weight > 0, y, np.nan), weight)


def masked(seed: int = 0) -> tuple[Batch, Batch]:
    """Return a lattice with missing cells, and the observed cells as rows."""
    lattice = random_lattice(seed, (5, 7))
    rng = np.random.default_rng(seed)
    present = rng.permutation(35).reshape(5, 7) < 24  # the same number of rows for all seeds
    y = np.where(present, rng.normal(size=lattice.shape), np.nan)
    cells = Batch(lattice, y, present.astype(float))
    rows = Batch(Rows(lattice.rows().X[present.ravel()]), y[present], np.ones(present.sum()))
    return cells, rows


def dense_covariance(latent: LatentGP) -> np.ndarray:
    """Return S as a full matrix, by colouring unit vectors."""
    columns = np.asarray(_coloured(latent)).reshape(np.size(latent.q_mean), -1)
    return columns.T @ columns


@eqx.filter_jit
def _coloured(latent: LatentGP):
    shape = jnp.shape(latent.q_mean)
    units = jnp.eye(int(np.prod(shape))).reshape(-1, *shape)
    return jax.vmap(latent.q_cov.colour)(units)


def assert_same(a, b) -> None:
    """Compare the arrays of two trees bit by bit."""
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(one, other)


def assert_close(a, b, **tolerances: float) -> None:
    """Compare the arrays of two trees."""
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(one, other, **tolerances)
