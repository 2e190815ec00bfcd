"""Φ under a Gaussian, against mpmath and SciPy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import oracles
import pytest
from scipy.special import log_ndtr, ndtr
from scipy.stats import norm

from zigp import special

# Compiled as a whole: compiling each operation takes longer.
log_normal_cdf = jax.jit(special.log_normal_cdf)
log_probit_mean = jax.jit(special.log_probit_mean)
normal_cdf = jax.jit(special.normal_cdf)
normal_pdf = jax.jit(special.normal_pdf)
gated_moments = jax.jit(special.gated_moments)
probit_moments = jax.jit(special.probit_moments)
first_derivatives = jax.jit(jax.jacobian(lambda x: jnp.stack(probit_moments(x[0], x[1]))))
second_derivatives = jax.jit(jax.jacobian(first_derivatives))
along_mean_and_var = jax.jit(
    lambda *at: [jax.jvp(probit_moments, at, way)[1] for way in ((1.0, 0.0), (0.0, 1.0))]
)


def grid(n: int, dtype=np.float64, seed: int = 0):
    """Return random (mean, var) with |z| ≤ 8 and var from 1e-8 to 1e4."""
    rng = np.random.default_rng(seed)
    var = (10 ** rng.uniform(-8, 4, n)).astype(dtype)
    z = np.concatenate([rng.uniform(-8, 8, n - 3), [-8.0, 0.0, 8.0]])
    return (z * np.sqrt(1 + var)).astype(dtype) * dtype(1 - 1e-6), var


def relative(value, exact) -> float:
    return abs(float((mp.mpf(float(value)) - exact) / exact))


@pytest.mark.parametrize(("dtype", "bar"), [(np.float64, 1e-13), (np.float32, 3e-5)])
def test_moments_match_mpmath(dtype, bar):
    mean, var = grid(60, dtype)
    exact = [oracles.probit_moments(m, v) for m, v in zip(mean, var, strict=True)]
    for got, of in zip(probit_moments(mean, var), (0, 1), strict=True):
        assert got.dtype == dtype
        assert max(relative(a, e[of]) for a, e in zip(got, exact, strict=True)) <= bar


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_variance_is_positive_on_a_wide_grid(dtype):
    mean, var = np.meshgrid(np.linspace(-8, 8, 81), 10.0 ** np.linspace(-8, 2, 61))
    assert np.all(np.asarray(probit_moments(mean.astype(dtype), var.astype(dtype)).var) > 0)


@pytest.mark.parametrize("mean", [12.0, -20.0, 30.0])
def test_the_variance_is_accurate_far_in_the_tails(mean):
    assert relative(probit_moments(mean, 0.5).var, oracles.probit_moments(mean, 0.5)[1]) < 1e-10


@pytest.mark.parametrize(
    ("mean", "var"), [(0.3, 1.0), (-2.0, 0.01), (3.0, 5.0), (0.0, 2.0), (-5.0, 30.0), (1.0, 1e-3)]
)
def test_derivatives_match_mpmath(mean, var):
    d_mean, d_var = oracles.probit_gradient(mean, var)
    for exact, got in enumerate(along_mean_and_var(mean, var)):
        np.testing.assert_allclose(got.mean, float(d_mean[exact]), rtol=1e-11, atol=1e-17)
        np.testing.assert_allclose(got.var, float(d_var[exact]), rtol=1e-11, atol=1e-17)


@pytest.mark.parametrize(
    ("mean", "var"),
    [
        (-2.0, 0.01),
        (3.0, 5.0),
        pytest.param(0.3, 1.0, marks=pytest.mark.slow),
        pytest.param(0.0, 2.0, marks=pytest.mark.slow),
    ],
)
def test_second_derivatives_match_differences_of_the_first(mean, var):
    x, h = jnp.array([mean, var]), 1e-5 * min(1.0, var)
    second = second_derivatives(x)
    for axis in range(2):
        step = h * jnp.eye(2)[axis]
        difference = (first_derivatives(x + step) - first_derivatives(x - step)) / (2 * h)
        np.testing.assert_allclose(second[..., axis], difference, rtol=1e-6, atol=1e-9)


def test_moments_take_any_shape_and_dtype():
    shaped = probit_moments(jnp.zeros((2, 3)), jnp.ones(3))
    assert shaped.mean.shape == shaped.var.shape == (2, 3)
    assert probit_moments(jnp.float16(0.5), 1.0).var.dtype == jnp.float16
    assert probit_moments(1, 2).var.dtype == jnp.float64
    with jax.enable_x64(False):
        assert probit_moments(1, 2).var.dtype == jnp.float32
    np.testing.assert_allclose(
        probit_moments(np.array([1, -1]), 2).mean, ndtr(np.array([1, -1]) / np.sqrt(3)), rtol=1e-14
    )


def test_half_precision_loses_only_its_own_digits():
    mean, var = np.meshgrid(np.linspace(-3, 3, 13), [0.01, 0.5, 4.0])
    half = probit_moments(mean.astype(np.float16), var.astype(np.float16))
    exact = probit_moments(mean.astype(np.float16).astype(float), var.astype(np.float16))
    for got, want in zip(half, exact, strict=True):
        np.testing.assert_allclose(got, want.astype(np.float16), rtol=2e-3, atol=1e-7)


def test_density_and_distribution_are_scipys():
    x = jnp.linspace(-37, 9, 200)
    np.testing.assert_allclose(normal_pdf(x), norm.pdf(x), rtol=1e-12)
    np.testing.assert_allclose(normal_cdf(x), ndtr(x), rtol=1e-12)


def test_a_certain_gate_has_no_variance():
    got = probit_moments(0.7, 0.0)
    assert got.mean == pytest.approx(ndtr(0.7), rel=1e-15)
    assert got.var == 0.0


def log_probit_by_sum(mean: float, var: float) -> float:
    """Return E[log Φ(g)] by a fine sum."""
    x = np.linspace(-10, 10, 20_001)
    w = np.exp(-0.5 * x * x)
    return float(np.sum(w * log_ndtr(mean + np.sqrt(var) * x)) / w.sum())


@pytest.mark.parametrize(("largest", "bar"), [(1.0, 1e-7), (10.0, 1e-4)])
def test_the_mean_of_log_probit_is_as_accurate_as_promised(largest, bar):
    rng = np.random.default_rng(1)
    mean, var = rng.uniform(-12, 12, 200), largest * 10 ** rng.uniform(-4, 0, 200)
    exact = np.array([log_probit_by_sum(m, v) for m, v in zip(mean, var, strict=True)])
    assert np.max(np.abs(log_probit_mean(mean, var) - exact) / (1 + np.abs(exact))) < bar


@pytest.mark.parametrize(("mean", "var"), [(0.3, 1.0), (-4.0, 0.2), (5.0, 2.0), (-30.0, 4.0)])
def test_derivatives_of_the_mean_of_log_probit_match_differences(mean, var):
    h, by_sum = 1e-4, log_probit_by_sum
    by_mean = (by_sum(mean + h, var) - by_sum(mean - h, var)) / (2 * h)
    by_var = (by_sum(mean, var + h) - by_sum(mean, var - h)) / (2 * h)
    got = jax.grad(log_probit_mean, (0, 1))(mean, var)
    np.testing.assert_allclose(got, (by_mean, by_var), rtol=1e-5, atol=1e-7)


def test_log_normal_cdf_is_scipys_also_where_the_cdf_vanishes():
    x = np.concatenate([-(10.0 ** np.linspace(-3, 5, 60)), 10.0 ** np.linspace(-3, 1, 40), [0.0]])
    np.testing.assert_allclose(log_normal_cdf(jnp.asarray(x)), log_ndtr(x), rtol=1e-9, atol=1e-15)
    left = -np.linspace(0, 60, 601)
    np.testing.assert_allclose(log_normal_cdf(jnp.asarray(left)), log_ndtr(left), rtol=1e-10)


@pytest.mark.parametrize("x", [-200.0, -20.0, -3.0, -0.5, 0.0, 0.7, 3.0, 8.0])
def test_the_derivative_of_log_normal_cdf_is_the_hazard(x):
    got = jax.grad(log_normal_cdf)(jnp.asarray(x))
    with mp.workdps(30):
        exact = mp.npdf(mp.mpf(x)) / mp.ncdf(mp.mpf(x))
    assert relative(got, exact) < 1e-9


@pytest.mark.parametrize("again", [jax.jacfwd, jax.jacrev])
def test_second_derivatives_of_the_mean_of_log_probit_are_refused_not_wrong(again):
    for first in range(2):
        for second in range(2):
            with pytest.raises(NotImplementedError, match="first derivatives only"):
                again(jax.grad(log_probit_mean, first), second)(0.3, 1.0)


def test_gated_moments_match_quadrature_over_g():
    """Given g, f is N(m + (g − μ) c/s, v − c²/s)."""
    rng = np.random.default_rng(5)
    x, weight = np.polynomial.hermite_e.hermegauss(180)
    weight /= weight.sum()
    for _ in range(20):
        m, mu = 1.5 * rng.normal(size=2)
        half = rng.uniform(0.2, 1.5) * rng.normal(size=(2, 2))
        (v, c), (_, s) = half @ half.T
        gate, given = ndtr(mu + np.sqrt(s) * x), m + c / np.sqrt(s) * x
        mean = weight @ (gate * given)
        square = weight @ (gate**2 * (given**2 + v - c * c / s))
        got = gated_moments(*map(jnp.asarray, (m, v, mu, s, c)))
        np.testing.assert_allclose(got, (mean, square - mean**2), rtol=1e-9, atol=1e-12)


def test_gated_moments_of_independent_functions_are_those_of_a_product():
    m, v, mu, s = 0.7, 0.4, -0.3, 1.2
    gate = special.ProbitMoments(*map(float, probit_moments(mu, s)))
    mean, var = map(float, gated_moments(*map(jnp.asarray, (m, v, mu, s, 0.0))))
    assert mean == pytest.approx(m * gate.mean, rel=1e-14)
    want = m**2 * gate.var + gate.mean**2 * v + gate.var * v
    assert var == pytest.approx(want, rel=1e-13)
