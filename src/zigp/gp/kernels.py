"""Covariance functions, combined with `+`, `*` and `.on(columns)`.

Most kernels are correlations: the prior variance of a function belongs to its latent
(`zigp.gp.latent.LatentGP.variance`). Parameters that are not given are taken from the data when a
model is fitted. Lengths are in the units of the input columns. With `metric="chordal"` the two
columns are latitude and longitude in degrees, and lengths are in km.

Combine kernels with `+` and `*`, weight them with a number (`0.5 * Periodic(24)`), and restrict
them to some columns with `.on(0, 1)`. A product over groups of columns is
`Matern32().on(0, 1) * Matern12().on(2)`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
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
    "Kernel",
    "Linear",
    "Matern12",
    "Matern32",
    "Matern52",
    "OnColumns",
    "Periodic",
    "Product",
    "Scaled",
    "SquaredExponential",
    "Stationary",
    "Sum",
]

Values = float | int | Sequence[float] | np.ndarray | Array  # parameters that users give
Parameter = Array | np.ndarray
Columns = tuple[int, ...]

_FEW_COLUMNS = 8
EARTH_RADIUS_KM = 6371.0088  # mean radius of the International Union of Geodesy and Geophysics


class Kernel(eqx.Module):
    """A positive semi-definite function of two inputs.

    Examples
    --------
    >>> bool(isinstance(Matern32() + 0.5 * Periodic(24), Kernel))
    True
    """

    @abstractmethod
    def __call__(self, X: Float[Array, "N D"], Z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        """Return the matrix of k(x, z)."""

    def diag(self, X: Float[Array, "N D"]) -> Float[Array, " N"]:
        """Return k(x, x) for each row.

        Parameters
        ----------
        X : array of shape (N, D)
            The inputs.

        Returns
        -------
        array of shape (N,)
            Prior variances.
        """
        return jnp.ones(X.shape[0], X.dtype)

    def filled(self, X: np.ndarray, reach: float) -> Kernel:
        """Return this kernel with parameters that are not given taken from the inputs.

        Parameters
        ----------
        X : array of shape (N, D)
            The inputs.
        reach : float
            The initial length-scale, in standard deviations of a column.

        Returns
        -------
        Kernel
            A kernel with all of its parameters.
        """
        every = tuple(range(X.shape[1]))
        return self.map_leaves(lambda leaf, at: leaf._filled(X[:, at], reach), every)

    def _filled(self, X: np.ndarray, reach: float) -> Kernel:
        """Fill a leaf from the columns that it uses."""
        return self

    def on(self, *columns: int) -> OnColumns:
        """Restrict this kernel to some columns.

        Parameters
        ----------
        *columns : int
            The columns, counted from 0 within the column group of the kernel.

        Returns
        -------
        OnColumns
            The restricted kernel.

        Examples
        --------
        >>> (Matern32().on(0, 1) * Matern12().on(2)).factors[0].columns
        (0, 1)
        """
        if not columns:
            raise ValueError("on() needs at least one column: kernel.on(0) or kernel.on(0, 1).")
        return OnColumns(self, columns)

    def map_leaves(self, function: Callable[[Kernel, Columns], Kernel], columns: Columns) -> Kernel:
        """Apply a function to every kernel that is not a combination of others.

        Parameters
        ----------
        function : callable
            Takes such a kernel and the columns that it uses, and returns its replacement.
        columns : tuple of int
            The columns that this kernel uses.

        Returns
        -------
        Kernel
            The kernel with replaced leaves.

        Examples
        --------
        >>> kernel = Matern32().on(0) + 2 * Matern12().on(1)
        >>> kernel.map_leaves(lambda leaf, columns: Linear(), (0, 1)).terms[0]
        OnColumns(kernel=Linear(log_scale=None), columns=(0,))
        """
        return function(self, columns)

    def leaves(self, columns: Columns) -> list[tuple[Kernel, Columns]]:
        """Return every kernel that is not a combination of others, with the columns that it uses.

        Parameters
        ----------
        columns : tuple of int
            The columns that this kernel uses.

        Returns
        -------
        list of (Kernel, tuple of int)
            The kernels, in order.

        Examples
        --------
        >>> [columns for _, columns in (Matern32().on(1, 2) + Linear()).leaves((4, 5, 6))]
        [(5, 6), (4, 5, 6)]
        """
        leaves: list[tuple[Kernel, Columns]] = []

        def collect(leaf: Kernel, at: Columns) -> Kernel:
            leaves.append((leaf, at))
            return leaf

        self.map_leaves(collect, columns)
        return leaves

    def __add__(self, other: Kernel) -> Sum:
        return Sum((self, other))

    def __mul__(self, other: Kernel | float | int) -> Kernel:
        return Product((self, other)) if isinstance(other, Kernel) else Scaled(self, other)

    __rmul__ = __mul__


class Stationary(Kernel):
    """A kernel of the scaled distance between inputs.

    Parameters
    ----------
    lengthscale : float or sequence of float, default=None
        One length-scale per column (automatic relevance determination), or one for all of them. By
        default they are taken from the data, one per column.
    metric : {"euclidean", "chordal"}, default="euclidean"
        The distance. With "chordal" the columns are latitude and longitude in degrees, and the
        distance is the straight line through the Earth in km.

    Attributes
    ----------
    lengthscale : array
        The length-scale in the units of the columns, or in km.
    relative_lengthscale : array
        The length-scale in standard deviations of the columns.

    Examples
    --------
    >>> isinstance(Matern32([1.0, 2.0]), Stationary)  # a length-scale for each of two columns
    True
    """

    log_lengthscale: Parameter | None  # relative to `unit`, which is not learned
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
        """The length-scale in the units of the input columns, or in km."""
        return jax.lax.stop_gradient(jnp.asarray(self.unit)) * self.relative_lengthscale

    def with_metric(self, metric: str) -> Stationary:
        """Return the same kernel with another distance.

        Parameters
        ----------
        metric : {"euclidean", "chordal"}
            The distance.

        Returns
        -------
        Stationary
            The kernel with that distance.
        """
        given = None if self.log_lengthscale is None else np.exp(np.asarray(self.log_lengthscale))
        return type(self)(given, metric=metric)

    @abstractmethod
    def correlation(self, r2: Array) -> Array:
        """Return the kernel as a function of the squared scaled distance.

        Parameters
        ----------
        r2 : array
            Squared distances in length-scales.

        Returns
        -------
        array of the shape of r2
            Correlations.
        """

    def __call__(self, X: Array, Z: Array) -> Array:
        if self.metric == "chordal":
            X, Z = _on_sphere(X), _on_sphere(Z)
        # Without the barrier a compiler may round only one of two equal inputs before it subtracts
        # them: in float32, with collapsed length-scales, k(x, x) was 0.
        scaled = jax.lax.optimization_barrier((X / self.lengthscale, Z / self.lengthscale))
        return self.correlation(_squared_distance(*scaled))

    def _filled(self, X: np.ndarray, reach: float) -> Kernel:
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

    Parameters
    ----------
    lengthscale : float or sequence of float, default=None
        One length-scale per column, or one for all of them. By default they are taken from the
        data.
    metric : {"euclidean", "chordal"}, default="euclidean"
        The distance; "chordal" is for latitude and longitude in degrees.

    Examples
    --------
    >>> x = jnp.array([[0.0], [1.0]])
    >>> float(SquaredExponential(1.0)(x, x)[0, 1])
    0.607
    """

    def correlation(self, r2: Array) -> Array:
        return jnp.exp(-0.5 * r2)


