"""The log likelihood of each observation, and observations like them, at draws of parameters."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import PRNGKeyArray

from zigp.gp.batch import Batch, Rows
from zigp.gp.moments import Moments
from zigp.models.draws import Values, drawn
from zigp.models.model import Model


@eqx.filter_jit
def replicated(
    model: Model,
    draws: Values,
    X: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    key: PRNGKeyArray,
) -> tuple[Array, Array]:
    """Return log likelihoods [draws, rows], as the chains take them, and new observations."""

    def at(given: tuple[Values, PRNGKeyArray]) -> tuple[Array, Array]:
        values, key = given
        here = drawn(model, values)
        signal, marginals = here.signal_and_marginals(Rows(X))

        def one(moments: dict[str, Moments], y: Array, weight: Array) -> Array:
            moments, y, weight = jax.tree.map(lambda part: part[None], (moments, y, weight))
            return here.likelihood.expected(signal, moments, Batch(Rows(X[:1]), y, weight))

        density = jax.vmap(one)(marginals, jnp.asarray(y), jnp.asarray(weight))
        keys = dict(zip(marginals, jax.random.split(key, len(marginals)), strict=True))
        functions = {
            name: (m.mean + jnp.sqrt(m.var) * jax.random.normal(keys[name], m.mean.shape, X.dtype))
            for name, m in marginals.items()
        }
        alone = {name: value[None] for name, value in functions.items()}
        again = here.likelihood.observe(jax.random.fold_in(key, 1), signal, alone)[0]
        return density, again

    keys = jax.random.split(key, len(next(iter(draws.values()))))
    return jax.lax.map(at, (dict(draws), keys))
