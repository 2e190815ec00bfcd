"""The probit link under a Gaussian: moments of Φ(g) and of log Φ(g).

Everything here follows its caller: any shape, any real dtype, traced or not, and no
configuration of its own. First derivatives are closed forms, never taken through a
quadrature rule that the value happens to use.
"""

from functools import wraps
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import erfc
from jax.typing import ArrayLike
from scipy.special import erfcx

__all__ = [
    "ProbitMoments",
    "gated_moments",
    "log_normal_cdf",
    "log_probit_mean",
    "normal_cdf",
    "normal_pdf",
    "probit_moments",
]

_SQRT2 = float(np.sqrt(2.0))
_SQRT_2PI = float(np.sqrt(2.0 * np.pi))
# e^{-_REACH/2} is below the rounding of a sum that starts at one: integrands are cut there.
_REACH = 72.0


class ProbitMoments(NamedTuple):
    """Mean and variance of Φ(g).

    Attributes
    ----------
    mean : array
        E[Φ(g)].
    var : array
        Var[Φ(g)].

    Examples
    --------
    >>> ProbitMoments(mean=0.5, var=0.1).mean
    0.5
    """

    mean: Array
    var: Array


def probit_moments(mean: ArrayLike, var: ArrayLike) -> ProbitMoments:
    """Return the mean and variance of Φ(g), the probability that a Gaussian g switches on.

    For g ~ N(mean, var), with z = mean/√(1+var) and a = 1/√(1+2var),

        E[Φ(g)]   = Φ(z)
        Var[Φ(g)] = 2 (T(z, 1) − T(z, a)) = 1/π ∫_a^1 exp(−z²(1+x²)/2) / (1+x²) dx

    The integral is computed, since the difference of Owen's T functions cancels.

    Parameters
    ----------
    mean, var : array-like
        Mean and variance of g, of shapes that broadcast.

    Returns
    -------
    ProbitMoments
        E[Φ(g)] and Var[Φ(g)].

    Examples
    --------
    >>> moments = probit_moments(0.0, 1.0)
    >>> float(moments.mean), round(float(moments.var), 4)
    (0.5, 0.0833)
    """
    return ProbitMoments(*_probit_moments(mean, var))


def gated_moments(
    f_mean: Array, f_var: Array, g_mean: Array, g_var: Array, cov: Array
) -> tuple[Array, Array]:
    """Return the mean and variance of Φ(g) f, for f and g that are jointly normal.

    With E and V the mean and variance of Φ(g), as functions of the mean μ and variance s of g, and
    c the covariance of f and g, Stein's lemma gives

        E[Φ(g) f]   = m E + c ∂_μE
        Var[Φ(g) f] = v (E² + V) + m² V + 2 m c (E ∂_μE + ∂_μV)
                      + c² (4 E ∂_sE + 2 ∂_sV − (∂_μE)²)

    for f of mean m and variance v. No term is a difference of two that nearly cancel.

    Parameters
    ----------
    f_mean, f_var : array
        Mean and variance of f.
    g_mean, g_var : array
        Mean and variance of g.
    cov : array
        Covariance of f and g.

    Returns
    -------
    mean, var : array
        Moments of Φ(g) f.

    Examples
    --------
    >>> mean, var = gated_moments(0.0, 1.0, 0.0, 1.0, 0.5)
    >>> round(float(mean), 4), round(float(var), 4)
    (0.141, 0.3364)
    """
    r = jnp.sqrt(1.0 + g_var)
    z, a = g_mean / r, 1.0 / jnp.sqrt(1.0 + 2.0 * g_var)
    mean, density = normal_cdf(z), normal_pdf(z)
    var, flat = _tail_integrals(z, g_var)
    mean_by_mu, mean_by_s = density / r, -0.5 * z * density / (1.0 + g_var)
    var_by_mu = -2.0 * z * flat * mean_by_mu
    edge = 2.0 * a**3 * density * normal_pdf(a * z) / (1.0 + a * a)
    var_by_s = z * z * density * flat / (1.0 + g_var) + edge
    linear = 2.0 * f_mean * cov * (mean * mean_by_mu + var_by_mu)
    square = cov**2 * (4.0 * mean * mean_by_s + 2.0 * var_by_s - mean_by_mu**2)
    product = f_var * (mean**2 + var) + f_mean**2 * var + linear + square
    return f_mean * mean + cov * mean_by_mu, product


