"""The compiled part of training: a number of steps on data in memory, and the states in between.

Learning rates, step counts and the number of rows are arguments of the compiled program, so fits of
the same shapes share one compilation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from zigp.gp.batch import Batch
from zigp.gp.projection import Projection
from zigp.models.model import Model
from zigp.models.objective import objective, objective_and_gradient
from zigp.training.devices import Devices
from zigp.training.feeds import minibatch, next_order
from zigp.training.natural import natural_sweep
from zigp.training.settings import Schedule, learned

if TYPE_CHECKING:
    from optax import GradientTransformation

_MEMORY = 0.999  # of Adam for the squares of gradients
# Between natural-gradient steps on all data the gradient has no noise and changes fast.
_SHORT_MEMORY = 0.9
_FASTER, _SLOWER, _SLOWEST = 1.25, 0.5, 1e-3


@dataclass(frozen=True)
class Plan:
    """Everything besides shapes that the compiled program of a step depends on."""

    schedule: Schedule
    batch_size: int | None
    along: int  # the axis of the data that minibatches and devices divide
    natural: tuple[str, ...]  # the latents whose q takes natural-gradient steps
    devices: Devices | None

    @property
    def climbs(self) -> bool:
        """True if a step that lowered the bound is undone.

        Only after natural-gradient steps on all data: Adam alone goes through valleys, and the
        bounds of two minibatches cannot be compared.
        """
        return bool(self.natural) and self.batch_size is None

    @property
    def adam(self) -> GradientTransformation:
        """Adam, with a memory that suits the noise of the gradients."""
        return _adam(_SHORT_MEMORY if self.climbs else _MEMORY)

    def batch(self, data: Batch, order: Array | None, step: Array) -> Batch:
        """Return the part of the data that a step uses."""
        parts = 1 if self.devices is None else self.devices.count
        return minibatch(data, order, step, self.batch_size, self.along, parts)


@cache  # the same object for the same memory, so that compiled programs are found again
def _adam(memory: float) -> GradientTransformation:
    from optax import scale_by_adam  # slow to import, and only needed for training

    return scale_by_adam(b2=memory)


class Summit(eqx.Module):
    """The highest point so far, and the next direction to try from there."""

    model: Model
    bound: Array
    direction: Any  # of Adam
    pace: Array  # the fraction of a step to take in it


class State(eqx.Module):
    """The state of training between steps; model, Adam and summit are stacked over restarts."""

    model: Model
    adam: Any
    step: Array
    bounds: Array  # before each step of this chunk, [restarts, steps]
    reached: Array  # at the end of the chunk, [restarts]
    order: Array | None  # the order of the places in this pass, with minibatches
    summit: Summit | None  # if steps that lowered the bound are undone


def first_state(model: Model, plan: Plan, chunk: int, restarts: int, places: int) -> State:
    """Return the state before the first step of a model stacked over restarts."""
    chosen = learned(model, plan.natural)
    adam, summit = eqx.filter_jit(eqx.filter_vmap(plan.adam.init))(chosen), None
    if plan.climbs:
        kind = jax.tree.leaves(chosen)[0].dtype
        low, one = (jnp.asarray(np.full(restarts, value), kind) for value in (-np.inf, 1.0))
        summit = Summit(model, low, jax.tree.map(jnp.zeros_like, chosen), one)
    bounds, reached = (jnp.asarray(np.zeros(shape)) for shape in ((restarts, chunk), restarts))
    order = None if plan.batch_size is None else jnp.arange(places)
    return State(model, adam, jnp.asarray(0), bounds, reached, order, summit)


@eqx.filter_jit
def advance(
    state: State,
    data: Batch,
    rates: Model,
    natural_rate: Array,
    key: Array,
    begin: Array,
    end: Array,
    count: Array,
    steps: Array,
    plan: Plan,
) -> State:
    """Take `count` steps of the chunk from step `begin` to `end`, of `steps` in all."""

    def step(_: Array, state: State) -> State:
        order = next_order(state.order, key, state.step, plan.batch_size)
        batch = plan.batch(data, order, state.step)
        factor = jnp.asarray(scheduled(plan.schedule, state.step / steps))
        update = partial(_update, plan, rates, natural_rate, batch, factor)
        moved = _for_each_restart(update, state.model, state.adam, state.summit)
        model, adam, summit, value = moved
        bounds = state.bounds.at[:, state.step - begin].set(value)
        return State(model, adam, state.step + 1, bounds, state.reached, order, summit)

    state = jax.lax.fori_loop(0, count, step, state)

    def after(state: State) -> Array:
        batch = plan.batch(data, state.order, state.step)
        reached = _for_each_restart(lambda model: objective(model, batch), state.model)
        return reached.astype(state.reached.dtype)

    # Only the bound after the last step shows if that step was good.
    reached = jax.lax.cond(state.step == end, after, lambda state: state.reached, state)
    state = eqx.tree_at(lambda s: s.reached, state, reached)
    return state if plan.devices is None else plan.devices.on_each(state)


def _for_each_restart(function: Callable, *stacked: Any) -> Any:
    """Apply a function to every restart; a single one is not batched, which is faster."""
    if len(jax.tree.leaves(stacked)[0]) > 1:
        return jax.vmap(function)(*stacked)
    alone = jax.tree.map(lambda leaf: leaf[0], stacked)
    return jax.tree.map(lambda leaf: leaf[None], function(*alone))


def _update(
    plan: Plan,
    rates: Model,
    natural_rate: Array,
    batch: Batch,
    factor: Array,
    model: Model,
    adam: Any,
    summit: Summit | None,
) -> tuple[Model, Any, Summit | None, Array]:
    """Take one step of one restart; with the new state return the bound before the step."""
    chosen = learned(model, plan.natural)
    if plan.natural:
        rate = natural_rate if plan.batch_size is None else natural_rate * factor

        def project(chosen: Model) -> dict[str, Projection]:
            return eqx.combine(chosen, model).project(batch.at)

        projections, back = jax.vjp(project, chosen)
        stepped, known = natural_sweep(model, batch, projections, rate, plan.natural)
        value, gradient = objective_and_gradient(known, chosen, stepped, projections, back)
        model = stepped
    else:

        def climb(chosen: Model) -> Array:
            return objective(eqx.combine(chosen, model), batch)

        value, gradient = jax.value_and_grad(climb)(chosen)
    direction, turned = plan.adam.update(gradient, adam)
    if summit is not None:
        summit, turned = _from_summit(summit, model, value, direction, turned, adam)
        model, direction = summit.model, summit.direction
        factor, value = factor * summit.pace, summit.bound
    updates = jax.tree.map(lambda r, d: (factor * r * d).astype(d.dtype), rates, direction)
    return eqx.apply_updates(model, updates), turned, summit, value


def _from_summit(
    summit: Summit, model: Model, bound: Array, direction: Any, turned: Any, adam: Any
) -> tuple[Summit, Any]:
    """Return a new summit if the bound rose, otherwise the old one with half the pace."""
    rose = (bound >= summit.bound) | (summit.pace < _SLOWEST)
    faster = jnp.minimum(_FASTER * summit.pace, 1.0).astype(summit.pace.dtype)
    new = Summit(model, bound.astype(summit.bound.dtype), direction, faster)
    old = Summit(summit.model, summit.bound, summit.direction, _SLOWER * summit.pace)
    return jax.tree.map(lambda a, b: jnp.where(rose, a, b), (new, turned), (old, adam))


def scheduled(schedule: Schedule, done: Array) -> Array | float:
    """Return the factor of every rate after this fraction of the steps."""
    if callable(schedule):
        return schedule(done)
    return 0.01 + 0.495 * (1.0 + jnp.cos(np.pi * done)) if schedule == "cosine" else 1.0


def finite(state: State, count: int) -> np.ndarray:
    """Return for each restart whether its bounds and parameters are finite."""
    leaves = jax.tree.leaves(learned(state.model))
    bounds = np.asarray(state.bounds)
    values = [bounds[:, :count], np.asarray(state.reached), *map(np.asarray, leaves)]
    finite = [np.isfinite(v).reshape(len(bounds), -1).all(axis=1) for v in values]
    return np.all(finite, axis=0)


def chosen(first: np.ndarray, a: State, b: State) -> State:
    """Return state a for the restarts marked first, and state b for the others."""
    if first.all():
        return a

    def choose(x: Array, y: Array) -> Array:
        return jnp.where(_along(first, x), x, y)

    stacked = [(s.model, s.adam, s.bounds, s.reached, s.summit) for s in (a, b)]
    model, adam, bounds, reached, summit = jax.tree.map(choose, *stacked)
    return State(model, adam, a.step, bounds, reached, a.order, summit)


def highest(state: State) -> Model:
    """Return the best model at the end of a chunk, whose last step can have lowered the bound."""
    if state.summit is None:
        return state.model
    lowered = np.asarray(state.summit.bound) > np.asarray(state.reached)
    before = eqx.tree_at(lambda s: s.model, state, state.summit.model)
    return chosen(lowered, before, state).model


def with_more_jitter(state: State, where: np.ndarray) -> State:
    """Raise the jitter of the restarts marked tenfold, and reset their summits."""

    def raised(path: tuple[Any, ...], leaf: Any) -> Any:
        if getattr(path[-1], "name", None) != "jitter":
            return leaf
        return leaf * _along(np.where(where, 10.0, 1.0).astype(leaf.dtype), leaf)

    state = jax.tree_util.tree_map_with_path(raised, state)
    if state.summit is None:
        return state
    # A bound reached with less jitter may be out of reach now: no step would ever be accepted.
    before = state.summit.bound
    bound = jnp.where(where, -jnp.inf, before).astype(before.dtype)
    return eqx.tree_at(lambda s: s.summit.bound, state, bound)


def _along(values: np.ndarray, like: Array) -> np.ndarray:
    """Return a value for each restart, aligned with an array stacked over restarts."""
    return values.reshape(-1, *(1,) * (like.ndim - 1))
