"""What a trained model says at new inputs: compiled once, run over rows a chunk at a time.

Everything here is in the model's own units: centred inputs, scaled outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from math import prod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import ndtri

from zigp.gp.batch import Batch, Lattice, Rows, distinct
from zigp.gp.moments import Moments
from zigp.gp.padding import chunks, padded
from zigp.math.special import normal_cdf
from zigp.models.distributions import Exponential, Mixture, Predictive
from zigp.models.likelihoods import Amounts, Gaussian, network_given, network_parts, site_posterior
from zigp.models.model import Model
from zigp.models.signal import Gate, Signal

__all__ = [
    "back_transformed",
    "block_of",
    "cdf",
    "components",
    "conditioned",
    "draw",
    "elbo",
    "latent",
    "log_between",
    "moments",
    "moments_if_on",
    "network",
    "over_cells",
    "over_rows",
    "probability",
    "quantile",
    "quantile_if_on",
    "quantile_of_gate",
    "quantile_of_latent",
]

_ROWS_AT_ONCE = 6_144  # with 1,000 inducing points a chunk takes about a quarter of a GB
_CELLS_AT_ONCE = 24_576  # where work is shared between them
_MOST_JOINT_ROWS = 6_000  # rows drawn jointly without a lattice to lean on
_MOST_JOINT_CELLS = 4_000_000
_WIDE_OPEN = 40.0  # Φ of it is 1
_NUMBERS_AT_ONCE = 16_000_000  # in the draws of one block


def over_rows(
    model: Model,
    X: np.ndarray,
    function: Callable[..., dict[str, Array]],
    *args: np.ndarray,
    along: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """A compiled function of model and rows, run over all rows of X in constant memory.

    `along` is an argument whose last axis runs over the rows, as X does.
    """
    dtype = _dtype(model)
    extra = [jnp.asarray(a, dtype) for a in args]
    out: dict[str, np.ndarray] = {}
    for rows, part in chunks(X.astype(dtype, copy=False), _ROWS_AT_ONCE):
        if along is not None:
            missing = len(part) - (rows.stop - rows.start)
            here = np.pad(along[..., rows], [(0, 0)] * (along.ndim - 1) + [(0, missing)])
            extra = [*extra[: len(args)], jnp.asarray(here, dtype)]
        for name, values in function(model, Rows(part), *extra).items():
            whole = out.setdefault(name, np.empty((*values.shape[:-1], len(X)), dtype))
            whole[..., rows] = np.asarray(values)[..., : rows.stop - rows.start]
    for answers in out.values():
        _refuse_nan(answers, *args, *(() if along is None else (along,)))
    return out


def over_cells(
    model: Model, lattice: Lattice, function: Callable[..., dict[str, Array]], *args: np.ndarray
) -> dict[str, np.ndarray]:
    """The same over the cells of a lattice, in order, a block of them at a time."""
    dtype = _dtype(model)
    extra = [jnp.asarray(a, dtype) for a in args]
    lattice = jax.tree.map(lambda values: np.asarray(values, dtype), lattice)
    size = block_of(lattice.shape, _CELLS_AT_ONCE)
    starts = (range(0, n, step) for n, step in zip(lattice.shape, size, strict=True))
    out: dict[str, np.ndarray] = {}
    for corner in product(*starts):
        here = tuple(
            slice(start, min(start + step, n))
            for start, step, n in zip(corner, size, lattice.shape, strict=True)
        )
        inside = tuple(slice(one.stop - one.start) for one in here)
        for name, values in function(model, _block(lattice, here, size), *extra).items():
            lead = values.shape[: -len(size)]
            whole = out.setdefault(name, np.empty((*lead, *lattice.shape), dtype))
            every: Any = (slice(None),) * len(lead)
            whole[every + here] = np.asarray(values)[every + inside]
    flat = {name: whole.reshape(*whole.shape[: -len(size)], -1) for name, whole in out.items()}
    for answers in flat.values():
        _refuse_nan(answers, *args)
    return flat


def _refuse_nan(answers: np.ndarray, *asked: np.ndarray) -> None:
    """An error if an answer is not a number where what was asked is; rows run along the last axis.

    Every answer about new inputs passes here: a NaN among them is never silent.
    """
    wrong = np.isnan(answers)
    if wrong.any():
        here = wrong.reshape(-1, wrong.shape[-1]).any(axis=0)
        for question in map(np.atleast_1d, asked):
            here &= ~np.isnan(question).reshape(-1, question.shape[-1]).any(axis=0)
        if here.any():
            raise FloatingPointError(
                f"The prediction at row {int(np.argmax(here))} is not a number. Are its inputs in "
                "the units of the fit?"
            )


def block_of(shape: Sequence[int], cells: int) -> tuple[int, ...]:
    """The shape of a block of at most so many cells, with the last axes whole where they fit."""
    size: tuple[int, ...] = ()
    for n in reversed(shape):
        step = min(n, max(1, cells))
        size, cells = (step, *size), cells // step
    return size


def _block(lattice: Lattice, here: tuple[slice, ...], size: tuple[int, ...]) -> Lattice:
    """These cells of a lattice, filled up to the size that the program is compiled for."""
    axes = tuple(
        padded(np.asarray(axis)[one], step)
        for axis, one, step in zip(lattice.axes, here, size, strict=True)
    )
    effort = lattice.exposure
    if effort is not None:
        effort = np.asarray(effort)[here]
        more = [(0, step - n) for step, n in zip(size, effort.shape, strict=True)]
        effort = np.pad(effort, more, mode="edge")
    return Lattice(axes, lattice.columns, effort, lattice.exposure_column)


@eqx.filter_jit
def moments_if_on(model: Model, at: Rows | Lattice) -> dict[str, Array]:
    """Mean and standard deviation of an observation where the gate of g is wide open."""
    y = model.likelihood.moments(*_wide_open(model, at))
    return {"mean": y.mean, "sd": jnp.sqrt(y.var)}


@eqx.filter_jit
def moments(model: Model, at: Rows | Lattice) -> dict[str, Array]:
    """Mean and standard deviation of a new observation."""
    y = model.likelihood.moments(*model.signal_and_marginals(at))
    return {"mean": y.mean, "sd": jnp.sqrt(y.var)}


@eqx.filter_jit
def latent(model: Model, at: Rows | Lattice) -> dict[str, Array]:
    """Mean and standard deviation of a classifier's latent g."""
    g = model.marginals(at)["g"]
    return {"mean": g.mean, "sd": jnp.sqrt(g.var)}


