"""A full q along a Markov chain of times, against a dense q with the same inducing points."""

from __future__ import annotations

import dataclasses
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models_by_hand import COLUMNS, bound, kl, marginals, with_jitter

from zigp.gp.batch import Batch, Lattice, Rows
from zigp.gp.chain import Chain, colour, filtered, smoothed, solve, walk
from zigp.gp.kernels import Kernel, Matern12, Matern32
from zigp.gp.latent import LatentGP
from zigp.gp.markov import ChainedGP
from zigp.models.likelihoods import HurdleGamma
from zigp.models.model import Model, zero_inflated_gp
from zigp.training.natural import natural_sweep

PLACES = np.random.default_rng(0).normal(size=(5, 2))
TIMES = np.array([0.0, 0.4, 1.1, 1.5, 2.9, 3.0])
LATTICE = Lattice((PLACES, TIMES[:, None]), COLUMNS)
KERNELS = {"matern12": Matern12(1.3), "matern32": Matern32(1.8)}
each_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


def data() -> Batch:
    """Return skewed amounts with zeros and missing cells."""
    rng = np.random.default_rng(1)
    y = np.exp(rng.normal(size=LATTICE.shape)) * (rng.random(LATTICE.shape) < 0.6)
    return Batch(LATTICE, y, (rng.random(LATTICE.shape) < 0.8).astype(float))


def latent(kernel: Kernel, covariance: str, prior_mean: float) -> LatentGP:
    """Return a latent with inducing points at three places and at all times."""
    given = ((Matern32(1.2), kernel), (PLACES[:3], TIMES[:, None]), COLUMNS)
    units = {"variance": 1.7, "prior_mean": prior_mean}
    if covariance == "markov":
        gp = ChainedGP.create(*given, **units)
    else:
        gp = LatentGP.create(*given, covariance=covariance, **units)
    return with_jitter(gp.placed(LATTICE), 1e-12)


@cache
def fitted(name: str, covariance: str) -> Model:
    kernel = KERNELS[name]
    f, g = latent(kernel, covariance, 0.3), latent(kernel, covariance, -0.4)
    model, batch = zero_inflated_gp(f, g, HurdleGamma.of_shape(1.5)), data()

    @eqx.filter_jit
    def swept(model):
        return natural_sweep(model, batch, model.project(batch.at))[0]

    for _ in range(40):
        model = swept(model)
    return model


@pytest.fixture(params=[pytest.param("matern12", marks=pytest.mark.slow), "matern32"])
def both(request) -> tuple[Model, Model]:
    """Return the same model with a q along a chain and with a dense q, both at their optimum."""
    return fitted(request.param, "markov"), fitted(request.param, "dense")


# -- chains ----------------------------------------------------------------------------------------


def precision(chain: Chain) -> np.ndarray:
    """Return the precision of all states as a matrix, the state running fastest."""
    own, after = (np.asarray(part) for part in chain.precision())
    T, d = own.shape[:2]
    P = np.zeros((T, d, T, d))
    for t in range(T):
        P[t, :, t] = own[t]
        if t < T - 1:
            P[t, :, t + 1], P[t + 1, :, t] = after[t], after[t].T
    return P.reshape(T * d, T * d)


@each_kernel
def test_the_functions_of_a_chain_have_the_covariance_of_its_kernel(kernel):
    chain = Chain.of(kernel, jnp.asarray(TIMES))
    d = chain.A.shape[-1]
    covariance = np.linalg.inv(precision(chain))
    np.testing.assert_allclose(
        covariance[::d, ::d], kernel(*[jnp.asarray(TIMES)[:, None]] * 2), atol=1e-12
    )
    np.testing.assert_allclose(chain.logdet(), np.linalg.slogdet(covariance)[1], rtol=1e-10)


@each_kernel
def test_passes_forward_and_backward_solve_the_whole_system(kernel):
    rng, s = np.random.default_rng(2), 3
    chain = Chain.of(kernel, jnp.asarray(TIMES))
    T, d = len(TIMES), chain.A.shape[-1]
    half = rng.normal(size=(T, s, s))
    gram = half @ np.swapaxes(half, 1, 2)
    H = np.einsum("tcud,ij->tciudj", precision(chain).reshape(T, d, T, d), np.eye(s))
    for t in range(T):
        H[t, 0, :, t, 0] += gram[t]
    S = np.linalg.inv(H.reshape(T * d * s, -1))
    blocks, b = S.reshape(T, d, s, T, d, s), rng.normal(size=(T, d, s))
    states = filtered(chain, jnp.asarray(gram))
    found = smoothed(states)
    np.testing.assert_allclose(solve(states, jnp.asarray(b)).ravel(), S @ b.ravel(), rtol=1e-8)
    np.testing.assert_allclose(states.logdet, -np.linalg.slogdet(S)[1], rtol=1e-10)
    for t in range(T):
        np.testing.assert_allclose(found.functions[t], blocks[t, 0, :, t, 0], atol=1e-10)
        np.testing.assert_allclose(
            found.same[t], np.einsum("cidi->cd", blocks[t, :, :, t]), atol=1e-9
        )
    for t in range(T - 1):
        next_to = np.einsum("cidi->cd", blocks[t, :, :, t + 1])
        np.testing.assert_allclose(found.following[t], next_to, atol=1e-9)
    # Coloured unit vectors are the columns of a root of S.
    units = jnp.eye(T * d * s).reshape(-1, T, d * s)
    root = np.asarray(jax.vmap(lambda e: colour(states, e))(units)).reshape(len(S), -1)
    np.testing.assert_allclose(root.T @ root, S, atol=1e-9)
    # E[xᵀ P x] by the moves of the chain.
    x = rng.normal(size=(T, d, s))
    same, following = x @ np.swapaxes(x, 1, 2), x[:-1] @ np.swapaxes(x[1:], 1, 2)
    want = np.einsum("tcs,tcud,uds->", x, precision(chain).reshape(T, d, T, d), x)
    np.testing.assert_allclose(chain.square(jnp.asarray(same), jnp.asarray(following)), want)
    np.testing.assert_allclose(np.sum(x * chain.times(jnp.asarray(x))), want)


