"""The dependence of two latents under q, such as a gate and its amount.

With w = m + R ε for each of the two, the second latent also follows the noise of the first:

    w_1 = m_1 + R_1 ε_1          w_2 = m_2 + T ε_1 + R_2 ε_2

so that q is one Gaussian over both, with the covariance S_21 = T R_1ᵀ. Any Gaussian has this form.
Its KL divergence is that of the two latents apart plus ½ |T|².
"""

from __future__ import annotations

from abc import abstractmethod
from math import prod
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.sparse.linalg import cg
from jax.typing import ArrayLike

from zigp.gp.covariances import SOLVER_STEPS, Covariance, Dense, Diagonal
from zigp.gp.latent import LatentGP
from zigp.gp.projection import Projection


class Pair[T](NamedTuple):
    """One value for each of two latents."""

    first: T
    second: T


class Curvature(NamedTuple):
    """The weights of both latents at every input, and those between them."""

    first: Array
    second: Array
    between: Array

    def cut(self, convex: Array) -> Curvature:
        """Multiply the negative eigenvalues of each input's 2 × 2 matrix by a factor."""
        mean, half = 0.5 * (self.first + self.second), 0.5 * (self.first - self.second)
        reach = jnp.sqrt(half**2 + self.between**2)
        reach = jnp.where(reach > 0, reach, 1.0)
        low, high = (jnp.where(e < 0, convex * e, e) for e in (mean - reach, mean + reach))
        middle, tilt = 0.5 * (high + low), 0.5 * (high - low) / reach
        return Curvature(middle + tilt * half, middle - tilt * half, tilt * self.between)


class Coupling(eqx.Module):
    """T, by which the second of two latents follows the first."""

    tail: ArrayLike
    on: str = eqx.field(static=True)  # the name of the first latent

    def penalty(self) -> Array:
        """Return ½ |T|²."""
        return 0.5 * jnp.sum(jnp.asarray(self.tail) ** 2)

    @abstractmethod
    def follow(self, noise: Array) -> Array:
        """Return T ε."""

    @abstractmethod
    def added(self, seen: Pair[Projection], first: Covariance) -> tuple[Array, Array]:
        """Return a₂ᵀ T Tᵀ a₂ and a₁ᵀ R₁ Tᵀ a₂ at every input."""

    @abstractmethod
    def natural_step(
        self,
        seen: Pair[Projection],
        cov: Pair[Covariance],
        weights: Curvature,
        gradient: Pair[Array],
        rate: Array,
    ) -> tuple[Coupling, Pair[Covariance], Pair[Array]]:
        """Return T, both R and the changes of both means after a natural-gradient step.

        The precision of both is P = (1 − rate) S⁻¹ + rate H, where H is I plus A diag(w) Aᵀ for
        each of the latents and between them, and the means change by rate P⁻¹ gradient.
        """


class DenseCoupling(Coupling):
    """Any dependence, between two dense covariances: T is a matrix."""

    @classmethod
    def none(cls, first: tuple[int, ...], second: tuple[int, ...], on: str) -> DenseCoupling:
        """Return the coupling of independent latents with these inducing lattices."""
        return cls(np.zeros((prod(second), prod(first))), on)

    def follow(self, noise: Array) -> Array:
        return jnp.asarray(self.tail) @ noise.reshape(-1)

    def added(self, seen: Pair[Projection], first: Covariance) -> tuple[Array, Array]:
        assert isinstance(first, Dense)
        tail = jnp.asarray(self.tail)
        var = seen.second.dense_product(tail, seen.second, tail)
        return var, seen.first.dense_product(first.root, seen.second, tail)

    def natural_step(
        self,
        seen: Pair[Projection],
        cov: Pair[Covariance],
        weights: Curvature,
        gradient: Pair[Array],
        rate: Array,
    ) -> tuple[Coupling, Pair[Covariance], Pair[Array]]:
        first, second = cov
        assert isinstance(first, Dense)
        assert isinstance(second, Dense)
        tail, size = jnp.asarray(self.tail), len(first.root)
        root = jnp.block([[first.root, jnp.zeros_like(tail).T], [tail, second.root]])
        between = seen.first.gram_with(seen.second, weights.between)
        H = jnp.block(
            [
                [seen.first.gram(weights.first), between],
                [between.T, seen.second.gram(weights.second)],
            ]
        )
        both = jnp.concatenate([part.reshape(-1) for part in gradient])
        root, step = Dense.stepped(root, H, both, rate)
        moved: Pair[Covariance] = Pair(
            Dense.of_root(root[:size, :size], first.shape),
            Dense.of_root(root[size:, size:], second.shape),
        )
        change = Pair(step[:size].reshape(first.shape), step[size:].reshape(second.shape))
        return DenseCoupling(root[size:, :size], self.on), moved, change


