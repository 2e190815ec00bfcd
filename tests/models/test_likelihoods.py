"""Every likelihood: sums over g and f by brute force, draws, and its own distribution."""

from __future__ import annotations

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from scipy import stats
from scipy.special import log_ndtr, ndtr

from zigp.gp.batch import Batch, Rows
from zigp.gp.moments import Moments
from zigp.models.likelihoods import (
    Gated,
    Gaussian,
    HurdleGamma,
    HurdleLognormal,
    ZeroInflatedNegativeBinomial,
    ZeroInflatedPoisson,
)
from zigp.models.signal import Gate, Latent

SIGNAL = Gate("g") * Latent("f")
F_MEAN, F_VAR = np.array([0.4, -0.6, 1.1, 0.2]), np.array([0.3, 0.05, 0.5, 1.0])
G_MEAN, G_VAR = np.array([0.5, -1.5, 2.0, 0.0]), np.array([1.0, 0.5, 2.0, 0.1])
OFF, ON, SHAPE, DISPERSION, LOG_NOISE = 0.01, 0.2, 2.5, 1.7, 0.4


def gaussian(y, g, f):
    return stats.norm.logpdf(y, ndtr(g) * f, np.sqrt(ON))


def gated(y, g, f):
    return stats.norm.logpdf(y, ndtr(g) * f, np.sqrt(OFF + ndtr(g) ** 2 * ON))


def hurdle(amount):
    return lambda y, g, f: np.where(
        y > 0, log_ndtr(g) + amount(np.where(y > 0, y, 1.0), f), log_ndtr(-g)
    )


def inflated(count):
    def density(y, g, f):
        from_count = log_ndtr(g) + count(y, f)
        return np.where(y > 0, from_count, np.logaddexp(log_ndtr(-g), from_count))

    return density


CASES = {
    "gaussian": (Gaussian.of_variance(ON), gaussian, [0.0, 0.3, -1.0, 2.0]),
    "gated": (Gated.of_variances(OFF, ON, 1e-4), gated, [0.0, 0.0, 1.3, -0.4]),
    "hurdle_lognormal": (
        HurdleLognormal.of_variance(LOG_NOISE),
        hurdle(lambda y, f: stats.lognorm.logpdf(y, np.sqrt(LOG_NOISE), scale=np.exp(f))),
        [0.0, 0.3, 2.0, 0.0],
    ),
    "hurdle_gamma": (
        HurdleGamma.of_shape(SHAPE),
        hurdle(lambda y, f: stats.gamma.logpdf(y, SHAPE, scale=np.exp(f) / SHAPE)),
        [0.0, 0.3, 2.0, 0.0],
    ),
    "zip": (
        ZeroInflatedPoisson(),
        inflated(lambda y, f: stats.poisson.logpmf(y, np.exp(f))),
        [0.0, 1.0, 4.0, 0.0],
    ),
    "zinb": (
        ZeroInflatedNegativeBinomial.of_dispersion(DISPERSION),
        inflated(
            lambda y, f: stats.nbinom.logpmf(y, DISPERSION, DISPERSION / (DISPERSION + np.exp(f)))
        ),
        [0.0, 1.0, 4.0, 0.0],
    ),
}
POSITIVE = ["hurdle_lognormal", "hurdle_gamma"]
COUNTS = ["zip", "zinb"]
# These take longest to compile, and are similar to one that does not.
LATE = ("hurdle_gamma", "zip")
each = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in LATE else n for n in CASES]
)
# Draws of Poisson numbers take long to compile.
each_drawn = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in (*LATE, *COUNTS) else n for n in CASES]
)


@pytest.fixture
def marginals():
    parts = {"f": (F_MEAN, F_VAR), "g": (G_MEAN, G_VAR)}
    return {name: Moments(*map(jnp.asarray, pair)) for name, pair in parts.items()}


def rows() -> Rows:
    return Rows(np.zeros((4, 1)))


# Compiled as a whole: compiling each operation takes longer.


@eqx.filter_jit
def expected(likelihood, marginals, batch):
    return likelihood.expected(SIGNAL, marginals, batch)


@eqx.filter_jit
def ask(method, likelihood, marginals, *args):
    return getattr(likelihood.predictive(SIGNAL, marginals), method)(*args)


@eqx.filter_jit
def observe(likelihood, key, values):
    return likelihood.observe(key, SIGNAL, values)


