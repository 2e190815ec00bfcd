"""A Gaussian process seen through inducing variables: its prior, its posterior q, its marginals.

Whitened: a latent is f = β + √v h with h a GP of unit amplitude, u = L w its values at the
inducing inputs (K_mm = L Lᵀ), q(w) = N(m, S) and KL taken against N(0, I). With
A = L⁻¹ K(Z, X),

    mean = β + √v Aᵀm          var = v (k − |a|² + aᵀ S a)

Inputs fall into groups of columns, one kernel and one set of inducing inputs each; with several
groups K = K_1 ⊗ K_2 ⊗ …, A factors likewise, and every contraction below runs over one group
at a time. Plain inducing points are the case of one group. No Kronecker product is formed.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import reduce
from math import prod
from operator import mul
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax import stop_gradient
from jax.scipy.linalg import solve_triangular
from jax.typing import ArrayLike
from jaxtyping import Float, PRNGKeyArray

from zigp.batch import Lattice, Rows
from zigp.inducing import Inducing
from zigp.kernels import Kernel

__all__ = [
    "Covariance",
    "Dense",
    "Diagonal",
    "Kronecker",
    "LatentGP",
    "Moments",
    "Projection",
    "family",
]

CovarianceName = Literal["diagonal", "dense", "kronecker"]


class Moments(eqx.Module):
    """Mean and variance at every input: leading axes of the latent, then the inputs' shape."""

    mean: Array
    var: Array


# ---------------------------------------------------------------------------------------------
# The covariance S of q(w)


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
        return projection.dense_quadratic(self.root.reshape(*self.shape, -1))

    def trace(self) -> Array:
        return jnp.sum(self.root**2)

    def logdet(self) -> Array:
        return 2.0 * jnp.sum(jnp.diagonal(jnp.asarray(self.factor)))

    def colour(self, noise: Array) -> Array:
        return (self.root @ noise.reshape(-1)).reshape(noise.shape)


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
        return _along_each_axis(self.roots, noise)


COVARIANCES: dict[str, type[Diagonal] | type[Dense] | type[Kronecker]] = {
    "diagonal": Diagonal,
    "dense": Dense,
    "kronecker": Kronecker,
}


# ---------------------------------------------------------------------------------------------
# A at the inputs


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

    def _along_inputs(self, values: Array) -> Array:
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
        return self._along_inputs(self._einsum([*terms, self._inducing], *factors, core))

    def outer(self, per_group: list[Array]) -> Array:
        """Product over groups of one number per coordinate."""
        return self._along_inputs(self._einsum(self._inputs, *per_group))

    def dense_quadratic(self, root: Array) -> Array:
        """aᵀ R Rᵀ a for R shaped [m_1, m_2, …, M]."""
        first = [a + x for a, x in zip(self._inducing, self._inputs, strict=True)]
        if len(set(self.spots)) == 1:
            subscripts = f"{','.join([*first, self._inducing + 'w'])}->w{self._out}"
            projected = jnp.einsum(subscripts, *self.A, root, optimize="auto")
            return self._along_inputs(jnp.sum(projected**2, axis=0))
        # On a lattice S itself is contracted, group by group: n_1 n_2 M numbers never exist.
        again = _INDUCING_LETTERS[len(self.A) : 2 * len(self.A)]
        second = [a + x for a, x in zip(again, self._inputs, strict=True)]
        S = jnp.tensordot(root, root, axes=(-1, -1))
        terms = [*first, self._inducing + again, *second]
        return self._along_inputs(self._einsum(terms, *self.A, S, *self.A))

    def mean(self, m: Array) -> Array:
        """Aᵀ m."""
        return self.contract(list(self.A), m)

    def var(self, S: Covariance) -> Array:
        """k − |a|² + aᵀ S a."""
        prior = self.outer(list(self.prior))
        explained = self.outer([jnp.sum(a * a, axis=0) for a in self.A])
        # The first difference is a variance: rounding alone can take it below zero.
        return jnp.maximum(prior - explained, 0.0) + S.quadratic(self)


# ---------------------------------------------------------------------------------------------
# The latent itself