class DiagonalCoupling(Coupling):
    """A 2 × 2 block for each inducing variable: T is diagonal, and so are both covariances.

    Both latents have the same inducing inputs.
    """

    @classmethod
    def none(cls, first: tuple[int, ...], second: tuple[int, ...], on: str) -> DiagonalCoupling:
        """Return the coupling of independent latents with these inducing lattices."""
        assert first == second
        return cls(np.zeros(first), on)

    def follow(self, noise: Array) -> Array:
        return jnp.asarray(self.tail) * noise

    def added(self, seen: Pair[Projection], first: Covariance) -> tuple[Array, Array]:
        assert isinstance(first, Diagonal)
        tail = jnp.asarray(self.tail)
        squares = [a * a for a in seen.second.A]
        products = [a * b for a, b in zip(seen.first.A, seen.second.A, strict=True)]
        both = jnp.exp(first.log_sd) * tail
        return seen.second.contract(squares, tail**2), seen.second.contract(products, both)

    def natural_step(
        self,
        seen: Pair[Projection],
        cov: Pair[Covariance],
        weights: Curvature,
        gradient: Pair[Array],
        rate: Array,
    ) -> tuple[Coupling, Pair[Covariance], Pair[Array]]:
        first, second = cov
        assert isinstance(first, Diagonal)
        assert isinstance(second, Diagonal)
        s1, s2, t = jnp.exp(first.log_sd), jnp.exp(second.log_sd), jnp.asarray(self.tail)
        # S⁻¹ = R⁻ᵀ R⁻¹ with R⁻¹ = [[1/s1, 0], [−t/(s1 s2), 1/s2]].
        before = _Blocks(1.0 / s1**2 + (t / (s1 * s2)) ** 2, 1.0 / s2**2, -t / (s1 * s2**2))
        products = [a * b for a, b in zip(seen.first.A, seen.second.A, strict=True)]
        H = _Blocks(
            1.0 + seen.first.gram_diagonal(weights.first),
            1.0 + seen.second.gram_diagonal(weights.second),
            seen.second.gather(products, weights.between),
        )
        blocks = jax.tree.map(lambda old, new: (1.0 - rate) * old + rate * new, before, H)
        inverse = blocks.inverse()
        sd = jnp.sqrt(inverse.first)
        tail = inverse.between / sd
        rest = jnp.sqrt(inverse.second - tail**2)

        # As in `Diagonal.natural_step`, the means need the whole precision.
        convex = weights.cut(jnp.zeros(()))

        def precision(m: Pair[Array]) -> Pair[Array]:
            mean = Pair(seen.first.mean(m.first), seen.second.mean(m.second))
            pulled = Pair(
                seen.first.pull(convex.first * mean.first + convex.between * mean.second),
                seen.second.pull(convex.between * mean.first + convex.second * mean.second),
            )
            return jax.tree.map(lambda a, b, c: a + rate * (b + c), before.times(m), m, pulled)

        before = jax.tree.map(lambda old: (1.0 - rate) * old, before)
        step, _ = cg(precision, gradient, tol=1e-3, maxiter=SOLVER_STEPS, M=inverse.times)
        moved: Pair[Covariance] = Pair(Diagonal(jnp.log(sd)), Diagonal(jnp.log(rest)))
        return DiagonalCoupling(tail, self.on), moved, jax.tree.map(lambda m: rate * m, step)


class _Blocks(NamedTuple):
    """A symmetric 2 × 2 matrix for each inducing variable."""

    first: Array
    second: Array
    between: Array

    def inverse(self) -> _Blocks:
        det = self.first * self.second - self.between**2
        return _Blocks(self.second / det, self.first / det, -self.between / det)

    def times(self, m: Pair[Array]) -> Pair[Array]:
        first = self.first * m.first + self.between * m.second
        return Pair(first, self.between * m.first + self.second * m.second)


def coupling_of(first: LatentGP, second: LatentGP, on: str) -> Coupling | None:
    """Return a coupling of two latents that are independent so far, None if they cannot have one.

    Both need a dense covariance, or diagonal ones on the same inducing inputs.
    """
    shapes = np.shape(first.q_mean), np.shape(second.q_mean)
    tie: Coupling
    match first.q_cov, second.q_cov:
        case Dense(), Dense():
            tie = DenseCoupling.none(*shapes, on)
        case Diagonal(), Diagonal() if first.columns == second.columns and shapes[0] == shapes[1]:
            tie = DiagonalCoupling.none(*shapes, on)
        case _:
            return None
    return jax.tree.map(lambda leaf: leaf.astype(np.asarray(first.q_mean).dtype), tie)
