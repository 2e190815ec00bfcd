"""Inputs seen from the inducing variables: A = L⁻¹ K(Z, X), with L Lᵀ = K(Z, Z)."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax import stop_gradient
from jax.scipy.linalg import solve_triangular
from jax.typing import ArrayLike
from jaxtyping import Float

__all__ = ["Projection", "along_each_axis", "default_jitter", "whitened", "with_jitter"]

_INPUT_LETTERS = "xyzuvrst"
_INDUCING_LETTERS = "abcdefghijklmnop"


class Projection(eqx.Module):
    """The inputs seen from the inducing variables, one factor of A per group of columns.

    `A[i]` is L_i⁻¹ K_i(Z_i, X_i), [m_i × n_i], and `prior[i]` the kernel's diagonal. `spots[i]`
    is the axis of the inputs that group i runs along: with rows every group runs along the only
    axis, on a lattice each along its own. Written as an Einstein sum the two cases are one.
    """

    A: tuple[Float[Array, "_ _"], ...]
    prior: tuple[Float[Array, " _"], ...]
    spots: tuple[int, ...] = eqx.field(static=True)
    shape: tuple[int, ...] = eqx.field(static=True)

    @property
    def _inputs(self) -> list[str]:
        return [_INPUT_LETTERS[spot] for spot in self.spots]

    @property
    def _inducing(self) -> str:
        return _INDUCING_LETTERS[: len(self.A)]

    @property
    def _out(self) -> str:
        return "".join(_INPUT_LETTERS[spot] for spot in sorted(set(self.spots)))

    def along_inputs(self, values: Array) -> Array:
        """Stretch over those axes of the inputs that this latent does not look at."""
        used = sorted(set(self.spots))
        aligned = [self.shape[axis] if axis in used else 1 for axis in range(len(self.shape))]
        return jnp.broadcast_to(values.reshape(aligned), self.shape)

    def _einsum(self, terms: list[str], *operands: Array) -> Array:
        subscripts = f"{','.join(terms)}->{self._out}"
        return jnp.einsum(subscripts, *operands, optimize="auto")

    def contract(self, factors: list[Array], core: Array) -> Array:
        """Σ_{ab…} core[a, b, …] factors_1[a, x] factors_2[b, y] …"""
        terms = [a + x for a, x in zip(self._inducing, self._inputs, strict=True)]
        return self.along_inputs(self._einsum([*terms, self._inducing], *factors, core))

    def outer(self, per_group: list[Array]) -> Array:
        """Product over groups of one number per coordinate."""
        return self.along_inputs(self._einsum(self._inputs, *per_group))

    def dense_quadratic(self, root: Array) -> Array:
        """aᵀ R Rᵀ a for R shaped [m_1, m_2, …, M]."""
        first = [a + x for a, x in zip(self._inducing, self._inputs, strict=True)]
        if len(set(self.spots)) == 1:
            subscripts = f"{','.join([*first, self._inducing + 'w'])}->w{self._out}"
            projected = jnp.einsum(subscripts, *self.A, root, optimize="auto")
            return self.along_inputs(jnp.sum(projected**2, axis=0))
        # On a lattice S itself is contracted, group by group: n_1 n_2 M numbers never exist.
        again = _INDUCING_LETTERS[len(self.A) : 2 * len(self.A)]
        second = [a + x for a, x in zip(again, self._inputs, strict=True)]
        S = jnp.tensordot(root, root, axes=(-1, -1))
        terms = [*first, self._inducing + again, *second]
        return self.along_inputs(self._einsum(terms, *self.A, S, *self.A))

    def mean(self, m: Array) -> Array:
        """Aᵀ m."""
        return self.contract(list(self.A), m)

    def unexplained(self) -> Array:
        """k − |a|²: what is left of the prior variance once the inducing variables are known."""
        prior = self.outer(list(self.prior))
        explained = self.outer([jnp.sum(a * a, axis=0) for a in self.A])
        return jnp.maximum(prior - explained, 0.0)  # rounding alone can take it below zero


@jax.custom_vjp
def whitened(K: Float[Array, "M M"], cross: Float[Array, "M N"]) -> Float[Array, "M N"]:
    """A = L⁻¹ C for K = L Lᵀ.

    Differentiated as one operation. Written with the sensitivity Ā of the result,

        C̄ = L⁻ᵀ Ā        K̄ = −sym(L⁻ᵀ ⌊Ā Aᵀ⌋ L⁻¹)

    where ⌊·⌋ keeps the lower triangle and half the diagonal: the derivative of L itself, the larger
    part of the work step by step, is never needed.
    """
    return _whitened_forward(K, cross)[0]


def _whitened_forward(K: Array, cross: Array) -> tuple[Array, tuple[Array, Array]]:
    L = jnp.linalg.cholesky(K)
    A = solve_triangular(L, cross, lower=True)
    return A, (L, A)


def _whitened_backward(kept: tuple[Array, Array], ct: Array) -> tuple[Array, Array]:
    L, A = kept

    def back(values: Array) -> Array:
        return solve_triangular(L, values, lower=True, trans="T")

    lower = jnp.tril(ct @ A.T) * (1.0 - 0.5 * jnp.eye(len(L), dtype=L.dtype))
    half = back(back(lower).T)
    return -0.5 * (half + half.T), back(ct)


whitened.defvjp(_whitened_forward, _whitened_backward)


def with_jitter(
    K: Float[Array, "M M"], jitter: ArrayLike, relative_to: Float[Array, "M M"] | None = None
) -> Float[Array, "M M"]:
    """K + jitter · mean(diag) · I: the one place that adds jitter.

    The diagonal is that of K itself, or of the matrix that K is a remainder of.
    """
    whole = K if relative_to is None else relative_to
    scale = stop_gradient(jitter) * jnp.mean(jnp.diagonal(whole))
    return K + scale * jnp.eye(K.shape[0], dtype=K.dtype)


def default_jitter(dtype: str) -> float:
    """What is added to a kernel matrix's diagonal, as a part of its mean: √ε of the dtype."""
    return float(np.sqrt(np.finfo(dtype).eps))


def along_each_axis(matrices: list[Array], values: Array) -> Array:
    """(M_1 ⊗ M_2 ⊗ …) values, one axis at a time."""
    for axis, matrix in enumerate(matrices):
        values = jnp.moveaxis(jnp.tensordot(matrix, values, axes=(1, axis)), 0, axis)
    return values
