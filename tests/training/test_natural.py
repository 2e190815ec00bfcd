"""Natural-gradient steps: the closed forms they stand for, and that they never lower a bound."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models_by_hand import (
    bound,
    dense_covariance,
    marginals,
    natural_sweep,
    random_latent,
    random_lattice,
)
from test_network_bound import NOISE, P, Q, random_network, random_outputs
from test_objective import masked, random_batch, random_zigp

from zigp.gp.batch import Batch, Rows
from zigp.math.special import probit_moments
from zigp.models.likelihoods import Gated, HurdleLognormal, ZeroInflatedPoisson
from zigp.models.model import Model, gp_classification, zero_inflated_gp
from zigp.models.objective import objective, objective_and_gradient
from zigp.training import Settings, train
from zigp.training.natural import has_steps
from zigp.training.natural import natural_sweep as sweep_with_slopes

DATA = ["lattice", "rows"]


def dense_projection(latent, at) -> np.ndarray:
    """√v A with every inducing variable and every input in a row of its own, [M × N]."""
    rows = np.asarray(_projected_units(latent, at))
    return float(jnp.sqrt(latent.variance)) * rows.reshape(len(rows), -1)


@eqx.filter_jit
def _projected_units(latent, at):
    m = jnp.shape(latent.q_mean)
    units = jnp.eye(int(np.prod(m))).reshape(-1, *m)
    return jax.vmap(latent.project(at).mean)(units)


@eqx.filter_jit
def sums(latent, at, d):
    projection = latent.project(at)
    return projection.pull(d), projection.gram(d), projection.gram_diagonal(d)


@pytest.mark.parametrize("which", [0, 1], ids=DATA)
def test_sums_over_inputs_are_those_of_the_dense_matrix(which):
    at = masked(0)[which].at
    latent = random_latent(0)
    A = dense_projection(latent, at) / float(jnp.sqrt(latent.variance))
    d = np.random.default_rng(0).random(at.shape)
    pulled, gram, diagonal = sums(latent, at, d)
    np.testing.assert_allclose(np.ravel(pulled), A @ d.ravel(), rtol=1e-10)
    whole = (A * d.ravel()) @ A.T
    np.testing.assert_allclose(gram, whole, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(np.ravel(diagonal), np.diag(whole), rtol=1e-9, atol=1e-11)


@pytest.mark.slow
def test_sums_over_three_groups_and_over_axes_a_latent_does_not_see():
    from zigp.gp.batch import Lattice
    from zigp.gp.kernels import Matern32

    rng = np.random.default_rng(1)
    at = Lattice(tuple(rng.normal(size=(n, 1)) for n in (3, 4, 5)), ((0,), (1,), (2,)))
    kernels = (Matern32(0.7), Matern32(0.9), Matern32(1.1))
    d = rng.random(at.shape)
    for columns, sizes in (
        (((2,), (0,), (1,)), (2, 3, 2)),
        (((1,), (0,)), (2, 3)),
        (((2,),), (4,)),
    ):
        some = kernels[: len(columns)]
        latent = random_latent(1, kernels=some, sizes=sizes, columns=columns)
        A = dense_projection(latent, at) / float(jnp.sqrt(latent.variance))
        pulled, gram, _ = sums(latent, at, d)
        np.testing.assert_allclose(np.ravel(pulled), A @ d.ravel(), rtol=1e-9)
        np.testing.assert_allclose(gram, (A * d.ravel()) @ A.T, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    "which", [pytest.param(0, id=DATA[0]), pytest.param(1, id=DATA[1], marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("covariance", ["diagonal", pytest.param("dense", marks=pytest.mark.slow)])
def test_a_step_for_f_is_the_closed_form(which, covariance):
    """H = I + A diag(E[c²]/σ²) Aᵀ and m = H⁻¹ A (E[c] (y) − E[c²] β)/σ², with c = Φ(g)."""
    model, batch = random_zigp(0, covariance), masked(0)[which]
    f = eqx.tree_at(lambda gp: gp.prior_mean, model.latents["f"], np.asarray(0.7))
    model = dataclasses.replace(model, latents=model.latents | {"f": f})
    g = marginals(model, batch.at)["g"]
    on, spread = (np.ravel(v) for v in probit_moments(g.mean, g.var))
    seen, y = np.ravel(batch.weight), np.ravel(np.where(batch.weight > 0, batch.y, 0.0))
    square = seen * (on**2 + spread) / 0.3
    A = dense_projection(f, batch.at)
    H = np.eye(len(A)) + (A * square) @ A.T
    mean = np.linalg.solve(H, A @ (seen * on * y / 0.3 - square * 0.7))
    moved = natural_sweep(model, batch, names=["f"])
    for _ in range(20 if covariance == "diagonal" else 0):  # conjugate gradients take a few more
        moved = natural_sweep(moved, batch, names=["f"])
    found = moved.latents["f"]
    np.testing.assert_allclose(np.ravel(found.q_mean), mean, rtol=1e-7, atol=1e-9)
    best = np.linalg.inv(H) if covariance == "dense" else np.diag(1.0 / np.diag(H))
    np.testing.assert_allclose(dense_covariance(found), best, rtol=1e-8, atol=1e-10)
    assert moved.latents["g"] is not None
    np.testing.assert_array_equal(moved.latents["g"].q_mean, model.latents["g"].q_mean)


def slopes_of_q(model: Model, batch: Batch, name: str) -> list[np.ndarray]:
    """The derivative of the bound with respect to one family's q."""

    return [np.asarray(leaf) for leaf in jax.tree.leaves(_slopes(model, batch, name))]


