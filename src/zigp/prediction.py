"""What a trained model says at new inputs: compiled once, run over rows a chunk at a time.

Everything here is in the model's own units: centred inputs, scaled outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from zigp.batch import Batch, Lattice, Rows
from zigp.data import chunks
from zigp.models import Model

__all__ = ["components", "draw", "elbo", "moments", "over_rows", "probability", "quantile"]

_ROWS_AT_ONCE = 6_144  # with 1,000 inducing points a chunk takes about a quarter of a GB
_MOST_JOINT_ROWS = 6_000  # rows drawn jointly without a lattice to lean on
_MOST_JOINT_CELLS = 4_000_000


def over_rows(
    model: Model, X: np.ndarray, function: Callable[..., dict[str, Array]], *args: float
) -> dict[str, np.ndarray]:
    """A compiled function of model and rows, run over all rows of X in constant memory."""
    dtype = _dtype(model)
    extra = [jnp.asarray(a, dtype) for a in args]
    out: dict[str, np.ndarray] = {}
    for rows, part in chunks(X.astype(dtype, copy=False), _ROWS_AT_ONCE):
        for name, values in function(model, Rows(part), *extra).items():
            whole = out.setdefault(name, np.empty(len(X), dtype))
            whole[rows] = np.asarray(values)[: rows.stop - rows.start]
    return out


@eqx.filter_jit
def moments(model: Model, at: Rows) -> dict[str, Array]:
    """Mean and standard deviation of a new observation."""
    y = model.likelihood.moments(model.signal, model.marginals(at))
    return {"mean": y.mean, "sd": jnp.sqrt(y.var)}


@eqx.filter_jit
def components(model: Model, at: Rows) -> dict[str, Array]:
    """Gate, latent and signal of the zero-inflated GP, each with its standard deviation."""
    marginals = model.marginals(at)
    gate, latent = (factor.moments(marginals) for factor in model.signal.factors())
    signal = model.signal.moments(marginals)
    out = {}
    for name, part in (("gate", gate), ("latent", latent), ("signal", signal)):
        out[name], out[f"{name}_sd"] = part.mean, jnp.sqrt(part.var)
    return out


@eqx.filter_jit
def probability(model: Model, at: Rows, low: Array, high: Array) -> dict[str, Array]:
    """P(low < y ≤ high) for a new observation."""
    y = model.likelihood.predictive(model.signal, model.marginals(at))
    return {"p": y.cdf(high) - y.cdf(low)}


@eqx.filter_jit
def quantile(model: Model, at: Rows, p: Array) -> dict[str, Array]:
    """The value that a new observation stays below with probability p."""
    y = model.likelihood.predictive(model.signal, model.marginals(at))
    return {"t": y.quantile(p)}


def elbo(model: Model, X: np.ndarray, y: np.ndarray, weight: np.ndarray) -> float:
    """The bound at rows, summed over chunks of them."""
    total = -float(sum(latent.kl() for latent in model.latents.values()))
    data = np.column_stack([X, y, weight]).astype(_dtype(model))
    for rows, part in chunks(data, _ROWS_AT_ONCE):
        counted = np.arange(len(part)) < rows.stop - rows.start
        batch = Batch(Rows(part[:, :-2]), part[:, -2], np.where(counted, part[:, -1], 0))
        total += float(_expected(model, batch))
    return total


def draw(
    model: Model,
    X: np.ndarray,
    groups: tuple[tuple[int, ...], ...],
    n: int,
    key: Array,
    *,
    noise: bool,
) -> np.ndarray:
    """n draws [n, rows], each joint over all rows of X: of observations, or of the signal."""
    at, cells = _joint_inputs(X.astype(_dtype(model)), groups)
    drawn = np.asarray(_draw(model, at, key, n, noise))
    return drawn if cells is None else drawn[(slice(None), *cells)]  # type: ignore[arg-type]


@eqx.filter_jit
def _expected(model: Model, batch: Batch) -> Array:
    return model.likelihood.expected(model.signal, model.marginals(batch.at), batch)


@eqx.filter_jit
def _draw(model: Model, at: Rows | Lattice, key: Array, n: int, noise: bool) -> Array:
    keys = jax.random.split(key, len(model.latents) + 1)
    values = {
        name: latent.draw(k, at, n)
        for (name, latent), k in zip(model.complete().items(), keys[1:], strict=True)
    }
    signal = jax.vmap(model.signal.value)(values)
    return model.likelihood.observe(keys[0], signal) if noise else signal


def _joint_inputs(
    X: np.ndarray, groups: tuple[tuple[int, ...], ...]
) -> tuple[Rows | Lattice, tuple[np.ndarray, ...] | None]:
    """Inputs to draw jointly at: a lattice that holds all rows where there is one, or the rows."""
    pairs = [np.unique(X[:, group], axis=0, return_inverse=True) for group in groups]
    axes = tuple(axis for axis, _ in pairs)
    sizes = [len(axis) for axis in axes]
    if len(groups) > 1 and max(sizes) <= _MOST_JOINT_ROWS and np.prod(sizes) <= _MOST_JOINT_CELLS:
        return Lattice(axes, groups), tuple(cell.reshape(-1) for _, cell in pairs)
    if len(X) <= _MOST_JOINT_ROWS:
        return Rows(X), None
    raise ValueError(
        f"{len(X)} rows cannot be drawn jointly: beyond {_MOST_JOINT_ROWS} the rows must lie on a "
        "lattice of column_groups. Draw fewer rows at a time, or a coarser grid."
    )


def _dtype(model: Model) -> Any:
    return np.asarray(next(iter(model.latents.values())).q_mean).dtype
