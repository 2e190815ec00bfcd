"""Predictions of a trained model at new inputs, from one pass through its Gaussian processes.

Everything here is in the model's own units: centred inputs, scaled outputs. Rows run along the last
axis of every array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import partial
from itertools import product
from math import prod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from zigp.gp.batch import Batch, Lattice, Rows, distinct, padded_part, padded_size
from zigp.gp.moments import Moments
from zigp.models.averages import Averaged
from zigp.models.distributions import Exponential, Mixture
from zigp.models.draws import Values, drawn, some
from zigp.models.likelihoods import (
    Amounts,
    Gaussian,
    Likelihood,
    network_given,
    network_parts,
    site_posterior,
)
from zigp.models.model import Model
from zigp.models.signal import Gate, Marginals, Signal

_ROWS_AT_ONCE = 6_144  # with 1,000 inducing points a chunk takes about a quarter of a GB
_CELLS_AT_ONCE = 24_576  # of a lattice, where cells share work
_MOST_JOINT_ROWS = 6_000  # drawn jointly without a lattice
_MOST_JOINT_CELLS = 4_000_000
_OPEN = 40.0  # Φ of it is 1
_NUMBERS_AT_ONCE = 16_000_000  # in the draws of one block

Question = Callable[..., dict[str, Array]]


class Predictions:
    """The latents' marginals at some inputs, and what follows from them point by point.

    The Gaussian processes are evaluated once, when the object is made. Every question after that
    (moments, probabilities, quantiles) is a function of the marginals alone.
    """

    def __init__(self, model: Model, inputs: Rows | Lattice, draws: Values | None = None) -> None:
        """With draws of the model's parameters, answers are averages over them."""
        self.likelihood = model.likelihood if draws is None else _averaged(model, draws)
        self.signal = model.likelihood.with_local(model.signal)
        self.rows = prod(inputs.shape)
        self.dtype = _dtype(model)
        inputs = jax.tree.map(lambda values: np.asarray(values, self.dtype), inputs)
        self.marginals = _marginals(model.extended(inputs), inputs, draws)
        for values in jax.tree.leaves(self.marginals):
            _refuse_nan(values)

    def with_open_gate(self) -> Predictions:
        """Return the predictions as if g were far above zero everywhere."""
        like: Any = self.marginals["g"].mean
        g = Moments(np.full_like(like, _OPEN), np.zeros_like(like))
        f = Moments(self.marginals["f"].mean, self.marginals["f"].var)
        other = copy(self)
        other.marginals = {"f": f, "g": g}
        return other

    def latent_quantile(self, name: str, p: float) -> np.ndarray:
        """Return the value that a latent stays below with probability p, at every input."""
        latent = self.marginals[name]
        mean, var = (np.reshape(part, (-1, self.rows)) for part in (latent.mean, latent.var))
        weight = np.full(len(mean), 1.0 / len(mean))
        given = (jnp.asarray(part, self.dtype) for part in (weight, mean, var, p))
        return np.asarray(_mixture_quantile(*given))

    def ask(
        self, question: Question, *args: Any, along: Sequence[np.ndarray] = ()
    ) -> dict[str, np.ndarray]:
        """Evaluate a compiled function of likelihood, signal and marginals, a chunk at a time.

        Rows run along the last axis of the arrays in `along`; `args` are the same for all rows.
        """
        size = min(padded_size(self.rows), _ROWS_AT_ONCE)
        given = [np.asarray(a, self.dtype) for a in args]
        parts: list[dict[str, np.ndarray]] = []
        for (rows,) in _blocks((self.rows,), (size,)):
            here = partial(padded_part, axis=-1, rows=rows, size=size)
            marginals = jax.tree.map(here, self.marginals)
            more = [here(np.asarray(a, self.dtype)) for a in along]
            found = question(self.likelihood, self.signal, marginals, *given, *more)
            real = rows.stop - rows.start
            parts.append({name: np.asarray(v)[..., :real] for name, v in found.items()})
        out = {name: np.concatenate([part[name] for part in parts], -1) for name in parts[0]}
        for answers in out.values():
            _refuse_nan(answers, *args, *along)
        return out


