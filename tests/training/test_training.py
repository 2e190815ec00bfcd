"""The trainer: it climbs, it repeats itself, it stops when told to, and it never returns NaN."""

from __future__ import annotations

from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models_by_hand import bound, random_latent, random_lattice
from test_objective import masked, random_batch, random_zigp

from zigp.models.likelihoods import Gaussian
from zigp.models.model import gp_regression
from zigp.training import GROUPS, Settings, loop, parameters, settings, steps, train
from zigp.training.feeds import Resident
from zigp.training.minibatches import longest, minibatch, next_order, whole_batches
from zigp.training.steps import State, Summit
from zigp.training.watching import with_more_jitter


def leaves(model):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(model)]


def test_training_raises_the_bound_and_records_it():
    model, (cells, _) = random_zigp(0), masked()
    fit = train(model, cells, Settings(steps=120, tol=0.0))
    assert len(fit.bounds) == 120
    assert fit.bounds[0] == pytest.approx(float(bound(model, cells)))
    assert bound(fit.model, cells) > fit.bounds[0] + 1
    assert fit.stopped == "all 120 steps done"
    assert not fit.failed


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bits():
    _, rows = masked()
    settings = Settings(steps=30, batch_size=7, seed=3)
    first, again = (train(random_zigp(0), rows, settings) for _ in range(2))
    other = train(random_zigp(0), rows, Settings(steps=30, batch_size=7, seed=4))
    for a, b in zip(leaves(first.model), leaves(again.model), strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(first.bounds, other.bounds)


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, 1], ids=["slabs", "rows"])
def test_minibatch_bounds_of_a_pass_average_to_the_whole(which):
    model, data = random_zigp(1), masked(1)[which]
    across = np.prod(data.at.shape) // max(data.at.shape)
    whole, size = whole_batches(jax.tree.map(jnp.asarray, data), int(2 * across))
    assert size == 2
    places = max(whole.at.shape)
    assert places % 2 == 0
    order = jax.random.permutation(jax.random.key(0), places)
    parts = [
        minibatch(whole, order, jnp.asarray(i), 2, longest(whole.at)) for i in range(places // 2)
    ]
    assert {part.y.shape for part in parts} == {parts[0].y.shape}
    assert parts[0].y.size == 2 * across
    values = [bound(model, part) for part in parts]
    np.testing.assert_allclose(np.mean(values), bound(model, data), rtol=1e-10)


@pytest.mark.slow
def test_every_pass_visits_every_row_in_a_new_order():
    _, rows = masked()
    size, seen = 5, []
    data, size = whole_batches(jax.tree.map(jnp.asarray, rows), size)
    batches = data.y.size // size
    order = jnp.arange(data.y.size)
    for step in range(2 * batches):
        order = next_order(order, jax.random.key(1), jnp.asarray(step), size)
        start = step % batches * size
        seen.append(np.asarray(order[start : start + size]))
    first, second = np.concatenate(seen[:batches]), np.concatenate(seen[batches:])
    assert sorted(first) == sorted(second) == list(range(data.y.size))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("name", ["noise", "f.kernel", "inducing", "g.prior_mean", "variance", "q"])
def test_what_is_fixed_does_not_move(name):
    model, (cells, _) = random_zigp(2), masked()
    fit = train(model, cells, Settings(steps=5, fixed=(name,)))
    before = jax.tree_util.tree_flatten_with_path(model)[0]
    after = jax.tree.leaves(fit.model)
    moved = {True: 0, False: 0}
    for (path, old), new in zip(before, after, strict=True):
        fixed = name in settings._labels(path)[1]
        moved[fixed] += not np.array_equal(old, new)
    assert moved[True] == 0
    assert moved[False] > 3


def test_an_unknown_parameter_cannot_be_fixed():
    with pytest.raises(ValueError, match=r"'lengthscale'.*Choose from: f\.inducing, f\.kernel"):
        train(random_zigp(2), masked()[0], Settings(fixed=("lengthscale",)))
    assert "g.prior_mean" in parameters(random_zigp(2))


def test_each_group_follows_its_own_rate():
    rates = dict.fromkeys(GROUPS, 0.0) | {"noise": 0.1}
    model, (cells, _) = random_zigp(3), masked()
    fit = train(model, cells, Settings(steps=3, learning_rate=rates))
    same = eqx.tree_at(lambda m: m.likelihood, fit.model, model.likelihood)
    for a, b in zip(leaves(same), leaves(model), strict=True):
        np.testing.assert_array_equal(a, b)
    assert fit.model.likelihood.excess != model.likelihood.excess


@pytest.mark.slow
def test_adam_steps_have_the_size_the_schedule_says():
    """Adam's first step is the learning rate; a schedule of one's own scales it."""
    model = gp_regression(random_latent(0), Gaussian.of_variance(5.0))
    batch = random_batch(0, random_lattice(0))
    rates = dict.fromkeys(GROUPS, 0.0) | {"noise": 0.1}
    for schedule, factor in [
        ("constant", 1.0),
        ("cosine", 1.0),
        (lambda done: 0.5 + 0 * done, 0.5),
    ]:
        fit = train(model, batch, Settings(steps=1, learning_rate=rates, schedule=schedule))
        step = float(fit.model.likelihood.excess - model.likelihood.excess)
        assert abs(step) == pytest.approx(0.1 * factor, rel=1e-4)
    late = steps.scheduled("cosine", jnp.asarray(1.0))
    assert float(late) == pytest.approx(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("when", [49, 99])
def test_parameters_are_kept_only_if_their_bound_is_finite(when):
    """A step that explodes at the end of a chunk is noticed there, not by a prediction of NaN."""
    model, (cells, _) = random_zigp(3), masked()
    explode = lambda done: jnp.where(done * 100 > when - 0.5, 1e9, 1.0)  # noqa: E731
    fit = train(model, cells, Settings(steps=100, schedule=explode, tol=0.0))
    assert fit.failed
    assert np.isfinite(bound(fit.model, cells))


def test_early_stopping_once_the_bound_settles():
    model, (cells, _) = random_zigp(4), masked()
    fit = train(model, cells, Settings(steps=5000, tol=1e-2, learning_rate=0.02))
    assert "settled" in fit.stopped
    assert len(fit.bounds) < 5000


def test_a_time_budget_is_kept():
    model, (cells, _) = random_zigp(4), masked()
    fit = train(model, cells, Settings(steps=10**7, max_seconds=0.5, tol=0.0))
    assert "time budget of 0.5 s" in fit.stopped
    assert 0 < len(fit.bounds) < 10**7


@pytest.fixture
def pace(monkeypatch):
    """Seconds that a step is to take by a clock of our own, and how many were taken at once."""
    pace = SimpleNamespace(seconds=1.0, at_once=[])
    clock = [0.0]

    def slow(*args):
        pace.at_once.append(int(args[7]))
        clock[0] += pace.seconds * pace.at_once[-1]
        return steps.advance(*args)

    monkeypatch.setattr(loop, "advance", slow)
    monkeypatch.setattr(loop.time, "perf_counter", lambda: clock[0])
    return pace


def test_ctrl_c_is_looked_for_every_second_or_after_a_step_that_takes_longer(pace):
    for pace.seconds, most in ((0.125, 8), (0.25, 4), (7.0, 1)):
        train(random_zigp(4), masked()[0], Settings(steps=240, chunk=120, tol=0.0))
        assert pace.at_once[:3] == [1, 1, most]
        assert max(pace.at_once) == most
        assert sum(pace.at_once) == 240
        pace.at_once.clear()


def test_a_time_budget_decides_how_many_steps_are_next(pace):
    """With steps of one second each, a budget of 12 seconds is not overrun by a chunk of 50."""
    seen = []
    fit = train(random_zigp(4), masked()[0], Settings(max_seconds=12.0, tol=0.0), seen.append)
    assert len(fit.bounds) == 12
    assert [p.seconds_left for p in seen] == [7.0, 0.0]
    np.testing.assert_allclose(fit.times, np.arange(12))


@pytest.mark.parametrize("budget", [np.inf, 1e308])
def test_a_budget_without_end_ends_nothing(budget):
    fit = train(random_zigp(4), masked()[0], Settings(steps=120, max_seconds=budget, tol=0.0))
    assert len(fit.bounds) == 120
    assert Settings(max_seconds=np.inf) == Settings()


def test_progress_tells_steps_bound_and_time_left():
    seen = []
    train(random_zigp(5), masked()[0], Settings(steps=120, tol=0.0), seen.append)
    assert [p.step for p in seen] == [50, 100, 120]
    assert all(np.isfinite(p.bound) for p in seen)
    assert seen[0].seconds_left > 0
    assert seen[-1].seconds_left == 0


def test_a_bound_that_is_not_finite_stops_with_the_last_good_parameters():
    model, (cells, _) = random_zigp(6), masked()
    settings = Settings(steps=400, learning_rate=1e3, schedule="constant")
    fit = train(model, cells, settings)
    assert fit.failed
    assert "at step" in fit.stopped
    assert "smaller learning_rate" in fit.stopped
    assert fit.retried  # tried again with more jitter first
    assert all(np.all(np.isfinite(leaf)) for leaf in leaves(fit.model))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_more_jitter_is_of_the_same_precision(dtype):
    latent = jax.tree.map(lambda leaf: np.asarray(leaf, dtype), random_zigp(0).latents["f"])
    more = with_more_jitter(State(latent, *[None] * 6), np.array([True]), None).model
    assert more.jitter == pytest.approx(10 * latent.jitter)
    assert {leaf.dtype for leaf in jax.tree.leaves(more)} == {np.dtype(dtype)}


@pytest.mark.parametrize("restarts", [None, 2])
def test_what_less_jitter_reached_is_no_summit_for_more(restarts):
    where = np.array([True, False][: restarts or 1])
    bound = np.float32(3.0) if restarts is None else np.array([3.0, 4.0], np.float32)
    state = State(*[None] * 6, Summit(None, bound, None, None))
    after = with_more_jitter(state, where, restarts).summit.bound
    assert after.dtype == np.float32
    np.testing.assert_array_equal(after, -np.inf if restarts is None else [-np.inf, 4.0])


def test_counts_may_be_written_as_floats():
    found = Settings(steps=70.0, batch_size=np.float64(16.0))
    assert (found.steps, found.batch_size) == (70, 16)
    assert {type(found.steps), type(found.batch_size)} == {int}


@pytest.mark.parametrize("which", [0, 1], ids=["lattice", "rows"])
def test_a_minibatch_of_everything_is_no_minibatch(which):
    data = masked(1)[which]
    every = np.prod(data.at.shape) if which == 0 else np.count_nonzero(data.weight)
    assert Resident(data, int(every)).batch_size is None
    assert Resident(data, int(every) - 1).batch_size is not None


def test_more_jitter_rescues_what_rounding_broke():
    """Coinciding inducing inputs without any jitter have no Cholesky factor."""
    model, (cells, _) = random_zigp(7), masked()
    f = model.latents["f"]
    twins = eqx.tree_at(lambda gp: gp.inducing[1].offset, f, np.ones_like(f.inducing[1].offset))
    model = eqx.tree_at(lambda m: m.latents["f"], model, twins)
    broken = eqx.tree_at(lambda m: m.latents["f"].jitter, model, np.asarray(-1e-9))
    fit = train(broken, cells, Settings(steps=20))
    assert fit.failed
    assert fit.retried == [0]
    tiny = eqx.tree_at(lambda m: m.latents["f"].jitter, model, np.asarray(3e-17))
    rescued = train(tiny, cells, Settings(steps=20))
    assert rescued.retried == [0]
    assert not rescued.failed
    assert rescued.model.latents["f"].jitter == pytest.approx(3e-16)


def test_new_row_counts_and_step_counts_do_not_recompile():
    from zigp.data.layout import Inputs, Layout, as_batch

    rng = np.random.default_rng(0)
    model = gp_regression(random_latent(0), Gaussian.of_variance(0.5))
    layout, held = Layout(((0, 1, 2),), ("all",), None, np.zeros(3)), []
    for rows, count in ((70, 20), (81, 60), (96, 130)):
        X, y = rng.normal(size=(rows, 3)), rng.normal(size=rows)
        data = as_batch(Inputs(X), y, np.ones(rows), layout, "float64")
        train(model, data, Settings(steps=count, learning_rate=0.01 * rows))
        held.append(steps.advance._cached._cache_size())
    assert held[0] == held[1] == held[2] > 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": 0}, "steps must be a whole number of at least 1"),
        ({"batch_size": 2.5}, "batch_size must be a whole number"),
        ({"schedule": "linear"}, "schedule must be"),
        ({"tol": -1.0}, "tol must not be negative"),
        ({"max_seconds": 0}, "max_seconds must be a number above 0"),
        ({"learning_rate": -0.1}, "learning_rate must be a number of at least 0"),
        ({"learning_rate": {"kernel": 0.1}}, "it must name variational, kernel, inducing, noise"),
    ],
)
def test_impossible_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        Settings(**settings)


