"""A GP under q: marginals and KL by brute force, and the same results on every data path."""

from __future__ import annotations

import equinox as eqx
import jax
import numpy as np
import oracles
import pytest
from models_by_hand import (
    COLUMNS,
    assert_close,
    dense_covariance,
    random_latent,
    random_lattice,
    with_jitter,
)

from zigp.gp.batch import Lattice, Rows
from zigp.gp.kernels import SquaredExponential
from zigp.gp.latent import LatentGP
from zigp.gp.projection import default_jitter

COVARIANCES = ["diagonal", "dense"]
each_covariance = pytest.mark.parametrize("covariance", COVARIANCES)


def kernel_and_points(latent: LatentGP):
    """Return the kernel of all columns, and the lattice of inducing inputs point by point."""
    kernel = latent.kernels[0].on(0, 1) * latent.kernels[1].on(2)
    Z = Lattice(tuple(np.asarray(z) for z in latent.Z), latent.columns).rows().X
    return kernel, Z


def as_plain_points(latent: LatentGP) -> LatentGP:
    """Return the same latent with its inducing inputs listed point by point."""
    kernel, Z = kernel_and_points(latent)
    plain = LatentGP.create(
        (kernel,), (np.asarray(Z),), ((0, 1, 2),), variance=float(latent.variance)
    )
    root = np.linalg.cholesky(dense_covariance(latent))
    factor = np.tril(root, -1) + np.diag(np.log(np.diag(root)))
    return eqx.tree_at(
        lambda gp: (gp.q_mean, gp.q_cov.factor, gp.prior_mean),
        plain,
        (np.ravel(latent.q_mean), factor, latent.prior_mean),
    )


def brute_force(latent: LatentGP, X: np.ndarray):
    """Return marginals and KL by the paper's formulas, without whitening, on full matrices."""
    kernel, Z = kernel_and_points(latent)
    v, beta = float(latent.variance), float(latent.prior_mean)
    K_mm, K_nm = v * np.asarray(kernel(Z, Z)), v * np.asarray(kernel(X, Z))
    # The factor of the lattice: chol(K_1 ⊗ K_2) = chol K_1 ⊗ chol K_2.
    L = np.linalg.cholesky(K_mm)
    m_u = beta + L @ np.ravel(latent.q_mean)
    S_u = L @ dense_covariance(latent) @ L.T
    diag = v * np.asarray(kernel.diag(X))
    return (
        *oracles.sparse_marginals(diag, K_nm, K_mm, m_u, S_u, beta),
        oracles.gauss_kl(m_u, S_u, K_mm, beta),
    )


@each_covariance
def test_marginals_and_kl_match_full_matrices(covariance):
    latent = random_latent(1, covariance=covariance, prior_mean=-0.7, jitter=0.0)
    X = random_lattice(2).rows().X
    rows = latent.marginal(Rows(X))
    assert_close((rows.mean, rows.var, latent.kl()), brute_force(latent, X), atol=1e-9, rtol=1e-9)


@each_covariance
def test_rows_lattices_and_plain_inducing_points_agree(covariance):
    latent = random_latent(3, covariance=covariance, prior_mean=0.4, jitter=0.0)
    lattice = random_lattice(4)
    on_lattice = latent.marginal(lattice)
    assert on_lattice.mean.shape == lattice.shape
    cells = jax.tree.map(np.ravel, on_lattice)
    plain = with_jitter(as_plain_points(latent), 0.0)
    for other in (
        latent.marginal(lattice.rows()),
        plain.marginal(lattice.rows()),
        jax.tree.map(np.ravel, plain.marginal(lattice)),
    ):
        assert_close(cells, other, atol=1e-10, rtol=0)


