"""Kernels of repetition, of straight lines and of levels."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from zigp.gp.kernels.composed import Kernel, Parameter, Values, log_of, spread_of


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
        self.log_lengthscale = log_of(lengthscale, "lengthscale")

    @property
    def lengthscale(self) -> Array:
        """The length-scale."""
        return jnp.exp(jnp.asarray(self.log_lengthscale))

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
        self.log_scale = log_of(scale, "scale")

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
            return self
        return eqx.tree_at(
            lambda k: k.log_scale, self, np.log(spread_of(X)), is_leaf=lambda leaf: leaf is None
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
