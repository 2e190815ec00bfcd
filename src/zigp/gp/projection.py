"""Projection of inputs onto inducing variables: A = L⁻¹ K(Z, X), with L Lᵀ = K(Z, Z)."""

from __future__ import annotations

from functools import reduce
from math import prod

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax import stop_gradient
from jax.scipy.linalg import solve_triangular
from jax.typing import ArrayLike
from jaxtyping import Float

_SMALL = 256  # up to this size a triangular matrix is multiplied as if it were full
_INPUT_LETTERS = "xyzuvrst"
_INDUCING_LETTERS = "abcdefghijklmnop"


class Projection(eqx.Module):
    """The factors of A, one per group of columns, and the products with A that training needs.

    `A[i]` is L_i⁻¹ K_i(Z_i, X_i), [m_i × n_i], and `prior[i]` the diagonal of the kernel. Group i
    runs along the axis `spots[i]` of the inputs: with rows all groups run along the only axis, on a
    lattice each runs along its own. One Einstein sum covers both cases.
    """

    A: tuple[Float[Array, "_ _"], ...]
    prior: tuple[Float[Array, " _"], ...]
    spots: tuple[int, ...] = eqx.field(static=True)
    shape: tuple[int, ...] = eqx.field(static=True)
    # The shape of the inputs before a lattice was taken as rows.
    inputs: tuple[int, ...] = eqx.field(static=True)

    @property
    def _inputs(self) -> list[str]:
        return [_INPUT_LETTERS[spot] for spot in self.spots]

    @property
    def _inducing(self) -> str:
        return _INDUCING_LETTERS[: len(self.A)]

    @property
    def _factors(self) -> list[str]:
        return [a + x for a, x in zip(self._inducing, self._inputs, strict=True)]

    @property
    def _out(self) -> str:
        return "".join(_INPUT_LETTERS[spot] for spot in sorted(set(self.spots)))

    def along_inputs(self, values: Array) -> Array:
        """Broadcast over the axes of the inputs that the latent does not depend on."""
        used = sorted(set(self.spots))
        aligned = [self.shape[axis] if axis in used else 1 for axis in range(len(self.shape))]
        return jnp.broadcast_to(values.reshape(aligned), self.shape)

    def _einsum(self, terms: list[str], *operands: Array) -> Array:
        subscripts = f"{','.join(terms)}->{self._out}"
        return jnp.einsum(subscripts, *operands, optimize="auto")

    def contract(self, factors: list[Array], core: Array) -> Array:
        """Σ_{ab…} core[a, b, …] factors_1[a, x] factors_2[b, y] …"""
        if len(set(self.spots)) == 1:
            return self.along_inputs(_contract_rows(factors, core))
        return self.along_inputs(self._einsum([*self._factors, self._inducing], *factors, core))

    def gather(self, factors: list[Array], values: Array) -> Array:
        """Σ_{xy…} values[x, y, …] factors_1[a, x] factors_2[b, y] …: `contract` transposed."""
        subscripts = f"{','.join([*self._factors, self._out])}->{self._inducing}"
        return jnp.einsum(subscripts, *factors, self.over_unused(values), optimize="auto")

    def over_unused(self, values: Array) -> Array:
        """Sum over the axes of the inputs that the latent does not depend on."""
        unused = tuple(axis for axis in range(len(self.shape)) if axis not in self.spots)
        return jnp.sum(values, axis=unused)

    def outer(self, per_group: list[Array]) -> Array:
        """Return the product over groups of one number per coordinate."""
        return self.along_inputs(self._einsum(self._inputs, *per_group))

    def dense_quadratic(self, root: Array) -> Array:
        """aᵀ R Rᵀ a for a lower triangular R, [M × M], the inducing lattice in row-major order."""
        if len(set(self.spots)) == 1:
            projected = _upper_times(_transposed(root), self._columns)
            return self.along_inputs(jnp.sum(projected**2, axis=0))
        # On a lattice S = R Rᵀ is contracted group by group: n_1 n_2 M numbers never exist.
        root = root.reshape(*(len(a) for a in self.A), -1)
        again = _INDUCING_LETTERS[len(self.A) : 2 * len(self.A)]
        second = [a + x for a, x in zip(again, self._inputs, strict=True)]
        S = jnp.tensordot(root, root, axes=(-1, -1))
        terms = [*self._factors, self._inducing + again, *second]
        return self.along_inputs(self._einsum(terms, *self.A, S, *self.A))

    @property
    def _columns(self) -> Array:
        """The whole A of rows, [M × N]: column by column a Kronecker product over groups."""
        return reduce(lambda a, b: (a[:, None] * b).reshape(-1, b.shape[1]), self.A)

    def dense_product(self, left: Array, other: Projection, right: Array) -> Array:
        """aᵀ L Rᵀ b with L [M × K] and R [M' × K], b the columns of another latent's A."""
        if len(set(self.spots + other.spots)) == 1:
            ours, theirs = _transposed(left) @ self._columns, _transposed(right) @ other._columns
            return self.along_inputs(jnp.sum(ours * theirs, axis=0))
        terms, pair, used = self._beside(other)
        S = (left @ right.T).reshape([len(a) for a in (*self.A, *other.A)])
        values = jnp.einsum(f"{terms},{pair}->{used}", *self.A, *other.A, S, optimize="auto")
        whole = [n if x in used else 1 for x, n in zip(_INPUT_LETTERS, self.shape, strict=False)]
        return jnp.broadcast_to(values.reshape(whole), self.shape)

    def gram_with(self, other: Projection, d: Array) -> Array:
        """A diag(d) Bᵀ, [M × M'], B the A of another latent at the same inputs."""
        if len(set(self.spots + other.spots)) == 1:
            return (self._columns * self.over_unused(d)) @ other._columns.T
        terms, pair, used = self._beside(other)
        d = jnp.sum(
            d, [i for i, x in zip(range(d.ndim), _INPUT_LETTERS, strict=False) if x not in used]
        )
        gram = jnp.einsum(f"{terms},{used}->{pair}", *self.A, *other.A, d, optimize="auto")
        return gram.reshape(prod(len(a) for a in self.A), -1)

    def _beside(self, other: Projection) -> tuple[str, str, str]:
        """Return subscripts of both latents' factors, of their inducing lattices, of the inputs."""
        pair = _INDUCING_LETTERS[: len(self.A) + len(other.A)]
        inputs = self._inputs + other._inputs
        terms = ",".join(a + x for a, x in zip(pair, inputs, strict=True))
        return terms, pair, "".join(sorted(set(inputs), key=_INPUT_LETTERS.index))

    def mean(self, m: Array) -> Array:
        """Aᵀ m."""
        return self.contract(list(self.A), m)

    def pull(self, r: Array) -> Array:
        """A r."""
        return self.gather(list(self.A), r)

    def gram(self, d: Array) -> Array:
        """A diag(d) Aᵀ, [M × M] with the inducing lattice in row-major order.

        On a lattice the sum runs over one group at a time, for all pairs of its variables.
        """
        d = self.over_unused(d)
        if len(set(self.spots)) == 1:
            return (self._columns * d) @ self._columns.T
        for _, a in sorted(zip(self.spots, self.A, strict=True), key=lambda pair: pair[0]):
            # The axis of this group's inputs is the first of those that remain.
            pairs = (a[:, None] * a).reshape(-1, a.shape[1])
            d = jnp.moveaxis(jnp.tensordot(pairs, d, axes=(1, 0)), 0, -1)
        order = [sorted(self.spots).index(spot) for spot in self.spots]
        sizes = [len(a) for a in self.A]
        d = d.transpose(order).reshape([m for size in sizes for m in (size, size)])
        M, groups = prod(sizes), len(sizes)
        return d.transpose(*range(0, 2 * groups, 2), *range(1, 2 * groups, 2)).reshape(M, M)

    def gram_diagonal(self, d: Array) -> Array:
        """The diagonal of A diag(d) Aᵀ, shaped as the inducing lattice."""
        return self.gather([a * a for a in self.A], d)

    def unexplained(self) -> Array:
        """k − |a|²: the prior variance given the inducing variables."""
        prior = self.outer(list(self.prior))
        explained = self.outer([jnp.sum(a * a, axis=0) for a in self.A])
        return jnp.maximum(prior - explained, 0.0)  # rounding can make it negative


