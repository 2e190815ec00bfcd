"""A = L⁻¹ C: its value, its derivative, and the sums over inputs that use it."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.linalg import solve_triangular
from models_by_hand import assert_close, masked, random_latent

from zigp.gp import projection
from zigp.gp.batch import Lattice
from zigp.gp.kernels import Matern32
from zigp.gp.projection import whitened


def random_pair(seed: int, M: int = 7, N: int = 11) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(M, M))
    return root @ root.T / M + 0.5 * np.eye(M), rng.normal(size=(M, N))


def step_by_step(K, cross):
    return solve_triangular(jnp.linalg.cholesky(K), cross, lower=True)


def test_derivatives_of_a_batch_are_those_of_its_members():
    pairs = [random_pair(seed) for seed in (3, 4)]
    slopes = jax.grad(lambda K, cross: jnp.sum(jnp.cos(whitened(K, cross))), argnums=(0, 1))
    batch = jax.vmap(slopes)(*(np.stack(parts) for parts in zip(*pairs, strict=True)))
    for i, pair in enumerate(pairs):
        alone = slopes(*map(jnp.asarray, pair))
        assert_close(tuple(part[i] for part in batch), alone, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize(
    ("M", "N", "small"),
    [
        pytest.param(7, 11, 256, id="at once"),
        pytest.param(21, 5, 4, id="by quarters of quarters"),
        pytest.param(531, 40, 256, id="large", marks=pytest.mark.slow),
    ],
)
def test_value_and_derivative_are_those_of_cholesky_and_solve(M, N, small, monkeypatch):
    monkeypatch.setattr(projection, "_SMALL", small)
    K, cross = random_pair(7, M, N)
    ct = jnp.asarray(np.random.default_rng(8).normal(size=cross.shape))

    def both(K, cross):
        return [
            (A, *back(ct)) for A, back in (jax.vjp(f, K, cross) for f in (whitened, step_by_step))
        ]

    (A, K_bar, cross_bar), (expected, K_expected, cross_expected) = jax.jit(both)(K, cross)
    # The derivative by a symmetric K is symmetric.
    symmetric = 0.5 * (K_expected + K_expected.T)
    assert_close((A, cross_bar, K_bar), (expected, cross_expected, symmetric), atol=1e-10, rtol=0)


def dense_projection(latent, at) -> np.ndarray:
    """Return A with a row for every inducing variable and a column for every input."""
    units = jnp.eye(np.size(latent.q_mean)).reshape(-1, *jnp.shape(latent.q_mean))
    rows = np.asarray(jax.vmap(latent.project(at).mean)(units))
    return rows.reshape(len(rows), -1)


@eqx.filter_jit
def sums(latent, at, d):
    projection = latent.project(at)
    return projection.pull(d).ravel(), projection.gram(d), projection.gram_diagonal(d).ravel()


SPACES = [(((2,), (0,), (1,)), (2, 3, 2)), (((1,), (0,)), (2, 3)), (((2,),), (4,))]


def cases() -> dict:
    """Return latents with inputs that they see along all, along some or along one of their axes."""
    rng = np.random.default_rng(1)
    lattice = Lattice(tuple(rng.normal(size=(n, 1)) for n in (3, 4, 5)), ((0,), (1,), (2,)))
    kernels = (Matern32(0.7), Matern32(0.9), Matern32(1.1))
    cells, rows = masked(0)
    return {"cells": (random_latent(0), cells.at), "rows": (random_latent(0), rows.at)} | {
        f"{len(sizes)} groups": (
            random_latent(1, kernels=kernels[: len(sizes)], sizes=sizes, columns=columns),
            lattice,
        )
        for columns, sizes in SPACES
    }


@pytest.mark.parametrize(
    "name",
    ["cells", "rows", *(pytest.param(f"{n} groups", marks=pytest.mark.slow) for n in (1, 2, 3))],
)
def test_sums_over_inputs_are_those_of_the_dense_matrix(name):
    latent, at = cases()[name]
    A, d = dense_projection(latent, at), np.random.default_rng(0).random(at.shape)
    gram = (A * d.ravel()) @ A.T
    expected = A @ d.ravel(), gram, np.diag(gram)
    assert_close(sums(latent, at, d), expected, rtol=1e-8, atol=1e-10)