@eqx.filter_jit
def components(model: Model, at: Rows | Lattice) -> dict[str, Array]:
    """Gate, latent and signal of the zero-inflated GP, each with its standard deviation."""
    marginals = model.marginals(at)
    gate, latent = (factor.moments(marginals) for factor in model.signal.factors())
    signal = model.likelihood.clean_moments(model.signal, marginals)
    out = {}
    for name, part in (("gate", gate), ("latent", latent), ("signal", signal)):
        out[name], out[f"{name}_sd"] = part.mean, jnp.sqrt(part.var)
    return out


@eqx.filter_jit
def probability(model: Model, at: Rows | Lattice, low: Array, high: Array) -> dict[str, Array]:
    """P(low < y ≤ high) for a new observation."""
    y = _distribution(model, at)
    return {"p": y.cdf(high) - y.cdf(low)}


@eqx.filter_jit
def cdf(model: Model, at: Rows | Lattice, thresholds: Array) -> dict[str, Array]:
    """P(y ≤ t) for every line t of thresholds, each with an entry for every row."""
    y = _distribution(model, at)
    return {"p": jax.lax.map(y.cdf, thresholds)}


@eqx.filter_jit
def log_between(model: Model, at: Rows | Lattice, ends: Array) -> dict[str, Array]:
    """log P(low < y ≤ high), with low and high the two lines of `ends`."""
    return {"p": _distribution(model, at).log_between(ends[0], ends[1])}


@eqx.filter_jit
def quantile(model: Model, at: Rows | Lattice, p: Array) -> dict[str, Array]:
    """The value that a new observation stays below with probability p."""
    y = _distribution(model, at)
    return {"t": y.quantile(p)}


@eqx.filter_jit
def quantile_if_on(model: Model, at: Rows | Lattice, p: Array) -> dict[str, Array]:
    """The same where the gate of g is wide open."""
    assert isinstance(model.likelihood, Amounts)
    return {"t": model.likelihood.predictive(*_wide_open(model, at)).quantile(p)}


@eqx.filter_jit
def quantile_of_latent(model: Model, at: Rows | Lattice, p: Array) -> dict[str, Array]:
    """The same of the amount f behind the gate."""
    f = model.marginals(at)["f"]
    return {"t": f.mean + ndtri(p) * jnp.sqrt(f.var)}


