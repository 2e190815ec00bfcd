"""Markov chains over inducing variables and hyperparameters: NUTS, by blackjax.

Chains move in step, in two batches that take a thread each. In the warm-up they share a linear map
q = c + R z, in whose space z the chains move: R Rᵀ is first the covariance of the variational
posterior, then that of the draws so far. A unit mass matrix in z is a dense one in q, without its
cost in every step.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import prod
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
from zigp.runtime.session import session
from zigp.training.progress import Progress, Show
from zigp.training.settings import free_places
from zigp.training.whitening import Whitening

CHUNK = 25  # transitions in one call of the compiled program
_TARGET = 0.8  # acceptance
_DEEPEST = 10  # doublings of a trajectory
_FIRST_STEP = 0.3
_FEWEST_WARMUP = 100  # transitions in which the map is estimated
_FEWEST = 8  # draws of a chain that tell something of its agreement with others
_TEAMS = 2  # of chains, each with a thread of its own
_FIRST_SD = 0.2  # of hyperparameters, around the variational fit
# The map is estimated anew after these parts of the warm-up; the rest adapts the step size alone.
_WINDOWS = (0.1, 0.2, 0.35, 0.55, 0.8)
_SHRINKAGE = 20.0  # the weight of the map before, in draws


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
    rhat : dict of ndarray
        Rank-normalised split R-hat of each parameter: near 1 where chains agree.
    ess : dict of ndarray
        Effective number of independent draws of each parameter.
    seconds : float
        Duration, with compilation and warm-up.
    """

    values: dict[str, np.ndarray]
    divergent: np.ndarray
    acceptance: np.ndarray
    gradients: np.ndarray
    rhat: dict[str, np.ndarray]
    ess: dict[str, np.ndarray]
    seconds: float

    def thinned(self, most: int) -> dict[str, np.ndarray]:
        """Return evenly spaced draws of all chains, at most so many, along one axis."""
        return self.by_chain(max(most // len(self.divergent), 1))

    def by_chain(self, most: int) -> dict[str, np.ndarray]:
        """Return evenly spaced draws, at most so many of each chain, the chains in a row."""
        every = -(-self.divergent.shape[1] // most)
        return {
            name: values[:, ::every].reshape(-1, *values.shape[2:])
            for name, values in self.values.items()
        }


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
    step: Array  # where it does not adapt
    count: Array

    def settled(self) -> _State:
        """Return the state with the step size that the warm-up ended with."""
        step = _averaging()[2](self.averaging).astype(self.step.dtype)
        return replace(self, step=step)


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
    began, total = time.perf_counter(), warmup + draws
    dtype = np.asarray(next(iter(places(model).values()))).dtype
    # Always in float64, which blackjax mixes with float32.
    model, data = jax.tree.map(_in_double, (model, data))
    whitening = eqx.filter_jit(Whitening.around)(model, data)
    names = tuple(sorted(whitening.free & free_places(model, fixed)))
    first, _ = _flat(whitening.model, names)
    key, key_start, key_rest = jax.random.split(jax.random.key(seed), 3)
    to_q = _Map(first, _first_root(whitening.model, names))
    z = jax.random.normal(key_start, (chains, len(first)), first.dtype)
    step = jnp.asarray(_FIRST_STEP, first.dtype)
    teams = [part for part in np.array_split(np.arange(chains), _TEAMS) if len(part)]
    keys = jax.random.split(key, len(teams))
    states = [_begun(whitening, data, names, to_q, z[team], step) for team in teams]

    def advanced(states: list[_State], until: int, *, adapt: bool) -> tuple[list[_State], Any]:
        blocks = []
        while (done := int(states[0].count)) < until:
            count = min(CHUNK, until - done)
            how = jnp.asarray(count), jnp.asarray(adapt)

            def move(state: _State, key: Array, how: Any = how) -> tuple[_State, Any]:
                with session():  # settings of JAX are those of a thread
                    moved = _advance(whitening, data, names, to_q, state, key, *how)
                    return jax.block_until_ready(moved)

            moved, kept = zip(*pool.map(move, states, keys), strict=True)
            states = list(moved)
            blocks.append([np.concatenate(parts, 1)[:count] for parts in zip(*kept, strict=True)])
            if show is not None:
                height = float(np.mean([np.mean(state.hmc.logdensity) for state in states]))
                seconds = time.perf_counter() - began
                show(Progress(done + count, total, height, np.nan, seconds, kind="log density"))
        return states, [np.concatenate(parts) for parts in zip(*blocks, strict=True)]

    with ThreadPoolExecutor(_TEAMS) as pool:
        for part in _WINDOWS if warmup >= _FEWEST_WARMUP else ():
            states, kept = advanced(states, round(part * warmup), adapt=True)
            old, to_q = to_q, _estimated(kept[0].reshape(-1, len(first)), to_q)
            states = [_continued(whitening, data, names, old, to_q, one) for one in states]
        states, _ = advanced(states, warmup, adapt=True)
        states, kept = advanced([one.settled() for one in states], total, adapt=False)
    positions, divergent, acceptance, gradients = (part.swapaxes(0, 1) for part in kept)
    values = _values_at(whitening, data, names, positions, key_rest)
    values = {name: np.asarray(value, dtype) for name, value in values.items()}
    rhat, ess = _agreement(values)
    seconds = time.perf_counter() - began
    return Chains(values, divergent, acceptance, gradients, rhat, ess, seconds)


def _in_double(leaf: Any) -> Any:
    return np.asarray(leaf, np.float64) if eqx.is_inexact_array(leaf) else leaf


def _agreement(values: dict[str, np.ndarray]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return R-hat and effective sample sizes; NaN for chains that are too short to tell."""
    from blackjax.diagnostics import effective_sample_size, rhat

    shapes = {name: value.shape[2:] for name, value in values.items()}
    if next(iter(values.values())).shape[1] < _FEWEST:
        unknown = {name: np.full(shape, np.nan) for name, shape in shapes.items()}
        return unknown, unknown
    ends = np.cumsum([prod(shape) for shape in shapes.values()])[:-1]
    whole = np.concatenate([v.reshape(*v.shape[:2], -1) for v in values.values()], axis=2)
    found = []
    for measure in (rhat, effective_sample_size):
        parts = np.split(np.asarray(jax.jit(measure)(whole)), ends)
        pairs = zip(shapes.items(), parts, strict=True)
        found.append({name: part.reshape(shape) for (name, shape), part in pairs})
    return found[0], found[1]


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
    """Return the values at positions [chains, draws, …], drawing what is integrated out."""
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


def _averaging() -> Any:
    """Return the functions of dual averaging: begin, update, end."""
    from blackjax.adaptation.step_size import dual_averaging_adaptation

    return dual_averaging_adaptation(_TARGET)


@eqx.filter_jit
def _begun(
    whitening: Whitening, data: Batch, names: tuple[str, ...], to_q: _Map, z: Array, step: Array
) -> _State:
    from blackjax.mcmc import nuts

    density = _density(whitening, data, names, to_q)
    hmc = jax.vmap(lambda z: nuts.init(z, density))(z)
    state = _State(hmc, _averaging()[0](step), step, jnp.asarray(0))
    # Types as after a transition, so that one program serves both.
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.result_type(leaf)), state)


def _continued(
    whitening: Whitening,
    data: Batch,
    names: tuple[str, ...],
    old: _Map,
    new: _Map,
    state: _State,
) -> _State:
    """Return the state in the space of another map, with the step size of before."""
    step = state.settled().step
    z = new.back(old.out(state.hmc.position))
    return replace(_begun(whitening, data, names, new, z, step), count=state.count)


@eqx.filter_jit
def _advance(
    whitening: Whitening,
    data: Batch,
    names: tuple[str, ...],
    to_q: _Map,
    state: _State,
    key: Array,
    count: Array,
    adapt: Array,
) -> tuple[_State, Any]:
    """Make some transitions of all chains; return positions, divergences and the like of each."""
    from blackjax.mcmc import nuts

    update = _averaging()[1]
    density, kernel = _density(whitening, data, names, to_q), nuts.build_kernel()
    chains, D = state.hmc.position.shape
    unit = jnp.ones(D, state.hmc.position.dtype)

    def transition(i: Array, carried: tuple[_State, Any]) -> tuple[_State, Any]:
        state, kept = carried
        length = jnp.where(adapt, jnp.exp(state.averaging.log_step_size), state.step)
        length = length.astype(unit.dtype)
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
        return _State(hmc, averaging, state.step, state.count + 1), kept

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
        name: jnp.full_like(every[name], 1.0 if name.endswith("q_mean") else _FIRST_SD)
        for name in names
    }
    return jnp.diag(ravel_pytree(parts)[0])


def _estimated(positions: np.ndarray, before: _Map) -> _Map:
    """Return the map that makes these positions standard normal, as far as they tell."""
    n, root = len(positions), np.asarray(before.root)
    share = n / (n + _SHRINKAGE)
    covariance = share * np.cov(positions.T) + (1.0 - share) * root @ root.T
    found = positions.mean(axis=0), np.linalg.cholesky(covariance)
    return _Map(*(jnp.asarray(part, root.dtype) for part in found))