@each
def test_the_expected_log_density_is_that_of_a_fine_sum_over_g_and_f(name, marginals):
    likelihood, density, y = CASES[name]
    y, weight = np.array(y), np.array([1.0, 2.0, 0.5, 3.0])
    xi = np.linspace(-9, 9, 721)
    w = np.exp(-0.5 * xi**2) / np.exp(-0.5 * xi**2).sum()
    g = (G_MEAN[:, None] + np.sqrt(G_VAR)[:, None] * xi)[:, :, None]
    f = (F_MEAN[:, None] + np.sqrt(F_VAR)[:, None] * xi)[:, None, :]
    exact = np.einsum("n,a,b,nab->", weight, w, w, density(y[:, None, None], g, f))
    got = expected(likelihood, marginals, Batch(rows(), y, weight))
    assert float(got) == pytest.approx(exact, rel=2e-6 if name != "gated" else 3e-5)


@each
def test_observations_of_weight_zero_do_not_count(name, marginals):
    likelihood, _, y = CASES[name]
    weight = np.array([1.0, 1.0, 0.0, 1.0])
    odd = np.where(weight > 0, y, 7.0)

    def value(at, y):
        return expected(likelihood, at, Batch(rows(), y, weight))

    assert float(value(marginals, odd)) == float(value(marginals, np.array(y)))
    slopes = jax.jit(jax.grad(value))(marginals, odd)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(slopes))
    assert all(float(leaf[2]) == 0.0 for leaf in jax.tree.leaves(slopes))


@each
def test_derivatives_agree_with_differences(name, marginals):
    likelihood, _, y = CASES[name]
    batch = Batch(rows(), np.array(y), np.ones(4))
    is_learned = jax.tree_util.tree_map_with_path(
        lambda path, _: path[-1].name != "floor", likelihood
    )
    parameters, constants = eqx.partition(likelihood, is_learned)

    @jax.jit
    def value(marginals, parameters):
        return eqx.combine(parameters, constants).expected(SIGNAL, marginals, batch)

    for _ in range(3):  # random directions
        check_grads(value, (marginals, parameters), 1, "rev", atol=1e-6, rtol=2e-5, eps=1e-5)


@each_drawn
def test_the_distribution_is_that_of_draws(name, marginals):
    likelihood, _, _ = CASES[name]
    rng, n = np.random.default_rng(0), 60_000
    values = {
        "f": jnp.asarray(F_MEAN + np.sqrt(F_VAR) * rng.normal(size=(n, 4))),
        "g": jnp.asarray(G_MEAN + np.sqrt(G_VAR) * rng.normal(size=(n, 4))),
    }
    drawn = np.asarray(observe(likelihood, jax.random.key(1), values))
    for t in (-0.3, 0.0, 0.4, 1.0, 3.0):
        below = ask("cdf", likelihood, marginals, jnp.asarray(t))
        np.testing.assert_allclose(below, (drawn <= t).mean(axis=0), atol=0.008)
    m, exact = eqx.filter_jit(
        lambda one, at: (one.predictive(SIGNAL, at).moments(), one.moments(SIGNAL, at))
    )(likelihood, marginals)
    np.testing.assert_allclose(m.mean, exact.mean, rtol=1e-6)
    np.testing.assert_allclose(m.var, exact.var, rtol=1e-6)
    se = drawn.std(axis=0) / np.sqrt(n)
    assert np.all(np.abs(drawn.mean(axis=0) - m.mean) < 5 * se)
    np.testing.assert_allclose(drawn.var(axis=0), m.var, rtol=0.2)


@each
def test_probabilities_of_cells_add_up_and_are_differences_of_the_cdf(name, marginals):
    likelihood = CASES[name][0]
    edges = np.array([-np.inf, -2.0, -0.5, -0.05, 0.05, 0.5, 1.0, 2.0, 5.0, 50.0, np.inf])
    total = 0.0
    for low, high in itertools.pairwise(edges):
        low, high = jnp.asarray(low), jnp.asarray(high)
        p = np.exp(np.asarray(ask("log_between", likelihood, marginals, low, high)))
        below = (np.asarray(ask("cdf", likelihood, marginals, edge)) for edge in (high, low))
        difference = np.subtract(*below)
        np.testing.assert_allclose(p, difference, atol=1e-9)
        total = total + p
    np.testing.assert_allclose(total, 1.0, atol=1e-9)


