"""Checks of the bound, and the states to continue from where it is not finite."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from zigp.models.model import Model
from zigp.training.settings import TrainingSettings, learned
from zigp.training.steps import State


def gain(history: list[np.ndarray], patience: int) -> float:
    """Return the rise of the bound between the last chunks and the same number before them.

    With several restarts it is that of the one that changed most.
    """
    if len(history) < 2 * patience:
        return np.inf
    means = np.stack([chunk.mean(axis=1) for chunk in history[-2 * patience :]])
    gains = means[patience:].mean(axis=0) - means[:patience].mean(axis=0)
    return float(gains[np.argmax(np.abs(gains))])


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


def failure(done: int, bounds: np.ndarray, settings: TrainingSettings) -> str:
    """Return why training failed at the bounds of a chunk, and what to do about it."""
    bad = np.flatnonzero(~np.isfinite(bounds))
    step = done + int(bad[0]) if bad.size else done + len(bounds)
    return (
        f"The bound stopped being finite at step {step} of {settings.steps}, also with ten times "
        f"the jitter; the parameters of step {done} are kept. Try a smaller learning_rate, "
        "look for outliers in y and for columns of X in extreme units, and use dtype='float64'."
    )