@eqx.filter_jit
def _slopes(model: Model, batch: Batch, name: str):
    def of(q):
        latent = dataclasses.replace(model.latents[name], q_mean=q[0], q_cov=q[1])
        return bound(dataclasses.replace(model, latents=model.latents | {name: latent}), batch)

    latent = model.latents[name]
    return jax.grad(of)((latent.q_mean, latent.q_cov))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "noise"),
    [
        pytest.param("f", None, id="f"),
        pytest.param("W", None, id="W"),
        pytest.param("f", np.array([0.4, 0.6]), id="f-latent noise"),
        pytest.param("W", np.array([0.4, 0.6]), id="W-latent noise"),
    ],
)
def test_the_last_of_a_network_to_step_is_at_its_optimum(name, noise):
    """f_q and W_qp are exact given all else; with latent noise a step is one of EM and nears it."""
    model, batch = random_network(1, latent_noise=noise), random_outputs(1, missing=0.3)
    start = float(bound(model, batch))
    moved = natural_sweep(model, batch, names=[name])
    for _ in range(60 if noise is not None else 0):
        moved = natural_sweep(moved, batch, names=[name])
    assert bound(moved, batch) > start
    for before, after in zip(
        slopes_of_q(model, batch, name), slopes_of_q(moved, batch, name), strict=True
    ):
        last = np.abs(after[Q - 1]).max()  # the others moved before it did
        assert last < (1e-8 if noise is None else 1e-4) * np.abs(before).max()


def test_weights_of_a_network_are_its_closed_form():
    """W_qp given the rest: only output p counts, r = y less the other latents' terms."""
    model, batch = random_network(3, weights=False), random_outputs(3, missing=0.2)
    moved = natural_sweep(model, batch, names=["W"])
    found = marginals(moved, batch.at)
    f, W = found["f"], found["W"]
    last = Q - 1
    members = dict(moved.latents["W"].members())
    for p in range(P):
        seen = batch.weight[p]
        rest = sum(np.asarray(W.mean[q, p] * f.mean[q]) for q in range(last))
        r = np.where(seen > 0, batch.y[p], 0.0) - rest
        A = dense_projection(members[(last, p)], batch.at)
        square = seen * np.asarray(f.mean[last] ** 2 + f.var[last]) / NOISE[p]
        H = np.eye(len(A)) + (A * square) @ A.T
        mean = np.linalg.solve(H, A @ (seen * np.asarray(f.mean[last]) * r / NOISE[p]))
        np.testing.assert_allclose(np.ravel(members[(last, p)].q_mean), mean, rtol=1e-8, atol=1e-9)


def counts(seed: int, at) -> Batch:
    rng = np.random.default_rng(seed)
    return Batch(at, rng.poisson(1.0, at.shape).astype(float), np.ones(at.shape))