def log_probit_mean(mean: ArrayLike, var: ArrayLike) -> Array:
    """Return E[log Φ(g)] for g ~ N(mean, var), which the bound of a probit classifier contains.

    The trapezoid rule over g computes it with errors below 1e-7 (1 + |E|) for var up to 1 and 1e-4
    up to 10. With h = φ/Φ its derivatives are E[h(g)] in the mean and −½ E[h(g) (g + h(g))] in
    the variance; second derivatives are not provided.

    Parameters
    ----------
    mean, var : array-like
        Mean and variance of g, of shapes that broadcast.

    Returns
    -------
    array
        E[log Φ(g)].

    Examples
    --------
    >>> round(float(log_probit_mean(0.0, 1.0)), 4)
    -1.0
    """
    return _log_probit_mean(mean, var)


def normal_pdf(x: Array) -> Array:
    """Return the standard normal density φ(x) = exp(−x²/2) / √(2π).

    Parameters
    ----------
    x : array
        Where to evaluate it.

    Returns
    -------
    array
        φ(x).

    Examples
    --------
    >>> float(normal_pdf(jnp.array(0.0)))
    0.3989
    """
    return jnp.exp(-0.5 * x * x) / _SQRT_2PI


@jax.custom_jvp
def normal_cdf(x: Array) -> Array:
    """Return the normal distribution Φ(x) = erfc(−x/√2) / 2, accurate in the left tail too.

    Parameters
    ----------
    x : array
        Where to evaluate it.

    Returns
    -------
    array
        Φ(x).

    Examples
    --------
    >>> float(normal_cdf(jnp.array(1.96)))
    0.975
    """
    return 0.5 * erfc(-x / _SQRT2)


@normal_cdf.defjvp
def _normal_cdf_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (dx,) = primals, tangents
    return normal_cdf(x), normal_pdf(x) * dx


@jax.custom_jvp
def log_normal_cdf(x: Array) -> Array:
    """Return log Φ(x), to ten digits, also where Φ(x) itself vanishes.

    Parameters
    ----------
    x : array
        Where to evaluate it.

    Returns
    -------
    array
        log Φ(x).

    Examples
    --------
    >>> float(log_normal_cdf(jnp.array(-40.0)))
    -804.6084
    """
    return _log_cdf_and_hazard(x)[0]


@log_normal_cdf.defjvp
def _log_normal_cdf_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (dx,) = primals, tangents
    log_cdf, hazard = _log_cdf_and_hazard(x)
    return log_cdf, hazard * dx


def _in_floating_point(function: Any) -> Any:
    """Broadcast two arguments in a common floating dtype; half precision works in float32."""

    @wraps(function)
    def wrapped(x: ArrayLike, y: ArrayLike) -> Any:
        x, y = jnp.asarray(x), jnp.asarray(y)
        dtype = jnp.result_type(x, y)
        if not jnp.issubdtype(dtype, jnp.floating):
            dtype = jnp.result_type(float)
        working = jnp.promote_types(dtype, jnp.float32)
        x, y = jnp.broadcast_arrays(x.astype(working), y.astype(working))
        return jax.tree.map(lambda out: out.astype(dtype), function(x, y))

    return wrapped


@_in_floating_point
def _probit_moments(mean: Array, var: Array) -> tuple[Array, Array]:
    z = mean / jnp.sqrt(1.0 + var)
    return normal_cdf(z), _tail_integrals(z, var)[0]


