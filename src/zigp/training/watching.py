"""Watching the bound: whether it rises, and what is done once it is not finite."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from zigp.models.model import Model
from zigp.training.settings import Settings, learned
from zigp.training.steps import State

__all__ = ["chosen", "failure", "finite", "gain", "highest", "with_more_jitter"]


def gain(history: list[np.ndarray], patience: int) -> float:
    """How much the bound rose between the last chunks and the same number before them.

    With several restarts: the change of the one that changed most.
    """
    if len(history) < 2 * patience:
        return np.inf
    means = np.stack([chunk.mean(axis=1) for chunk in history[-2 * patience :]])
    gains = means[patience:].mean(axis=0) - means[:patience].mean(axis=0)
    return float(gains[np.argmax(np.abs(gains))])


def finite(state: State, count: int) -> np.ndarray:
    """Which restarts have finite bounds and parameters."""
    leaves = jax.tree.leaves(learned(state.model))
    bounds = np.asarray(state.bounds)
    values = [bounds[:, :count], np.asarray(state.reached), *map(np.asarray, leaves)]
    finite = [np.isfinite(v).reshape(len(bounds), -1).all(axis=1) for v in values]
    return np.all(finite, axis=0)


def chosen(first: np.ndarray, a: State, b: State, restarts: int | None) -> State:
    """State a for the restarts marked first, state b for the others."""
    if restarts is None:
        return a if first[0] else eqx.tree_at(lambda s: s.step, b, a.step)

    def choose(x: Array, y: Array) -> Array:
        return jnp.where(first.reshape(-1, *(1,) * (x.ndim - 1)), x, y)

    of_each = [(s.model, s.adam, s.bounds, s.reached, s.summit) for s in (a, b)]
    model, adam, bounds, reached, summit = jax.tree.map(choose, *of_each)
    return State(model, adam, a.step, bounds, reached, a.order, summit)


def highest(state: State, restarts: int | None) -> Model:
    """The best of what is known at the end of a chunk: its last step can have lowered the bound."""
    if state.summit is None:
        return state.model
    lowered = np.atleast_1d(state.summit.bound) > np.asarray(state.reached)
    before = eqx.tree_at(lambda s: s.model, state, state.summit.model)
    return chosen(lowered, before, state, restarts).model


def with_more_jitter(state: State, where: np.ndarray, restarts: int | None) -> State:
    """Ten times the jitter for the restarts marked, whose summits are to be climbed anew."""

    def raised(path: tuple[Any, ...], leaf: Any) -> Any:
        if getattr(path[-1], "name", None) != "jitter":
            return leaf
        factor = np.where(where, 10.0, 1.0).astype(leaf.dtype)
        return leaf * (
            factor[0] if restarts is None else factor.reshape(-1, *(1,) * (leaf.ndim - 1))
        )

    state = jax.tree_util.tree_map_with_path(raised, state)
    if state.summit is None:
        return state
    # A bound that less jitter reached may be out of reach now: no step would ever be accepted.
    before = state.summit.bound
    anew = jnp.where(where[0] if restarts is None else where, -jnp.inf, before).astype(before.dtype)
    return eqx.tree_at(lambda s: s.summit.bound, state, anew)


def failure(done: int, bounds: np.ndarray, settings: Settings) -> str:
    bad = np.flatnonzero(~np.isfinite(bounds))
    step = done + int(bad[0]) if bad.size else done + len(bounds)
    return (
        f"The bound stopped being finite at step {step} of {settings.steps}, also with ten times "
        f"the jitter; the parameters of step {done} are kept. Try a smaller learning_rate, "
        "look for outliers in y and for columns of X in extreme units, and use dtype='float64'."
    )