@each_kernel
def test_a_walk_has_the_covariance_of_the_prior(kernel):
    chain = Chain.of(kernel, jnp.asarray(TIMES))
    T, d = len(TIMES), chain.A.shape[-1]
    units = jnp.eye(T * d).reshape(-1, T, d, 1)
    root = np.asarray(jax.vmap(lambda e: walk(chain, e))(units)).reshape(T * d, -1)
    np.testing.assert_allclose(root.T @ root, np.linalg.inv(precision(chain)), atol=1e-10)


# -- q ---------------------------------------------------------------------------------------------


def test_bound_and_marginals_are_those_of_a_dense_q(both):
    chain, dense = both
    np.testing.assert_allclose(bound(chain, data()), bound(dense, data()), rtol=1e-9)
    np.testing.assert_allclose(kl(chain), kl(dense), rtol=1e-6)
    a, b = marginals(chain, LATTICE), marginals(dense, LATTICE)
    for name in "fg":
        np.testing.assert_allclose(a[name].mean, b[name].mean, atol=1e-6)
        np.testing.assert_allclose(a[name].var, b[name].var, rtol=1e-5)


def test_at_the_optimum_hyperparameters_have_the_same_gradient(both):
    """The two hold different variables, but there the gradient does not depend on that."""

    @eqx.filter_jit
    def gradient(model):
        def of(parts):
            f = dataclasses.replace(model.latents["f"], kernels=parts[0], log_variance=parts[1])
            return bound(dataclasses.replace(model, latents={**model.latents, "f": f}), data())

        f = model.latents["f"]
        return jax.grad(of)((f.kernels, f.log_variance))

    for a, b in zip(*(jax.tree.leaves(gradient(model)) for model in both), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


NEW = np.array([[0.3, -0.2, 0.4], [1.0, 0.5, 2.2], [-0.4, 0.1, 3.0], [0.2, 0.9, 5.0], [0, 0, -1.0]])


@pytest.mark.parametrize("path", ["rows", "lattice"])
def test_predictions_at_new_places_and_times_are_those_of_a_dense_q(both, path):
    at = Rows(NEW) if path == "rows" else Lattice((NEW[:, :2], NEW[:, 2:]), COLUMNS)
    chain, dense = both
    a, b = marginals(chain.extended(at), at), marginals(dense, at)
    for name in "fg":
        np.testing.assert_allclose(a[name].mean, b[name].mean, atol=1e-6)
        np.testing.assert_allclose(a[name].var, b[name].var, rtol=1e-5)
    np.testing.assert_allclose(bound(chain.extended(at), data()), bound(chain, data()), rtol=1e-10)


@pytest.mark.parametrize("path", ["rows", "lattice"])
def test_draws_have_the_moments_of_q(both, path):
    at = Rows(NEW) if path == "rows" else Lattice((NEW[:, :2], NEW[:, 2:]), COLUMNS)
    gp, dense = (model.latents["g"] for model in both)
    draws = lambda gp: np.asarray(  # noqa: E731
        eqx.filter_jit(lambda gp: gp.draw(jax.random.key(0), at, 20_000))(gp.extended(at))
    ).reshape(20_000, -1)
    one, other = np.cov(draws(gp).T), np.cov(draws(dense).T)
    np.testing.assert_allclose(one, other, atol=0.05 * np.max(other))
    np.testing.assert_allclose(draws(gp).mean(0), draws(dense).mean(0), atol=0.05)


def test_sites_and_hyperparameters_give_back_the_covariance(both):
    chain, _ = both
    gp = chain.latents["f"]
    again = dataclasses.replace(gp, q_cov=jax.tree.map(np.zeros_like, gp.q_cov))
    cov = dataclasses.replace(again.q_cov, sites=gp.q_cov.sites, places=gp.q_cov.places)
    restored = dataclasses.replace(gp, q_cov=cov).refreshed()
    for a, b in zip(jax.tree.leaves(restored), jax.tree.leaves(gp), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)
