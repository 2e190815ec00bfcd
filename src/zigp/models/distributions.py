"""The distribution of a new observation at every input.

Given its conditioners (for the zero-inflated GP: g) a signal is normal, and so is an observation
with normal noise. Integrating over the conditioners gives a mixture of normals with the weights of
a quadrature rule. Positive amounts and counts are mixtures of other distributions, and each of them
can have an atom at zero.
"""

from abc import abstractmethod
from collections.abc import Callable
from math import prod

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import betainc, gammainc, gammaincc, ndtri
from jaxtyping import Float

from zigp.gp.moments import Moments
from zigp.math.quadrature import trapezoid
from zigp.math.special import log_normal_cdf, normal_cdf
from zigp.models.signal import Marginals, Signal

_NODES_ONE = 301
_NODES_MANY = 512
_NODES_LOG = 61
_NODES_ON = 121
_REACH = 8.0
_COARSE = 17, 4.5  # nodes and reach where many distributions are averaged
_BISECTIONS = 60
_ENDLESS = 1e9  # standard deviations, in place of infinity


class Predictive(eqx.Module):
    """A distribution of an observation at every input."""

    @abstractmethod
    def moments(self) -> Moments:
        """Return mean and variance."""

    @abstractmethod
    def cdf(self, t: Array) -> Array:
        """Return P(y ≤ t) at every input."""

    @abstractmethod
    def log_between(self, low: Array, high: Array) -> Array:
        """Return log P(low < y ≤ high) at every input."""

    @abstractmethod
    def quantile(self, p: Array) -> Array:
        """Return the smallest t with P(y ≤ t) ≥ p at every input."""


class Mixture(Predictive):
    """Σ_j weight_j N(mean_j, var_j), with the components along the first axis.

    Weights are the same at every input, or differ from input to input.
    """

    weight: Float[Array, "J ..."]
    mean: Float[Array, "J ..."]
    var: Float[Array, "J ..."]

    def moments(self) -> Moments:
        return _mixed(self.weight, self.mean, self.var)

    def cdf(self, t: Array) -> Array:
        return _weighted(self.weight, normal_cdf(self._standardised(t)))

    def log_between(self, low: Array, high: Array) -> Array:
        # Computed as a logarithm, since the probability itself can underflow.
        a, b = (jnp.clip(self._standardised(t), -_ENDLESS, _ENDLESS) for t in (low, high))
        # Φ(b) − Φ(a) = Φ(−a) − Φ(−b), of which the one in the left tail loses no digits.
        flip = a + b > 0
        a, b = jnp.where(flip, -b, a), jnp.where(flip, -a, b)
        whole, part = log_normal_cdf(b), log_normal_cdf(a)
        each = whole + jnp.log(-jnp.expm1(jnp.minimum(part - whole, 0.0)))
        weight = self.weight.reshape(*self.weight.shape, *(1,) * (each.ndim - self.weight.ndim))
        return jax.scipy.special.logsumexp(each, axis=0, b=weight)

    def quantile(self, p: Array) -> Array:
        # Between the smallest and the largest quantile of a component.
        own = self.mean + jnp.sqrt(self.var) * ndtri(p)
        return _bisected(self.cdf, p, jnp.min(own, axis=0), jnp.max(own, axis=0))

    def _standardised(self, t: Array) -> Array:
        return (t - self.mean) / jnp.sqrt(self.var)


class Exponential(Predictive):
    """The exponential of a mixture of normals: positive amounts."""

    log: Mixture

    def moments(self) -> Moments:
        mean = jnp.exp(self.log.mean + 0.5 * self.log.var)
        return _mixed(self.log.weight, mean, mean**2 * jnp.expm1(self.log.var))

    def cdf(self, t: Array) -> Array:
        return self.log.cdf(_log_or_lowest(t))

    def log_between(self, low: Array, high: Array) -> Array:
        return self.log.log_between(_log_or_lowest(low), _log_or_lowest(high))

    def quantile(self, p: Array) -> Array:
        return jnp.exp(self.log.quantile(p))


class Tails(Predictive):
    """A mixture whose components have both tails in closed form, along the first axis."""

    weight: Float[Array, "J ..."]

    @abstractmethod
    def tail(self, t: Array, *, upper: bool) -> Array:
        """Return P(y > t), or P(y ≤ t), of every component."""

    def cdf(self, t: Array) -> Array:
        return self._mixed_tail(t, upper=False)

    def log_between(self, low: Array, high: Array) -> Array:
        # F(high) − F(low), from the tail that keeps more digits.
        below, above = (self._mixed_tail(low, upper=upper) for upper in (False, True))
        within = self.cdf(high) - below, above - self._mixed_tail(high, upper=True)
        p = jnp.where(below < 0.5, *within)
        return jnp.log(jnp.maximum(p, jnp.finfo(p.dtype).tiny))

    def _mixed_tail(self, t: Array, *, upper: bool) -> Array:
        return _weighted(self.weight, self.tail(t, upper=upper))