@jax.custom_vjp
def whitened(K: Float[Array, "M M"], cross: Float[Array, "M N"]) -> Float[Array, "M N"]:
    """A = L⁻¹ C for K = L Lᵀ.

    The derivative is that of the whole operation. With the sensitivity Ā of the result,

        C̄ = L⁻ᵀ Ā        K̄ = −sym(L⁻ᵀ ⌊Ā Aᵀ⌋ L⁻¹)

    where ⌊·⌋ keeps the lower triangle and half the diagonal. The derivative of L itself, which
    takes most of the time in the derivative step by step, is not needed.
    """
    return _whitened_forward(K, cross)[0]


def _whitened_forward(K: Array, cross: Array) -> tuple[Array, tuple[Array, Array]]:
    # L⁻¹ is formed once and the rest are products, which use all cores, and a GPU fully.
    inverse = _inverse(jnp.linalg.cholesky(K, symmetrize_input=False))
    A = _times(inverse, cross)
    return A, (inverse, A)


def _whitened_backward(kept: tuple[Array, Array], ct: Array) -> tuple[Array, Array]:
    inverse, A = kept
    upper = _transposed(inverse)
    lower = _lower(ct, A) * (1.0 - 0.5 * jnp.eye(len(A), dtype=A.dtype))
    half = _upper_times(upper, _times_lower(lower, inverse))
    return -0.5 * (half + half.T), _upper_times(upper, ct)