@each
def test_quantiles_invert_the_distribution(name, marginals):
    likelihood = CASES[name][0]
    for p in (0.02, 0.3, 0.5, 0.9, 0.995):
        q = ask("quantile", likelihood, marginals, jnp.asarray(p))
        at, before = (np.asarray(ask("cdf", likelihood, marginals, t)) for t in (q, q - 1e-6))
        assert np.all(at >= p - 1e-7)
        if name in COUNTS:
            np.testing.assert_array_equal(q, np.round(q))
            assert np.all(before < p)
        else:
            jumps = np.asarray(q) == 0.0
            np.testing.assert_allclose(at[~jumps], p, atol=1e-7)
            assert np.all((before < p) | ~jumps)


@pytest.mark.parametrize("name", POSITIVE + COUNTS)
def test_the_probability_of_zero_is_an_atom(name, marginals):
    likelihood = CASES[name][0]
    off = 1.0 - ndtr(G_MEAN / np.sqrt(1 + G_VAR))
    at, before = (ask("cdf", likelihood, marginals, jnp.asarray(t)) for t in (0.0, -1e-12))
    atom = np.asarray(at) - np.asarray(before)
    if name in POSITIVE:
        np.testing.assert_allclose(atom, off, rtol=1e-9)
    else:
        assert np.all(atom > off)  # a count can also be zero where the signal is on


@pytest.mark.parametrize(
    ("nearly", "limit", "y"),
    [
        (Gated.of_variances(ON, 1.001e-6, 1e-4), Gaussian.of_variance(ON), [0.0, 0.3, -1.0, 2.0]),
        (
            ZeroInflatedNegativeBinomial.of_dispersion(1e6),
            ZeroInflatedPoisson(),
            [0.0, 1.0, 4.0, 0.0],
        ),
    ],
    ids=["gated without noise on the signal is gaussian", "many Poisson clumps are Poisson"],
)
def test_limits(nearly, limit, y, marginals):
    batch = Batch(rows(), np.array(y), np.ones(4))
    a, b = (float(expected(one, marginals, batch)) for one in (nearly, limit))
    assert a == pytest.approx(b, rel=1e-4)


def test_an_expectation_over_a_sharp_gate_has_enough_nodes(marginals):
    """σ₀² is 1e-4, far below what rain recorded to a tenth of a millimetre needs."""
    sharp = Gated.of_variances(1.1e-4, ON, 1e-4)
    y = np.zeros(4)
    xi = np.linspace(-9, 9, 20001)
    w = np.exp(-0.5 * xi**2) / np.exp(-0.5 * xi**2).sum()
    gate = ndtr(G_MEAN[:, None] + np.sqrt(G_VAR)[:, None] * xi)
    var = 1.1e-4 + gate**2 * ON
    error = (gate * F_MEAN[:, None]) ** 2 + gate**2 * F_VAR[:, None]
    exact = -0.5 * (np.log(2 * np.pi * var) + error / var) @ w
    for n, weight in enumerate(np.eye(4)):
        got = expected(sharp, marginals, Batch(rows(), y, weight))
        assert float(got) == pytest.approx(exact[n], abs=2e-3)


@each_drawn
def test_the_clean_signal_is_the_mean_of_observations(name):
    likelihood = CASES[name][0]
    n = 40_000
    values = {
        "g": jnp.tile(jnp.asarray(G_MEAN), (n, 1)),
        "f": jnp.tile(jnp.asarray(F_MEAN), (n, 1)),
    }
    drawn = np.asarray(observe(likelihood, jax.random.key(0), values))
    clean = np.asarray(likelihood.clean(SIGNAL, values))
    np.testing.assert_allclose(clean, np.broadcast_to(clean[0], clean.shape), rtol=1e-12)
    assert np.all(np.abs(drawn.mean(axis=0) - clean[0]) < 5 * drawn.std(axis=0) / np.sqrt(n))


@pytest.mark.parametrize("name", CASES)
def test_moments_of_the_clean_signal_are_those_of_draws(name, marginals):
    likelihood, rng, n = CASES[name][0], np.random.default_rng(5), 200_000
    values = {
        key: jnp.asarray(mean + np.sqrt(var) * rng.normal(size=(n, 4)))
        for key, mean, var in (("g", G_MEAN, G_VAR), ("f", F_MEAN, F_VAR))
    }
    drawn = np.asarray(likelihood.clean(SIGNAL, values))
    moments = likelihood.clean_moments(SIGNAL, marginals)
    np.testing.assert_allclose(moments.mean, drawn.mean(axis=0), rtol=0.02)
    np.testing.assert_allclose(moments.var, drawn.var(axis=0), rtol=0.1)
