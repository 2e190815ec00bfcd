"""The compiled part of training: a number of steps on data that are in memory.

Learning rates, step counts and the number of rows are arguments of the compiled program, not part
of it, so fits of the same shapes share one compilation.
"""

from __future__ import annotations

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
from zigp.training.minibatches import minibatch, next_order
from zigp.training.natural import natural_sweep
from zigp.training.settings import Schedule, learned

if TYPE_CHECKING:
    from optax import GradientTransformation

__all__ = ["Plan", "State", "advance", "first_state"]

_MEMORY = 0.999  # of Adam for the size of slopes
# Between natural-gradient steps on all data the bound's slope has no noise, and changes fast.
_SHORT_MEMORY = 0.9
_FASTER, _SLOWER, _SLOWEST = 1.25, 0.5, 1e-3


@dataclass(frozen=True)
class Plan:
    """What a step does: all that the compiled program depends on beside shapes."""

    schedule: Schedule
    batch_size: int | None
    along: int  # the axis of the data that minibatches and devices divide
    many: bool  # restarts, along the first axis of every array
    natural: tuple[str, ...]  # the latents whose q takes natural-gradient steps
    devices: Devices | None

    @property
    def climbs(self) -> bool:
        """Whether a step that lowered the bound is taken back.

        Only where q is at its best: Adam alone goes through valleys, and the bounds of two
        minibatches cannot be compared.
        """
        return bool(self.natural) and self.batch_size is None

    @property
    def adam(self) -> GradientTransformation:
        return _adam(_SHORT_MEMORY if self.climbs else _MEMORY)


@cache  # programs that were compiled with it know it again
def _adam(memory: float) -> GradientTransformation:
    from optax import scale_by_adam  # slow to import, and only needed once something is trained

    return scale_by_adam(b2=memory)


class Summit(eqx.Module):
    """The highest point so far, and how to go on from there."""

    model: Model
    bound: Array
    direction: Any  # of Adam
    pace: Array  # the part of a step to take in it


class State(eqx.Module):
    """What a step goes on from."""

    model: Model  # with several restarts, every array has them along its first axis
    adam: Any
    step: Array
    bounds: Array  # before each step of this chunk, [restarts, steps]
    reached: Array  # at the end of it, [restarts]
    order: Array | None  # the rows of this pass over the data, where it goes by minibatches
    summit: Summit | None  # where a step that lowered the bound is taken back


def first_state(model: Model, plan: Plan, chunk: int, restarts: int, places: int) -> State:
    """Where training starts."""
    init = eqx.filter_vmap(plan.adam.init) if plan.many else plan.adam.init
    chosen = learned(model, plan.natural)
    adam, summit = eqx.filter_jit(init)(chosen), None
    if plan.climbs:
        kind, shape = jax.tree.leaves(chosen)[0].dtype, (restarts,) if plan.many else ()
        low, one = (jnp.asarray(np.full(shape, value), kind) for value in (-np.inf, 1.0))
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
    """`count` steps of a chunk that goes from step `begin` to `end`, of `steps` in all."""

    several = partial(_several, plan)
    args = (rates, natural_rate, key, begin, end, count, steps)
    if plan.devices is None:
        return several(state, data, *args)
    return plan.devices.over(several, state, data, *args)


def _several(
    plan: Plan,
    state: State,
    data: Batch,
    rates: Model,
    natural_rate: Array,
    key: Array,
    begin: Array,
    end: Array,
    count: Array,
    steps: Array,
) -> State:
    devices, size = plan.devices, plan.batch_size
    total = (lambda part: part) if devices is None else devices.total
    share = 1.0 if devices is None else devices.share

    def climb(chosen: Model, model: Model, batch: Batch) -> Array:
        return objective(eqx.combine(chosen, model), batch, share)

    def project(chosen: Model, model: Model, batch: Batch) -> dict[str, Projection]:
        return eqx.combine(chosen, model).project(batch.at)

    def update(
        model: Model, adam: Any, summit: Summit | None, batch: Batch, factor: Array
    ) -> tuple[Model, Any, Summit | None, Array]:
        if plan.natural:
            rate = natural_rate if size is None else natural_rate * factor
            chosen = learned(model, plan.natural)
            seen, back = jax.vjp(partial(project, model=model, batch=batch), chosen)
            model, known = natural_sweep(model, batch, seen, rate, total, plan.natural)
            found = objective_and_gradient(known, chosen, model, seen, back, share)
        else:
            found = jax.value_and_grad(climb)(learned(model), model, batch)
        value, gradient = total(found)
        direction, turned = plan.adam.update(gradient, adam)
        if summit is not None:
            summit, adam = _from_summit(summit, model, value, direction, turned, adam)
            model, direction = summit.model, summit.direction
            factor, value = factor * summit.pace, summit.bound
        else:
            adam = turned
        updates = jax.tree.map(lambda r, d: (factor * r * d).astype(d.dtype), rates, direction)
        return eqx.apply_updates(model, updates), adam, summit, value

    def step(_: Array, state: State) -> State:
        order = next_order(state.order, key, state.step, size)
        batch = minibatch(data, order, state.step, size, plan.along)
        factor = jnp.asarray(scheduled(plan.schedule, state.step / steps))
        over = jax.vmap(update, in_axes=(0, 0, 0, None, None)) if plan.many else update
        model, adam, summit, value = over(state.model, state.adam, state.summit, batch, factor)
        bounds = state.bounds.at[:, state.step - begin].set(value)
        return State(model, adam, state.step + 1, bounds, state.reached, order, summit)

    state = jax.lax.fori_loop(0, count, step, state)

    def after(state: State) -> Array:
        batch = minibatch(data, state.order, state.step, size, plan.along)
        over = jax.vmap(objective, in_axes=(0, None, None)) if plan.many else objective
        reached = jnp.reshape(total(over(state.model, batch, share)), state.reached.shape)
        return reached.astype(state.reached.dtype)

    # A step is only known to be good by the bound after it.
    reached = jax.lax.cond(state.step == end, after, lambda state: state.reached, state)
    return eqx.tree_at(lambda s: s.reached, state, reached)


def _from_summit(
    summit: Summit, model: Model, bound: Array, direction: Any, turned: Any, adam: Any
) -> tuple[Summit, Any]:
    """The new summit if the bound rose; otherwise the old one, from which half a step is tried."""
    rose = (bound >= summit.bound) | (summit.pace < _SLOWEST)
    faster = jnp.minimum(_FASTER * summit.pace, 1.0).astype(summit.pace.dtype)
    new = Summit(model, bound.astype(summit.bound.dtype), direction, faster)
    old = Summit(summit.model, summit.bound, summit.direction, _SLOWER * summit.pace)
    return jax.tree.map(lambda a, b: jnp.where(rose, a, b), (new, turned), (old, adam))


def scheduled(schedule: Schedule, done: Array) -> Array | float:
    """The factor of every rate once this fraction of the steps is done."""
    if callable(schedule):
        return schedule(done)
    return 0.01 + 0.495 * (1.0 + jnp.cos(np.pi * done)) if schedule == "cosine" else 1.0
