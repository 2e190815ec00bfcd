"""Kernels of the distance between inputs, in a plane or on Earth."""

from __future__ import annotations

from abc import abstractmethod
from functools import reduce
from operator import add

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from zigp.gp.kernels.composed import Kernel, Parameter, Values, log_of, spread_of

_FEW_COLUMNS = 8
EARTH_RADIUS_KM = 6371.0088  # mean radius of the International Union of Geodesy and Geophysics


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
        self.log_lengthscale = log_of(lengthscale, "lengthscale")
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
            unit = spread_of(X)
        if self.log_lengthscale is None:
            log_lengthscale = np.full(unit.shape, np.log(reach))
        else:
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