def test_a_latent_of_space_is_constant_in_time():
    latent = random_latent(5, sizes=(3,), columns=((0, 1),))
    lattice = random_lattice(6)
    moments = latent.marginal(lattice)
    assert moments.mean.shape == lattice.shape
    np.testing.assert_allclose(moments.mean, np.repeat(moments.mean[:, :1], 6, axis=1), rtol=1e-12)
    rows = latent.marginal(lattice.rows())
    np.testing.assert_allclose(np.ravel(moments.mean), rows.mean, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("places", "sizes"), [((2, 3, 4), (2, 3, 2)), ((2, 3, 1, 4, 2), (2, 1, 2, 3, 2))]
)
@each_covariance
def test_lattices_of_three_and_five_groups_are_their_rows(places, sizes, covariance):
    columns = tuple((i,) for i in range(len(places)))
    rng = np.random.default_rng(0)
    lattice = Lattice(tuple(rng.normal(size=(n, 1)) for n in places), columns)
    kernels = tuple(SquaredExponential(0.8 + 0.1 * i) for i in range(len(places)))
    latent = random_latent(7, covariance=covariance, kernels=kernels, sizes=sizes, columns=columns)
    cells = jax.tree.map(np.ravel, latent.marginal(lattice))
    assert_close(cells, latent.marginal(lattice.rows()), atol=1e-11, rtol=0)


def test_no_kronecker_product_is_formed():
    """No array of the lattice program or of its gradient is as large as K_1 ⊗ K_2."""
    shape, sizes = (30, 40), (15, 20)
    rng = np.random.default_rng(0)
    lattice = Lattice((rng.normal(size=(shape[0], 2)), rng.normal(size=(shape[1], 1))), COLUMNS)
    latent = random_latent(8, covariance="diagonal", sizes=sizes)

    def total(m):
        moments = eqx.tree_at(lambda gp: gp.q_mean, latent, m).marginal(lattice)
        return moments.mean.sum() + moments.var.sum()

    program = jax.make_jaxpr(jax.grad(total))(latent.q_mean)
    largest = max(int(np.prod(v.aval.shape)) for eqn in program.eqns for v in eqn.outvars)
    assert largest < min(np.prod(shape) * np.prod(sizes), np.prod(sizes) ** 2)


@pytest.mark.parametrize("covariance", ["diagonal", pytest.param("dense", marks=pytest.mark.slow)])
@pytest.mark.parametrize("path", [pytest.param("rows", marks=pytest.mark.slow), "lattice"])
def test_draws_have_the_moments_of_q(covariance, path):
    latent = random_latent(9, covariance=covariance, prior_mean=0.5)
    lattice = random_lattice(10, (3, 4))
    at = lattice if path == "lattice" else lattice.rows()
    n = 20_000
    draws = np.asarray(latent.draw(jax.random.key(0), at, n)).reshape(n, -1)
    moments = latent.marginal(lattice.rows())
    sd = np.sqrt(moments.var)
    assert np.max(np.abs(draws.mean(axis=0) - moments.mean) / sd) < 5 / np.sqrt(n)
    np.testing.assert_allclose(draws.var(axis=0), moments.var, rtol=5 * np.sqrt(2 / n))


@pytest.mark.slow
@pytest.mark.parametrize("path", ["rows", "lattice"])
def test_draws_are_joint(path):
    """The covariance between inputs is K(X,X) − AᵀA + AᵀSA on full matrices."""
    latent = random_latent(11, covariance="dense", jitter=1e-10)
    lattice = random_lattice(12, (2, 3))
    X = lattice.rows().X
    kernel, Z = kernel_and_points(latent)
    A = np.linalg.solve(np.linalg.cholesky(kernel(Z, Z)), kernel(Z, X))
    expected = float(latent.variance) * (
        np.asarray(kernel(X, X)) - A.T @ A + A.T @ dense_covariance(latent) @ A
    )
    n, at = 40_000, lattice if path == "lattice" else lattice.rows()
    draws = np.asarray(latent.draw(jax.random.key(1), at, n)).reshape(n, -1)
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert np.max(np.abs(np.cov(draws.T) - expected) / scale) < 6 / np.sqrt(n)


def test_jitter_depends_on_the_dtype():
    assert default_jitter("float64") == pytest.approx(1.5e-8, rel=0.02)
    assert default_jitter("float32") == pytest.approx(3.5e-4, rel=0.02)