def _nodes(dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Gauss–Legendre nodes and weights on [0, 1]: enough for the dtype's last digits."""
    x, w = np.polynomial.legendre.leggauss(20 if jnp.finfo(dtype).bits > 32 else 12)
    return 0.5 * (1.0 + x), 0.5 * w


def _rule(z: Array, var: Array) -> tuple[Array, Array, np.ndarray, np.ndarray]:
    """[a, 1] as a + width·t, cut where exp(−z²(x²−a²)/2) no longer counts."""
    r = jnp.sqrt(1.0 + 2.0 * var)
    a = 1.0 / r
    reach = _REACH / jnp.maximum(z * z, 1.0)
    # 1 − a without cancellation; √(a²+reach) − a likewise.
    width = jnp.minimum(2.0 * var / (r * (1.0 + r)), reach / (a + jnp.sqrt(a * a + reach)))
    t, w = _nodes(z.dtype)
    return a, width, t, w


@jax.custom_jvp
def _tail_integrals(z: Array, var: Array) -> tuple[Array, Array]:
    """U = 1/π ∫_a^1 exp(−z²(1+x²)/2)/(1+x²) dx and I = ∫_a^1 φ(zx) dx, a = 1/√(1+2var)."""
    a, width, *rule = _rule(z, var)
    half = -0.5 * z * z
    by_fours = (4, -1, *(1 for _ in z.shape))
    nodes, weights = (jnp.asarray(v, z.dtype).reshape(by_fours) for v in rule)
    square = [(a + width * t) ** 2 for t in nodes]
    e = [w * jnp.exp(half * s) for w, s in zip(weights, square, strict=True)]  # both share these
    # Over a common denominator, for divisions are dear: Σ e/(1+x²) = above/below. It starts with
    # the first, not with 0/1: XLA would leave out vector instructions then, thrice as slow.
    above, below, flat = e[0], 1.0 + square[0], e[0]
    for more, s in zip(e[1:], square[1:], strict=True):
        above, below, flat = above * (1.0 + s) + more * below, below * (1.0 + s), flat + more
    # The two sums are one reduction: written apart, XLA keeps every exponential in memory for both.
    zero = jnp.zeros((), z.dtype)
    upper, flat = jax.lax.reduce(
        (above / below, flat), (zero, zero), lambda x, y: (x[0] + y[0], x[1] + y[1]), (0,)
    )
    upper, flat = jax.lax.optimization_barrier((upper, flat))
    return width * jnp.exp(half) * upper / np.pi, width * flat / _SQRT_2PI


@_tail_integrals.defjvp
def _tail_integrals_jvp(
    primals: tuple[Array, Array], tangents: tuple[Array, Array]
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    # ∂U/∂z = −2zφ(z) I         ∂U/∂var = a³ exp(−z²(1+a²)/2) / (π(1+a²))
    # ∂I/∂z = −z ∫ x²φ(zx) dx   ∂I/∂var = a³ φ(az)
    (z, var), (dz, dvar) = primals, tangents
    upper, flat = _tail_integrals(z, var)
    a = 1.0 / jnp.sqrt(1.0 + 2.0 * var)
    phi_az = normal_pdf(a * z)
    dupper_dvar = 2.0 * a**3 * normal_pdf(z) * phi_az / (1.0 + a * a)
    dupper = -2.0 * z * normal_pdf(z) * flat * dz + dupper_dvar * dvar
    dflat = -z * _square_integral(z, var) * dz + a**3 * phi_az * dvar
    return (upper, flat), (dupper, dflat)


def _square_integral(z: Array, var: Array) -> Array:
    """∫_a^1 x² φ(zx) dx."""
    a, width, nodes, weights = _rule(z, var)
    total = jnp.zeros_like(z)
    for t, w in zip(nodes.tolist(), weights.tolist(), strict=True):
        square = (a + width * t) ** 2
        total = total + w * square * jnp.exp(-0.5 * z * z * square)
    return width * total / _SQRT_2PI


def _log_cdf_and_hazard(x: Array) -> tuple[Array, Array]:
    """log Φ(x) and φ(x)/Φ(x), by way of Mills' ratio R(t) = Φ(−t)/φ(t) at t = |x|.

    Left of zero they are −x²/2 − log √(2π) + log R and 1/R, right of it log(1 − φR) and φ/(1 − φR).
    """
    t = jnp.abs(x)
    u = (t - _MILLS_CENTRE) / (t + _MILLS_CENTRE)
    # Estrin's scheme: pairs of terms, then pairs of pairs, so that no step waits for the last.
    terms: list[Any] = _MILLS.tolist()
    while len(terms) > 1:
        terms = [a + u * b for a, b in zip(terms[::2], terms[1::2], strict=True)]
        u = u * u
    mills = terms[0] / (1.0 + t)
    density = normal_pdf(x)
    left = x < 0
    inner = jnp.where(left, mills, 1.0 - density * mills)
    log_cdf = jnp.log(inner) - jnp.where(left, 0.5 * x * x + _LOG_SQRT_2PI, 0.0)
    return log_cdf, jnp.where(left, 1.0, density) / inner


_MILLS_CENTRE = 4.0
_LOG_SQRT_2PI = float(np.log(_SQRT_2PI))


def _mills_polynomial() -> np.ndarray:
    """(1 + t) R(t) as a polynomial in u = (t − c)/(t + c), in which it is smooth on [−1, 1]."""

    def scaled(u: np.ndarray) -> np.ndarray:
        t = _MILLS_CENTRE * (1.0 + u) / (1.0 - u)
        return (1.0 + t) * np.sqrt(0.5 * np.pi) * erfcx(t / _SQRT2)

    series = np.polynomial.Chebyshev.interpolate(scaled, 15)
    return series.convert(kind=np.polynomial.Polynomial).coef


_MILLS = _mills_polynomial()


@_in_floating_point
@jax.custom_jvp
def _log_probit_mean(mean: Array, var: Array) -> Array:
    return _log_probit_expectations(mean, var)[0]


@_log_probit_mean.__wrapped__.defjvp
def _log_probit_mean_jvp(
    primals: tuple[Array, Array], tangents: tuple[Array, Array]
) -> tuple[Array, Array]:
    (mean, var), (dmean, dvar) = primals, tangents
    value, first, second = _log_probit_expectations(mean, var)
    return value, first * dmean - 0.5 * second * dvar


@jax.custom_jvp
def _log_probit_expectations(mean: Array, var: Array) -> tuple[Array, Array, Array]:
    """E[log Φ(g)], E[h(g)] and E[h(g) (g + h(g))], the three from one pass over the nodes."""
    xi = np.linspace(-_LOG_REACH, _LOG_REACH, _LOG_NODES)
    weight = np.exp(-0.5 * xi**2)
    nodes, weights = (jnp.asarray(v, mean.dtype) for v in (xi, weight / weight.sum()))
    sd = jnp.sqrt(var)

    # A loop, not one long expression: XLA would compute every node once for each of the sums.
    def add(i: Array | int, sums: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        g, w = mean + sd * nodes[i], weights[i]
        log_cdf, h = _log_cdf_and_hazard(g)
        return sums[0] + w * log_cdf, sums[1] + w * h, sums[2] + w * h * (g + h)

    return jax.lax.fori_loop(0, _LOG_NODES, add, (jnp.zeros_like(mean),) * 3)


_LOG_REACH, _LOG_NODES = 5.5, 19


@_log_probit_expectations.defjvp
def _no_second_derivatives(primals: Any, tangents: Any) -> Any:
    raise NotImplementedError("log_probit_mean has first derivatives only.")