# One quarter of a large triangular matrix is zero: the operations below work on quarters.


def _inverse(L: Array) -> Array:
    """L⁻¹."""
    if len(L) <= _SMALL:
        return solve_triangular(L, jnp.eye(len(L), dtype=L.dtype), lower=True)
    half = len(L) // 2
    first, last = _inverse(L[:half, :half]), _inverse(L[half:, half:])
    return _quarters(first, -_times(last, L[half:, :half] @ first), last)


def _lower(A: Array, B: Array) -> Array:
    """The lower triangle of A Bᵀ."""
    if len(A) <= _SMALL:
        return jnp.tril(A @ B.T)
    half = len(A) // 2
    first, last = _lower(A[:half], B[:half]), _lower(A[half:], B[half:])
    return _quarters(first, A[half:] @ B[:half].T, last)


def _quarters(first: Array, below: Array, last: Array) -> Array:
    return jnp.block([[first, jnp.zeros_like(below.T)], [below, last]])


def _times(L: Array, B: Array) -> Array:
    """L B."""
    if len(L) <= _SMALL:
        return L @ B
    half = len(L) // 2
    below = L[half:, :half] @ B[:half] + _times(L[half:, half:], B[half:])
    return jnp.concatenate([_times(L[:half, :half], B[:half]), below])


def _times_lower(L: Array, B: Array) -> Array:
    """L B, where B is lower triangular too."""
    if len(L) <= _SMALL:
        return L @ B
    half = len(L) // 2
    first = _times_lower(L[:half, :half], B[:half, :half])
    last = _times_lower(L[half:, half:], B[half:, half:])
    below = L[half:, :half] @ B[:half, :half] + _times(L[half:, half:], B[half:, :half])
    return _quarters(first, below, last)


def _transposed(L: Array) -> Array:
    """Lᵀ, in memory: a product that transposes its first factor takes twice as long on a CPU."""
    return jax.lax.optimization_barrier(L.T)


def _upper_times(U: Array, B: Array) -> Array:
    """U B, where U is upper triangular."""
    if len(U) <= _SMALL:
        return U @ B
    half = len(U) // 2
    above = _upper_times(U[:half, :half], B[:half]) + U[:half, half:] @ B[half:]
    return jnp.concatenate([above, _upper_times(U[half:, half:], B[half:])])


whitened.defvjp(_whitened_forward, _whitened_backward)


def with_jitter(
    K: Float[Array, "M M"], jitter: ArrayLike, relative_to: Float[Array, "M M"] | None = None
) -> Float[Array, "M M"]:
    """Return K + jitter · mean(diag) · I; no other function adds jitter.

    The diagonal is that of K, or of `relative_to` if K is a difference that can be near zero.
    """
    whole = K if relative_to is None else relative_to
    scale = stop_gradient(jitter) * jnp.mean(jnp.diagonal(whole))
    return K + scale * jnp.eye(K.shape[0], dtype=K.dtype)


def default_jitter(dtype: str) -> float:
    """Return the jitter relative to the mean of a kernel's diagonal: √ε of the dtype."""
    return float(np.sqrt(np.finfo(dtype).eps))


def _contract_rows(factors: list[Array], core: Array) -> Array:
    """Σ_{ab…} core[a, b, …] factors_1[a, x] factors_2[b, x] …: a matrix product, then sums.

    The matrix product is over the largest group, which leaves the fewest terms for the sums.
    """
    largest = max(range(len(factors)), key=lambda i: len(factors[i]))
    left = jnp.tensordot(core, factors[largest], axes=(largest, 0))  # [other groups…, x]
    for a in (*reversed(factors[largest + 1 :]), *reversed(factors[:largest])):
        left = jnp.sum(left * a, axis=-2)
    return left


def along_each_axis(matrices: list[Array], values: Array) -> Array:
    """Return (M_1 ⊗ M_2 ⊗ …) values, one axis at a time."""
    for axis, matrix in enumerate(matrices):
        values = jnp.moveaxis(jnp.tensordot(matrix, values, axes=(1, axis)), 0, axis)
    return values
