"""Facts about a GP under q: marginals and KL by brute force, one answer on every data path."""

from __future__ import annotations

import equinox as eqx
import jax
import numpy as np
import oracles
import pytest
from models_by_hand import COLUMNS, dense_covariance, random_latent, random_lattice, with_jitter

from zigp.gp.batch import Lattice, Rows
from zigp.gp.kernels import Matern32, SquaredExponential
from zigp.gp.latent import LatentGP
from zigp.gp.projection import default_jitter

COVARIANCES = ["diagonal", "dense", "kronecker"]


def as_plain_points(latent: LatentGP) -> LatentGP:
    """The same latent with its lattice of inducing inputs listed point by point."""
    Z = Lattice(tuple(np.asarray(z) for z in latent.Z), latent.columns).rows().X
    kernel = latent.kernels[0].on(0, 1) * latent.kernels[1].on(2)
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
    """Unwhitened marginals and KL, by the paper's formulas on full matrices."""
    kernel = latent.kernels[0].on(0, 1) * latent.kernels[1].on(2)
    Z = Lattice(tuple(np.asarray(z) for z in latent.Z), latent.columns).rows().X
    v, beta = float(latent.variance), float(latent.prior_mean)
    K_mm, K_nm = v * np.asarray(kernel(Z, Z)), v * np.asarray(kernel(X, Z))
    # The lattice's own factor: chol(K_1 ⊗ K_2) = chol K_1 ⊗ chol K_2.
    L = np.linalg.cholesky(K_mm)
    m_u = beta + L @ np.ravel(latent.q_mean)
    S_u = L @ dense_covariance(latent) @ L.T
    diag = v * np.asarray(kernel.diag(X))
    return (
        *oracles.sparse_marginals(diag, K_nm, K_mm, m_u, S_u, beta),
        oracles.gauss_kl(m_u, S_u, K_mm, beta),
    )


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_marginals_and_kl_match_full_matrices(covariance):
    latent = random_latent(1, covariance=covariance, prior_mean=-0.7, jitter=0.0)
    lattice = random_lattice(2)
    X = lattice.rows().X
    mean, var, kl = brute_force(latent, X)
    rows = latent.marginal(Rows(X))
    np.testing.assert_allclose(rows.mean, mean, atol=1e-10)
    np.testing.assert_allclose(rows.var, var, atol=1e-10)
    np.testing.assert_allclose(latent.kl(), kl, atol=1e-9)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_the_three_data_paths_agree(covariance):
    latent = random_latent(3, covariance=covariance, prior_mean=0.4, jitter=0.0)
    lattice = random_lattice(4)
    on_lattice = latent.marginal(lattice)
    on_rows = latent.marginal(lattice.rows())
    plain = with_jitter(as_plain_points(latent), 0.0).marginal(lattice.rows())
    assert on_lattice.mean.shape == lattice.shape
    for moment in ("mean", "var"):
        cells = np.ravel(getattr(on_lattice, moment))
        np.testing.assert_allclose(cells, getattr(on_rows, moment), atol=1e-10, rtol=0)
        np.testing.assert_allclose(cells, getattr(plain, moment), atol=1e-10, rtol=0)


def test_plain_inducing_points_on_a_data_lattice():
    plain = as_plain_points(random_latent(3))
    lattice = random_lattice(4)
    np.testing.assert_allclose(
        np.ravel(plain.marginal(lattice).var), plain.marginal(lattice.rows()).var, rtol=1e-12
    )


def test_a_latent_that_sees_only_space_is_constant_in_time():
    latent = random_latent(5, sizes=(3,), columns=((0, 1),))
    lattice = random_lattice(6)
    moments = latent.marginal(lattice)
    assert moments.mean.shape == lattice.shape
    np.testing.assert_allclose(moments.mean, np.repeat(moments.mean[:, :1], 6, axis=1), rtol=1e-12)
    rows = latent.marginal(lattice.rows())
    np.testing.assert_allclose(np.ravel(moments.mean), rows.mean, rtol=1e-10)