@eqx.filter_jit
def quantile_of_gate(model: Model, at: Rows | Lattice, p: Array) -> dict[str, Array]:
    """The same of the gate Φ(g)."""
    g = model.marginals(at)["g"]
    return {"t": normal_cdf(g.mean + ndtri(p) * jnp.sqrt(g.var))}


def _wide_open(model: Model, at: Rows | Lattice) -> tuple[Signal, dict[str, Moments]]:
    """Signal and marginals as if g were far above zero."""
    signal, marginals = model.signal_and_marginals(at)
    g = marginals["g"]
    marginals["g"] = Moments(jnp.full_like(g.mean, _WIDE_OPEN), jnp.zeros_like(g.var))
    return signal, marginals


def _distribution(model: Model, at: Rows | Lattice) -> Predictive:
    """Of a new observation."""
    assert isinstance(model.likelihood, Amounts)
    return model.likelihood.predictive(*model.signal_and_marginals(at))


def elbo(model: Model, X: np.ndarray, y: np.ndarray, weight: np.ndarray) -> float:
    """The bound at rows, summed over chunks of them; rows run along the last axis of y."""
    total = -float(sum(latent.kl() for latent in model.latents.values()))
    return total + sum(float(_expected(model, batch)) for _, batch in _batches(model, X, y, weight))


def conditioned(
    model: Model, X: np.ndarray, y: np.ndarray, weight: np.ndarray, *, trained: bool
) -> Moments:
    """A network's signal [P, rows] given the outputs known at each row (weight above 0).

    At sites that were in training what is known there has shaped q already: then only the noise of
    the latents, local to the site, is left to learn about.
    """
    parts = [
        jax.tree.map(lambda v, n=rows.stop - rows.start: v[..., :n], _condition(model, b, trained))
        for rows, b in _batches(model, X, y, weight)
    ]
    found = jax.tree.map(lambda *v: np.concatenate(v, axis=-1), *parts)
    _refuse_nan(found.mean)
    _refuse_nan(found.var)
    return found


@eqx.filter_jit
def network(model: Model, at: Rows | Lattice) -> dict[str, Array]:
    """The parts of a network: latents [Q, rows], the others [Q, P, rows]."""
    marginals = model.marginals(at)
    weights, latents = network_parts(model.signal)
    gates = [part for part in weights.factors() if isinstance(part, Gate)]
    plain = marginals["W"].mean
    effective, f = weights.moments(marginals).mean, latents.moments(marginals).mean
    support = gates[0].moments(marginals).mean if gates else jnp.ones_like(plain)
    return {"latents": f, "weights": plain, "support": support, "effective": effective}


@eqx.filter_jit
def back_transformed(
    model: Model, at: Rows | Lattice, offset: Array, scale: Array
) -> dict[str, Array]:
    """Mean, standard deviation and median of exp(offset + scale · y), with y a new observation."""
    y = _distribution(model, at)
    assert isinstance(y, Mixture)
    amount = Exponential(Mixture(y.weight, offset + scale * y.mean, scale**2 * y.var))
    found, half = amount.moments(), jnp.asarray(0.5, y.mean.dtype)
    return {"mean": found.mean, "sd": jnp.sqrt(found.var), "median": amount.quantile(half)}


