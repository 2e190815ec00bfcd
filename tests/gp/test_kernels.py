"""Kernels: closed forms, distances, gradients, initial parameters and traversal."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.gaussian_process import kernels as sk

from zigp.gp.kernels import (
    Categorical,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    SquaredExponential,
)

rng = np.random.default_rng(0)
X = rng.normal(size=(7, 2))
Z = rng.normal(size=(5, 2))
LENGTHS = np.array([0.7, 1.9])


@pytest.mark.parametrize(
    ("kernel", "reference"),
    [
        (SquaredExponential(LENGTHS), sk.RBF(LENGTHS)),
        (Matern12(LENGTHS), sk.Matern(LENGTHS, nu=0.5)),
        (Matern32(LENGTHS), sk.Matern(LENGTHS, nu=1.5)),
        (Matern52(LENGTHS), sk.Matern(LENGTHS, nu=2.5)),
        (Linear(2.0), 0.25 * sk.DotProduct(sigma_0=0.0)),
        (SquaredExponential(0.5) + Matern32(1.0), sk.RBF(0.5) + sk.Matern(1.0, nu=1.5)),
        (SquaredExponential(0.5) * Matern32(1.0), sk.RBF(0.5) * sk.Matern(1.0, nu=1.5)),
        (3.0 * SquaredExponential(0.5), 3.0 * sk.RBF(0.5)),
    ],
    ids=lambda k: type(k).__name__,
)
def test_kernels_are_those_of_scikit_learn(kernel, reference):
    np.testing.assert_allclose(kernel(jnp.asarray(X), jnp.asarray(Z)), reference(X, Z), rtol=1e-12)
    np.testing.assert_allclose(kernel.diag(jnp.asarray(X)), reference.diag(X), rtol=1e-12)


@pytest.mark.parametrize(
    "kernel",
    [
        SquaredExponential(0.5),
        Matern12(0.5),
        Matern32(0.5),
        Matern52(0.5),
        Periodic(24.0, lengthscale=0.8),
        Linear(2.0),
        Categorical(0.3),
        SquaredExponential(0.5) + 3.0 * Matern32(1.0) * Linear(1.0),
    ],
    ids=lambda k: type(k).__name__,
)
def test_single_precision_stays_single(kernel):
    small = jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), kernel)
    x = jnp.asarray(X[:, :1], jnp.float32)
    assert small(x, x).dtype == small.diag(x).dtype == jnp.float32


def test_periodic_matches_scikit_learn_and_repeats():
    kernel = Periodic(24.0, lengthscale=0.8)
    reference = sk.ExpSineSquared(length_scale=0.8, periodicity=24.0)
    x = jnp.asarray(X[:, :1])
    np.testing.assert_allclose(kernel(x, x), reference(X[:, :1]), rtol=1e-12)
    np.testing.assert_allclose(kernel(x, x + 24.0), kernel(x, x), rtol=1e-10)


def test_levels_are_the_same_or_different():
    levels = jnp.array([[0.0], [1.0], [2.0], [1.0]])
    K = np.asarray(Categorical(0.3)(levels, levels))
    expected = np.where(np.equal.outer([0, 1, 2, 1], [0, 1, 2, 1]), 1.0, 0.3)
    np.testing.assert_allclose(K, expected, rtol=1e-12)


def test_product_over_groups_of_columns_is_the_product_of_its_parts():
    kernel = Matern32(1.3).on(0) * Matern12(0.4).on(1)
    x, z = jnp.asarray(X), jnp.asarray(Z)
    expected = Matern32(1.3)(x[:, :1], z[:, :1]) * Matern12(0.4)(x[:, 1:], z[:, 1:])
    np.testing.assert_allclose(kernel(x, z), expected, rtol=1e-12)


def test_chordal_distance_is_in_kilometres():
    # Helsinki to Turku: about 150 km; the chord is as good as the arc at this range.
    places = jnp.array([[60.1699, 24.9384], [60.4518, 22.2666]])
    k = SquaredExponential(100.0, metric="chordal")(places, places)[0, 1]
    assert 100.0 * np.sqrt(-2 * np.log(float(k))) == pytest.approx(150.0, abs=2.0)


def test_chordal_distance_is_on_a_globe():
    k = Matern32(500.0, metric="chordal")
    across = k(jnp.array([[10.0, 179.9]]), jnp.array([[10.0, -179.9]]))
    at_zero = k(jnp.array([[10.0, 0.1]]), jnp.array([[10.0, -0.1]]))
    np.testing.assert_allclose(across, at_zero, rtol=1e-9)
    poles = k(jnp.array([[90.0, 0.0]]), jnp.array([[90.0, 120.0]]))
    np.testing.assert_allclose(poles, 1.0, rtol=1e-9)


@pytest.mark.parametrize("family", [SquaredExponential, Matern12, Matern32, Matern52])
def test_gradients_are_finite_where_inputs_coincide(family):
    x = jnp.array([[1.0, 2.0], [1.0, 2.0], [0.0, 1.0]])
    by_inputs = jax.grad(lambda x: jnp.sum(jnp.sin(family(1.5)(x, x))))(x)
    by_length = jax.grad(lambda s: jnp.sum(jnp.sin(family(LENGTHS)(x * s, x * s))))(1.0)
    assert np.all(np.isfinite(by_inputs))
    assert np.isfinite(by_length)


def test_lengthscales_that_are_not_given_follow_the_data():
    wide = X * np.array([10.0, 0.1])
    filled = SquaredExponential().filled(wide, 0.5)
    np.testing.assert_allclose(filled.lengthscale, 0.5 * wide.std(axis=0), rtol=1e-12)
    constant = SquaredExponential().filled(np.ones((4, 1)), 0.5)
    np.testing.assert_allclose(constant.lengthscale, [0.5], rtol=1e-12)
    kept = (SquaredExponential(2.0).on(0) + 0.5 * Matern32().on(1)).filled(wide, 1.0)
    np.testing.assert_allclose(kept.terms[0].kernel.lengthscale, 2.0, rtol=1e-12)
    np.testing.assert_allclose(kept.terms[1].kernel.kernel.lengthscale, wide[:, 1].std(), rtol=1e-9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Matern32(-1.0), "lengthscale must be positive"),
        (lambda: Matern32(np.nan), "lengthscale must be positive"),
        (lambda: Matern32(metric="spherical"), "metric must be"),
        (lambda: Matern32([1.0, 2.0], metric="chordal"), "one lengthscale, in km"),
        (lambda: Periodic(0.0), "period must be a positive"),
        (lambda: Categorical(1.0), "strictly between 0 and 1"),
        (lambda: Matern32([1.0, 2.0, 3.0]).filled(X, 1.0), "3 values of lengthscale for 2"),
        (lambda: Matern32(metric="chordal").filled(X[:, :1], 1.0), "exactly two columns"),
        (lambda: Matern32().on(2).filled(X, 1.0), "uses column 2"),
    ],
)
def test_impossible_kernels_are_refused_with_the_reason(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_leaves_are_visited_with_the_columns_that_they_use():
    kernel = Matern32(1.0).on(2, 0) + 0.5 * (Categorical(0.3).on(1) * Linear(2.0))
    leaves = kernel.leaves((4, 5, 6))
    assert [type(leaf) for leaf, _ in leaves] == [Matern32, Categorical, Linear]
    assert [columns for _, columns in leaves] == [(6, 4), (5,), (4, 5, 6)]
    globe = kernel.map_leaves(
        lambda leaf, columns: leaf.with_metric("chordal") if columns == (6, 4) else leaf, (4, 5, 6)
    )
    assert globe.terms[0].kernel.metric == "chordal"
    assert str(globe.terms[1]) == str(kernel.terms[1])