class LatentGP(eqx.Module):
    """A latent function under q: prior mean β, prior variance v, kernels, inducing inputs, q.

    It may be a whole family of latents (see `family`): then every array has `leading` axes more, in
    front, except that kernels and inducing inputs have none where they are `shared`. A family is
    computed as one batch.
    """

    kernels: tuple[Kernel, ...]
    inducing: tuple[Inducing, ...] | None  # None: those of another latent, see zigp.models
    q_mean: ArrayLike
    q_cov: Covariance
    log_variance: ArrayLike
    prior_mean: ArrayLike
    jitter: ArrayLike
    columns: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    leading: int = eqx.field(static=True, default=0)
    shared: bool = eqx.field(static=True, default=False)

    @classmethod
    def create(
        cls,
        kernels: tuple[Kernel, ...],
        Z: tuple[np.ndarray, ...],
        columns: tuple[tuple[int, ...], ...],
        *,
        covariance: CovarianceName = "dense",
        variance: float = 1.0,
        prior_mean: float = 0.0,
        q_sd: float = 1.0,
        dtype: str = "float64",
    ) -> LatentGP:
        """A latent whose q starts as N(0, q_sd² I) in the whitened space."""
        shape = tuple(len(z) for z in Z)
        latent = cls(
            kernels=tuple(kernels),
            inducing=tuple(Inducing.at(z) for z in Z),
            q_mean=np.zeros(shape),
            q_cov=COVARIANCES[covariance].scaled_identity(shape, q_sd),
            log_variance=np.log(variance),
            prior_mean=np.asarray(prior_mean, float),
            jitter=default_jitter(dtype),
            columns=tuple(tuple(group) for group in columns),
        )
        return jax.tree.map(lambda leaf: np.asarray(leaf, dtype), latent)

    @property
    def variance(self) -> Array:
        return jnp.exp(jnp.asarray(self.log_variance))

    @property
    def Z(self) -> tuple[Array, ...]:
        return tuple(group.Z for group in self._groups)

    @property
    def _groups(self) -> tuple[Inducing, ...]:
        assert self.inducing is not None, "take it from its model, which knows whose it shares"
        return self.inducing

    def marginal(self, at: Rows | Lattice) -> Moments:
        """Mean and variance at every input: leading axes of the family, then the inputs' shape."""
        return self._each(lambda gp: gp._marginal(at))

    def kl(self) -> Array:
        """KL(q(w) ‖ N(0, I)) = ½ (tr S + |m|² − M − log |S|), over the whole family."""
        return jnp.sum(self._each(lambda gp: gp._kl()))

    def draw(self, key: PRNGKeyArray, at: Rows | Lattice, n: int) -> Float[Array, "n ..."]:
        """n functions from q, each drawn jointly over all inputs."""
        shape = np.shape(self.log_variance)[: self.leading]
        keys = jax.random.split(key, shape)
        draws = self._each(lambda gp, key: gp._draw(key, at, n), keys)
        return jnp.moveaxis(draws, self.leading, 0)

    def _each(self, function: Callable, *mapped: Array) -> Any:
        """A function of one latent, over the family at once."""
        paths, structure = jax.tree_util.tree_flatten_with_path(self)
        common = {"kernels", "inducing"} if self.shared else set()
        axes = [None if path[0].name in common else 0 for path, _ in paths]

        def one(leaves: list[Array], *args: Array) -> Any:
            return function(jax.tree.unflatten(structure, leaves), *args)

        for _ in range(self.leading):
            one = jax.vmap(one, in_axes=(axes, *(0 for _ in mapped)))
        return one([jnp.asarray(leaf) for _, leaf in paths], *mapped)

    def project(self, at: Rows | Lattice) -> Projection:
        """A at the inputs, for a latent of unit amplitude."""
        at, spots, shape = self._aligned(at)
        A, prior = [], []
        for kernel, group, columns, spot in zip(
            self.kernels, self._groups, self.columns, spots, strict=True
        ):
            X = _select(at, columns, spot)
            L = cholesky(kernel(group.Z, group.Z), self.jitter)
            A.append(solve_triangular(L, kernel(group.Z, X), lower=True))
            prior.append(kernel.diag(X))
        return Projection(tuple(A), tuple(prior), spots, shape)

    def _marginal(self, at: Rows | Lattice) -> Moments:
        projection = self.project(at)
        mean = self._in_units(projection.mean(jnp.asarray(self.q_mean)))
        var = self.variance * projection.var(self.q_cov)
        return Moments(mean.reshape(at.shape), var.reshape(at.shape))

    def _in_units(self, h: Array) -> Array:
        """β + √v h."""
        return jnp.asarray(self.prior_mean) + jnp.sqrt(self.variance) * h

    def _kl(self) -> Array:
        m = jnp.asarray(self.q_mean)
        return 0.5 * (self.q_cov.trace() + jnp.sum(m * m) - m.size - self.q_cov.logdet())

    def _draw(self, key: PRNGKeyArray, at: Rows | Lattice, n: int) -> Float[Array, "n ..."]:
        """One latent's draws.

        With R Rᵀ = K(X, X) − AᵀA and w ~ q, rows give h = Aᵀw + R ε. On a lattice the prior draw
        factors, h₀ = ([A_1ᵀ R_1] ⊗ [A_2ᵀ R_2] ⊗ …) ν, and q moves the part of it that the
        inducing variables ν_Z carry: h = h₀ + Aᵀ(w − ν_Z).
        """
        aligned, spots, _ = self._aligned(at)
        projection = self.project(aligned)
        inputs = [_select(aligned, c, s) for c, s in zip(self.columns, spots, strict=True)]
        K = [kernel(X, X) for kernel, X in zip(self.kernels, inputs, strict=True)]
        explained = [a.T @ a for a in projection.A]
        if len(set(spots)) < len(spots) or len(spots) == 1:
            K, explained = [reduce(mul, K)], [reduce(mul, explained)]
        roots = [
            cholesky(k - e, self.jitter, relative_to=k) for k, e in zip(K, explained, strict=True)
        ]

        def one(key: PRNGKeyArray) -> Array:
            key_w, key_prior = jax.random.split(key)
            m = jnp.asarray(self.q_mean)
            w = m + self.q_cov.colour(jax.random.normal(key_w, m.shape, m.dtype))
            if len(roots) == 1:
                rest = roots[0] @ jax.random.normal(key_prior, (roots[0].shape[0],), m.dtype)
                rest = projection._along_inputs(rest)
            else:
                wide = [
                    jnp.concatenate([a.T, r], 1) for a, r in zip(projection.A, roots, strict=True)
                ]
                nu = jax.random.normal(key_prior, tuple(x.shape[1] for x in wide), m.dtype)
                w = w - nu[tuple(slice(size) for size in m.shape)]
                rest = projection._along_inputs(_along_each_axis(wide, nu))
            return self._in_units(projection.mean(w) + rest)

        return jax.lax.map(one, jax.random.split(key, n)).reshape(n, *at.shape)

    def _aligned(
        self, at: Rows | Lattice
    ) -> tuple[Rows | Lattice, tuple[int, ...], tuple[int, ...]]:
        """The inputs, and the axis of theirs that each of this latent's groups runs along.

        A lattice whose axes do not separate this latent's groups is taken as rows.
        """
        if isinstance(at, Lattice):
            homes = [
                [i for i, have in enumerate(at.columns) if set(columns) <= set(have)]
                for columns in self.columns
            ]
            spots = tuple(home[0] for home in homes if home)
            if len(spots) == len(self.columns) and len(set(spots)) == len(spots):
                return at, spots, at.shape
        rows = at.rows()
        return rows, (0,) * len(self.columns), rows.shape