class Gammas(Tails):
    """Σ_j weight_j Gamma(shape, rate_j), with the components along the first axis."""

    shape: Float[Array, ""]
    rate: Float[Array, "J ..."]

    def moments(self) -> Moments:
        return _mixed(self.weight, self.shape / self.rate, self.shape / self.rate**2)

    def tail(self, t: Array, *, upper: bool) -> Array:
        scaled = self.rate * jnp.clip(t, 0.0, jnp.finfo(self.rate.dtype).max ** 0.25)
        shape = jnp.broadcast_to(self.shape, scaled.shape)
        return (gammaincc if upper else gammainc)(shape, scaled)

    def quantile(self, p: Array) -> Array:
        reach = self.shape + 40.0 + 10.0 * jnp.sqrt(40.0 * self.shape)
        high = jnp.max(reach / self.rate, axis=0)
        return _bisected(self.cdf, p, jnp.zeros_like(high), high)


class Counts(Tails):
    """Σ_j weight_j NB(mean_j, dispersion): counts, Poisson for infinite dispersion.

    Var = mean + mean²/dispersion.
    """

    mean: Float[Array, "J ..."]
    dispersion: Float[Array, ""] | None  # None: Poisson

    def moments(self) -> Moments:
        extra = 0.0 if self.dispersion is None else self.mean**2 / self.dispersion
        return _mixed(self.weight, self.mean, self.mean + extra)

    def tail(self, t: Array, *, upper: bool) -> Array:
        k = jnp.floor(jnp.clip(t, -1.0, 1e12))
        above = jnp.broadcast_to(jnp.maximum(k, 0.0) + 1.0, self.mean.shape)
        if self.dispersion is None:
            each = (gammainc if upper else gammaincc)(above, self.mean)
        else:
            r = jnp.broadcast_to(self.dispersion, above.shape)
            p = r / (r + self.mean)
            each = betainc(above, r, 1.0 - p) if upper else betainc(r, above, p)
        return jnp.where(k < 0, 1.0 if upper else 0.0, each)

    def quantile(self, p: Array) -> Array:
        m = self.moments()
        high = m.mean + jnp.sqrt(m.var) / jnp.sqrt(1.0 - p) + 1.0  # Chebyshev's inequality
        t = _bisected(self.cdf, p, -jnp.ones_like(high), high)
        return jnp.ceil(t - 1e-6)


class Inflated(Predictive):
    """Zero with probability 1 − on, otherwise a non-negative amount."""

    on: Array
    amount: Predictive

    def moments(self) -> Moments:
        a = self.amount.moments()
        mean = self.on * a.mean
        return Moments(mean, self.on * (a.var + (1.0 - self.on) * a.mean**2))

    def cdf(self, t: Array) -> Array:
        return jnp.where(t >= 0, 1.0 - self.on + self.on * self.amount.cdf(t), 0.0)

    def log_between(self, low: Array, high: Array) -> Array:
        atom = jnp.where((low < 0) & (high >= 0), jnp.log1p(-self.on), -jnp.inf)
        return jnp.logaddexp(atom, jnp.log(self.on) + self.amount.log_between(low, high))

    def quantile(self, p: Array) -> Array:
        beyond = (p - (1.0 - self.on)) / self.on
        inside = jnp.clip(beyond, 1e-12, 1.0 - 1e-12)
        return jnp.where(beyond > 0, self.amount.quantile(inside), 0.0)


def mixture(
    signal: Signal,
    marginals: Marginals,
    noise: Callable[[Callable[[Signal], Array]], Array],
    *,
    coarse: bool = False,
) -> Mixture:
    """Return the distribution of an observation at every input and output, a mixture of normals.

    `noise` returns the variance of the noise given the conditioners. Its argument is a function
    that returns the value of any part of the signal that the conditioners determine, such as a
    gate. Only marginal distributions are returned, so one set of nodes serves all outputs.
    """
    parts = signal.conditioners()
    moments = signal.moments(marginals)
    shapes = []
    for part in parts:
        sizes = zip(part.axes, part.moments(marginals).mean.shape, strict=False)
        inputs = moments.mean.ndim - len(signal.axes)
        shapes.append([1 if a in signal.axes else n for a, n in sizes] + [1] * inputs)
    xi, weight = _standard_normal_rule(sum(prod(shape) for shape in shapes), coarse=coarse)
    split = np.split(xi, np.cumsum([prod(shape) for shape in shapes])[:-1], axis=1)
    nodes = [
        jnp.asarray(x.reshape(-1, *shape), moments.mean.dtype)
        for x, shape in zip(split, shapes, strict=False)
    ]

    def given_nodes(at: list[Array]) -> Moments:
        known = dict(zip(parts, at, strict=True))
        given = signal.given(marginals, known)
        added = noise(lambda part: part.given(marginals, known, fixed=True).mean)
        return Moments(given.mean, given.var + added)

    given = jax.vmap(given_nodes, axis_size=len(weight))(nodes)
    return Mixture(jnp.asarray(weight, moments.mean.dtype), given.mean, given.var)