def draw(
    model: Model,
    X: np.ndarray,
    groups: tuple[tuple[int, ...], ...],
    n: int,
    key: Array,
    *,
    noise: bool,
) -> np.ndarray:
    """n draws [n, P, rows], each joint over all rows of X: of observations, or of the signal."""
    at, cells = _joint_inputs(X.astype(_dtype(model)), groups, model.exposure)
    # As many draws at once as memory allows; the size is fixed, so that one program serves all.
    numbers = prod(at.shape) * len(model.latents)
    size = min(n, max(1, _NUMBERS_AT_ONCE // numbers))
    blocks = []
    for start in range(0, n, size):
        drawn = np.asarray(_draw(model, at, jax.random.fold_in(key, start), size, noise))
        if cells is not None:
            drawn = drawn[(slice(None),) * (drawn.ndim - len(cells)) + cells]
        _refuse_nan(drawn)
        blocks.append(drawn)
    return np.concatenate(blocks)[:n]


@eqx.filter_jit
def _expected(model: Model, batch: Batch) -> Array:
    return model.likelihood.expected(model.signal, model.marginals(batch.at), batch)


@eqx.filter_jit
def _draw(model: Model, at: Rows | Lattice, key: Array, n: int, noise: bool) -> Array:
    keys = jax.random.split(key, len(model.latents) + 1)
    values = {
        name: latent.draw(k, at, n)
        for (name, latent), k in zip(model.untied().items(), keys[1:], strict=True)
    }
    if model.exposure is not None:
        sure = Moments(values["f"], jnp.zeros_like(values["f"]))
        values["f"] = model.likelihood.with_exposure(sure, at.exposures(model.exposure)).mean
    for i, (name, var) in enumerate(model.likelihood.local().items()):
        shape = (n, *var.shape, *at.shape)
        sd = jnp.sqrt(var.reshape(*var.shape, *(1,) * len(at.shape)))
        values[name] = sd * jax.random.normal(jax.random.fold_in(keys[0], i), shape, var.dtype)
    whole = model.likelihood.with_local(model.signal)
    if noise:
        return model.likelihood.observe(keys[0], whole, values)
    return model.likelihood.clean(whole, values)


@eqx.filter_jit
def _condition(model: Model, batch: Batch, trained: bool) -> Moments:
    marginals = model.marginals(batch.at)
    weights, latents = (part.moments(marginals) for part in network_parts(model.signal))
    likelihood = model.likelihood
    assert isinstance(likelihood, Gaussian)
    local = likelihood.local().get("e", jnp.zeros(latents.mean.shape[0]))
    var = local[:, None] + (0.0 if trained else latents.var)
    y, observed = jnp.asarray(batch.y), jnp.asarray(batch.weight > 0, latents.mean.dtype)
    prior = Moments(latents.mean, jnp.broadcast_to(var, latents.mean.shape))
    h = site_posterior(prior, weights, likelihood.noise[:, None], y, observed)
    return network_given(weights, *h)


def _batches(
    model: Model, X: np.ndarray, y: np.ndarray, weight: np.ndarray
) -> Iterable[tuple[slice, Batch]]:
    """Rows with their outputs, a padded chunk at a time, and the slice that each stands for."""
    columns = [X, np.reshape(y, (-1, len(X))).T, np.reshape(weight, (-1, len(X))).T]
    P = columns[1].shape[1]
    for rows, part in chunks(np.hstack(columns).astype(_dtype(model)), _ROWS_AT_ONCE):
        counted = np.arange(len(part)) < rows.stop - rows.start
        values, weights = part[:, -2 * P : -P].T, part[:, -P:].T * counted
        shape = (*y.shape[:-1], len(part))
        at = Rows(part[:, : -2 * P])
        yield rows, Batch(at, values.reshape(shape), weights.reshape(shape))


def _joint_inputs(
    X: np.ndarray, groups: tuple[tuple[int, ...], ...], exposure: int | None
) -> tuple[Rows | Lattice, tuple[np.ndarray, ...] | None]:
    """Inputs to draw jointly at: a lattice that holds all rows where there is one, or the rows."""
    pairs = [distinct(X[:, group]) for group in groups]
    axes = tuple(axis for axis, _ in pairs)
    sizes = [len(axis) for axis in axes]
    # Rows that fill little of their lattice are cheaper by themselves, while they can be drawn so.
    worth_it = prod(sizes) <= 4 * len(X) or len(X) > _MOST_JOINT_ROWS
    fits = max(sizes) <= _MOST_JOINT_ROWS and prod(sizes) <= _MOST_JOINT_CELLS
    cells = tuple(cell for _, cell in pairs)
    if len(groups) > 1 and worth_it and fits and exposure is None:
        return Lattice(axes, groups), cells
    if len(groups) > 1 and worth_it and fits and len(set(zip(*cells, strict=True))) == len(X):
        effort = np.ones(sizes, X.dtype)
        effort[cells] = X[:, exposure]
        return Lattice(axes, groups, effort, exposure), cells
    if len(X) <= _MOST_JOINT_ROWS:
        return Rows(X), None
    raise ValueError(
        f"{len(X)} rows cannot be drawn jointly: beyond {_MOST_JOINT_ROWS} the rows must lie on a "
        "lattice of column_groups. Draw fewer rows at a time, or a coarser grid."
    )


def _dtype(model: Model) -> Any:
    return np.asarray(next(iter(model.latents.values())).q_mean).dtype