def zigp_with(likelihood, covariance: str) -> Model:
    return zero_inflated_gp(
        random_latent(4, covariance=covariance),
        random_latent(104, covariance=covariance, prior_mean=-0.6),
        likelihood,
    )


MODELS = {
    "gaussian": lambda cov: random_zigp(4, cov),
    "gated": lambda cov: zigp_with(Gated.of_variances(0.1, 0.3, 1e-4), cov),
    "hurdle": lambda cov: zigp_with(HurdleLognormal.of_variance(0.3), cov),
    "poisson": lambda cov: zigp_with(ZeroInflatedPoisson(), cov),
    "classifier": lambda cov: gp_classification(random_latent(4, covariance=cov)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("covariance", ["dense", "diagonal"])
def test_no_sweep_lowers_the_bound_and_sweeps_end_where_adam_does(name, covariance):
    model = MODELS[name](covariance)
    batch = counts(4, random_lattice(4))
    if "f" not in model.latents:
        batch = eqx.tree_at(lambda b: b.y, batch, np.minimum(batch.y, 1.0))

    @eqx.filter_jit
    def sweeps(model):
        def one(model, _):
            model = natural_sweep(model, batch)
            return model, bound(model, batch)

        return jax.lax.scan(one, jax.tree.map(jnp.asarray, model), length=500)[1]

    path = np.asarray([bound(model, batch), *sweeps(model)])
    assert min(np.diff(path)) > -1e-8 * abs(path[0])
    only_q = ("kernel", "variance", "prior_mean", "inducing")
    fixed = (*only_q, *(["noise"] if jax.tree.leaves(model.likelihood) else []))
    adam = train(model, batch, Settings(steps=1500, learning_rate=0.05, fixed=fixed, tol=0.0))
    assert path[-1] > float(bound(adam.model, batch)) - 1e-4


def test_a_shorter_step_mixes_natural_parameters():
    model, batch = random_zigp(5), masked(5)[1]
    full, part = (
        natural_sweep(model, batch, jnp.asarray(rate), names=["f"]) for rate in (1.0, 0.3)
    )
    f = model.latents["f"]
    before, after, mixed = (
        np.linalg.inv(dense_covariance(gp)) for gp in (f, full.latents["f"], part.latents["f"])
    )
    np.testing.assert_allclose(mixed, 0.7 * before + 0.3 * after, rtol=1e-7, atol=1e-8)
    b = 0.7 * before @ np.ravel(f.q_mean) + 0.3 * after @ np.ravel(full.latents["f"].q_mean)
    np.testing.assert_allclose(mixed @ np.ravel(part.latents["f"].q_mean), b, rtol=1e-7, atol=1e-8)


@pytest.mark.slow
def test_a_kronecker_q_is_left_to_adam():
    model, batch = random_zigp(6, "kronecker"), masked(6)[0]
    assert not any(has_steps(latent) for latent in model.latents.values())
    fit = train(model, batch, Settings(steps=60, method="natural", tol=0.0))
    assert bound(fit.model, batch) > fit.bounds[0] + 1
    adam = train(model, batch, Settings(steps=60, tol=0.0))
    np.testing.assert_array_equal(fit.bounds, adam.bounds)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("covariance", "size"),
    [
        pytest.param("dense", None, id="dense-all"),
        pytest.param("diagonal", 7, id="diagonal-minibatches"),
        pytest.param("dense", 7, id="dense-minibatches"),
        pytest.param("diagonal", None, id="diagonal-all"),
    ],
)
def test_training_by_natural_gradients_gets_at_least_as_far_as_adam(covariance, size):
    model, batch = random_zigp(7, covariance), masked(7)[1]
    shared = {"steps": 60 if size is None else 300, "tol": 0.0, "batch_size": size}
    natural, adam = (
        train(model, batch, Settings(method=method, **shared)) for method in ("natural", "adam")
    )
    assert not natural.failed
    assert bound(natural.model, batch) > bound(adam.model, batch) - (0.0 if size is None else 0.05)


@pytest.mark.slow
def test_what_is_held_is_not_stepped():
    model, batch = random_zigp(8), masked(8)[0]
    settings = Settings(steps=3, method="natural", fixed=("g.q", "kernel"))
    fit = train(model, batch, settings)
    np.testing.assert_array_equal(fit.model.latents["g"].q_mean, model.latents["g"].q_mean)
    assert not np.array_equal(fit.model.latents["f"].q_mean, model.latents["f"].q_mean)


@pytest.mark.slow
def test_restarts_step_as_they_would_alone():
    from zigp.training import train_restarts

    batch, settings = masked(9)[0], Settings(steps=15, method="natural", tol=0.0)
    models = [random_zigp(seed) for seed in (20, 21)]
    together = train_restarts(models, batch, settings)
    for model, fit in zip(models, together, strict=True):
        alone = train(model, batch, settings)
        np.testing.assert_allclose(fit.bounds, alone.bounds, rtol=1e-7)


@pytest.mark.slow
def test_exposure_is_part_of_the_step():
    """A latent whose amount is multiplied by an effort is stepped through that product."""
    rng = np.random.default_rng(10)
    X = np.column_stack([random_lattice(10).rows().X, rng.uniform(0.5, 2.0, 24)])
    model = dataclasses.replace(random_zigp(10), exposure=3)
    batch = random_batch(10, Rows(X))
    moved = natural_sweep(model, batch, names=["f"])
    for before, after in zip(
        slopes_of_q(model, batch, "f"), slopes_of_q(moved, batch, "f"), strict=True
    ):
        assert np.abs(after).max() < 1e-8 * np.abs(before).max()


@eqx.filter_jit
def after_a_sweep(model: Model, batch: Batch, rate, share, names=None):
    """The objective and its gradient after a sweep: from its slopes, and by differentiating all."""
    model = jax.tree.map(jnp.asarray, model)
    seen, back = jax.vjp(lambda model: model.project(batch.at), model)
    moved, known = sweep_with_slopes(model, batch, seen, rate, names=names)
    found = objective_and_gradient(known, moved, moved, seen, back, share)
    return found, jax.value_and_grad(objective)(moved, batch, share)


def assert_same_gradients(model: Model, batch: Batch, rate: float = 1.0, names=None) -> None:
    (value, gradient), (expected, all_of_it) = after_a_sweep(model, batch, rate, 0.7, names)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    for got, by_hand in zip(jax.tree.leaves(gradient), jax.tree.leaves(all_of_it), strict=True):
        np.testing.assert_allclose(got, by_hand, rtol=1e-7, atol=1e-8 * np.abs(by_hand).max())


@pytest.mark.parametrize(
    "which", [pytest.param(0, id="lattice", marks=pytest.mark.slow), pytest.param(1, id="rows")]
)
def test_the_slopes_that_a_sweep_ends_with_give_the_gradient(which):
    assert_same_gradients(random_zigp(11, "diagonal"), masked(11)[which])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gated", "poisson", "classifier"])
def test_they_do_with_every_likelihood(name):
    model, batch = MODELS[name]("dense"), counts(12, random_lattice(12))
    if "f" not in model.latents:
        batch = eqx.tree_at(lambda b: b.y, batch, np.minimum(batch.y, 1.0))
    assert_same_gradients(model, batch)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [None, np.array([0.4, 0.6])], ids=["plain", "latent noise"])
def test_they_do_in_networks_and_where_the_last_step_is_in_closed_form(noise):
    model = random_network(13, latent_noise=noise)
    batch = random_outputs(13, missing=0.3)
    assert_same_gradients(model, batch)
    assert_same_gradients(model, batch, names=["g", "f"])


@pytest.mark.slow
def test_they_do_where_every_step_is_refused():
    """A step that is not a number is not taken; the slopes are those where it began."""
    model, batch = random_zigp(14), masked(14)[1]
    assert_same_gradients(model, batch, rate=np.nan, names=["g"])


@pytest.mark.slow
def test_they_do_with_exposure():
    rng = np.random.default_rng(15)
    X = np.column_stack([random_lattice(15).rows().X, rng.uniform(0.5, 2.0, 24)])
    model = dataclasses.replace(random_zigp(15), exposure=3)
    assert_same_gradients(model, random_batch(15, Rows(X)))
