"""The interface of kernels, and kernels composed of others."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import reduce
from operator import add, mul

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float

Values = float | int | Sequence[float] | np.ndarray | Array  # parameters that users give
Parameter = Array | np.ndarray
Columns = tuple[int, ...]


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

        def fill(leaf: Kernel, columns: Columns) -> Kernel:
            for name, value in vars(leaf).items():
                if np.ndim(value) > 0 and np.shape(value) != (len(columns),):
                    raise ValueError(
                        f"A kernel has {np.size(value)} values of {name.split('_')[-1]} for "
                        f"{len(columns)} input columns: give one number, or one per column."
                    )
            return leaf._filled(X[:, columns], reach)

        return self.map_leaves(fill, tuple(range(X.shape[1])))

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
        self.log_variance = log_of(variance, "variance")

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


def log_of(value: Values | None, name: str) -> np.ndarray | None:
    """Return the logarithm of a positive parameter, or None if it is to be taken from the data."""
    if value is None:
        return None
    array = np.asarray(value, float)
    if array.size == 0 or not np.all(np.isfinite(array) & (array > 0)):
        raise ValueError(f"{name} must be positive, not {value!r}.")
    return np.asarray(np.log(array))


def spread_of(X: np.ndarray) -> np.ndarray:
    """Return the standard deviation of each column, or 1 for a column that does not vary."""
    spread = np.std(np.asarray(X, float), axis=0)
    return np.where(spread > 0, spread, 1.0)