class Matern12(Stationary):
    """Rough, continuous functions: k = exp(−r).

    Parameters
    ----------
    lengthscale : float or sequence of float, default=None
        One length-scale per column, or one for all of them. By default they are taken from the
        data.
    metric : {"euclidean", "chordal"}, default="euclidean"
        The distance; "chordal" is for latitude and longitude in degrees.

    Examples
    --------
    >>> x = jnp.array([[0.0], [1.0]])
    >>> float(Matern12(1.0)(x, x)[0, 1])
    0.368
    """

    def correlation(self, r2: Array) -> Array:
        return jnp.exp(-_root(r2))


class Matern32(Stationary):
    """Functions with one derivative: k = (1 + √3 r) exp(−√3 r).

    Parameters
    ----------
    lengthscale : float or sequence of float, default=None
        One length-scale per column, or one for all of them. By default they are taken from the
        data.
    metric : {"euclidean", "chordal"}, default="euclidean"
        The distance; "chordal" is for latitude and longitude in degrees.

    Examples
    --------
    >>> x = jnp.array([[0.0], [1.0]])
    >>> float(Matern32(1.0)(x, x)[0, 1])
    0.483
    """

    def correlation(self, r2: Array) -> Array:
        s = 3.0**0.5 * _root(r2)
        return (1.0 + s) * jnp.exp(-s)


