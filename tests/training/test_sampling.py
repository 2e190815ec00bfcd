"""Markov chains against posteriors that are known exactly."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("blackjax")

from exact_posterior import ExactZeroInflated
from scipy.special import ndtr

from zigp.gp.batch import Batch, Rows
from zigp.gp.kernels import Matern32
from zigp.gp.latent import LatentGP
from zigp.models.draws import drawn, places
from zigp.models.likelihoods import Gaussian
from zigp.models.model import gp_regression, zero_inflated_gp
from zigp.training import TrainingSettings, train
from zigp.training.sampling import sample
from zigp.training.settings import free_places
from zigp.training.whitening import Whitening

KNOWN = ("kernel", "variance", "prior_mean", "noise", "inducing")


def curves(n, noise=0.3, seed=0):
    """Return inputs, their covariance, and observations of a zero-inflated GP."""
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(0, 6, (n, 1)), axis=0)
    r = np.sqrt(3) * np.abs(X - X.T)
    K = (1 + r) * np.exp(-r) + 1e-8 * np.eye(n)
    f, g = (2.0 * np.linalg.cholesky(K) @ rng.normal(size=n) for _ in range(2))
    return X, K, f, g, ndtr(g) * f + noise * rng.normal(size=n)


def latent(X, variance=4.0):
    """Return a latent with an inducing point at every row and length-scale 1."""
    gp = LatentGP.create((Matern32(1.0),), (X,), ((0,),), variance=variance)
    return eqx.tree_at(lambda gp: gp.jitter, gp, np.asarray(1e-8))


def functions(model, values, X):
    """Return draws [draws, rows] of each latent at inputs."""

    @jax.jit
    def one(values):
        return {name: m.mean for name, m in drawn(model, values).marginals(Rows(X)).items()}

    flat = {name: jnp.asarray(v.reshape(-1, *v.shape[2:])) for name, v in values.items()}
    return {name: np.asarray(v) for name, v in jax.lax.map(one, flat).items()}


def test_regression_with_known_hyperparameters():
    """f | y is Gaussian: its mean and sd within Monte Carlo error, with any starts."""
    X, K, f, _, _ = curves(20)
    y = f + 0.3 * np.random.default_rng(1).normal(size=20)
    model = gp_regression(latent(X), Gaussian.of_variance(0.09))
    batch, known = Batch(Rows(X), y, np.ones(20)), ("kernel", "variance", "inducing", "noise")
    chains = sample(model, batch, known, draws=400, chains=2, warmup=150, seed=0)
    assert set(chains.values) == {"latents.f.q_mean", "latents.f.prior_mean"}
    found = functions(model, chains.values, X)["f"]
    # The prior mean, N(0, 2²), adds to the covariance.
    prior = 4.0 * K + 4.0
    gain = np.linalg.solve(prior + 0.09 * np.eye(20), prior).T
    np.testing.assert_allclose(found.mean(0), gain @ y, atol=0.06)
    exact = np.sqrt(np.diag(prior - gain @ prior))
    np.testing.assert_allclose(found.std(0), exact, rtol=0.15)


def test_whitening_makes_a_regression_standard_normal():
    """With Gaussian noise log p(z) = −½ |z|² + a function of the hyperparameters."""
    X, _, f, _, _ = curves(12)
    model, batch = (
        gp_regression(latent(X), Gaussian.of_variance(0.09)),
        Batch(Rows(X), f, np.ones(12)),
    )
    whitening = Whitening.around(model, batch)
    start = {name: jnp.asarray(value) for name, value in places(whitening.model).items()}
    z = jnp.asarray(np.random.default_rng(0).normal(size=12))

    @jax.jit
    def fall(log_lengthscale):
        here = start | {"latents.f.kernels.0.log_lengthscale": log_lengthscale}
        at = [whitening.log_density(here | {"latents.f.q_mean": z * s}, batch) for s in (0.0, 1.0)]
        return at[0] - at[1]

    for shift in (0.0, 0.7):
        value = fall(start["latents.f.kernels.0.log_lengthscale"] + shift)
        np.testing.assert_allclose(value, 0.5 * np.sum(z**2), rtol=1e-6)


def test_fixed_parameters_are_not_drawn():
    X, _, _, _, y = curves(10)
    model = zero_inflated_gp(latent(X), latent(X), Gaussian.of_variance(0.09))
    free = free_places(model, ("noise", "g.variance"))
    assert "likelihood.excess" not in free
    assert "latents.g.log_variance" not in free
    assert "latents.f.log_variance" in free
    assert len(y) == 10


class Prior:
    """What `ExactZeroInflated` asks of a prior."""

    mean = 0.0

    def covariance(self, X):
        r = np.sqrt(3) * np.abs(X - X.T)
        return 4.0 * ((1 + r) * np.exp(-r) + 1e-8 * np.eye(len(X)))


@pytest.mark.slow
@pytest.mark.parametrize("exact_amounts", [True, False])
def test_the_zero_inflated_gp_against_elliptical_slices(exact_amounts, monkeypatch):
    """Means and sds of amount, gate and signal, hyperparameters known, with f integrated out and
    with f among what the chains move in.
    """
    X, _, _, g, y = curves(30, seed=3)
    noise = lambda values: 0.3  # noqa: E731
    slow = ExactZeroInflated(Prior(), Prior(), noise, X, y, g).fit(0, steps=40_000, kept=4_000)
    expected = {"f": np.array(slow.amounts), "g": np.array(slow.gates)}
    model = zero_inflated_gp(latent(X), latent(X), Gaussian.of_variance(0.09), coupled=True)
    batch = Batch(Rows(X), y, np.ones(30))
    fitted = train(model, batch, TrainingSettings(steps=300, fixed=KNOWN)).model
    if not exact_amounts:
        monkeypatch.setattr(Gaussian, "linear", False)
    chains = sample(fitted, batch, KNOWN, draws=2000, chains=4, warmup=500, seed=0)
    found = functions(fitted, chains.values, X)
    for name, inside in (
        ("f", lambda v: v["f"]),
        ("g", lambda v: ndtr(v["g"])),
        ("h", lambda v: ndtr(v["g"]) * v["f"]),
    ):
        mine, theirs = inside(found), inside(expected)
        sd = theirs.std(0)
        assert np.abs(mine.mean(0) - theirs.mean(0)).max() < 0.15 * max(sd.max(), 0.3), name
        np.testing.assert_allclose(mine.std(0), sd, rtol=0.2, atol=0.02)
