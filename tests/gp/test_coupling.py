"""Two latents with one q, against full matrices."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models_by_hand import (
    bound,
    masked,
    natural_sweep,
    random_lattice,
    random_zigp,
)

from zigp.gp.coupling import Curvature, coupling_of
from zigp.gp.covariances import Diagonal
from zigp.gp.joint import Joint
from zigp.models.model import Model

each_covariance = pytest.mark.parametrize("covariance", ["dense", "diagonal"])
one_of_them_slow = pytest.mark.parametrize(
    "covariance", ["dense", pytest.param("diagonal", marks=pytest.mark.slow)]
)


def coupled(model: Model, seed: int = 5) -> Model:
    """Return a model whose g follows its f, in a random way."""
    f, g = (model.latents[name] for name in "fg")
    if isinstance(f.q_cov, Diagonal):
        g = dataclasses.replace(g, inducing=f.inducing)
    tie = coupling_of(f, g, "f")
    noise = 0.3 * np.random.default_rng(seed).normal(size=np.shape(tie.tail))
    tie = dataclasses.replace(tie, tail=noise)
    return dataclasses.replace(model, latents={"f": f, "g": g}, couplings={"g": tie})


def whole_covariance(joint: Joint) -> np.ndarray:
    """Return S of both latents as one matrix, by colouring unit vectors."""
    first, second = joint.pair
    M = np.size(first.q_mean)
    units = jnp.eye(M).reshape(M, *np.shape(first.q_mean))

    def rows(colour, extra=None):
        return np.stack([np.ravel(colour(unit)) for unit in units])

    zero = np.zeros((M, M))
    root = np.block(
        [
            [rows(first.q_cov.colour).T, zero],
            [rows(joint.coupling.follow).T, rows(second.q_cov.colour).T],
        ]
    )
    return root @ root.T


def columns(joint: Joint, at) -> np.ndarray:
    """Return √v A of both latents as one block-diagonal matrix."""
    blocks = []
    for gp in joint.pair:
        A = np.asarray(gp.project(at.rows())._columns) * np.sqrt(gp.variance)
        blocks.append(A)
    return np.block([[blocks[0], np.zeros_like(blocks[0])], [np.zeros_like(blocks[1]), blocks[1]]])


@each_covariance
@pytest.mark.parametrize("path", ["rows", "lattice"])
def test_moments_and_kl_match_full_matrices(covariance, path):
    lattice = random_lattice(0)
    at = lattice if path == "lattice" else lattice.rows()
    (joint,) = coupled(random_zigp(1, covariance)).joints()
    S, A, N = whole_covariance(joint), columns(joint, at), int(np.prod(at.shape))
    moments = joint.through({name: gp.project(at) for name, gp in joint.latents.items()})
    unexplained = [gp.variance * np.ravel(gp.project(at).unexplained()) for gp in joint.pair]
    full = A.T @ S @ A
    np.testing.assert_allclose(np.ravel(moments["f"].var), unexplained[0] + np.diag(full)[:N])
    np.testing.assert_allclose(np.ravel(moments["g"].var), unexplained[1] + np.diag(full)[N:])
    cov = moments["f"].cov["g"]
    assert cov.shape == at.shape
    np.testing.assert_allclose(np.ravel(cov), np.diag(full[:N, N:]), rtol=1e-9, atol=1e-12)
    m = np.concatenate([np.ravel(gp.q_mean) for gp in joint.pair])
    kl = 0.5 * (np.trace(S) + m @ m - len(m) - np.linalg.slogdet(S)[1])
    np.testing.assert_allclose(joint.kl(), kl, rtol=1e-12)


@each_covariance
def test_uncoupled_models_are_the_case_of_a_zero_coupling(covariance):
    lone, (cells, _) = random_zigp(2, covariance), masked(2)
    pair = coupled(lone)
    zero = jax.tree.map(np.zeros_like, pair.couplings)
    loose = dataclasses.replace(pair, couplings=zero)
    alone = dataclasses.replace(pair, couplings={})
    np.testing.assert_allclose(bound(loose, cells), bound(alone, cells), rtol=1e-12)


@one_of_them_slow
@pytest.mark.parametrize("path", ["rows", "lattice"])
def test_draws_have_the_moments_of_q(covariance, path):
    lattice = random_lattice(0)
    at = lattice if path == "lattice" else lattice.rows()
    (joint,) = coupled(random_zigp(3, covariance)).joints()
    keys = dict(zip("fg", jax.random.split(jax.random.key(0)), strict=True))
    drawn = jax.jit(lambda: joint.draw(keys, at, 20_000))()
    f, g = (np.asarray(drawn[name]).reshape(20_000, -1) for name in "fg")
    moments = joint.through({name: gp.project(at) for name, gp in joint.latents.items()})
    for name, values in (("f", f), ("g", g)):
        np.testing.assert_allclose(values.mean(0), np.ravel(moments[name].mean), atol=0.06)
        np.testing.assert_allclose(values.var(0), np.ravel(moments[name].var), rtol=0.06)
    cov = np.mean((f - f.mean(0)) * (g - g.mean(0)), axis=0)
    np.testing.assert_allclose(cov, np.ravel(moments["f"].cov["g"]), atol=0.06)


def test_negative_curvature_is_cut_to_the_nearest_matrix():
    rng = np.random.default_rng(0)
    first, second, between = rng.normal(size=(3, 50))
    cut = Curvature(*map(jnp.asarray, (first, second, between))).cut(jnp.asarray(0.0))
    for i in range(50):
        values, vectors = np.linalg.eigh([[first[i], between[i]], [between[i], second[i]]])
        want = vectors @ np.diag(np.maximum(values, 0.0)) @ vectors.T
        got = [[cut.first[i], cut.between[i]], [cut.between[i], cut.second[i]]]
        np.testing.assert_allclose(got, want, atol=1e-12)


@one_of_them_slow
def test_natural_steps_raise_the_bound_until_no_gradient_is_left(covariance):
    model, (_, rows) = coupled(random_zigp(4, covariance)), masked(4)
    path = [float(bound(model, rows))]
    for _ in range(200):
        model = natural_sweep(model, rows)
        path.append(float(bound(model, rows)))
    assert np.all(np.diff(path) > -1e-9)

    def of(parts):
        latents = {
            name: dataclasses.replace(model.latents[name], q_mean=m, q_cov=c)
            for name, (m, c) in parts[0].items()
        }
        return bound(dataclasses.replace(model, latents=latents, couplings=parts[1]), rows)

    q = {name: (gp.q_mean, gp.q_cov) for name, gp in model.latents.items()}
    gradient = jax.grad(of)((q, model.couplings))
    largest = max(float(np.abs(leaf).max()) for leaf in jax.tree.leaves(gradient))
    assert largest < (1e-3 if covariance == "dense" else 2e-2)


def test_a_coupled_bound_is_at_least_the_best_uncoupled_one():
    """And by more than rounding where gate and amount explain the same observations."""
    model, (_, rows) = random_zigp(6), masked(6)
    paired = coupled(model)
    paired = dataclasses.replace(paired, couplings=jax.tree.map(np.zeros_like, paired.couplings))
    reached = []
    for one in (model, paired):
        for _ in range(150):
            one = natural_sweep(one, rows)
        reached.append(float(bound(one, rows)))
    assert reached[1] > reached[0] + 1e-3