class Matern52(Stationary):
    """Functions with two derivatives: k = (1 + √5 r + 5r²/3) exp(−√5 r).

    Parameters
    ----------
    lengthscale : float or sequence of float, default=None
        One length-scale per column, or one for all of them. By default they are taken from the
        data.
    metric : {"euclidean", "chordal"}, default="euclidean"
        The distance; "chordal" is for latitude and longitude in degrees.

    Examples
    --------
    >>> x = jnp.array([[0.0], [1.0]])
    >>> float(Matern52(1.0)(x, x)[0, 1])
    0.524
    """

    def correlation(self, r2: Array) -> Array:
        s = 5.0**0.5 * _root(r2)
        return (1.0 + s + 5.0 * r2 / 3.0) * jnp.exp(-s)


class Periodic(Kernel):
    """Functions that repeat: k = exp(−2 Σ_d sin²(π(x_d − z_d)/period) / ℓ_d²).

    Parameters
    ----------
    period : float
        The period, in the units of the columns. It is not learned.
    lengthscale : float or sequence of float, default=1.0
        One length-scale per column, or one for all of them. It has no unit: at 1, values half a
        period apart have correlation exp(−2).

    Examples
    --------
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
        """The length-scale."""
        return jnp.exp(jnp.asarray(self.log_lengthscale))

    def _filled(self, X: np.ndarray, reach: float) -> Kernel:
        _check_columns(np.asarray(self.log_lengthscale), X, "lengthscale")
        return self

    def __call__(self, X: Array, Z: Array) -> Array:
        s = jnp.sin(np.pi * (X[:, None, :] - Z[None, :, :]) / self.period) / self.lengthscale
        return jnp.exp(-2.0 * jnp.sum(s * s, axis=-1))


class Linear(Kernel):
    """Straight lines through the centre of the data: k = Σ_d x_d z_d / s_d².

    Parameters
    ----------
    scale : float or sequence of float, default=None
        The scale s, one per column or one for all of them. By default it is the standard deviation
        of each column.

    Examples
    --------
    >>> x = jnp.array([[1.0], [2.0]])
    >>> float(Linear(1.0)(x, x)[0, 1])
    2.0
    """

    log_scale: Parameter | None

    def __init__(self, scale: Values | None = None):
        self.log_scale = _log(scale, "scale")

    @property
    def scale(self) -> Array:
        """The scale s."""
        return jnp.exp(jnp.asarray(self.log_scale))

    def __call__(self, X: Array, Z: Array) -> Array:
        return (X / self.scale) @ (Z / self.scale).T

    def diag(self, X: Array) -> Array:
        return jnp.sum((X / self.scale) ** 2, axis=-1)

    def _filled(self, X: np.ndarray, reach: float) -> Kernel:
        if self.log_scale is not None:
            _check_columns(self.log_scale, X, "scale")
            return self
        return eqx.tree_at(
            lambda k: k.log_scale, self, np.log(_spread(X)), is_leaf=lambda leaf: leaf is None
        )


class Categorical(Kernel):
    """Levels with a learned similarity: k = 1 if x = z, else ρ with 0 < ρ < 1.

    With several columns k is the product over them. Levels are numbers; two that differ by less
    than a half are the same level.

    Parameters
    ----------
    similarity : float or sequence of float, default=0.5
        The initial ρ, one per column or one for all of them.

    Examples
    --------
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
        """The correlation ρ of different levels."""
        return jax.nn.sigmoid(jnp.asarray(self.logit_similarity))

    def __call__(self, X: Array, Z: Array) -> Array:
        same = jnp.abs(X[:, None, :] - Z[None, :, :]) < 0.5
        return jnp.prod(jnp.where(same, 1.0, self.similarity.astype(X.dtype)), axis=-1)


class OnColumns(Kernel):
    """A kernel of some of the columns, which `Kernel.on` returns.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    columns : tuple of int
        The columns that it uses.

    Examples
    --------
    >>> OnColumns(Matern32(), (0, 1)).columns == Matern32().on(0, 1).columns
    True
    """

    kernel: Kernel
    columns: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, X: Array, Z: Array) -> Array:
        return self.kernel(X[:, self.columns], Z[:, self.columns])

    def diag(self, X: Array) -> Array:
        return self.kernel.diag(X[:, self.columns])

    def map_leaves(self, function: Callable[[Kernel, Columns], Kernel], columns: Columns) -> Kernel:
        if max(self.columns) >= len(columns):
            raise ValueError(
                f"A kernel uses column {max(self.columns)} of its inputs, which have only "
                f"{len(columns)}: .on() counts within the kernel's own group of columns, from 0."
            )
        inner = tuple(columns[i] for i in self.columns)
        return OnColumns(self.kernel.map_leaves(function, inner), self.columns)


