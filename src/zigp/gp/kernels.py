"""Covariance functions: how alike a function's values are at two inputs.

Kernels here are correlations where they can be: the prior variance of a function belongs to
its latent (`zigp.gp.latent.LatentGP.variance`). Parameters left unset are filled from the data
when a model is fitted. Lengths are in the units of the input columns; with
`metric="chordal"` the two columns are latitude and longitude in degrees and lengths are km.

Combine with `+` and `*`, weigh with a number (`0.5 * Periodic(24)`), restrict to some columns
with `.on(0, 1)`. A product over groups of columns is `Matern32().on(0, 1) * Matern12().on(2)`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import reduce
from operator import add, mul

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float

__all__ = [
    "Categorical",
    "Columns",
    "Kernel",
    "Linear",
    "Matern12",
    "Matern32",
    "Matern52",
    "Periodic",
    "Product",
    "Scaled",
    "SquaredExponential",
    "Stationary",
    "Sum",
]

Values = float | int | Sequence[float] | np.ndarray | Array  # what a user may give
Parameter = Array | np.ndarray

_FEW_COLUMNS = 8
EARTH_RADIUS_KM = 6371.0088  # mean radius of the International Union of Geodesy and Geophysics


class Kernel(eqx.Module):
    """A positive semi-definite function of two inputs.

    >>> bool(isinstance(Matern32() + 0.5 * Periodic(24), Kernel))
    True
    """

    @abstractmethod
    def __call__(self, X: Float[Array, "N D"], Z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        """The matrix of k(x, z)."""

    @abstractmethod
    def diag(self, X: Float[Array, "N D"]) -> Float[Array, " N"]:
        """k(x, x) for each row."""

    def filled(self, X: np.ndarray, reach: float) -> Kernel:
        """This kernel with unset parameters taken from the inputs.

        `reach` is the first guess of a length-scale, in standard deviations of a column.
        """
        return self

    def on(self, *columns: int) -> Columns:
        """This kernel, looking only at the given columns.

        >>> (Matern32().on(0, 1) * Matern12().on(2)).factors[0].columns
        (0, 1)
        """
        if not columns:
            raise ValueError("on() needs at least one column: kernel.on(0) or kernel.on(0, 1).")
        return Columns(self, columns)

    def __add__(self, other: Kernel) -> Sum:
        return Sum((self, other))

    def __mul__(self, other: Kernel | float | int) -> Kernel:
        return Product((self, other)) if isinstance(other, Kernel) else Scaled(self, other)

    __rmul__ = __mul__


class Stationary(Kernel):
    """A kernel of scaled distance: one length-scale per column (ARD), or one for all.

    >>> isinstance(Matern32([1.0, 2.0]), Stationary)  # a length-scale for each of two columns
    True
    """

    log_lengthscale: Parameter | None  # in the unit below, which is not learned
    unit: Parameter
    metric: str = eqx.field(static=True)

    def __init__(
        self,
        lengthscale: Values | None = None,
        *,
        metric: str = "euclidean",
    ):
        if metric not in ("euclidean", "chordal"):
            raise ValueError(f"metric must be 'euclidean' or 'chordal', not {metric!r}.")
        if metric == "chordal" and lengthscale is not None and np.ndim(lengthscale) > 0:
            raise ValueError("A chordal kernel has one lengthscale, in km: give a single number.")
        self.log_lengthscale = _log(lengthscale, "lengthscale")
        self.unit = np.ones(())
        self.metric = metric

    @property
    def relative_lengthscale(self) -> Array:
        """The length-scale in standard deviations of the input columns."""
        return jnp.exp(jnp.asarray(self.log_lengthscale))

    @property
    def lengthscale(self) -> Array:
        return jax.lax.stop_gradient(jnp.asarray(self.unit)) * self.relative_lengthscale

    def with_metric(self, metric: str) -> Stationary:
        """The same kernel with another distance."""
        given = None if self.log_lengthscale is None else np.exp(np.asarray(self.log_lengthscale))
        return type(self)(given, metric=metric)

    @abstractmethod
    def correlation(self, r2: Array) -> Array:
        """The kernel as a function of squared scaled distance."""

    def __call__(self, X: Array, Z: Array) -> Array:
        if self.metric == "chordal":
            X, Z = _on_sphere(X), _on_sphere(Z)
        # The barrier keeps a compiler from rounding but one of two equal inputs as it subtracts
        # them: in float32, where length-scales collapse, k(x, x) came out as 0.
        scaled = jax.lax.optimization_barrier((X / self.lengthscale, Z / self.lengthscale))
        return self.correlation(_squared_distance(*scaled))

    def diag(self, X: Array) -> Array:
        return jnp.ones(X.shape[0], X.dtype)

    def filled(self, X: np.ndarray, reach: float) -> Kernel:
        if self.metric == "chordal" and X.shape[1] != 2:
            raise ValueError(
                f"A chordal kernel needs exactly two columns, latitude and longitude; it was "
                f"given {X.shape[1]}. Name them with latlon=, or use .on(lat, lon)."
            )
        if self.metric == "chordal":
            # A patch of a sphere varies in two directions, wherever it lies.
            km = np.sqrt(np.var(np.asarray(_on_sphere(jnp.asarray(X))), axis=0).sum() / 2.0)
            unit = np.asarray(km if km > 0 else 1.0)
        else:
            unit = _spread(X)
        if self.log_lengthscale is None:
            log_lengthscale = np.full(unit.shape, np.log(reach))
        else:
            _check_columns(self.log_lengthscale, X, "lengthscale")
            if np.ndim(self.log_lengthscale) == 0:
                unit = np.exp(np.mean(np.log(unit)))
            log_lengthscale = np.asarray(self.log_lengthscale - np.log(unit / self.unit))
        return eqx.tree_at(
            lambda k: (k.log_lengthscale, k.unit),
            self,
            (log_lengthscale, np.asarray(unit)),
            is_leaf=lambda leaf: leaf is None,
        )


class SquaredExponential(Stationary):
    """Very smooth functions: k = exp(−r²/2), r² = Σ_d (x_d − z_d)²/ℓ_d². The paper's kernel.

    >>> x = jnp.array([[0.0], [1.0]])
    >>> float(SquaredExponential(1.0)(x, x)[0, 1])
    0.607
    """

    def correlation(self, r2: Array) -> Array:
        return jnp.exp(-0.5 * r2)


class Matern12(Stationary):
    """Rough functions, continuous only: k = exp(−r).

    >>> x = jnp.array([[0.0], [1.0]])
    >>> float(Matern12(1.0)(x, x)[0, 1])
    0.368
    """

    def correlation(self, r2: Array) -> Array:
        return jnp.exp(-_root(r2))


class Matern32(Stationary):
    """Functions with one derivative: k = (1 + √3 r) exp(−√3 r).

    >>> x = jnp.array([[0.0], [1.0]])
    >>> float(Matern32(1.0)(x, x)[0, 1])
    0.483
    """

    def correlation(self, r2: Array) -> Array:
        s = 3.0**0.5 * _root(r2)
        return (1.0 + s) * jnp.exp(-s)


class Matern52(Stationary):
    """Functions with two derivatives: k = (1 + √5 r + 5r²/3) exp(−√5 r).

    >>> x = jnp.array([[0.0], [1.0]])
    >>> float(Matern52(1.0)(x, x)[0, 1])
    0.524
    """

    def correlation(self, r2: Array) -> Array:
        s = 5.0**0.5 * _root(r2)
        return (1.0 + s + 5.0 * r2 / 3.0) * jnp.exp(-s)


class Periodic(Kernel):
    """Functions that repeat: k = exp(−2 Σ_d sin²(π(x_d − z_d)/period) / ℓ_d²).

    The period is given, not learned. The length-scale has no unit: at 1, values half a period apart
    have correlation exp(−2).

    >>> hours = jnp.array([[0.0], [24.0]])
    >>> float(Periodic(24)(hours, hours)[0, 1])
    1.0
    """

    log_lengthscale: Parameter | None
    period: float = eqx.field(static=True)

    def __init__(self, period: float | int, lengthscale: Values = 1.0):
        if not (np.isfinite(period) and period > 0):
            raise ValueError(f"period must be a positive number, not {period!r}.")
        self.period = float(period)
        self.log_lengthscale = _log(lengthscale, "lengthscale")

    @property
    def lengthscale(self) -> Array:
        return jnp.exp(jnp.asarray(self.log_lengthscale))

    def filled(self, X: np.ndarray, reach: float) -> Kernel:
        _check_columns(np.asarray(self.log_lengthscale), X, "lengthscale")
        return self

    def __call__(self, X: Array, Z: Array) -> Array:
        s = jnp.sin(np.pi * (X[:, None, :] - Z[None, :, :]) / self.period) / self.lengthscale
        return jnp.exp(-2.0 * jnp.sum(s * s, axis=-1))

    def diag(self, X: Array) -> Array:
        return jnp.ones(X.shape[0], X.dtype)


class Linear(Kernel):
    """Straight lines through the centre of the data: k = Σ_d x_d z_d / s_d².

    >>> x = jnp.array([[1.0], [2.0]])
    >>> float(Linear(1.0)(x, x)[0, 1])
    2.0
    """

    log_scale: Parameter | None

    def __init__(self, scale: Values | None = None):
        self.log_scale = _log(scale, "scale")

    @property
    def scale(self) -> Array:
        return jnp.exp(jnp.asarray(self.log_scale))

    def __call__(self, X: Array, Z: Array) -> Array:
        return (X / self.scale) @ (Z / self.scale).T

    def diag(self, X: Array) -> Array:
        return jnp.sum((X / self.scale) ** 2, axis=-1)

    def filled(self, X: np.ndarray, reach: float) -> Kernel:
        if self.log_scale is not None:
            _check_columns(self.log_scale, X, "scale")
            return self
        return eqx.tree_at(
            lambda k: k.log_scale, self, np.log(_spread(X)), is_leaf=lambda leaf: leaf is None
        )


class Categorical(Kernel):
    """Levels that are alike to a learned degree: k = 1 if x = z, else ρ with 0 < ρ < 1.

    With several columns k is the product over them. Levels are numbers; those closer than a
    half are the same level.

    >>> gear = jnp.array([[0.0], [1.0]])
    >>> float(Categorical(0.3)(gear, gear)[0, 1])
    0.3
    """

    logit_similarity: Parameter

    def __init__(self, similarity: Values = 0.5):
        rho = np.asarray(similarity, float)
        if not np.all((rho > 0) & (rho < 1)):
            raise ValueError(f"similarity must lie strictly between 0 and 1, not {similarity!r}.")
        self.logit_similarity = np.log(rho) - np.log1p(-rho)

    @property
    def similarity(self) -> Array:
        return jax.nn.sigmoid(jnp.asarray(self.logit_similarity))

    def __call__(self, X: Array, Z: Array) -> Array:
        same = jnp.abs(X[:, None, :] - Z[None, :, :]) < 0.5
        return jnp.prod(jnp.where(same, 1.0, self.similarity.astype(X.dtype)), axis=-1)

    def diag(self, X: Array) -> Array:
        return jnp.ones(X.shape[0], X.dtype)


class Columns(Kernel):
    """A kernel that looks only at some of the columns.

    >>> Columns(Matern32(), (0, 1)).columns == Matern32().on(0, 1).columns
    True
    """

    kernel: Kernel
    columns: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, X: Array, Z: Array) -> Array:
        return self.kernel(X[:, self.columns], Z[:, self.columns])

    def diag(self, X: Array) -> Array:
        return self.kernel.diag(X[:, self.columns])

    def filled(self, X: np.ndarray, reach: float) -> Kernel:
        if max(self.columns) >= X.shape[1]:
            raise ValueError(
                f"A kernel looks at column {max(self.columns)} of its inputs, which have only "
                f"{X.shape[1]}: .on() counts within the kernel's own group of columns, from 0."
            )
        return Columns(self.kernel.filled(X[:, self.columns], reach), self.columns)


class Scaled(Kernel):
    """A kernel times a learned positive number: v · k.

    >>> float((0.5 * Matern32()).variance)
    0.5
    """

    kernel: Kernel
    log_variance: Parameter | None

    def __init__(self, kernel: Kernel, variance: Values = 1.0):
        self.kernel = kernel
        self.log_variance = _log(variance, "variance")

    @property
    def variance(self) -> Array:
        return jnp.exp(jnp.asarray(self.log_variance))

    def __call__(self, X: Array, Z: Array) -> Array:
        return self.variance * self.kernel(X, Z)

    def diag(self, X: Array) -> Array:
        return self.variance * self.kernel.diag(X)

    def filled(self, X: np.ndarray, reach: float) -> Kernel:
        return eqx.tree_at(lambda k: k.kernel, self, self.kernel.filled(X, reach))


class Sum(Kernel):
    """A sum of independent functions: k = Σ_i k_i.

    >>> len((Matern32() + Linear()).terms)
    2
    """

    terms: tuple[Kernel, ...]

    def __call__(self, X: Array, Z: Array) -> Array:
        return reduce(add, (k(X, Z) for k in self.terms))

    def diag(self, X: Array) -> Array:
        return reduce(add, (k.diag(X) for k in self.terms))

    def filled(self, X: np.ndarray, reach: float) -> Kernel:
        return Sum(tuple(k.filled(X, reach) for k in self.terms))


class Product(Kernel):
    """Inputs are alike only where every factor says so: k = Π_i k_i.

    >>> len((Matern32().on(0) * Matern12().on(1)).factors)
    2
    """

    factors: tuple[Kernel, ...]

    def __call__(self, X: Array, Z: Array) -> Array:
        return reduce(mul, (k(X, Z) for k in self.factors))

    def diag(self, X: Array) -> Array:
        return reduce(mul, (k.diag(X) for k in self.factors))

    def filled(self, X: np.ndarray, reach: float) -> Kernel:
        return Product(tuple(k.filled(X, reach) for k in self.factors))


def _log(value: Values | None, name: str) -> np.ndarray | None:
    """The logarithm of a positive parameter, or None where it is still to be found."""
    if value is None:
        return None
    array = np.asarray(value, float)
    if array.size == 0 or not np.all(np.isfinite(array) & (array > 0)):
        raise ValueError(f"{name} must be positive, not {value!r}.")
    return np.asarray(np.log(array))


def _check_columns(value: Parameter, X: np.ndarray, name: str) -> None:
    if np.ndim(value) > 0 and np.shape(value) != (X.shape[1],):
        raise ValueError(
            f"A kernel has {np.size(value)} values of {name} for {X.shape[1]} input columns: "
            f"give one number, or one per column."
        )


def _spread(X: np.ndarray) -> np.ndarray:
    """The standard deviation of each column; 1 where a column does not vary."""
    spread = np.std(np.asarray(X, float), axis=0)
    return np.where(spread > 0, spread, 1.0)


def _on_sphere(X: Array) -> Array:
    """Latitude and longitude in degrees as a point in space, in km from the Earth's centre."""
    lat, lon = jnp.deg2rad(X[:, 0]), jnp.deg2rad(X[:, 1])
    unit = (jnp.cos(lat) * jnp.cos(lon), jnp.cos(lat) * jnp.sin(lon), jnp.sin(lat))
    return EARTH_RADIUS_KM * jnp.stack(unit, axis=-1)


def _squared_distance(X: Array, Z: Array) -> Array:
    # Differences first: |x|² + |z|² − 2xz would cancel for inputs far from the origin. Column by
    # column: XLA is slow at adding up along a last axis that is short.
    if X.shape[1] > _FEW_COLUMNS:
        return jnp.sum((X[:, None, :] - Z[None, :, :]) ** 2, axis=-1)
    return reduce(add, ((X[:, None, c] - Z[None, :, c]) ** 2 for c in range(X.shape[1])))


def _root(r2: Array) -> Array:
    """√r², moved off zero by 1e-15 so that its derivative stays finite where inputs coincide.

    Every r² here is flat at zero, so the derivative of a kernel vanishes there, as it should. (The
    usual pair of `where`s was miscompiled by jaxlib 0.12.0.1 on the CPU, in a fused loop over
    families of latents: wrong diagonals, found by a test.)
    """
    return jnp.sqrt(r2 + 1e-30)