def family(
    members: Sequence[LatentGP], shape: tuple[int, ...], *, shared: bool = False
) -> LatentGP:
    """Latents of one kind as one batch of the given shape, in row-major order.

    With `shared`, all have the kernels and inducing inputs of the first.
    """
    stacked = jax.tree.map(
        lambda *leaves: np.stack(leaves).reshape(*shape, *np.shape(leaves[0])), *members
    )
    common = {"kernels": members[0].kernels, "inducing": members[0].inducing} if shared else {}
    return dataclasses.replace(stacked, leading=len(shape), shared=shared, **common)


def default_jitter(dtype: str) -> float:
    """What is added to a kernel matrix's diagonal, as a part of its mean: √ε of the dtype."""
    return float(np.sqrt(np.finfo(dtype).eps))


def cholesky(
    K: Float[Array, "M M"], jitter: ArrayLike, relative_to: Float[Array, "M M"] | None = None
) -> Float[Array, "M M"]:
    """L with L Lᵀ = K + jitter · mean(diag) · I: the one place that adds jitter.

    The diagonal is that of K itself, or of the matrix that K is a remainder of.
    """
    whole = K if relative_to is None else relative_to
    scale = stop_gradient(jitter) * jnp.mean(jnp.diagonal(whole))
    return jnp.linalg.cholesky(K + scale * jnp.eye(K.shape[0], dtype=K.dtype))


_INPUT_LETTERS = "xyzuvrst"
_INDUCING_LETTERS = "abcdefghijklmnop"


def _select(at: Rows | Lattice, columns: tuple[int, ...], spot: int) -> Array:
    """The coordinates of some columns along one axis of the inputs."""
    if isinstance(at, Rows):
        return jnp.asarray(at.X)[:, columns]
    within = tuple(at.columns[spot].index(c) for c in columns)
    return jnp.asarray(at.axes[spot])[:, within]


def _lower_triangle(factor: ArrayLike) -> Array:
    factor = jnp.asarray(factor)
    return jnp.tril(factor, -1) + jnp.diag(jnp.exp(jnp.diagonal(factor)))


def _along_each_axis(matrices: list[Array], values: Array) -> Array:
    """(M_1 ⊗ M_2 ⊗ …) values, one axis at a time."""
    for axis, matrix in enumerate(matrices):
        values = jnp.moveaxis(jnp.tensordot(matrix, values, axes=(1, axis)), 0, axis)
    return values
