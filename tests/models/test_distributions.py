"""The distribution of a new observation with normal noise, against direct integration."""

from __future__ import annotations

import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import norm

from zigp.gp.moments import Moments
from zigp.models.likelihoods import Gaussian
from zigp.models.signal import Gate, Latent

# Mean and variance of f and of g, and the noise: the last two switch sharply.
CASES = [
    (0.8, 0.3, -0.5, 1.0, 0.05),
    (-1.5, 0.1, 0.3, 4.0, 0.2),
    (2.0, 0.01, 0.0, 9.0, 0.01),
    (3.0, 0.05, -2.0, 2.0, 0.002),
]


def predictive(f_mean, f_var, g_mean, g_var, noise):
    marginals = {
        "f": Moments(jnp.array([f_mean]), jnp.array([f_var])),
        "g": Moments(jnp.array([g_mean]), jnp.array([g_var])),
    }
    return Gaussian.of_variance(noise).predictive(Gate("g") * Latent("f"), marginals)


def exact_cdf(t, f_mean, f_var, g_mean, g_var, noise):
    def given(x):
        on = ndtr(g_mean + np.sqrt(g_var) * x)
        return norm.cdf(t, on * f_mean, np.sqrt(on**2 * f_var + noise)) * norm.pdf(x)

    return quad(given, -9, 9, limit=400, epsabs=1e-11)[0]


@pytest.mark.parametrize("case", CASES)
def test_cdf_and_quantiles_match_direct_integration(case):
    y = predictive(*case)
    for t in (-0.5, -0.05, 0.0, 0.05, 0.4, 1.0, 2.5):
        assert float(y.cdf(jnp.asarray(t))[0]) == pytest.approx(exact_cdf(t, *case), abs=1e-6)
    for p in (0.01, 0.05, 0.5, 0.9, 0.999):
        assert float(y.cdf(y.quantile(jnp.asarray(p)))[0]) == pytest.approx(p, abs=1e-9)


def test_a_plain_latent_is_normal():
    marginals = {"f": Moments(jnp.array([0.3]), jnp.array([0.5]))}
    y = Gaussian.of_variance(0.5).predictive(Latent("f"), marginals)
    assert y.weight.shape == (1,)
    np.testing.assert_allclose(y.cdf(jnp.asarray(1.0)), norm.cdf(1.0, 0.3, 1.0), rtol=1e-12)
    np.testing.assert_allclose(y.quantile(jnp.asarray(0.9)), norm.ppf(0.9, 0.3, 1.0), rtol=1e-12)


def test_a_sum_of_products_is_close_to_monte_carlo():
    """Several conditioners are integrated with a Sobol sequence."""
    rng = np.random.default_rng(0)
    names = ("w", "f", "v", "h")
    marginals = {
        name: Moments(jnp.array([rng.normal()]), jnp.array([rng.uniform(0.2, 1)])) for name in names
    }
    signal = Latent("w") * Latent("f") + Latent("v") * Latent("h")
    y = Gaussian.of_variance(0.1).predictive(signal, marginals)
    draws = {
        n: m.mean + np.sqrt(m.var) * rng.normal(size=(200_000, 1)) for n, m in marginals.items()
    }
    sampled = np.asarray(signal.value(draws)) + np.sqrt(0.1) * rng.normal(size=(200_000, 1))
    for t in (-1.0, 0.0, 1.0, 2.0):
        assert float(y.cdf(jnp.asarray(t))[0]) == pytest.approx(np.mean(sampled <= t), abs=0.01)


def test_log_probabilities_do_not_underflow():
    """At 100 standard deviations a cell has log probability −5005, far below any float."""
    y = Gaussian.of_variance(1.0).predictive(
        Latent("f"), {"f": Moments(jnp.array([0.0]), jnp.array([0.0]))}
    )
    got = float(y.log_between(jnp.asarray(100.0), jnp.asarray(100.1))[0])
    with mp.workdps(40):
        tails = [mp.erfc(mp.mpf(t) / mp.sqrt(2)) / 2 for t in ("100", "100.1")]
        assert got == pytest.approx(float(mp.log(tails[0] - tails[1])), rel=1e-8)
