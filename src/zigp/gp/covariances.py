"""The covariance S of the whitened inducing variables: diagonal, dense, or one per group."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import reduce
from math import prod
from operator import mul
from typing import Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.linalg import solve_triangular
from jax.scipy.sparse.linalg import cg
from jax.typing import ArrayLike

from zigp.gp.projection import Projection, along_each_axis

__all__ = ["COVARIANCES", "Covariance", "CovarianceName", "Dense", "Diagonal", "Kronecker"]

# Adds up over devices what was summed over the inputs of one.
Adder = Callable[[Array], Array]
# Of conjugate gradients in a natural-gradient step; the next step goes on from there.
_SOLVER_STEPS = 6

CovarianceName = Literal["diagonal", "dense", "kronecker"]


class Covariance(eqx.Module):
    """The covariance S of the whitened inducing variables, shaped as the inducing lattice."""

    @abstractmethod
    def quadratic(self, projection: Projection) -> Array:
        """aᵀ S a at every input."""

    @abstractmethod
    def trace(self) -> Array:
        """tr S."""

    @abstractmethod
    def logdet(self) -> Array:
        """log |S|."""

    @abstractmethod
    def colour(self, noise: Array) -> Array:
        """Turn standard normal noise, shaped as the inducing lattice, into a draw of N(0, S)."""

    def natural_step(
        self, projection: Projection, weights: Array, gradient: Array, rate: Array, total: Adder
    ) -> tuple[Covariance, Array]:
        """S and what the mean moves by, after a natural-gradient step of this rate.

        The new precision is (1 − rate) S⁻¹ + rate H with H = I + A diag(weights) Aᵀ, and the mean
        moves by rate (that)⁻¹ gradient.
        """
        raise NotImplementedError(f"{type(self).__name__} has no natural-gradient step.")


class Diagonal(Covariance):
    """Independent inducing variables: S = diag(s²)."""

    log_sd: ArrayLike

    @classmethod
    def scaled_identity(cls, shape: tuple[int, ...], sd: float) -> Diagonal:
        return cls(np.full(shape, np.log(sd)))

    def quadratic(self, projection: Projection) -> Array:
        return projection.contract([a * a for a in projection.A], jnp.exp(2.0 * self.log_sd))

    def trace(self) -> Array:
        return jnp.sum(jnp.exp(2.0 * self.log_sd))

    def logdet(self) -> Array:
        return 2.0 * jnp.sum(self.log_sd)

    def colour(self, noise: Array) -> Array:
        return jnp.exp(self.log_sd) * noise

    def natural_step(
        self, projection: Projection, weights: Array, gradient: Array, rate: Array, total: Adder
    ) -> tuple[Covariance, Array]:
        before = (1.0 - rate) * jnp.exp(-2.0 * self.log_sd)
        diagonal = before + rate * (1.0 + total(projection.gram_diagonal(weights)))

        # Of the precision only the diagonal is kept, but the mean needs all of it, or it would
        # overshoot: a linear system, solved as far as a few products with A take it. Negative
        # weights are left out of it, so that it always has a solution.
        convex = jnp.maximum(weights, 0.0)

        def precision(m: Array) -> Array:
            pulled = total(projection.pull(convex * projection.mean(m)))
            return before * m + rate * (m + pulled)

        scale = jnp.maximum(diagonal, before + rate)
        step, _ = cg(precision, gradient, tol=1e-3, maxiter=_SOLVER_STEPS, M=lambda m: m / scale)
        return Diagonal(-0.5 * jnp.log(diagonal)), rate * step


class Dense(Covariance):
    """Any covariance: S = R Rᵀ, R lower triangular with a positive diagonal."""

    factor: ArrayLike  # below the diagonal R, on it log R
    shape: tuple[int, ...] = eqx.field(static=True)

    @classmethod
    def scaled_identity(cls, shape: tuple[int, ...], sd: float) -> Dense:
        return cls(np.log(sd) * np.eye(prod(shape)), shape)

    @property
    def root(self) -> Array:
        return _lower_triangle(self.factor)

    def quadratic(self, projection: Projection) -> Array:
        return projection.dense_quadratic(self.root)

    def trace(self) -> Array:
        return jnp.sum(self.root**2)

    def logdet(self) -> Array:
        return 2.0 * jnp.sum(jnp.diagonal(jnp.asarray(self.factor)))

    def colour(self, noise: Array) -> Array:
        return (self.root @ noise.reshape(-1)).reshape(noise.shape)

    def natural_step(
        self, projection: Projection, weights: Array, gradient: Array, rate: Array, total: Adder
    ) -> tuple[Covariance, Array]:
        eye = jnp.eye(prod(self.shape), dtype=weights.dtype)
        inverse = solve_triangular(self.root, eye, lower=True)
        H = eye + total(projection.gram(weights))
        precision = (1.0 - rate) * inverse.T @ inverse + rate * H
        # P = U Uᵀ with U upper triangular has S = U⁻ᵀ U⁻¹, whose root U⁻ᵀ is lower triangular.
        U = jnp.linalg.cholesky(precision[::-1, ::-1])[::-1, ::-1]
        root = solve_triangular(U, eye, lower=False).T
        factor = jnp.tril(root, -1) + jnp.diag(jnp.log(jnp.diagonal(root)))
        step = root @ (root.T @ gradient.reshape(-1))
        return Dense(factor, self.shape), rate * step.reshape(self.shape)


class Kronecker(Covariance):
    """A covariance per group of columns: S = S_1 ⊗ S_2 ⊗ …, never multiplied out."""

    factors: tuple[ArrayLike, ...]

    @classmethod
    def scaled_identity(cls, shape: tuple[int, ...], sd: float) -> Kronecker:
        return cls(tuple(np.log(sd) / len(shape) * np.eye(m) for m in shape))

    @property
    def roots(self) -> list[Array]:
        return [_lower_triangle(factor) for factor in self.factors]

    def quadratic(self, projection: Projection) -> Array:
        pairs = zip(self.roots, projection.A, strict=True)
        return projection.outer([jnp.sum((root.T @ a) ** 2, axis=0) for root, a in pairs])

    def trace(self) -> Array:
        return reduce(mul, (jnp.sum(root**2) for root in self.roots))

    def logdet(self) -> Array:
        # log |S_1 ⊗ S_2| = m_2 log |S_1| + m_1 log |S_2|
        sizes = [np.shape(factor)[0] for factor in self.factors]
        logdets = [2.0 * jnp.sum(jnp.diagonal(jnp.asarray(f))) for f in self.factors]
        return sum(prod(sizes) / m * d for m, d in zip(sizes, logdets, strict=True))

    def colour(self, noise: Array) -> Array:
        return along_each_axis(self.roots, noise)


COVARIANCES: dict[str, type[Diagonal] | type[Dense] | type[Kronecker]] = {
    "diagonal": Diagonal,
    "dense": Dense,
    "kronecker": Kronecker,
}


def _lower_triangle(factor: ArrayLike) -> Array:
    factor = jnp.asarray(factor)
    return jnp.tril(factor, -1) + jnp.diag(jnp.exp(jnp.diagonal(factor)))