@pytest.mark.slow
def test_solves_side_by_side_do_not_hang():
    """vmap over models, inside a loop, with gradients: what deadlocks jaxlib 0.10 on two cores.

    Run in a process of its own, so that a hang fails this test instead of stopping the suite.
    """
    import subprocess
    import sys

    program = """
import os
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:2]))  # two cores, where it hung
import jax, jax.numpy as jnp, sys
from jax.scipy.linalg import solve_triangular
jax.config.update("jax_enable_x64", True)

def loss(theta, x):
    def one(t):
        K = jnp.exp(-jnp.abs(x[:, None] - x[None]) / jnp.exp(t)) + 1e-4 * jnp.eye(len(x))
        L = jnp.linalg.cholesky(K)
        return jnp.sum(solve_triangular(L, K, lower=True) ** 2)
    return jnp.sum(jax.vmap(one)(theta)) + jnp.sum(jax.vmap(one)(2 * theta))

@jax.jit
def run(theta, x):
    step = lambda t, _: (t - 1e-9 * jax.grad(loss)(t, x), None)
    return jax.lax.scan(step, theta, None, length=15)[0]

x = jnp.linspace(0.0, 10.0, 60)
for _ in range(3):
    out = run(jnp.linspace(-1.0, 1.0, 8), x).block_until_ready()
assert bool(jnp.all(jnp.isfinite(out)))

import numpy as np
from zigp import GPNetworkRegressor
X = np.random.default_rng(0).normal(size=(200, 2))
model = GPNetworkRegressor(2, n_restarts=4, steps=20, n_inducing=10).fit(X, np.sin(X))
assert np.isfinite(model.predict(X)).all()
print("done")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=True
    )
    assert done.stdout == "done\n"


@pytest.mark.slow
def test_a_restart_that_fails_leaves_the_others_as_they_are():
    from zigp.training import train_restarts

    models, (cells, _) = [random_zigp(seed) for seed in (7, 8, 9)], masked()
    m = models[1].latents["f"].q_mean
    models[1] = eqx.tree_at(lambda m: m.latents["f"].q_mean, models[1], np.full_like(m, np.nan))
    fits = train_restarts(models, cells, Settings(steps=60, tol=0.0))
    assert [fit.failed for fit in fits] == [False, True, False]
    assert "stopped being finite" in fits[1].stopped
    for fit in (fits[0], fits[2]):
        assert len(fit.bounds) == 60
        assert fit.bounds[-1] > fit.bounds[0]
