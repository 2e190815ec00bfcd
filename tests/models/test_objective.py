"""The bound: the paper's formula, Monte Carlo, the evidence above it, and its special cases."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from models_by_hand import (
    assert_close,
    bound,
    kl,
    marginals,
    masked,
    natural_sweep,
    random_batch,
    random_latent,
    random_lattice,
    random_network,
    random_outputs,
    random_zigp,
    with_jitter,
)
from scipy.special import ndtr
from scipy.stats import multivariate_normal, norm

from zigp.gp.batch import Batch, Rows
from zigp.gp.kernels import Linear, Matern32, SquaredExponential
from zigp.gp.latent import LatentGP
from zigp.models.likelihoods import Gaussian
from zigp.models.model import Model, gp_regression, zero_inflated_gp
from zigp.models.objective import log_prior, objective
from zigp.training import TrainingSettings, train


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("covariance", ["diagonal", "dense"])
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


MODELS = {
    **{f"zigp {seed}": (random_zigp, seed, {}) for seed in range(3)},
    "gates on weights": (random_network, 5, {}),
    "gates on latents": (random_network, 5, {"weights": False, "latents": True}),
    "both gates": (random_network, 5, {"latents": True}),
}


@pytest.mark.parametrize(
    "name", [n if "zigp" in n else pytest.param(n, marks=pytest.mark.slow) for n in MODELS]
)
def test_bound_is_within_the_error_of_monte_carlo(name):
    make, seed, gates = MODELS[name]
    model, at = make(seed, **gates), random_lattice(seed).rows()
    batch = random_batch(seed, at) if make is random_zigp else random_outputs(seed)
    rng, n = np.random.default_rng(seed), 40_000
    draws = {
        name: m.mean + np.sqrt(m.var) * rng.normal(size=(n, *m.mean.shape))
        for name, m in marginals(model, batch.at).items()
    }
    signal = np.asarray(jax.jit(jax.vmap(model.signal.value))(draws))
    sd = np.sqrt(model.likelihood.noise)[..., None]
    fit = norm.logpdf(batch.y, signal, sd).reshape(n, -1).sum(axis=1)
    got = float(bound(model, batch) + kl(model))
    assert abs(got - fit.mean()) < 5 * fit.std() / np.sqrt(n)


def highest_bound(model: Model, batch: Batch) -> float:
    """Return the bound at the best q, with everything else fixed."""
    only_q = ("noise", "kernel", "variance", "prior_mean", "inducing")
    settings = TrainingSettings(steps=1500, learning_rate=0.05, fixed=only_q, tol=0.0)
    return float(bound(train(model, batch, settings).model, batch))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("y", "beta"),
    [
        ((0.0, 0.0), -0.3),
        ((0.9, 0.4), -0.3),
        ((-1.0, 1.5), -0.3),
        ((1.3, 1.1), 0.8),
        ((-0.4, 0.0), 0.0),
        ((2.5, 1.9), -1.0),
    ],
)
def test_bound_is_just_below_the_evidence_of_two_points(y, beta):
    x, noise = np.array([[0.0], [0.7]]), 0.15
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


def test_an_open_gate_gives_the_bound_of_plain_regression():
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
    model = gp_regression(with_jitter(latent, 0.0), Gaussian.of_variance(noise))
    batch = Batch(Rows(X), y, np.ones(12))
    np.testing.assert_allclose(bound(natural_sweep(model, batch), batch), exact, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("covariance", ["diagonal", "dense"])
def test_a_masked_lattice_is_its_cells_as_rows(covariance):
    model = jax.tree.map(jnp.asarray, random_zigp(3, covariance))
    both = eqx.filter_jit(eqx.filter_value_and_grad(bound))
    on_lattice, on_rows = (both(model, data) for data in masked())
    assert_close(on_lattice, on_rows, atol=1e-9, rtol=1e-9)


def test_weights_count_rows():
    model = random_zigp(4)
    batch = random_batch(4, random_lattice(4).rows())
    weight = np.arange(len(batch.y)) % 3.0
    repeat = np.repeat(np.arange(len(weight)), weight.astype(int))
    repeated = Batch(Rows(batch.at.X[repeat]), batch.y[repeat], np.ones(len(repeat)))
    weighted = Batch(batch.at, batch.y, weight)
    np.testing.assert_allclose(bound(model, weighted), bound(model, repeated), rtol=1e-12)


def test_the_prior_counts_every_length_that_there_is():
    """Each stationary kernel of a sum or product counts once; others have no length-scale."""
    kernels = (SquaredExponential([0.9, 1.4]) + 0.3 * Matern32(0.5) * Linear(1.0), Matern32(2.0))
    g = random_latent(7, kernels=kernels)
    model = zero_inflated_gp(random_latent(8), g, Gaussian.of_variance(0.3))
    with_prior = dataclasses.replace(model, priors=(("g", 3.0, 1.5), ("f", 2.0, 0.5)))
    gate, amount = np.array([0.9, 1.4, 0.5, 2.0]), np.array([0.9, 1.4, 0.8])
    expected = np.sum(2.0 * np.log(gate) - 1.5 * gate) + np.sum(np.log(amount) - 0.5 * amount)
    np.testing.assert_allclose(log_prior(with_prior), expected, rtol=1e-12)
    assert log_prior(model) == 0.0


@pytest.mark.slow
def test_the_objective_is_the_bound_and_the_prior_of_every_member_of_a_family():
    model, batch = random_network(13), random_outputs(13)
    with_prior = dataclasses.replace(model, priors=(("g", 3.0, 1.0),))
    lengths = np.concatenate([np.ravel(k.relative_lengthscale) for k in model.latents["g"].kernels])
    expected = bound(model, batch) + np.sum(2.0 * np.log(lengths) - lengths)
    np.testing.assert_allclose(objective(with_prior, batch), expected, rtol=1e-12)
    assert bound(with_prior, batch) == bound(model, batch)
