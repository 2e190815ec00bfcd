"""The density of draws, and averages over them, against sums by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models_by_hand import random_lattice, random_zigp
from scipy.special import ndtr
from scipy.stats import norm

from zigp.gp.batch import Batch, Rows
from zigp.gp.kernels import Matern32
from zigp.gp.latent import LatentGP
from zigp.models import predictions
from zigp.models.draws import PRIORS, drawn, from_q, log_density, places, prior_of, some
from zigp.models.likelihoods import Gated, Gaussian, HurdleGamma, ZeroInflatedNegativeBinomial
from zigp.models.model import gp_regression, zero_inflated_gp
from zigp.models.predictions import Predictions

FAMILIES = {
    "gaussian": Gaussian.of_variance(0.3),
    "gated": Gated.of_variances(0.05, 0.3, 1e-4),
    "hurdle_gamma": HurdleGamma.of_shape(1.7),
    "zinb": ZeroInflatedNegativeBinomial.of_dispersion(1.3),
}


def test_the_density_is_that_of_observations_given_all_inducing_values():
    """With an inducing point at every row no variance is left unexplained: the likelihood of
    y = Φ(g) f + ε times N(w; 0, I) times the priors.
    """
    rng = np.random.default_rng(0)
    X, y = np.linspace(-1, 1, 5)[:, None], rng.normal(size=5)
    latents = [
        LatentGP.create((Matern32(0.7),), (X,), ((0,),), prior_mean=mean) for mean in (0.0, 0.4)
    ]
    model = zero_inflated_gp(*latents, Gaussian.of_variance(0.3))
    batch = Batch(Rows(X), y, np.ones(5))
    at = {
        name: np.asarray(v) + 0.3 * rng.normal(size=np.shape(v))
        for name, v in places(model).items()
    }

    def by_hand(values):
        total, functions = 0.0, {}
        for name in "fg":
            here = {k.removeprefix(f"latents.{name}."): v for k, v in values.items()}
            r = np.sqrt(3) * np.abs(X - X.T) / (np.exp(here["kernels.0.log_lengthscale"]))
            r = r / np.asarray(model.latents[name].kernels[0].unit)
            L = np.linalg.cholesky((1 + r) * np.exp(-r) + 1.5e-8 * np.eye(5))
            functions[name] = (
                here["prior_mean"] + np.exp(here["log_variance"] / 2) * L @ here["q_mean"]
            )
            total += norm.logpdf(here["q_mean"]).sum()
        noise = 1e-6 + np.exp(values["likelihood.excess"])
        total += norm.logpdf(y, ndtr(functions["g"]) * functions["f"], np.sqrt(noise)).sum()
        for place, value in values.items():
            if not place.endswith("q_mean"):
                total += norm.logpdf(value, *prior_of(place)).sum()
        return total

    other = {name: v + 0.1 for name, v in at.items()}
    found = [float(log_density(model, values, batch)) for values in (at, other)]
    np.testing.assert_allclose(found[1] - found[0], by_hand(other) - by_hand(at), atol=2e-5)


def test_a_draw_leaves_the_variance_that_inducing_values_do_not_explain():
    model, at = random_zigp(0), random_lattice(0).rows()
    values = from_q(model, jax.random.key(0), 3)
    one = drawn(model, {name: v[1] for name, v in values.items()})
    for name, gp in one.latents.items():
        projection, found = gp.project(at), one.marginals(at)[name]
        np.testing.assert_allclose(found.var, gp.variance * projection.unexplained(), rtol=1e-10)
        assert found.cov == {}


def test_draws_from_q_have_its_moments():
    model = random_zigp(1)
    model = zero_inflated_gp(*model.latents.values(), model.likelihood, coupled=True)
    values = from_q(model, jax.random.key(0), 20_000)
    for name, gp in model.latents.items():
        draws = np.asarray(values[f"latents.{name}.q_mean"]).reshape(20_000, -1)
        root = np.asarray(gp.q_cov.root)
        np.testing.assert_allclose(draws.mean(0), np.ravel(gp.q_mean), atol=0.05)
        np.testing.assert_allclose(np.cov(draws.T), root @ root.T, atol=0.1)


def test_every_hyperparameter_has_a_proper_prior():
    for family in FAMILIES.values():
        model = random_zigp(0, likelihood=family)
        for place in places(model):
            if not place.endswith("q_mean"):
                assert prior_of(place).sd > 0
    assert prior_of("latents.g.log_variance").mean > PRIORS["log_variance"].mean


@pytest.mark.parametrize("name", FAMILIES)
def test_predictions_from_draws_are_averages(name):
    """Each answer is the average over draws of those of the models with their values."""
    model, X = random_zigp(0, likelihood=FAMILIES[name]), np.asarray(random_lattice(0).rows().X)
    values = from_q(model, jax.random.key(0), 3)
    rng = np.random.default_rng(0)
    place = next(p for p in places(model) if p.startswith("likelihood"))
    values[place] = jnp.asarray(places(model)[place] + 0.2 * rng.normal(size=3))
    made = Predictions(model, Rows(X), values)
    apart = [
        Predictions(drawn(model, {k: v[i] for k, v in values.items()}), Rows(X)) for i in range(3)
    ]

    def mixed(question, mean, sd):
        each = [one.ask(question) for one in apart]
        means = np.stack([one[mean] for one in each])
        squares = np.stack([one[sd] for one in each]) ** 2 + means**2
        return means.mean(0), np.sqrt(squares.mean(0) - means.mean(0) ** 2)

    found = made.ask(predictions.moments)
    np.testing.assert_allclose(
        (found["mean"], found["sd"]), mixed(predictions.moments, "mean", "sd")
    )
    parts = made.ask(predictions.components)
    for part in ("gate", "latent", "signal"):
        expected = mixed(predictions.components, part, f"{part}_sd")
        np.testing.assert_allclose((parts[part], parts[f"{part}_sd"]), expected)
    t = np.full((1, len(X)), 0.7)
    # Averages take fewer nodes in quadratures.
    p = np.mean([one.ask(predictions.cdf, along=[t])["p"] for one in apart], axis=0)
    np.testing.assert_allclose(made.ask(predictions.cdf, along=[t])["p"], p, atol=3e-3)
    ends = t[0] - 1.0, t[0]
    between = np.mean(
        [np.exp(one.ask(predictions.log_between, along=ends)["p"]) for one in apart], axis=0
    )
    np.testing.assert_allclose(
        np.exp(made.ask(predictions.log_between, along=ends)["p"]), between, atol=3e-3
    )
    for level in (0.05, 0.5, 0.9):
        q = made.ask(predictions.quantile, np.asarray(level))["t"]
        low, high = (
            made.ask(predictions.cdf, along=[(q + step)[None]])["p"][0] for step in (-1e-4, 1e-4)
        )
        assert np.all((low <= level) & (level <= high))
    f = made.latent_quantile("f", 0.3)
    each = [(one.marginals["f"].mean, np.sqrt(one.marginals["f"].var)) for one in apart]
    np.testing.assert_allclose(np.mean([norm.cdf(f, *one) for one in each], axis=0), 0.3)


def test_joint_draws_use_each_draw_of_the_parameters_equally_often():
    values = {"a": jnp.arange(4.0)}
    chosen = np.asarray(some(values, jax.random.key(0), 8)["a"])
    assert sorted(chosen) == sorted([*range(4)] * 2)
    assert sorted(np.asarray(some(values, jax.random.key(1), 3)["a"])) != [0, 0, 0]


def test_joint_draws_have_the_covariance_of_the_mixture():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3, 1))
    f = LatentGP.create((Matern32(0.7),), (X[:2],), ((0,),))
    model = gp_regression(f, Gaussian.of_variance(0.3))
    values = {"latents.f.q_mean": rng.normal(size=(2, 2))}
    drawn_y = predictions.draw(
        model, X, ((0,),), 20_000, jax.random.key(0), noise=True, draws=values
    )
    A = np.asarray(f.project(Rows(X)).A[0])
    K = np.asarray(f.kernels[0](jnp.asarray(X), jnp.asarray(X)))
    means = values["latents.f.q_mean"] @ A
    expected = K - A.T @ A + 0.3 * np.eye(3) + np.cov(means.T, ddof=0)
    np.testing.assert_allclose(np.cov(drawn_y.reshape(-1, 3).T), expected, atol=0.06)
