"""Labels."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import PRNGKeyArray

from zigp.gp.batch import Batch
from zigp.gp.moments import Moments
from zigp.math.special import log_probit_mean
from zigp.models.likelihoods.base import Likelihood
from zigp.models.signal import Gate, Marginals, Signal


class Bernoulli(Likelihood):
    """y = 1 with probability Φ(g), otherwise 0; the signal is the gate Φ(g).

    E[log p(y)] = E[log Φ(g)] for y = 1, E[log Φ(−g)] for y = 0
    """

    def expected(self, signal: Signal, marginals: Marginals, batch: Batch) -> Array:
        assert isinstance(signal, Gate)
        g = signal.of.moments(marginals)
        sign = jnp.where(batch.y > 0.5, 1.0, -1.0)
        return jnp.sum(batch.weight * log_probit_mean(sign * g.mean, g.var))

    def moments(self, signal: Signal, marginals: Marginals) -> Moments:
        p = signal.moments(marginals).mean
        return Moments(p, p * (1.0 - p))

    def observe(self, key: PRNGKeyArray, signal: Signal, values: Mapping[str, Array]) -> Array:
        p = jax.vmap(signal.value)(values)
        return (jax.random.uniform(key, p.shape, p.dtype) < p).astype(p.dtype)