def _marginals(model: Model, inputs: Rows | Lattice, draws: Values | None) -> dict[str, Moments]:
    """Return every latent's moments, the likelihood's own among them, with flattened inputs."""
    shape = inputs.shape
    if isinstance(inputs, Rows):
        size: tuple[int, ...] = (min(padded_size(shape[0]), _ROWS_AT_ONCE),)
    else:
        size = block_shape(shape, _CELLS_AT_ONCE)
    whole: Any = None
    for here in _blocks(shape, size):
        block = inputs
        for axis, (rows, step) in enumerate(zip(here, size, strict=True)):
            block = block.along(axis, partial(padded_part, rows=rows, size=step))
        found = jax.tree.map(np.asarray, _marginals_at(model, block, draws))
        if whole is None:
            whole = jax.tree.map(
                lambda leaf: np.empty((*leaf.shape[: -len(size)], *shape), leaf.dtype), found
            )
        inside = tuple(slice(one.stop - one.start) for one in here)
        for target, leaf in zip(jax.tree.leaves(whole), jax.tree.leaves(found), strict=True):
            target[(..., *here)] = leaf[(..., *inside)]
    return jax.tree.map(lambda leaf: leaf.reshape(*leaf.shape[: -len(size)], -1), whole)


@eqx.filter_jit
def _marginals_at(model: Model, at: Rows | Lattice, draws: Values | None) -> dict[str, Moments]:
    if draws is None:
        return model.signal_and_marginals(at)[1]
    return jax.lax.map(lambda one: drawn(model, one).signal_and_marginals(at)[1], dict(draws))


@eqx.filter_jit
def _averaged(model: Model, draws: Values) -> Averaged:
    return Averaged(jax.vmap(lambda one: drawn(model, one).likelihood)(dict(draws)))


@eqx.filter_jit
def _mixture_quantile(weight: Array, mean: Array, var: Array, p: Array) -> Array:
    return Mixture(weight, mean, var).quantile(p)


def block_shape(shape: Sequence[int], cells: int) -> tuple[int, ...]:
    """Return the shape of a block of at most so many cells, with the last axes whole if they fit.

    >>> block_shape((100, 20, 6), 500)
    (4, 20, 6)
    """
    size: tuple[int, ...] = ()
    for n in reversed(shape):
        step = min(n, max(1, cells))
        size, cells = (step, *size), cells // step
    return size


def _blocks(shape: Sequence[int], size: Sequence[int]) -> Iterator[tuple[slice, ...]]:
    """Yield the places of blocks of at most this size that cover a shape."""
    axes = [
        [slice(start, min(start + step, n)) for start in range(0, n, step)]
        for n, step in zip(shape, size, strict=True)
    ]
    yield from product(*axes)


def _refuse_nan(answers: np.ndarray, *given: Any) -> None:
    """Raise an error if an answer is NaN where nothing that was given is.

    Every answer about new inputs passes here, so that no NaN among them is silent.
    """
    wrong = np.isnan(answers)
    if wrong.any():
        here = wrong.reshape(-1, wrong.shape[-1]).any(axis=0)
        for values in map(np.atleast_1d, given):
            here &= ~np.isnan(values).reshape(-1, values.shape[-1]).any(axis=0)
        if here.any():
            raise FloatingPointError(
                f"The prediction at row {int(np.argmax(here))} is not a number. Check that the "
                "inputs are in the units of the fit."
            )


# -- questions: functions of likelihood, signal and marginals -------------------------------------


@eqx.filter_jit
def moments(likelihood: Likelihood, signal: Signal, marginals: Marginals) -> dict[str, Array]:
    """Mean and standard deviation of a new observation."""
    y = likelihood.moments(signal, marginals)
    return {"mean": y.mean, "sd": jnp.sqrt(y.var)}


