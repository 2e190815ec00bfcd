"""The trainer: Adam on the bound, in compiled chunks of steps.

Nothing of a model's structure is known here but its parameters' paths. Learning rates, step
counts and the number of rows are arguments of the compiled program, not part of it, so fits of
the same shapes share one compilation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from zigp.batch import Batch
from zigp.minibatches import longest, minibatch, next_order, whole_batches
from zigp.models import Model
from zigp.objective import objective

__all__ = ["GROUPS", "Fit", "Progress", "Settings", "parameters", "train", "train_restarts"]

GROUPS = ("variational", "kernel", "inducing", "noise")

_ADAM = optax.scale_by_adam()
# The fields of a model, from its root, and the group whose learning rate they follow.
_GROUP_OF = {
    "kernels": "kernel",
    "log_variance": "kernel",
    "prior_mean": "kernel",
    "inducing": "inducing",
    "q_mean": "variational",
    "q_cov": "variational",
    "likelihood": "noise",
}
_NAME_OF = {
    "kernels": "kernel",
    "log_variance": "variance",
    "inducing": "inducing",
    "prior_mean": "prior_mean",
    "q_mean": "q",
    "q_cov": "q",
}


_FIRST_STEPS = 5  # where there is a time budget

Schedule = Literal["cosine", "constant"] | Callable[[Array], Array]

# Inducing inputs that move as fast as the rest outrun what q has learned there.
_INDUCING_PACE = 0.1


@dataclass(frozen=True)
class Settings:
    """How to train.

    `learning_rate` is one number, with inducing inputs moving at a tenth of it and noise at
    `noise_pace` times it, or one number for each group of parameters (`variational`, `kernel`,
    `inducing`, `noise`). `schedule` is `cosine` (down to a hundredth), `constant`, or a function of
    the finished fraction of the steps that returns a factor. `fixed` names what is not to be
    learned: `noise`, `kernel`, `variance`, `prior_mean`, `inducing`, `q`, each also for one latent
    alone (`g.prior_mean`). Training stops early once the bound, averaged over `patience` chunks,
    differs by less than `tol` per row from that of the chunks before them, or once `max_seconds`
    have passed.
    """

    steps: int = 1000
    learning_rate: float | Mapping[str, float] = 0.05
    noise_pace: float = 1.0
    schedule: Schedule = "cosine"
    batch_size: int | None = None
    fixed: tuple[str, ...] = ()
    tol: float = 1e-4
    patience: int = 4
    max_seconds: float | None = None
    chunk: int = 50
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "chunk", "patience", "batch_size"):
            value = getattr(self, name)
            if value is not None and (int(value) != value or value < 1):
                raise ValueError(f"{name} must be a whole number of at least 1, not {value!r}.")
        if self.schedule not in ("cosine", "constant") and not callable(self.schedule):
            raise ValueError(
                f"schedule must be 'cosine', 'constant' or a function, not {self.schedule!r}."
            )
        if not self.tol >= 0:
            raise ValueError(f"tol must not be negative; it is {self.tol!r}.")
        if self.max_seconds is not None and not self.max_seconds > 0:
            raise ValueError(f"max_seconds must be positive, not {self.max_seconds!r}.")
        for group, rate in self.rates().items():
            if not (np.isfinite(rate) and rate >= 0):
                raise ValueError(
                    f"learning_rate must be a number of at least 0; for {group} it is {rate!r}."
                )

    def rates(self) -> dict[str, float]:
        """The learning rate of each group of parameters."""
        if not isinstance(self.learning_rate, Mapping):
            paces = {"inducing": _INDUCING_PACE, "noise": self.noise_pace}
            return {group: self.learning_rate * paces.get(group, 1.0) for group in GROUPS}
        given = dict(self.learning_rate)
        if set(given) != set(GROUPS):
            raise ValueError(
                f"learning_rate names the groups {', '.join(map(str, given))}; it must name "
                f"{', '.join(GROUPS)}, each once."
            )
        return given


@dataclass(frozen=True)
class Progress:
    """Where a fit stands after a chunk of steps."""

    step: int
    steps: int
    bound: float
    gain: float  # since the chunk before
    seconds: float
    budget: float = np.inf

    @property
    def seconds_left(self) -> float:
        by_steps = self.seconds / max(self.step, 1) * (self.steps - self.step)
        return max(min(by_steps, self.budget - self.seconds), 0.0)


@dataclass
class Fit:
    """A trained model, and how it came about."""

    model: Model
    bounds: np.ndarray  # before every step; with minibatches an unbiased estimate
    times: np.ndarray  # seconds since the start, before every step; evenly spaced in each chunk
    seconds: float
    stopped: str  # why training ended, in words
    failed: bool = False  # whether it ended at a bound that is not finite
    retried: list[int] = field(default_factory=list)  # steps at which the jitter was raised


class _State(eqx.Module):
    model: Model  # with several restarts, every array has them along its first axis
    adam: Any
    step: Array
    bounds: Array  # before each step of this chunk, [restarts, steps]
    reached: Array  # at the end of it, [restarts]
    order: Array | None  # the rows of this pass over the data, where it goes by minibatches


def train(
    model: Model,
    data: Batch,
    settings: Settings,
    progress: Callable[[Progress], None] | None = None,
    *,
    shift: float = 0.0,
) -> Fit:
    """Maximise the objective; `shift` is added to every bound that is reported.

    A chunk of steps that ends at a bound which is not finite is run again from its start with
    ten times the jitter; if that fails too, training stops at the last good parameters.
    """
    return _train(model, data, settings, progress, shift, restarts=None)[0]


def train_restarts(
    models: Sequence[Model],
    data: Batch,
    settings: Settings,
    progress: Callable[[Progress], None] | None = None,
    *,
    shift: float = 0.0,
) -> list[Fit]:
    """Train models of one structure together, in one compiled program.

    A restart whose bound stops being finite is frozen at its last good parameters and marked as
    failed; the others go on.
    """
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *models)
    return _train(stacked, data, settings, progress, shift, restarts=len(models))


def _train(
    model: Model,
    data: Batch,
    settings: Settings,
    progress: Callable[[Progress], None] | None,
    shift: float,
    restarts: int | None,
) -> list[Fit]:
    start = time.monotonic()
    model = jax.tree.map(jnp.asarray, model)
    data = jax.tree.map(jnp.asarray, data)
    rows = max(float(np.count_nonzero(data.weight)), 1.0)
    rates, key = _rates(model, settings), jax.random.key(settings.seed)
    batch_size, order = settings.batch_size, None
    if batch_size is not None:
        data, batch_size = whole_batches(data, batch_size)
        order = jnp.arange(data.at.shape[longest(data.at)])
    first = _ADAM.init if restarts is None else eqx.filter_vmap(_ADAM.init)
    bounds = jnp.asarray(np.zeros((restarts or 1, settings.chunk)))
    adam, reached = eqx.filter_jit(first)(_learnable(model)), jnp.asarray(np.zeros(restarts or 1))
    state = _State(model, adam, jnp.asarray(0), bounds, reached, order)

    def advance(state: _State, count: int) -> _State:
        counts = jnp.asarray(count), jnp.asarray(settings.steps)
        return _chunk(
            state, data, rates, key, *counts, settings.schedule, batch_size, restarts is not None
        )

    alive = np.ones(restarts or 1, bool)
    failures = [""] * len(alive)
    history: list[np.ndarray] = []
    clock: list[np.ndarray] = []
    retried: list[list[int]] = [[] for _ in alive]
    stopped, done, elapsed = f"all {settings.steps} steps done", 0, 0.0
    while done < settings.steps and alive.any():
        count = min(settings.chunk, settings.steps - done)
        if settings.max_seconds is not None:
            # The first steps are few, and show how many more there is time for.
            left, pace = settings.max_seconds - (time.monotonic() - start), elapsed / max(done, 1)
            count = min(count, max(int(left / pace), 1) if done else _FIRST_STEPS)
        after = advance(state, count)
        good = _finite(after, count)
        if not good[alive].all():
            again = advance(_with_more_jitter(state, ~good, restarts), count)
            after = _chosen(good, after, again, restarts)
            for i in np.flatnonzero(~good & alive).tolist():
                retried[i].append(done)
            good = _finite(after, count)
        for i in np.flatnonzero(~good & alive).tolist():
            failures[i] = _failure(done, np.asarray(after.bounds[i, :count]), settings)
        alive &= good
        state, done = _chosen(alive, after, state, restarts), done + count
        path = np.asarray(after.bounds[:, :count], float) + shift
        history.append(np.where(alive[:, None], path, np.nan))
        gain = _gain([h[alive] for h in history], settings.patience) if alive.any() else np.inf
        since, elapsed = elapsed, time.monotonic() - start
        clock.append(np.linspace(since, elapsed, count, endpoint=False))
        if progress is not None and alive.any():
            best = [float(h[alive].mean(axis=1).max()) for h in history[-2:]]
            budget = np.inf if settings.max_seconds is None else settings.max_seconds
            progress(Progress(done, settings.steps, best[-1], best[-1] - best[0], elapsed, budget))
        if abs(gain) / rows < settings.tol:
            stopped = f"the bound settled to within {settings.tol:g} per row (step {done})"
            break
        if settings.max_seconds is not None and elapsed >= settings.max_seconds:
            stopped = f"the time budget of {settings.max_seconds:g} s was spent (step {done})"
            break

    seconds, trained = time.monotonic() - start, jax.tree.map(np.asarray, state.model)
    bounds_of, times = np.concatenate(history, axis=1), np.concatenate(clock)
    fits = []
    for i, failure in enumerate(failures):
        one = trained if restarts is None else jax.tree.map(lambda leaf, i=i: leaf[i], trained)
        good, ended = np.isfinite(bounds_of[i]), failure or stopped
        kept, when = bounds_of[i][good], times[good]
        fits.append(Fit(one, kept, when, seconds, ended, bool(failure), retried[i]))
    return fits


@eqx.filter_jit
def _chunk(
    state: _State,
    data: Batch,
    rates: Model,
    key: Array,
    count: Array,
    steps: Array,
    schedule: Schedule,
    batch_size: int | None,
    many: bool,
) -> _State:
    """`count` Adam steps: count and the total number of steps are traced, not compiled in."""

    def update(model: Model, adam: Any, batch: Batch, factor: Array) -> tuple[Model, Any, Array]:
        value, gradient = eqx.filter_value_and_grad(_loss)(model, batch)
        direction, adam = _ADAM.update(gradient, adam)
        updates = jax.tree.map(lambda r, d: (-factor * r * d).astype(d.dtype), rates, direction)
        return eqx.apply_updates(model, updates), adam, -value

    def step(i: Array, state: _State) -> _State:
        order = next_order(state.order, key, state.step, batch_size)
        batch = minibatch(data, order, state.step, batch_size)
        factor = jnp.asarray(_schedule(schedule, state.step / steps))
        over = jax.vmap(update, in_axes=(0, 0, None, None)) if many else update
        model, adam, value = over(state.model, state.adam, batch, factor)
        bounds = state.bounds.at[:, i].set(value)
        return _State(model, adam, state.step + 1, bounds, state.reached, order)

    state = jax.lax.fori_loop(0, count, step, state)
    # A step is only known to be good by the bound after it.
    batch = minibatch(data, state.order, state.step, batch_size)
    over = jax.vmap(_loss, in_axes=(0, None)) if many else _loss
    reached = -jnp.reshape(over(state.model, batch), state.reached.shape)
    return eqx.tree_at(lambda s: s.reached, state, reached.astype(state.reached.dtype))


def _loss(model: Model, batch: Batch) -> Array:
    return -objective(model, batch)


def _schedule(schedule: Schedule, done: Array) -> Array | float:
    if callable(schedule):
        return schedule(done)
    return 0.01 + 0.495 * (1.0 + jnp.cos(np.pi * done)) if schedule == "cosine" else 1.0


# ---------------------------------------------------------------------------------------------
# Which parameter follows which rate


def _learnable(model: Model) -> Model:
    return eqx.filter(model, eqx.is_inexact_array)


def _labels(path: tuple[Any, ...]) -> tuple[str | None, set[str]]:
    """A parameter's group, and the names by which it can be held fixed."""
    keys = [getattr(entry, "name", getattr(entry, "key", None)) for entry in path]
    if keys[0] == "likelihood":
        return (None, set()) if keys[-1] == "floor" else ("noise", {"noise"})
    latent, part = str(keys[1]), str(keys[2])
    if part not in _GROUP_OF:  # the jitter is no parameter
        return None, set()
    name = _NAME_OF[part]
    return _GROUP_OF[part], {name, f"{latent}.{name}"}


