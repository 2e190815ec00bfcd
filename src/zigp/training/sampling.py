"""Markov chains over inducing variables and hyperparameters: NUTS, by blackjax.

All chains move in step, as one batch. In the warm-up they share a step size and a linear map
q = c + R z, in whose space z the chains move: R Rᵀ is first the covariance of the variational
posterior, then that of the draws so far. A unit mass matrix in z is a dense one in q, without its
cost in every step.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from zigp.gp.batch import Batch
from zigp.models.draws import places
from zigp.models.model import Model
from zigp.training.settings import free_places
from zigp.training.whitening import Whitening

CHUNK = 25  # transitions in one call of the compiled program
_TARGET = 0.8  # acceptance
_DEEPEST = 10  # doublings of a trajectory
_FIRST_STEP = 0.3
_FIRST_SD = 0.2  # of hyperparameters, around the variational fit
# The map is estimated anew after these parts of the warm-up; the rest adapts the step size alone.
_WINDOWS = (0.1, 0.2, 0.35, 0.55, 0.9)
_SHRINKAGE = 20.0  # the weight of the map before, in draws

Show = Callable[[int, int, float], None]  # transitions done, of how many, and seconds


@dataclass(frozen=True)
class Chains:
    """Draws from the posterior, and how the chains behaved.

    Attributes
    ----------
    values : dict of ndarray
        Draws of shape (chains, draws, ...), by the place of a parameter in the model.
    divergent : ndarray of shape (chains, draws)
        Whether the integration of a transition diverged.
    acceptance : ndarray of shape (chains, draws)
        Mean probability of acceptance along each trajectory.
    gradients : ndarray of shape (chains, draws)
        Number of gradients in each transition.
    step_size : float
        Step size of the integration.
    seconds : float
        Duration, with compilation and warm-up.
    """

    values: dict[str, np.ndarray]
    divergent: np.ndarray
    acceptance: np.ndarray
    gradients: np.ndarray
    step_size: float
    seconds: float


class _Map(eqx.Module):
    """q = c + R z."""

    centre: Array
    root: Array

    def out(self, z: Array) -> Array:
        return self.centre + z @ self.root.T

    def back(self, q: Array) -> Array:
        return jax.scipy.linalg.solve_triangular(self.root, (q - self.centre).T, lower=True).T


class _State(eqx.Module):
    """The chains between two transitions."""

    hmc: Any  # positions [chains, dimensions] in z, with densities and gradients
    averaging: Any  # of the step size
    count: Array


def sample(
    model: Model,
    data: Batch,
    fixed: tuple[str, ...],
    *,
    draws: int,
    chains: int,
    warmup: int,
    seed: int,
    show: Show | None = None,
) -> Chains:
    """Draw from the posterior of a trained model, from starts dispersed around its q."""
    from blackjax.adaptation.step_size import dual_averaging_adaptation

    begin_averaging, _, final_step = dual_averaging_adaptation(_TARGET)
    began, total = time.perf_counter(), warmup + draws
    whitening = eqx.filter_jit(Whitening.around)(model, data)
    names = tuple(sorted(whitening.free & free_places(model, fixed)))
    model = whitening.model
    first, unravel = _flat(model, names)
    key, key_start, key_rest = jax.random.split(jax.random.key(seed), 3)
    to_q = _Map(first, _first_root(model, names))
    z = jax.random.normal(key_start, (chains, len(first)), first.dtype)
    step = jnp.asarray(_FIRST_STEP, first.dtype)
    state = _State(_hmc_at(whitening, data, names, to_q, z), begin_averaging(step), jnp.asarray(0))

    def advanced(state: _State, until: int, *, adapt: bool) -> tuple[_State, list[Any]]:
        blocks: list[Any] = []
        while (done := int(state.count)) < until:
            count = min(CHUNK, until - done)
            state, kept = _advance(whitening, data, names, to_q, state, step, key, count, adapt)
            blocks.append(jax.tree.map(lambda part, n=count: np.asarray(part)[:n], kept))
            if show is not None:
                show(int(state.count), total, time.perf_counter() - began)
        return state, blocks

    for part in _WINDOWS:
        state, blocks = advanced(state, round(part * warmup), adapt=True)
        if not blocks:
            continue
        positions = np.concatenate([block[0] for block in blocks])
        q = to_q.out(state.hmc.position)
        to_q = _estimated(positions.reshape(-1, len(first)), to_q)
        averaging = begin_averaging(final_step(state.averaging))
        state = _State(_hmc_at(whitening, data, names, to_q, to_q.back(q)), averaging, state.count)
    state, _ = advanced(state, warmup, adapt=True)
    if warmup:
        step = final_step(state.averaging)
    state, blocks = advanced(state, total, adapt=False)
    positions, *infos = (np.concatenate(part).swapaxes(0, 1) for part in zip(*blocks, strict=True))
    values = _values_at(whitening, data, names, positions, key_rest)
    return Chains(
        {name: np.asarray(value) for name, value in values.items()},
        *infos,
        step_size=float(step),
        seconds=time.perf_counter() - began,
    )


def _flat(model: Model, names: tuple[str, ...]) -> tuple[Array, Callable[[Array], Any]]:
    """Return parameters as one vector, and the function that takes it apart."""
    every = places(model)
    return ravel_pytree({name: jnp.asarray(every[name]) for name in names})


def _density(whitening: Whitening, data: Batch, names: tuple[str, ...], to_q: _Map) -> Callable:
    unravel = _flat(whitening.model, names)[1]
    return lambda z: whitening.log_density(unravel(to_q.out(z)), data)


@eqx.filter_jit
def _values_at(
    whitening: Whitening, data: Batch, names: tuple[str, ...], positions: Array, key: Array
) -> Any:
    """Return the values at positions [chains, draws, dimensions], drawing what is integrated out."""
    unravel = _flat(whitening.model, names)[1]
    shape = positions.shape[:2]

    def one(given: tuple[Array, Array]) -> Any:
        key, position = given
        z = unravel(position)
        if whitening.exact is not None:
            like = jnp.asarray(whitening.model.latents[whitening.exact].q_mean)
            z[f"latents.{whitening.exact}.q_mean"] = jax.random.normal(key, like.shape, like.dtype)
        return whitening.values(z, data)[0]

    flat = jax.random.split(key, shape[0] * shape[1]), positions.reshape(-1, positions.shape[-1])
    found = jax.lax.map(one, flat)
    return jax.tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), found)


@eqx.filter_jit
def _hmc_at(whitening: Whitening, data: Batch, names: tuple[str, ...], to_q: _Map, z: Array) -> Any:
    from blackjax.mcmc import nuts

    density = _density(whitening, data, names, to_q)
    return jax.vmap(lambda z: nuts.init(z, density))(z)


@eqx.filter_jit
def _advance(
    whitening: Whitening,
    data: Batch,
    names: tuple[str, ...],
    to_q: _Map,
    state: _State,
    step: Array,
    key: Array,
    count: Array,
    adapt: Array,
) -> tuple[_State, Any]:
    """Make some transitions of all chains; return positions, divergences and the like of each."""
    from blackjax.adaptation.step_size import dual_averaging_adaptation
    from blackjax.mcmc import nuts

    update = dual_averaging_adaptation(_TARGET)[1]
    density, kernel = _density(whitening, data, names, to_q), nuts.build_kernel()
    chains, D = state.hmc.position.shape
    unit = jnp.ones(D, state.hmc.position.dtype)

    def transition(i: Array, carried: tuple[_State, Any]) -> tuple[_State, Any]:
        state, kept = carried
        length = jnp.where(adapt, jnp.exp(state.averaging.log_step_size), step).astype(unit.dtype)
        keys = jax.random.split(jax.random.fold_in(key, state.count), chains)
        move = lambda key, hmc: kernel(key, hmc, density, length, unit, _DEEPEST)  # noqa: E731
        hmc, info = jax.vmap(move)(keys, state.hmc)
        accepted = info.acceptance_rate
        moved = update(state.averaging, jnp.mean(accepted))
        averaging = jax.tree.map(
            lambda new, old: jnp.where(adapt, new, old).astype(jnp.asarray(old).dtype),
            moved,
            state.averaging,
        )
        news = to_q.out(hmc.position), info.is_divergent, accepted, info.num_integration_steps
        kept = jax.tree.map(lambda whole, new: whole.at[i].set(new), kept, news)
        return _State(hmc, averaging, state.count + 1), kept

    empty = (
        jnp.zeros((CHUNK, chains, D), unit.dtype),
        jnp.zeros((CHUNK, chains), bool),
        jnp.zeros((CHUNK, chains), unit.dtype),
        jnp.zeros((CHUNK, chains), int),
    )
    return jax.lax.fori_loop(0, count, transition, (state, empty))


def _first_root(model: Model, names: tuple[str, ...]) -> Array:
    """Return the spread of the starts: 1 for noise, less for hyperparameters."""
    every = places(model)
    parts = {
        name: np.full(np.shape(every[name]), 1.0 if name.endswith("q_mean") else _FIRST_SD)
        for name in names
    }
    return jnp.diag(ravel_pytree(parts)[0])


def _estimated(positions: np.ndarray, before: _Map) -> _Map:
    """Return the map that makes these positions standard normal, as far as they tell."""
    n, root = len(positions), np.asarray(before.root)
    share = n / (n + _SHRINKAGE)
    covariance = share * np.cov(positions.T) + (1.0 - share) * root @ root.T
    centre = positions.mean(axis=0)
    return _Map(jnp.asarray(centre), jnp.asarray(np.linalg.cholesky(covariance)))
