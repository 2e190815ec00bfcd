"""The bound: the paper's formula, Monte Carlo, the evidence above it, and its special cases."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from jax import Array
from models_by_hand import (
    bound,
    kl,
    marginals,
    random_latent,
    random_lattice,
    whole_objective,
    with_jitter,
)
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import multivariate_normal, norm

from zigp.gp.batch import Batch, Rows
from zigp.gp.kernels import Linear, Matern32, SquaredExponential
from zigp.gp.latent import LatentGP
from zigp.gp.moments import Moments
from zigp.models.distributions import mixture
from zigp.models.likelihoods import Gaussian, Likelihood
from zigp.models.model import Model, gp_regression, zero_inflated_gp
from zigp.models.objective import log_prior
from zigp.training import Settings, train


def random_batch(seed: int, at) -> Batch:
    rng = np.random.default_rng(seed)
    return Batch(at, rng.normal(size=at.shape), np.ones(at.shape))


def random_zigp(seed: int, covariance: str = "dense", noise: float = 0.3) -> Model:
    f = random_latent(seed, covariance=covariance)
    g = random_latent(seed + 100, covariance=covariance, prior_mean=-0.6)
    return zero_inflated_gp(f, g, Gaussian.of_variance(noise))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("covariance", ["diagonal", "dense", "kronecker"])
def test_bound_is_the_papers_written_out_by_hand(seed, covariance):
    model = random_zigp(seed, covariance)
    batch = random_batch(seed, random_lattice(seed).rows())
    m = marginals(model, batch.at)
    expected = oracles.zigp_bound(
        batch.y,
        *(np.asarray(v) for v in (m["f"].mean, m["f"].var, m["g"].mean, m["g"].var)),
        noise=0.3,
        kl_f=float(kl(model.latents["f"])),
        kl_g=float(kl(model.latents["g"])),
    )
    np.testing.assert_allclose(bound(model, batch), expected, rtol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_bound_is_within_the_error_of_monte_carlo(seed):
    model = random_zigp(seed)
    batch = random_batch(seed, random_lattice(seed).rows())
    rng = np.random.default_rng(seed)
    n = 100_000
    draw = {
        name: np.asarray(m.mean) + np.sqrt(m.var) * rng.normal(size=(n, *batch.at.shape))
        for name, m in marginals(model, batch.at).items()
    }
    signal = ndtr(draw["g"]) * draw["f"]
    fit = norm.logpdf(batch.y, signal, np.sqrt(0.3)).sum(axis=1)
    estimate = fit.mean() - sum(float(kl(latent)) for latent in model.latents.values())
    assert abs(float(bound(model, batch)) - estimate) < 5 * fit.std() / np.sqrt(n)


def one_point_latent(x: float, mean: float, var: float, prior_mean: float = 0.0) -> LatentGP:
    """A latent with its inducing input at x, where q says N(mean, var)."""
    latent = LatentGP.create((SquaredExponential(1.0),), (np.array([[x]]),), ((0,),))
    whitened = np.array([mean - prior_mean])
    factor = np.array([[0.5 * np.log(var)]])
    return with_jitter(
        eqx.tree_at(
            lambda gp: (gp.q_mean, gp.q_cov.factor, gp.prior_mean),
            latent,
            (whitened, factor, np.asarray(prior_mean)),
        ),
        0.0,
    )


ONLY_Q = ("noise", "kernel", "variance", "prior_mean", "inducing")


def highest_bound(model: Model, batch: Batch) -> float:
    """The bound at the best q, everything else held fixed."""
    settings = Settings(steps=1500, learning_rate=0.05, fixed=ONLY_Q, tol=0.0)
    return float(bound(train(model, batch, settings).model, batch))


@pytest.mark.slow
@pytest.mark.parametrize(("y", "beta"), [(0.0, -0.5), (1.3, 0.8), (-0.4, 0.0), (2.5, -1.0)])
def test_bound_stays_below_the_evidence_of_one_point_and_comes_close(y, beta):
    noise = 0.2
    evidence = np.log(
        quad(
            lambda g: norm.pdf(y, 0.0, np.sqrt(ndtr(g) ** 2 + noise)) * norm.pdf(g, beta, 1.0),
            beta - 10,
            beta + 10,
        )[0]
    )
    f, g = one_point_latent(0.0, 0.1, 1.0), one_point_latent(0.0, beta, 1.0, prior_mean=beta)
    model = zero_inflated_gp(f, g, Gaussian.of_variance(noise))
    batch = Batch(Rows(np.zeros((1, 1))), np.array([y]), np.ones(1))
    assert evidence - 0.5 < highest_bound(model, batch) <= evidence + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("y", [(0.0, 0.0), (0.9, 0.4), (-1.0, 1.5)])
def test_bound_stays_below_the_evidence_of_two_points_and_comes_close(y):
    x, noise, beta = np.array([[0.0], [0.7]]), 0.15, -0.3
    K = oracles.se_kernel(x, x, 1.0, 1.0)

    # Sums over a fine grid of both gates are exact for functions as smooth as these.
    g, step = np.linspace(-9, 9, 901, retstep=True)
    one, two = g[:, None], g[None, :]
    a, b = ndtr(one), ndtr(two)
    given = oracles.pair_density(*y, a**2 + noise, a * b * K[0, 1], b**2 + noise)
    joint = given * oracles.pair_density(one - beta, two - beta, 1.0, K[0, 1], 1.0)
    evidence = np.log(np.sum(joint) * step**2)
    f, g = (
        LatentGP.create((SquaredExponential(1.0),), (x,), ((0,),), prior_mean=prior_mean)
        for prior_mean in (0.0, beta)
    )
    f = eqx.tree_at(lambda gp: gp.q_mean, f, np.array([0.1, 0.1]))
    model = zero_inflated_gp(f, g, Gaussian.of_variance(noise))
    batch = Batch(Rows(x), np.array(y), np.ones(2))
    assert evidence - 0.7 < highest_bound(model, batch) <= evidence + 1e-6


def test_an_open_gate_gives_the_svgp_bound():
    f = random_latent(0)
    g = random_latent(1, prior_mean=50.0)
    batch = random_batch(0, random_lattice(0))
    gated = zero_inflated_gp(f, g, Gaussian.of_variance(0.4))
    plain = gp_regression(f, Gaussian.of_variance(0.4))
    np.testing.assert_allclose(bound(gated, batch) + kl(g), bound(plain, batch), rtol=1e-12)


def test_optimal_q_at_the_data_gives_the_exact_marginal_likelihood():
    rng = np.random.default_rng(0)
    X, y, noise, variance = rng.normal(size=(12, 2)), rng.normal(size=12), 0.2, 1.7
    K = oracles.se_kernel(X, X, [0.9, 1.4], variance)
    exact = multivariate_normal.logpdf(y, np.zeros(12), K + noise * np.eye(12))
    latent = LatentGP.create((SquaredExponential([0.9, 1.4]),), (X,), ((0, 1),), variance=variance)
    # The posterior of the whitened variables, K = L Lᵀ: S = (I + LᵀL/σ²)⁻¹, m = S Lᵀy/σ².
    L = np.linalg.cholesky(K)
    S = np.linalg.inv(np.eye(12) + L.T @ L / noise)
    root = np.linalg.cholesky(S)
    latent = eqx.tree_at(
        lambda gp: (gp.q_mean, gp.q_cov.factor, gp.jitter),
        latent,
        (S @ L.T @ y / noise, np.tril(root, -1) + np.diag(np.log(np.diag(root))), np.asarray(0.0)),
    )
    model = gp_regression(latent, Gaussian.of_variance(noise))
    got = bound(model, Batch(Rows(X), y, np.ones(12)))
    np.testing.assert_allclose(got, exact, rtol=1e-8)


def masked(seed: int = 0):
    """A lattice with missing cells, and the same cells as rows."""
    lattice = random_lattice(seed, (5, 7))
    rng = np.random.default_rng(seed)
    present = rng.permutation(35).reshape(5, 7) < 24  # one number of rows for all seeds
    y = np.where(present, rng.normal(size=lattice.shape), np.nan)
    cells = Batch(lattice, y, present.astype(float))
    rows = Batch(Rows(lattice.rows().X[present.ravel()]), y[present], np.ones(present.sum()))
    return cells, rows


@pytest.mark.slow
@pytest.mark.parametrize("covariance", ["diagonal", "dense", "kronecker"])
def test_a_masked_lattice_is_its_cells_as_rows(covariance):
    model = random_zigp(3, covariance)
    cells, rows = masked()
    both = eqx.filter_jit(eqx.filter_value_and_grad(bound))
    value, gradient = both(jax.tree.map(jnp.asarray, model), cells)
    expected = both(jax.tree.map(jnp.asarray, model), rows)
    np.testing.assert_allclose(value, expected[0], atol=1e-10)
    for a, b in zip(jax.tree.leaves(gradient), jax.tree.leaves(expected[1]), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


def test_weights_count_rows():
    model = random_zigp(4)
    at = random_lattice(4).rows()
    y = np.random.default_rng(4).normal(size=at.shape)
    weight = np.arange(len(y)) % 3.0
    repeat = np.repeat(np.arange(len(y)), weight.astype(int))
    repeated = Batch(Rows(at.X[repeat]), y[repeat], np.ones(len(repeat)))
    np.testing.assert_allclose(
        bound(model, Batch(at, y, weight)), bound(model, repeated), rtol=1e-12
    )


@pytest.mark.slow
def test_parts_of_the_data_add_up_to_the_whole():
    """With shares that sum to one, KL and prior count once over all parts."""
    model = dataclasses.replace(random_zigp(6), priors=(("g", 3.0, 1.5),))
    at = random_lattice(6).rows()
    y = np.random.default_rng(6).normal(size=at.shape)
    whole = Batch(at, y, np.ones(len(y)))
    for function in (bound, whole_objective):
        parts = [
            function(model, Batch(Rows(at.X[rows]), y[rows], np.ones(len(y[rows]))), share)
            for rows, share in ((slice(0, 9), 0.3), (slice(9, None), 0.7))
        ]
        np.testing.assert_allclose(sum(parts), function(model, whole), rtol=1e-12)
    prior = log_prior(model)
    assert abs(prior) > 0.1
    np.testing.assert_allclose(
        whole_objective(model, whole), bound(model, whole) + prior, rtol=1e-12
    )


def test_the_prior_counts_every_length_that_there_is():
    """Each stationary kernel of a sum or product, once; the others have no length-scale."""
    kernels = (SquaredExponential([0.9, 1.4]) + 0.3 * Matern32(0.5) * Linear(1.0), Matern32(2.0))
    g = random_latent(7, kernels=kernels)
    model = zero_inflated_gp(random_latent(8), g, Gaussian.of_variance(0.3))
    with_prior = dataclasses.replace(model, priors=(("g", 3.0, 1.5), ("f", 2.0, 0.5)))
    gate, amount = np.array([0.9, 1.4, 0.5, 2.0]), np.array([0.9, 1.4, 0.8])
    expected = np.sum(2.0 * np.log(gate) - 1.5 * gate) + np.sum(np.log(amount) - 0.5 * amount)
    np.testing.assert_allclose(log_prior(with_prior), expected, rtol=1e-12)
    assert log_prior(model) == 0.0


class GatedNoise(Likelihood):
    """y ~ N(Φ(g) f, σ₀² + Φ(g)² σ₁²): needs gate and latent apart. Lives here to try the seam."""

    low: float
    high: float

    def expected(self, signal, marginals, batch) -> Array:
        gate, latent = signal.factors()
        g, f = gate.of.moments(marginals), latent.moments(marginals)
        x, w = np.polynomial.hermite_e.hermegauss(60)
        total = 0.0
        for node, weight in zip(x, w / w.sum(), strict=True):
            on = jax.scipy.special.ndtr(g.mean + jnp.sqrt(g.var) * node)
            noise = self.low + self.high * on**2
            error = (batch.y - on * f.mean) ** 2 + on**2 * f.var
            total = total - 0.5 * weight * (jnp.log(2 * np.pi * noise) + error / noise)
        return jnp.sum(batch.weight * total)

    def moments(self, signal, marginals):
        s, gate = signal.moments(marginals), signal.factors()[0].moments(marginals)
        return Moments(s.mean, s.var + self.low + self.high * (gate.mean**2 + gate.var))

    def predictive(self, signal, marginals):
        gate = signal.factors()[0]
        return mixture(signal, marginals, lambda given: self.low + self.high * given(gate) ** 2)

    def observe(self, key, signal, values):
        s, gate = signal.value(values), signal.factors()[0].value(values)
        return s + jnp.sqrt(self.low + self.high * gate**2) * jax.random.normal(key, s.shape)


@pytest.mark.slow
def test_a_likelihood_can_take_gate_and_latent_apart():
    """The bound needs no change for it: without σ₁ it is the Gaussian's, with it Monte Carlo's."""
    model = random_zigp(5)
    batch = random_batch(5, random_lattice(5).rows())
    without = eqx.tree_at(lambda m: m.likelihood, model, GatedNoise(0.3, 0.0))
    np.testing.assert_allclose(bound(without, batch), bound(model, batch), rtol=1e-8)

    model = eqx.tree_at(lambda m: m.likelihood, model, GatedNoise(0.3, 0.8))
    rng, n = np.random.default_rng(5), 100_000
    m = marginals(model, batch.at)
    values = {
        name: m[name].mean + jnp.sqrt(m[name].var) * rng.normal(size=(n, *batch.y.shape))
        for name in ("g", "f")
    }
    noise = 0.3 + 0.8 * ndtr(values["g"]) ** 2
    fit = norm.logpdf(batch.y, ndtr(values["g"]) * values["f"], np.sqrt(noise)).sum(axis=1)
    estimate = fit.mean() - sum(float(kl(latent)) for latent in model.latents.values())
    assert abs(float(bound(model, batch)) - estimate) < 5 * fit.std() / np.sqrt(n)

    # What it predicts is what it would observe: moments, distribution and draws agree.
    y = np.asarray(model.likelihood.observe(jax.random.key(0), model.signal, values))
    moments = model.likelihood.moments(model.signal, m)
    np.testing.assert_allclose(moments.mean, y.mean(axis=0), atol=5 * y.std() / np.sqrt(n))
    np.testing.assert_allclose(moments.var, y.var(axis=0), rtol=0.05)
    predictive = model.likelihood.predictive(model.signal, m)
    for t in (-1.0, 0.0, 0.5):
        below = np.mean(y <= t, axis=0)
        np.testing.assert_allclose(predictive.cdf(jnp.asarray(t)), below, atol=0.01)