class Scaled(Kernel):
    """A kernel times a learned positive number: v · k.

    Parameters
    ----------
    kernel : Kernel
        The kernel k.
    variance : float, default=1.0
        The initial v.

    Examples
    --------
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
        """The factor v."""
        return jnp.exp(jnp.asarray(self.log_variance))

    def __call__(self, X: Array, Z: Array) -> Array:
        return self.variance * self.kernel(X, Z)

    def diag(self, X: Array) -> Array:
        return self.variance * self.kernel.diag(X)

    def map_leaves(self, function: Callable[[Kernel, Columns], Kernel], columns: Columns) -> Kernel:
        return eqx.tree_at(lambda k: k.kernel, self, self.kernel.map_leaves(function, columns))


class Sum(Kernel):
    """The kernel of a sum of independent functions: k = Σ_i k_i.

    Parameters
    ----------
    terms : tuple of Kernel
        The kernels k_i.

    Examples
    --------
    >>> len((Matern32() + Linear()).terms)
    2
    """

    terms: tuple[Kernel, ...]

    def __call__(self, X: Array, Z: Array) -> Array:
        return reduce(add, (k(X, Z) for k in self.terms))

    def diag(self, X: Array) -> Array:
        return reduce(add, (k.diag(X) for k in self.terms))

    def map_leaves(self, function: Callable[[Kernel, Columns], Kernel], columns: Columns) -> Kernel:
        return Sum(tuple(k.map_leaves(function, columns) for k in self.terms))


class Product(Kernel):
    """A product of kernels, k = Π_i k_i: inputs are similar only if they are for every factor.

    Parameters
    ----------
    factors : tuple of Kernel
        The kernels k_i.

    Examples
    --------
    >>> len((Matern32().on(0) * Matern12().on(1)).factors)
    2
    """

    factors: tuple[Kernel, ...]

    def __call__(self, X: Array, Z: Array) -> Array:
        return reduce(mul, (k(X, Z) for k in self.factors))

    def diag(self, X: Array) -> Array:
        return reduce(mul, (k.diag(X) for k in self.factors))

    def map_leaves(self, function: Callable[[Kernel, Columns], Kernel], columns: Columns) -> Kernel:
        return Product(tuple(k.map_leaves(function, columns) for k in self.factors))


def _log(value: Values | None, name: str) -> np.ndarray | None:
    """Return the logarithm of a positive parameter, or None if it is to be taken from the data."""
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
    """Return the standard deviation of each column, or 1 for a column that does not vary."""
    spread = np.std(np.asarray(X, float), axis=0)
    return np.where(spread > 0, spread, 1.0)


def _on_sphere(X: Array) -> Array:
    """Turn latitude and longitude in degrees into a point in space, in km from Earth's centre."""
    lat, lon = jnp.deg2rad(X[:, 0]), jnp.deg2rad(X[:, 1])
    unit = (jnp.cos(lat) * jnp.cos(lon), jnp.cos(lat) * jnp.sin(lon), jnp.sin(lat))
    return EARTH_RADIUS_KM * jnp.stack(unit, axis=-1)


def _squared_distance(X: Array, Z: Array) -> Array:
    # Differences first: |x|² + |z|² − 2xz would cancel for inputs far from the origin. Column by
    # column: XLA is slow at sums along a short last axis.
    if X.shape[1] > _FEW_COLUMNS:
        return jnp.sum((X[:, None, :] - Z[None, :, :]) ** 2, axis=-1)
    return reduce(add, ((X[:, None, c] - Z[None, :, c]) ** 2 for c in range(X.shape[1])))


def _root(r2: Array) -> Array:
    """√r², moved off zero by 1e-15 so that its derivative stays finite where inputs coincide.

    Every r² here is flat at zero, so the derivative of a kernel vanishes there, as it should. (The
    usual pair of `where`s was miscompiled by jaxlib 0.12.0.1 on the CPU, in a fused loop over
    families of latents: it gave wrong diagonals, which a test found.)
    """
    return jnp.sqrt(r2 + 1e-30)
