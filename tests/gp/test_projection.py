"""Facts about A = L⁻¹ C: its value, and the derivative that is written by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.linalg import solve_triangular

from zigp.gp import projection
from zigp.gp.projection import whitened


def random_pair(seed: int, M: int = 7, N: int = 11) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(M, M))
    return root @ root.T + 0.5 * np.eye(M), rng.normal(size=(M, N))


def step_by_step(K, cross):
    return solve_triangular(jnp.linalg.cholesky(K), cross, lower=True)


def test_whitened_explains_the_covariance_among_inputs():
    K, cross = random_pair(0)
    A = whitened(K, cross)
    np.testing.assert_allclose(A.T @ A, cross.T @ np.linalg.solve(K, cross), atol=1e-12)


def test_its_derivative_is_that_of_cholesky_and_solve():
    K, cross = random_pair(1)
    weight = np.random.default_rng(2).normal(size=cross.shape)

    def through(function):
        def loss(root, cross):
            # A symmetric K, so that derivatives along its triangle compare.
            return jnp.sum(weight * jnp.sin(function(root @ root.T + jnp.eye(len(root)), cross)))

        return jax.grad(loss, argnums=(0, 1))(jnp.asarray(K), jnp.asarray(cross))

    for ours, theirs in zip(through(whitened), through(step_by_step), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-11)


def test_batches_have_the_derivatives_of_their_members():
    pairs = [random_pair(seed) for seed in (3, 4)]
    K, cross = (np.stack(parts) for parts in zip(*pairs, strict=True))

    def loss(K, cross):
        return jnp.sum(jnp.cos(whitened(K, cross)))

    batch = jax.vmap(jax.grad(loss, argnums=(0, 1)))(K, cross)
    for i, pair in enumerate(pairs):
        alone = jax.grad(loss, argnums=(0, 1))(*map(jnp.asarray, pair))
        for ours, theirs in zip(batch, alone, strict=True):
            np.testing.assert_allclose(ours[i], theirs, atol=1e-12)


def test_what_is_done_by_quarters_is_what_is_done_at_once(monkeypatch):
    """Quarters of quarters, of odd and even sizes, as of a matrix too large for one product."""
    monkeypatch.setattr(projection, "_SMALL", 4)
    K, cross = random_pair(7, M=21, N=5)
    ct = jnp.asarray(np.random.default_rng(8).normal(size=cross.shape))

    def both(K, cross):
        return [
            (A, *back(ct)) for A, back in (jax.vjp(f, K, cross) for f in (whitened, step_by_step))
        ]

    (A, K_bar, cross_bar), (expected, K_expected, cross_expected) = jax.jit(both)(K, cross)
    np.testing.assert_allclose(A, expected, atol=1e-11)
    np.testing.assert_allclose(cross_bar, cross_expected, atol=1e-11)
    np.testing.assert_allclose(K_bar, 0.5 * (K_expected + K_expected.T), atol=1e-10)


@pytest.mark.slow
def test_a_large_matrix_is_whitened_likewise():
    """Larger than what is multiplied at once, and of an odd size."""
    K, cross = random_pair(5, M=531, N=40)
    K = K / 531 + np.eye(531)
    ct = jnp.asarray(np.random.default_rng(6).normal(size=cross.shape))
    (A, back), (expected, back_expected) = (jax.vjp(f, K, cross) for f in (whitened, step_by_step))
    np.testing.assert_allclose(A, expected, atol=1e-12)
    K_bar, cross_bar = back(ct)
    K_expected, cross_expected = back_expected(ct)
    np.testing.assert_allclose(cross_bar, cross_expected, atol=1e-12)
    np.testing.assert_allclose(K_bar, 0.5 * (K_expected + K_expected.T), atol=1e-11)