@pytest.mark.slow
def test_three_groups_of_columns():
    kernels = (SquaredExponential(0.8), Matern32(0.9), SquaredExponential(1.2))
    columns = ((0,), (1,), (2,))
    rng = np.random.default_rng(0)
    lattice = Lattice(tuple(rng.normal(size=(n, 1)) for n in (2, 3, 4)), columns)
    for covariance in COVARIANCES:
        latent = random_latent(
            7, covariance=covariance, kernels=kernels, sizes=(2, 3, 2), columns=columns
        )
        cells, rows = latent.marginal(lattice), latent.marginal(lattice.rows())
        np.testing.assert_allclose(np.ravel(cells.mean), rows.mean, atol=1e-11)
        np.testing.assert_allclose(np.ravel(cells.var), rows.var, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_five_groups_of_columns(covariance):
    columns = tuple((i,) for i in range(5))
    rng = np.random.default_rng(0)
    lattice = Lattice(tuple(rng.normal(size=(n, 1)) for n in (2, 3, 1, 4, 2)), columns)
    latent = random_latent(
        7,
        covariance=covariance,
        kernels=tuple(SquaredExponential(1.0 + 0.1 * i) for i in range(5)),
        sizes=(2, 1, 2, 3, 2),
        columns=columns,
    )
    cells, rows = latent.marginal(lattice), latent.marginal(lattice.rows())
    np.testing.assert_allclose(np.ravel(cells.mean), rows.mean, atol=1e-11)
    np.testing.assert_allclose(np.ravel(cells.var), rows.var, atol=1e-11)


def test_no_kronecker_product_is_formed():
    """Nothing in the compiled lattice program, gradient included, is as large as K_1 ⊗ K_2."""
    shape, sizes = (30, 40), (15, 20)
    rng = np.random.default_rng(0)
    lattice = Lattice((rng.normal(size=(shape[0], 2)), rng.normal(size=(shape[1], 1))), COLUMNS)
    smallest_product = min(np.prod(shape) * np.prod(sizes), np.prod(sizes) ** 2)
    for covariance in ("diagonal", "kronecker"):
        latent = random_latent(8, covariance=covariance, sizes=sizes)

        def total(m, latent=latent):
            moments = eqx.tree_at(lambda gp: gp.q_mean, latent, m).marginal(lattice)
            return moments.mean.sum() + moments.var.sum()

        closed = jax.make_jaxpr(jax.grad(total))
        sizes_seen = [
            int(np.prod(v.aval.shape)) for eqn in closed(latent.q_mean).eqns for v in eqn.outvars
        ]
        assert max(sizes_seen) < smallest_product


@pytest.mark.parametrize(
    "covariance", ["diagonal", "kronecker", pytest.param("dense", marks=pytest.mark.slow)]
)
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
def test_draws_are_joint():
    """Covariance between inputs matches K(X,X) − AᵀA + AᵀSA on full matrices, on both paths."""
    latent = random_latent(11, covariance="dense", jitter=1e-10)
    lattice = random_lattice(12, (2, 3))
    X = lattice.rows().X
    kernel = latent.kernels[0].on(0, 1) * latent.kernels[1].on(2)
    Z = Lattice(tuple(np.asarray(z) for z in latent.Z), latent.columns).rows().X
    A = np.linalg.solve(np.linalg.cholesky(kernel(Z, Z)), kernel(Z, X))
    expected = float(latent.variance) * (
        np.asarray(kernel(X, X)) - A.T @ A + A.T @ dense_covariance(latent) @ A
    )
    n = 40_000
    for at in (lattice, lattice.rows()):
        draws = np.asarray(latent.draw(jax.random.key(1), at, n)).reshape(n, -1)
        scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
        assert np.max(np.abs(np.cov(draws.T) - expected) / scale) < 6 / np.sqrt(n)


def test_jitter_grows_with_the_dtype():
    assert default_jitter("float64") == pytest.approx(1.5e-8, rel=0.02)
    assert default_jitter("float32") == pytest.approx(3.5e-4, rel=0.02)
