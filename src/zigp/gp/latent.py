"""A Gaussian process seen through inducing variables: its prior, its posterior q, its marginals.

Whitened: a latent is f = β + √v h with h a GP of unit amplitude, u = L w its values at the
inducing inputs (K_mm = L Lᵀ), q(w) = N(m, S) and KL taken against N(0, I). With
A = L⁻¹ K(Z, X),

    mean = β + √v Aᵀm          var = v (k − |a|² + aᵀ S a)

Inputs form groups of columns, each with a kernel and a set of inducing inputs. With several groups
K = K_1 ⊗ K_2 ⊗ …, A factors likewise, and every contraction runs over one group at a time. Plain
inducing points are the case of one group. No Kronecker product is formed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import mul
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Float, PRNGKeyArray

from zigp.gp.batch import Lattice, Rows
from zigp.gp.covariances import COVARIANCES, Covariance, CovarianceName
from zigp.gp.inducing import Inducing
from zigp.gp.kernels import Kernel
from zigp.gp.moments import Moments
from zigp.gp.projection import Projection, along_each_axis, default_jitter, whitened, with_jitter


class LatentGP(eqx.Module):
    """A latent function under q: prior mean β, prior variance v, kernels, inducing inputs, q.

    A whole family of latents (see `family`) is also a `LatentGP`, computed as one batch: every
    array has `leading` additional axes in front. Kernels and inducing inputs of a `shared` family
    have none.
    """

    kernels: tuple[Kernel, ...]
    inducing: tuple[Inducing, ...] | None  # None: those of another latent, see `Model.untied`
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
        """Return a latent whose q starts as N(0, q_sd² I) in the whitened space."""
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
        """v."""
        return jnp.exp(jnp.asarray(self.log_variance))

    @property
    def family_shape(self) -> tuple[int, ...]:
        """The lengths of the leading axes; () for a single latent."""
        return np.shape(self.log_variance)[: self.leading]

    @property
    def Z(self) -> tuple[Array, ...]:
        return tuple(group.Z for group in self._groups)

    @property
    def _groups(self) -> tuple[Inducing, ...]:
        assert self.inducing is not None, "a tied latent: take it from Model.untied()"
        return self.inducing

    def project(self, at: Rows | Lattice) -> Projection:
        """Return A at the inputs, for latents of unit amplitude."""
        return self._each(lambda gp: gp._project(at))

    def through(self, projection: Projection) -> Moments:
        """Return mean and variance at every input: axes of the family, then of the inputs."""
        return self._each(lambda gp, projection: gp._through(projection), projection)

    def marginal(self, at: Rows | Lattice) -> Moments:
        """Return mean and variance at inputs."""
        return self.through(self.project(at))

    def kl(self) -> Array:
        """Return KL(q(w) ‖ N(0, I)) = ½ (tr S + |m|² − M − log |S|), summed over the family."""
        return jnp.sum(self._each(lambda gp: gp._kl()))

    def noise(self, key: PRNGKeyArray, n: int) -> Float[Array, "*lead n ..."]:
        """Return the standard normal noise of n draws from q."""
        return self._each(lambda gp, key: gp._noise(key, n), self._keys(key))

    def draw(
        self, key: PRNGKeyArray, at: Rows | Lattice, n: int, shift: ArrayLike | None = None
    ) -> Float[Array, "n ..."]:
        """Draw n functions from q, each jointly over all inputs.

        `shift` is added to the whitened inducing variables: axes of the family, then of the draws.
        """
        shift = self._each(lambda gp: jnp.zeros(n)) if shift is None else shift
        draws = self._each(lambda gp, *args: gp._draw(at, *args), self._keys(key), shift)
        return jnp.moveaxis(draws, self.leading, 0)

    def _keys(self, key: PRNGKeyArray) -> PRNGKeyArray:
        return jax.random.split(key, self.family_shape)

    def natural_step(
        self,
        projection: Projection,
        slope: Moments,
        rate: Array,
        convex: ArrayLike = 1.0,
    ) -> LatentGP:
        """Take a natural-gradient step of q up the bound, with the rest of the latent fixed.

        `slope` is the derivative of the expected log likelihood with respect to the marginals of
        this latent. With A and w = −2v ∂var,

            H = I + A diag(w) Aᵀ        S⁻¹ ← (1 − rate) S⁻¹ + rate H
            m ← m + rate S (√v A ∂mean − m)

        At rate 1 this is the exact optimum of a latent that enters linearly with Gaussian noise.
        Elsewhere w can be negative, and so large that no such S exists: `convex` multiplies
        negative w. A step that does not exist gives NaN.
        """

        def one(gp: LatentGP, projection: Projection, slope: Moments) -> tuple[Array, Any]:
            m, v = jnp.asarray(gp.q_mean), gp.variance
            by_mean, by_var = (part.reshape(projection.shape) for part in (slope.mean, slope.var))
            pulled = projection.pull(jnp.sqrt(v) * by_mean)
            weights = -2.0 * v * by_var
            weights = jnp.where(weights < 0, convex * weights, weights)
            cov, change = gp._step(projection, weights, pulled, rate)
            return m + change, cov

        moved = self._each(one, projection, slope)
        return eqx.tree_at(lambda gp: (gp.q_mean, gp.q_cov), self, moved)

    def _each(self, function: Callable, *mapped: Any) -> Any:
        """Apply a function of one latent to the whole family at once."""
        paths, structure = jax.tree_util.tree_flatten_with_path(self)
        axes = [None if path[0].name in self._common else 0 for path, _ in paths]

        def one(leaves: list[Array], *args: Any) -> Any:
            return function(jax.tree.unflatten(structure, leaves), *args)

        for _ in range(self.leading):
            one = jax.vmap(one, in_axes=(axes, *(0 for _ in mapped)))
        return one([jnp.asarray(leaf) for _, leaf in paths], *mapped)

    def extended(self, at: Rows | Lattice) -> LatentGP:
        """Return this latent with what it needs to be evaluated at inputs: nothing more."""
        return self

    def placed(self, at: Rows | Lattice) -> LatentGP:
        """Return this latent ready to be trained on data at inputs."""
        return self

    def compact(self) -> LatentGP:
        """Return this latent without what `refreshed` computes from the rest."""
        return self

    def refreshed(self) -> LatentGP:
        """Return this latent with all that follows from the rest."""
        return self

    def members(self) -> Iterator[tuple[tuple[int, ...], LatentGP]]:
        """Yield each latent of the family with its index; that of a single latent is ()."""
        for place in np.ndindex(*self.family_shape):
            one = self._map(lambda leaf, place=place: np.asarray(leaf)[place])
            yield place, dataclasses.replace(one, leading=0, shared=False)

    def part(self, first: Array, shape: tuple[int, ...]) -> LatentGP:
        """Return the part of the family that starts at an index and has this shape."""
        return self._map(lambda leaf: part_of(leaf, first, shape))

    def with_part(self, first: Array, part: LatentGP) -> LatentGP:
        """Return the family with a part of it replaced."""
        return self._map(lambda leaf, new: with_part(leaf, first, new), part)

    def _map(self, function: Callable, *others: LatentGP) -> LatentGP:
        """Apply a function to every array except those that the whole family shares."""

        def at(path: tuple[Any, ...], leaf: Any, *rest: Any) -> Any:
            return leaf if path[0].name in self._common else function(leaf, *rest)

        return jax.tree_util.tree_map_with_path(at, self, *others)

    @property
    def _common(self) -> tuple[str, ...]:
        """The fields that the whole family shares."""
        return ("kernels", "inducing") if self.shared else ()

    def _project(self, at: Rows | Lattice) -> Projection:
        aligned, spots = self._aligned(at)
        A, prior = [], []
        for kernel, group, columns, spot in zip(
            self.kernels, self._groups, self.columns, spots, strict=True
        ):
            X = select(aligned, columns, spot)
            A.append(self._whitened(kernel, group.Z, X))
            prior.append(kernel.diag(X))
        return Projection(tuple(A), tuple(prior), spots, aligned.shape, at.shape)

    def _whitened(self, kernel: Kernel, Z: Array, X: Array) -> Array:
        """Return L⁻¹ K(Z, X) of one group."""
        return whitened(with_jitter(kernel(Z, Z), self.jitter), kernel(Z, X))

    def _step(
        self, projection: Projection, weights: Array, pulled: Array, rate: Array
    ) -> tuple[Any, Array]:
        """Return S and the change of the mean after a natural-gradient step of one latent."""
        gradient = pulled - jnp.asarray(self.q_mean)
        return self.q_cov.natural_step(projection, weights, gradient, rate)

    def _through(self, projection: Projection) -> Moments:
        mean = self._in_units(projection.mean(jnp.asarray(self.q_mean)))
        var = self.variance * (projection.unexplained() + self.q_cov.quadratic(projection))
        return Moments(mean.reshape(projection.inputs), var.reshape(projection.inputs))

    def _in_units(self, h: Array) -> Array:
        """Return β + √v h."""
        return jnp.asarray(self.prior_mean) + jnp.sqrt(self.variance) * h

    def _kl(self) -> Array:
        return self.q_cov.divergence(jnp.asarray(self.q_mean))

    def _noise(self, key: PRNGKeyArray, n: int) -> Float[Array, "n ..."]:
        def one(key: PRNGKeyArray) -> Array:
            m = jnp.asarray(self.q_mean)
            return jax.random.normal(jax.random.split(key)[0], m.shape, m.dtype)

        return jax.vmap(one)(jax.random.split(key, n))

    def _draw(
        self, at: Rows | Lattice, key: PRNGKeyArray, shift: Float[Array, "n ..."]
    ) -> Float[Array, "n ..."]:
        """Draw n functions of one latent.

        With R Rᵀ = K(X, X) − AᵀA and w ~ q, a draw at rows is h = Aᵀw + R ε. On a lattice a draw
        from the prior factors, h₀ = ([A_1ᵀ R_1] ⊗ [A_2ᵀ R_2] ⊗ …) ν, and q moves its part that
        depends on the inducing variables ν_Z: h = h₀ + Aᵀ(w − ν_Z).
        """
        aligned, spots = self._aligned(at)
        projection = self._project(aligned)
        inputs = [select(aligned, c, s) for c, s in zip(self.columns, spots, strict=True)]
        K = [kernel(X, X) for kernel, X in zip(self.kernels, inputs, strict=True)]
        explained = [a.T @ a for a in projection.A]
        if len(set(spots)) < len(spots) or len(spots) == 1:
            K, explained = [reduce(mul, K)], [reduce(mul, explained)]
        roots = [
            jnp.linalg.cholesky(with_jitter(k - e, self.jitter, relative_to=k))
            for k, e in zip(K, explained, strict=True)
        ]

        def one(given: tuple[PRNGKeyArray, Array]) -> Array:
            key, shift = given
            key_w, key_prior = jax.random.split(key)
            m = jnp.asarray(self.q_mean)
            w = m + self.q_cov.colour(jax.random.normal(key_w, m.shape, m.dtype)) + shift
            if len(roots) == 1:
                rest = roots[0] @ jax.random.normal(key_prior, (roots[0].shape[0],), m.dtype)
                rest = projection.along_inputs(rest)
            else:
                wide = [
                    jnp.concatenate([a.T, r], 1) for a, r in zip(projection.A, roots, strict=True)
                ]
                nu = jax.random.normal(key_prior, tuple(x.shape[1] for x in wide), m.dtype)
                w = w - nu[tuple(slice(size) for size in m.shape)]
                rest = projection.along_inputs(along_each_axis(wide, nu))
            return self._in_units(projection.mean(w) + rest)

        n = len(shift)
        return jax.lax.map(one, (jax.random.split(key, n), shift)).reshape(n, *at.shape)

    def _aligned(self, at: Rows | Lattice) -> tuple[Rows | Lattice, tuple[int, ...]]:
        """Return the inputs, and for each group of this latent the axis it runs along.

        A lattice whose axes do not separate the groups of this latent is returned as rows.
        """
        if isinstance(at, Lattice):
            homes = [
                [i for i, have in enumerate(at.columns) if set(columns) <= set(have)]
                for columns in self.columns
            ]
            spots = tuple(home[0] for home in homes if home)
            if len(spots) == len(self.columns) and len(set(spots)) == len(spots):
                return at, spots
        return at.rows(), (0,) * len(self.columns)


def family(
    members: Sequence[LatentGP], shape: tuple[int, ...], *, shared: bool = False
) -> LatentGP:
    """Stack latents of one kind into a family of the given shape, in row-major order.

    In a `shared` family all have the kernels and inducing inputs of the first.
    """
    stacked = jax.tree.map(
        lambda *leaves: np.stack(leaves).reshape(*shape, *np.shape(leaves[0])), *members
    )
    common = {"kernels": members[0].kernels, "inducing": members[0].inducing} if shared else {}
    return dataclasses.replace(stacked, leading=len(shape), shared=shared, **common)


def part_of(leaf: Array, first: Array, shape: tuple[int, ...]) -> Array:
    """Return the part of an array that starts at an index and has this shape on its first axes."""
    rest = jnp.shape(leaf)[len(shape) :]
    return jax.lax.dynamic_slice(jnp.asarray(leaf), _corner(leaf, first), (*shape, *rest))


def with_part(leaf: Array, first: Array, new: Array) -> Array:
    """Return an array with a part of it replaced, which starts at an index."""
    return jax.lax.dynamic_update_slice(jnp.asarray(leaf), new, _corner(leaf, first))


def _corner(leaf: Array, first: Array) -> list[Array]:
    return [*first, *(jnp.zeros((), first.dtype) for _ in range(jnp.ndim(leaf) - len(first)))]


def select(at: Rows | Lattice, columns: tuple[int, ...], spot: int) -> Array:
    """Return the coordinates of some columns along one axis of the inputs."""
    if isinstance(at, Rows):
        return jnp.asarray(at.X)[:, columns]
    within = tuple(at.columns[spot].index(c) for c in columns)
    return jnp.asarray(at.axes[spot])[:, within]
