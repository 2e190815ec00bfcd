"""The covariance S of the whitened inducing variables: diagonal, dense, or zero."""

from __future__ import annotations

from abc import abstractmethod
from math import prod
from typing import Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.linalg import solve_triangular
from jax.scipy.sparse.linalg import cg
from jax.typing import ArrayLike

from zigp.gp.projection import Projection

# Conjugate-gradient iterations in a natural-gradient step; the next step continues from there.
SOLVER_STEPS = 6

CovarianceName = Literal["diagonal", "dense"]


class Covariance(eqx.Module):
    """The covariance S of the whitened inducing variables, shaped as the inducing lattice."""

    @abstractmethod
    def quadratic(self, projection: Projection) -> Array:
        """Return aᵀ S a at every input."""

    @abstractmethod
    def trace(self) -> Array:
        """Return tr S."""

    @abstractmethod
    def logdet(self) -> Array:
        """Return log |S|."""

    def divergence(self, m: Array) -> Array:
        """Return KL(N(m, S) ‖ N(0, I)) = ½ (tr S + |m|² − M − log |S|)."""
        return 0.5 * (self.trace() + jnp.sum(m * m) - m.size - self.logdet())

    @abstractmethod
    def colour(self, noise: Array) -> Array:
        """Turn standard normal noise, shaped as the inducing lattice, into a draw of N(0, S)."""

    @abstractmethod
    def natural_step(
        self, projection: Projection, weights: Array, gradient: Array, rate: Array
    ) -> tuple[Covariance, Array]:
        """Return S and the change of the mean after a natural-gradient step.

        The new precision is P = (1 − rate) S⁻¹ + rate H with H = I + A diag(weights) Aᵀ, and the
        mean changes by rate P⁻¹ gradient.
        """


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
        self, projection: Projection, weights: Array, gradient: Array, rate: Array
    ) -> tuple[Covariance, Array]:
        before = (1.0 - rate) * jnp.exp(-2.0 * self.log_sd)
        diagonal = before + rate * (1.0 + projection.gram_diagonal(weights))

        # S keeps only the diagonal of the precision, but the mean needs all of it, or it would
        # overshoot: a linear system, solved approximately with a few products with A. Negative
        # weights are set to zero in it, so that it always has a solution.
        convex = jnp.maximum(weights, 0.0)

        def precision(m: Array) -> Array:
            pulled = projection.pull(convex * projection.mean(m))
            return before * m + rate * (m + pulled)

        scale = jnp.maximum(diagonal, before + rate)
        step, _ = cg(precision, gradient, tol=1e-3, maxiter=SOLVER_STEPS, M=lambda m: m / scale)
        return Diagonal(-0.5 * jnp.log(diagonal)), rate * step


class Dense(Covariance):
    """Any covariance: S = R Rᵀ, R lower triangular with a positive diagonal."""

    factor: ArrayLike  # R below the diagonal, log R on it
    shape: tuple[int, ...] = eqx.field(static=True)

    @classmethod
    def scaled_identity(cls, shape: tuple[int, ...], sd: float) -> Dense:
        return cls(np.log(sd) * np.eye(prod(shape)), shape)

    @classmethod
    def of_root(cls, root: Array, shape: tuple[int, ...]) -> Dense:
        """Return the covariance R Rᵀ of inducing variables on a lattice of this shape."""
        return cls(jnp.tril(root, -1) + jnp.diag(jnp.log(jnp.diagonal(root))), shape)

    @property
    def root(self) -> Array:
        """R."""
        factor = jnp.asarray(self.factor)
        return jnp.tril(factor, -1) + jnp.diag(jnp.exp(jnp.diagonal(factor)))

    def quadratic(self, projection: Projection) -> Array:
        return projection.dense_quadratic(self.root)

    def trace(self) -> Array:
        return jnp.sum(self.root**2)

    def logdet(self) -> Array:
        return 2.0 * jnp.sum(jnp.diagonal(jnp.asarray(self.factor)))

    def colour(self, noise: Array) -> Array:
        return (self.root @ noise.reshape(-1)).reshape(noise.shape)

    def natural_step(
        self, projection: Projection, weights: Array, gradient: Array, rate: Array
    ) -> tuple[Covariance, Array]:
        gram = projection.gram(weights)
        root, step = self.stepped(self.root, gram, gradient.reshape(-1), rate)
        return self.of_root(root, self.shape), step.reshape(self.shape)

    @staticmethod
    def stepped(root: Array, gram: Array, gradient: Array, rate: Array) -> tuple[Array, Array]:
        """Return R and the change of the mean for the precision (1 − rate) S⁻¹ + rate (I + G)."""
        eye = jnp.eye(len(root), dtype=root.dtype)
        inverse = solve_triangular(root, eye, lower=True)
        precision = (1.0 - rate) * inverse.T @ inverse + rate * (eye + gram)
        # P = U Uᵀ with U upper triangular has S = U⁻ᵀ U⁻¹, whose root U⁻ᵀ is lower triangular.
        U = jnp.linalg.cholesky(precision[::-1, ::-1])[::-1, ::-1]
        root = solve_triangular(U, eye, lower=False).T
        return root, rate * (root @ (root.T @ gradient))


class Zero(Covariance):
    """No spread, S = 0: the inducing variables are at m, one draw of them.

    The divergence is −log p(w) at w = m, so that the bound becomes the log density of w and y.
    """

    def quadratic(self, projection: Projection) -> Array:
        return jnp.zeros(projection.shape, projection.A[0].dtype)

    def trace(self) -> Array:
        return jnp.zeros(())

    def logdet(self) -> Array:
        return jnp.asarray(-jnp.inf)

    def colour(self, noise: Array) -> Array:
        return jnp.zeros_like(noise)

    def divergence(self, m: Array) -> Array:
        """½ |m|² + ½ M log 2π."""
        return 0.5 * (jnp.sum(m * m) + m.size * np.log(2.0 * np.pi))

    def natural_step(
        self, projection: Projection, weights: Array, gradient: Array, rate: Array
    ) -> tuple[Covariance, Array]:
        raise TypeError("A draw has no covariance to train.")


COVARIANCES: dict[str, type[Diagonal] | type[Dense]] = {"diagonal": Diagonal, "dense": Dense}