def parameters(model: Model) -> list[str]:
    """The names that `Settings.fixed` accepts for this model."""
    paths = jax.tree_util.tree_flatten_with_path(_learnable(model))[0]
    return sorted(set().union(*(_labels(path)[1] for path, _ in paths)))


def _rates(model: Model, settings: Settings) -> Model:
    """A learning rate for every array of the model, 0 where it is held fixed."""
    unknown = sorted(set(settings.fixed) - set(parameters(model)))
    if unknown:
        raise ValueError(
            f"fixed names {', '.join(map(repr, unknown))}, which this model does not have. "
            f"Choose from: {', '.join(parameters(model))}."
        )
    given = settings.rates()

    def rate(path: tuple[Any, ...], leaf: Array) -> Array:
        group, names = _labels(path)
        free = group is not None and not names & set(settings.fixed)
        return jnp.asarray(given[group] if free and group else 0.0, leaf.dtype)

    return jax.tree_util.tree_map_with_path(rate, _learnable(model))


# ---------------------------------------------------------------------------------------------
# Watching the bound


def _gain(history: list[np.ndarray], patience: int) -> float:
    """How much the bound rose between the last chunks and the same number before them.

    With several restarts: the change of the one that changed most.
    """
    if len(history) < 2 * patience:
        return np.inf
    means = np.stack([chunk.mean(axis=1) for chunk in history[-2 * patience :]])
    gains = means[patience:].mean(axis=0) - means[:patience].mean(axis=0)
    return float(gains[np.argmax(np.abs(gains))])