@eqx.filter_jit
def components(likelihood: Likelihood, signal: Signal, marginals: Marginals) -> dict[str, Array]:
    """Gate, latent and signal of a zero-inflated GP, each with its standard deviation."""
    gate, latent = likelihood.factor_moments(signal, marginals)
    clean = likelihood.clean_moments(signal, marginals)
    out = {}
    for name, part in (("gate", gate), ("latent", latent), ("signal", clean)):
        out[name], out[f"{name}_sd"] = part.mean, jnp.sqrt(part.var)
    return out


@eqx.filter_jit
def cdf(
    likelihood: Amounts, signal: Signal, marginals: Marginals, thresholds: Array
) -> dict[str, Array]:
    """P(y ≤ t) for every line t of thresholds, which has an entry for every row."""
    return {"p": jax.lax.map(likelihood.predictive(signal, marginals).cdf, thresholds)}


@eqx.filter_jit
def log_between(
    likelihood: Amounts, signal: Signal, marginals: Marginals, low: Array, high: Array
) -> dict[str, Array]:
    """log P(low < y ≤ high), with bounds for every row."""
    return {"p": likelihood.predictive(signal, marginals).log_between(low, high)}


@eqx.filter_jit
def quantile(
    likelihood: Amounts, signal: Signal, marginals: Marginals, p: Array
) -> dict[str, Array]:
    """The value that a new observation stays below with probability p."""
    return {"t": likelihood.predictive(signal, marginals).quantile(p)}


@eqx.filter_jit
def back_transformed(
    likelihood: Amounts, signal: Signal, marginals: Marginals, offset: Array, scale: Array
) -> dict[str, Array]:
    """Mean, standard deviation and median of exp(offset + scale · y), y a new observation."""
    y = likelihood.predictive(signal, marginals)
    assert isinstance(y, Mixture)
    amount = Exponential(Mixture(y.weight, offset + scale * y.mean, scale**2 * y.var))
    found, half = amount.moments(), jnp.asarray(0.5, y.mean.dtype)
    return {"mean": found.mean, "sd": jnp.sqrt(found.var), "median": amount.quantile(half)}


@eqx.filter_jit
def network(likelihood: Likelihood, signal: Signal, marginals: Marginals) -> dict[str, Array]:
    """The parts of a network: latents [Q, rows], the others [Q, P, rows]."""
    weights, latents = network_parts(signal)
    gates = [part for part in weights.factors() if isinstance(part, Gate)]
    plain = marginals["W"].mean
    return {
        "latents": latents.moments(marginals).mean,
        "weights": plain,
        "support": gates[0].moments(marginals).mean if gates else jnp.ones_like(plain),
        "effective": weights.moments(marginals).mean,
    }


@eqx.filter_jit
def given_outputs(
    likelihood: Gaussian,
    signal: Signal,
    marginals: Marginals,
    trained: Array,
    y: Array,
    observed: Array,
) -> dict[str, Array]:
    """Moments of a network's signal [P, rows] given the outputs observed at each row.

    At rows of the training data (`trained` is 1) these outputs have shaped q already, so that only
    the latents' noise, local to the row, is left to learn about.
    """
    weights, latents = (part.moments(marginals) for part in network_parts(signal))
    noise = marginals["e"].var if "e" in marginals else jnp.zeros_like(latents.var)
    # The latents' variance includes that of their noise.
    prior = Moments(latents.mean, jnp.where(trained > 0, noise, latents.var))
    h = site_posterior(prior, weights, likelihood.noise[:, None], y, observed)
    found = network_given(weights, *h)
    return {"mean": found.mean, "var": found.var}


# -- the bound and joint draws --------------------------------------------------------------------


def elbo(model: Model, X: np.ndarray, y: np.ndarray, weight: np.ndarray) -> float:
    """Return the bound at rows, summed over chunks of them."""
    total, dtype = -float(model.kl()), _dtype(model)
    model = model.extended(Rows(X.astype(dtype)))
    data = Batch(Rows(X.astype(dtype)), y.astype(dtype), weight.astype(dtype))
    size = min(padded_size(len(X)), _ROWS_AT_ONCE)
    for (rows,) in _blocks((len(X),), (size,)):
        total += float(_expected(model, data.part(0, rows, size)))
    return total


