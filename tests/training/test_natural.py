"""Natural-gradient steps: their closed forms, their slopes, and that they never lower a bound."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models_by_hand import (
    Q,
    bound,
    dense_covariance,
    marginals,
    masked,
    natural_sweep,
    random_latent,
    random_lattice,
    random_network,
    random_outputs,
    random_zigp,
    with_exposure,
)

from zigp.gp.batch import Batch
from zigp.math.special import probit_moments
from zigp.models.likelihoods import Gated, HurdleLognormal, ZeroInflatedPoisson
from zigp.models.model import Model, gp_classification
from zigp.models.objective import objective, objective_and_gradient
from zigp.training import TrainingSettings, train, train_restarts
from zigp.training.natural import natural_sweep as sweep_with_slopes

LATENT_NOISE = np.array([0.4, 0.6])


@eqx.filter_jit
def scaled_projection(latent, at):
    """Return √v A with a row for every inducing variable and a column for every input."""
    shape = jnp.shape(latent.q_mean)
    units = jnp.eye(int(np.prod(shape))).reshape(-1, *shape)
    rows = jax.vmap(latent.project(at).mean)(units)
    return jnp.sqrt(latent.variance) * rows.reshape(len(rows), -1)


@pytest.mark.parametrize(
    "which", [pytest.param(0, id="lattice"), pytest.param(1, id="rows", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("covariance", ["diagonal", pytest.param("dense", marks=pytest.mark.slow)])
def test_a_step_for_f_is_the_closed_form(which, covariance):
    """H = I + A diag(E[c²]/σ²) Aᵀ and m = H⁻¹ A (E[c] y − E[c²] β)/σ², with c = Φ(g)."""
    model, batch = random_zigp(0, covariance), masked(0)[which]
    f = eqx.tree_at(lambda gp: gp.prior_mean, model.latents["f"], np.asarray(0.7))
    model = dataclasses.replace(model, latents=model.latents | {"f": f})
    g = marginals(model, batch.at)["g"]
    on, spread = (np.ravel(v) for v in probit_moments(g.mean, g.var))
    observed, y = np.ravel(batch.weight), np.ravel(np.where(batch.weight > 0, batch.y, 0.0))
    square = observed * (on**2 + spread) / 0.3
    A = np.asarray(scaled_projection(f, batch.at))
    H = np.eye(len(A)) + (A * square) @ A.T
    mean = np.linalg.solve(H, A @ (observed * on * y / 0.3 - square * 0.7))
    moved = model
    for _ in range(21 if covariance == "diagonal" else 1):  # of conjugate gradients
        moved = natural_sweep(moved, batch, names=["f"])
    f = moved.latents["f"]
    np.testing.assert_allclose(np.ravel(f.q_mean), mean, rtol=1e-7, atol=1e-9)
    best = np.linalg.inv(H) if covariance == "dense" else np.diag(1.0 / np.diag(H))
    np.testing.assert_allclose(dense_covariance(f), best, rtol=1e-8, atol=1e-10)
    np.testing.assert_array_equal(moved.latents["g"].q_mean, model.latents["g"].q_mean)


@eqx.filter_jit
def slopes_of_q(model: Model, batch: Batch, name: str):
    """Return the derivative of the bound by the q of one family."""

    def of(q):
        latent = dataclasses.replace(model.latents[name], q_mean=q[0], q_cov=q[1])
        return bound(dataclasses.replace(model, latents=model.latents | {name: latent}), batch)

    latent = model.latents[name]
    return jax.tree.leaves(jax.grad(of)((latent.q_mean, latent.q_cov)))


@pytest.mark.parametrize(
    ("name", "noise"),
    [
        pytest.param("W", None, id="W"),
        pytest.param("f", None, id="f", marks=pytest.mark.slow),
        pytest.param("exposure", None, id="f, exposure", marks=pytest.mark.slow),
        pytest.param("f", LATENT_NOISE, id="f, latent noise", marks=pytest.mark.slow),
        pytest.param("W", LATENT_NOISE, id="W, latent noise", marks=pytest.mark.slow),
    ],
)
def test_the_last_to_step_is_at_its_optimum(name, noise):
    """f_q and W_qp are exact given the rest; with latent noise repeated steps approach that."""
    model, batch = random_network(1, latent_noise=noise), random_outputs(1, missing=0.3)
    last = Q - 1  # the others stepped before
    if name == "exposure":
        (model, batch), name, last = with_exposure(10), "f", ...
    moved = model
    for _ in range(1 if noise is None else 61):
        moved = natural_sweep(moved, batch, names=[name])
    assert bound(moved, batch) > bound(model, batch)
    before, after = (slopes_of_q(one, batch, name) for one in (model, moved))
    for a, b in zip(after, before, strict=True):
        assert np.abs(a[last]).max() < (1e-8 if noise is None else 1e-4) * np.abs(b).max()


LIKELIHOODS = {
    "gaussian": None,
    "gated": Gated.of_variances(0.1, 0.3, 1e-4),
    "hurdle": HurdleLognormal.of_variance(0.3),
    "poisson": ZeroInflatedPoisson(),
    "classifier": None,
}


def model_of_counts(name: str, covariance: str) -> tuple[Model, Batch]:
    """Return a model and counts, or labels for a classifier."""
    at = random_lattice(4)
    y = np.random.default_rng(4).poisson(1.0, at.shape).astype(float)
    if name == "classifier":
        latent = random_latent(4, covariance=covariance)
        return gp_classification(latent), Batch(at, np.minimum(y, 1.0), np.ones(at.shape))
    return random_zigp(4, covariance, LIKELIHOODS[name]), Batch(at, y, np.ones(at.shape))


@pytest.mark.slow
@pytest.mark.parametrize("name", LIKELIHOODS)
@pytest.mark.parametrize("covariance", ["dense", "diagonal"])
def test_no_sweep_lowers_the_bound_and_sweeps_end_where_adam_does(name, covariance):
    model, batch = model_of_counts(name, covariance)

    @eqx.filter_jit
    def sweeps(model):
        def one(model, _):
            model = natural_sweep(model, batch)
            return model, bound(model, batch)

        return jax.lax.scan(one, jax.tree.map(jnp.asarray, model), length=500)[1]

    path = np.asarray([bound(model, batch), *sweeps(model)])
    assert min(np.diff(path)) > -1e-8 * abs(path[0])
    fixed = ("kernel", "variance", "prior_mean", "inducing")
    fixed += ("noise",) if jax.tree.leaves(model.likelihood) else ()
    settings = TrainingSettings(steps=1500, learning_rate=0.05, fixed=fixed, tol=0.0)
    assert path[-1] > float(bound(train(model, batch, settings).model, batch)) - 1e-4


def test_a_shorter_step_mixes_natural_parameters():
    model, batch = random_zigp(5), masked(5)[1]
    sweeps = (natural_sweep(model, batch, jnp.asarray(rate), ["f"]) for rate in (1.0, 0.3))
    latents = [one.latents["f"] for one in (model, *sweeps)]
    before, after, mixed = (np.linalg.inv(dense_covariance(f)) for f in latents)
    np.testing.assert_allclose(mixed, 0.7 * before + 0.3 * after, rtol=1e-7, atol=1e-8)
    m, m_after, m_mixed = (np.ravel(f.q_mean) for f in latents)
    b = 0.7 * before @ m + 0.3 * after @ m_after
    np.testing.assert_allclose(mixed @ m_mixed, b, rtol=1e-7, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("covariance", ["dense", "diagonal"])
@pytest.mark.parametrize(("size", "steps", "margin"), [(None, 60, 0.0), (7, 300, 0.05)])
def test_training_by_natural_gradients_gets_at_least_as_far_as_adam(
    covariance, size, steps, margin
):
    model, batch = random_zigp(7, covariance), masked(7)[1]
    natural, adam = (
        train(
            model, batch, TrainingSettings(method=method, steps=steps, batch_size=size, tol=0.0)
        ).model
        for method in ("natural", "adam")
    )
    assert bound(natural, batch) > bound(adam, batch) - margin


@pytest.mark.slow
def test_a_fixed_q_takes_no_step():
    model, batch = random_zigp(8), masked(8)[0]
    settings = TrainingSettings(steps=3, method="natural", fixed=("g.q", "kernel"))
    fit = train(model, batch, settings)
    np.testing.assert_array_equal(fit.model.latents["g"].q_mean, model.latents["g"].q_mean)
    assert not np.array_equal(fit.model.latents["f"].q_mean, model.latents["f"].q_mean)


@pytest.mark.slow
def test_restarts_step_as_they_would_alone():
    batch, settings = masked(9)[0], TrainingSettings(steps=15, method="natural", tol=0.0)
    models = [random_zigp(seed) for seed in (20, 21)]
    together = train_restarts(models, batch, settings)
    for model, fit in zip(models, together, strict=True):
        np.testing.assert_allclose(fit.bounds, train(model, batch, settings).bounds, rtol=1e-7)


@eqx.filter_jit
def after_a_sweep(model: Model, batch: Batch, rate, names=None):
    """Return objective and gradient after a sweep: from its slopes, and by differentiation."""
    model = jax.tree.map(jnp.asarray, model)
    projections, back = jax.vjp(lambda model: model.project(batch.at), model)
    moved, known = sweep_with_slopes(model, batch, projections, rate, names=names)
    from_slopes = objective_and_gradient(known, moved, moved, projections, back)
    return from_slopes, jax.value_and_grad(objective)(moved, batch)


def network_with_outputs(noise=None) -> tuple[Model, Batch]:
    return random_network(13, latent_noise=noise), random_outputs(13, missing=0.3)


# Models and data, the latents that step, and the rate: a step at a rate that is NaN is not taken.
SWEEPS = {
    "rows": lambda: (random_zigp(11, "diagonal"), masked(11)[1], None, 1.0),
    "lattice": lambda: (random_zigp(11, "diagonal"), masked(11)[0], None, 1.0),
    "gated": lambda: (*model_of_counts("gated", "dense"), None, 1.0),
    "poisson": lambda: (*model_of_counts("poisson", "dense"), None, 1.0),
    "classifier": lambda: (*model_of_counts("classifier", "dense"), None, 1.0),
    "network": lambda: (*network_with_outputs(), None, 1.0),
    "latent noise": lambda: (*network_with_outputs(LATENT_NOISE), None, 1.0),
    "closed form last": lambda: (*network_with_outputs(LATENT_NOISE), ["g", "f"], 1.0),
    "refused": lambda: (random_zigp(14), masked(14)[1], ["g"], np.nan),
    "exposure": lambda: (*with_exposure(15), None, 1.0),
}


@pytest.mark.parametrize(
    "name", [n if n == "rows" else pytest.param(n, marks=pytest.mark.slow) for n in SWEEPS]
)
def test_the_slopes_that_a_sweep_ends_with_give_the_gradient(name):
    model, batch, names, rate = SWEEPS[name]()
    (value, gradient), (expected, exact) = after_a_sweep(model, batch, rate, names)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    for got, leaf in zip(jax.tree.leaves(gradient), jax.tree.leaves(exact), strict=True):
        np.testing.assert_allclose(got, leaf, rtol=1e-7, atol=1e-8 * np.abs(leaf).max())