def latent_if_on(f: Moments, g: Moments, cov: Array | None) -> Mixture:
    """Return the distribution of f where the signal is on, which has the density ∝ p(f) P(on | f).

    If f depends on g it is a mixture over values of g, with weights ∝ Φ(g).
    """
    if cov is None:
        return Mixture(jnp.ones(1), f.mean[None], f.var[None])
    nodes, weight = _nodes_along(g.mean, _NODES_ON, _REACH)
    sd = jnp.sqrt(g.var)
    slope = cov / jnp.maximum(sd, jnp.finfo(sd.dtype).tiny)
    open_ = weight * normal_cdf(g.mean + sd * nodes)
    var = jnp.maximum(f.var - slope**2, 0.0)
    mean = f.mean + slope * nodes
    return Mixture(open_ / jnp.sum(open_, 0), mean, jnp.broadcast_to(var, mean.shape))


def log_latent_nodes(
    f: Moments, g: Moments, cov: Array | None, *, coarse: bool = False
) -> tuple[Array, Array]:
    """Return weights [J, …] and values [J, inputs] of exp(f) where the signal is on.

    If f depends on g, weights contain P(on | f) = Φ((m_g + (f − m_f) c/v_f) / √(1 + v_g − c²/v_f)).
    """
    nodes, weight = _nodes_along(f.mean, *(_COARSE if coarse else (_NODES_LOG, _REACH)))
    sd = jnp.sqrt(f.var)
    values = jnp.exp(f.mean + sd * nodes)
    if cov is None:
        return weight.reshape(-1), values
    slope = cov / jnp.maximum(sd, jnp.finfo(sd.dtype).tiny)
    rest = jnp.maximum(g.var - slope**2, 0.0)
    open_ = weight * normal_cdf((g.mean + slope * nodes) / jnp.sqrt(1.0 + rest))
    return open_ / jnp.sum(open_, 0), values


def _nodes_along(like: Array, count: int, reach: float) -> tuple[Array, Array]:
    """Return nodes and weights of the standard normal distribution in front of an array's axes."""
    ahead = (-1, *(1,) * like.ndim)
    nodes, weight = (jnp.asarray(v, like.dtype).reshape(ahead) for v in trapezoid(count, reach))
    return nodes, weight


def _standard_normal_rule(dimensions: int, *, coarse: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes [J, dimensions] and weights [J] for expectations under N(0, I).

    They are those of the trapezoid rule in one dimension, and in more dimensions those of a
    scrambled Sobol sequence with a fixed seed.
    """
    if dimensions == 0:
        return np.zeros((1, 0)), np.ones(1)
    if dimensions == 1:
        xi, weight = trapezoid(*(_COARSE if coarse else (_NODES_ONE, _REACH)))
        return xi[:, None], weight

    from scipy.stats import norm, qmc

    uniform = qmc.Sobol(dimensions, scramble=True, rng=0).random(_NODES_MANY)
    return norm.ppf(uniform), np.full(_NODES_MANY, 1.0 / _NODES_MANY)


def _mixed(weight: Array, means: Array, variances: Array) -> Moments:
    """Return mean and variance of a mixture from those of its components."""
    mean = _weighted(weight, means)
    return Moments(mean, _weighted(weight, variances + (means - mean) ** 2))


def _weighted(weight: Array, values: Array) -> Array:
    """Return the average over the first axis, with weights that may differ from input to input."""
    if weight.ndim == 1:
        return jnp.tensordot(weight, values, axes=1)
    return jnp.sum(weight * values, axis=0)


def _bisected(cdf: Callable[[Array], Array], p: Array, low: Array, high: Array) -> Array:
    """Return the point between two bounds at which a distribution function reaches p."""

    def halve(_: Array | int, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bracket
        middle = 0.5 * (low + high)
        above = cdf(middle) >= p
        return jnp.where(above, low, middle), jnp.where(above, middle, high)

    low, high = jax.lax.fori_loop(0, _BISECTIONS, halve, (low, high))
    return 0.5 * (low + high)


def _log_or_lowest(t: Array) -> Array:
    """Return log t, −∞ where t is not positive."""
    return jnp.where(t > 0, jnp.log(jnp.where(t > 0, t, 1.0)), -jnp.inf)