@eqx.filter_jit
def _expected(model: Model, batch: Batch) -> Array:
    return model.likelihood.expected(model.signal, model.marginals(batch.at), batch)


def draw(
    model: Model,
    X: np.ndarray,
    groups: tuple[tuple[int, ...], ...],
    n: int,
    key: Array,
    *,
    noise: bool,
    draws: Values | None = None,
) -> np.ndarray:
    """Return n draws [n, P, rows] of observations, or of the signal, each joint over all rows.

    With draws of the model's parameters, each is from one of them.
    """
    at, cells = _joint_inputs(X.astype(_dtype(model)), groups, model.exposure)
    model = model.extended(at)
    # As many draws at once as memory allows; the size is fixed, so that one program serves all.
    numbers = prod(at.shape) * len(model.latents)
    size = min(n, max(1, _NUMBERS_AT_ONCE // numbers))
    blocks = []
    for start in range(0, n, size):
        here = jax.random.fold_in(key, start)
        if draws is None:
            values = np.asarray(_draw(model, at, here, size, noise))
        else:
            values = np.asarray(_draw_each(model, some(draws, here, size), at, here, noise))
        if cells is not None:
            values = values[(slice(None),) * (values.ndim - len(cells)) + cells]
        _refuse_nan(values)
        blocks.append(values)
    return np.concatenate(blocks)[:n]


@eqx.filter_jit
def _draw(model: Model, at: Rows | Lattice, key: Array, n: int, noise: bool) -> Array:
    keys = jax.random.split(key, len(model.latents) + 1)
    by_name = dict(zip(model.latents, keys[1:], strict=True))
    values: dict[str, Array] = {}
    for joint in model.joints():
        values |= joint.draw(by_name, at, n)
    if model.mixing is not None:
        values = model.mixing.values(values)
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
def _draw_each(model: Model, draws: Values, at: Rows | Lattice, key: Array, noise: bool) -> Array:
    keys = jax.random.split(key, len(next(iter(draws.values()))))

    def one(given: tuple[Values, Array]) -> Array:
        values, key = given
        return _draw(drawn(model, values), at, key, 1, noise)[0]

    return jax.lax.map(one, (dict(draws), keys))


def _joint_inputs(
    X: np.ndarray, groups: tuple[tuple[int, ...], ...], exposure: int | None
) -> tuple[Rows | Lattice, tuple[np.ndarray, ...] | None]:
    """Return where to draw jointly: a lattice and the cell of each row, or the rows themselves."""
    pairs = [distinct(X[:, group]) for group in groups]
    axes, cells = tuple(axis for axis, _ in pairs), tuple(cell for _, cell in pairs)
    sizes = [len(axis) for axis in axes]
    # Rows that fill little of their lattice are cheaper by themselves, while they can be drawn so.
    worth_it = prod(sizes) <= 4 * len(X) or len(X) > _MOST_JOINT_ROWS
    fits = max(sizes) <= _MOST_JOINT_ROWS and prod(sizes) <= _MOST_JOINT_CELLS
    if len(groups) > 1 and worth_it and fits:
        if exposure is None:
            return Lattice(axes, groups), cells
        if len(set(zip(*cells, strict=True))) == len(X):
            efforts = np.ones(sizes, X.dtype)
            efforts[cells] = X[:, exposure]
            return Lattice(axes, groups, efforts, exposure), cells
    if len(X) <= _MOST_JOINT_ROWS:
        return Rows(X), None
    raise ValueError(
        f"{len(X)} rows cannot be drawn jointly: beyond {_MOST_JOINT_ROWS} the rows must lie on a "
        "lattice of column_groups. Draw fewer rows at a time, or use a coarser grid."
    )


def _dtype(model: Model) -> Any:
    return np.asarray(next(iter(model.latents.values())).q_mean).dtype