def _finite(state: _State, count: int) -> np.ndarray:
    """Which restarts have finite bounds and parameters."""
    leaves = jax.tree.leaves(_learnable(state.model))
    bounds = np.asarray(state.bounds)
    values = [bounds[:, :count], np.asarray(state.reached), *map(np.asarray, leaves)]
    finite = [np.isfinite(v).reshape(len(bounds), -1).all(axis=1) for v in values]
    return np.all(finite, axis=0)


def _chosen(first: np.ndarray, a: _State, b: _State, restarts: int | None) -> _State:
    """State a for the restarts marked first, state b for the others."""
    if restarts is None:
        return a if first[0] else eqx.tree_at(lambda s: s.step, b, a.step)

    def choose(x: Array, y: Array) -> Array:
        return jnp.where(first.reshape(-1, *(1,) * (x.ndim - 1)), x, y)

    model, adam, bounds, reached = jax.tree.map(
        choose, (a.model, a.adam, a.bounds, a.reached), (b.model, b.adam, b.bounds, b.reached)
    )
    return _State(model, adam, a.step, bounds, reached, a.order)


def _with_more_jitter(state: _State, where: np.ndarray, restarts: int | None) -> _State:
    """Ten times the jitter for the restarts marked."""

    def raised(path: tuple[Any, ...], leaf: Any) -> Any:
        if getattr(path[-1], "name", None) != "jitter":
            return leaf
        factor = np.where(where, 10.0, 1.0)
        return leaf * (
            factor[0] if restarts is None else factor.reshape(-1, *(1,) * (leaf.ndim - 1))
        )

    model = jax.tree_util.tree_map_with_path(raised, state.model)
    return eqx.tree_at(lambda s: s.model, state, model)


def _failure(done: int, bounds: np.ndarray, settings: Settings) -> str:
    bad = np.flatnonzero(~np.isfinite(bounds))
    step = done + int(bad[0]) if bad.size else done + len(bounds)
    return (
        f"The bound stopped being finite at step {step} of {settings.steps}, also with ten times "
        f"the jitter; the parameters of step {done} are kept. Try a smaller learning_rate, "
        "look for outliers in y and for columns of X in extreme units, and use dtype='float64'."
    )
