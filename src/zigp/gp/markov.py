"""The full covariance of q on a lattice, with one axis along which the prior is a Markov process.

On a lattice of places and times with a Matérn kernel along time, w holds the states of one chain
for each inducing place: whitened over places, not over time, so that p(w) = N(0, I ⊗ P⁻¹) with P
block tridiagonal. Observations change the precision at single times only,

    S⁻¹ = I ⊗ P + Σ_t A diag(ω_t) Aᵀ        A = L⁻¹ K(Z, X) over places

and one number ω for each cell of the training data, its site, is all that S depends on. Inputs must
be at times with states: `extended` adds more of them, which changes nothing at the others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import reduce
from math import prod
from operator import mul

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Float, PRNGKeyArray

from zigp.gp.batch import Lattice, Rows
from zigp.gp.chain import ORDERS, Chain, Filtered, colour, filtered, smoothed, solve, walk
from zigp.gp.inducing import Inducing
from zigp.gp.kernels import Kernel
from zigp.gp.latent import LatentGP, select
from zigp.gp.projection import Projection, default_jitter, with_jitter

_SAME_TIME = 1e-9  # of the range of times
_ROWS_AT_ONCE = 64  # each takes a copy of an [s × s] block


class Markov(eqx.Module):
    """S as the covariance of s chains at T times, with states of size d."""

    sites: Float[ArrayLike, "T cells"]  # ω, in the units of a latent of unit amplitude
    functions: Float[ArrayLike, "T s s"]  # the blocks of S that belong to the functions
    same: Float[ArrayLike, "T d d"]  # Σ over chains of the blocks of states
    following: Float[ArrayLike, "T-1 d d"]  # the same between a time and the next
    precision_logdet: ArrayLike
    places: tuple[Float[ArrayLike, "_ _"], ...]  # coordinates of the training data, by group
    axis: int = eqx.field(static=True)  # the group of the times

    @classmethod
    def prior(cls, chain: Chain, axis: int, inducing: int) -> Markov:
        """Return the covariance of the prior, for a number of inducing places and no data."""
        T, d = len(chain.A) + 1, chain.A.shape[-1]
        eye = np.eye(d)
        return cls(
            np.zeros((T, 0)),
            np.broadcast_to(np.eye(inducing), (T, inducing, inducing)),
            np.broadcast_to(inducing * eye, (T, d, d)),
            inducing * np.swapaxes(np.asarray(chain.A), 1, 2),
            np.asarray(-inducing * chain.logdet()),
            (),
            axis,
        )

    def placed(self, places: tuple[np.ndarray, ...]) -> Markov:
        """Return S with a site, so far 0, for every time at each of these places of data."""
        same = [np.array_equal(a, b) for a, b in zip(places, self.places, strict=False)]
        if len(places) == len(self.places) and all(same):
            return self
        sites = np.zeros(
            (len(np.asarray(self.sites)), prod(map(len, places))), np.asarray(self.sites).dtype
        )
        return dataclasses.replace(self, sites=sites, places=places)

    @property
    def _d(self) -> int:
        return int(jnp.shape(self.same)[-1])

    def read(self, states: Array, times: Array) -> Array:
        """Return A along the times, [T d × n]: a column picks the function at its time."""
        nearest = jnp.argmin(jnp.abs(states[:, None] - times), axis=0)
        return jax.nn.one_hot(nearest * self._d, len(states) * self._d, axis=0, dtype=times.dtype)

    def states(self, w: Array) -> Array:
        """Return variables on the inducing lattice as states of chains, [T, d, s]."""
        ahead = jnp.moveaxis(w, self.axis, 0)
        return ahead.reshape(len(ahead) // self._d, self._d, -1)

    def lattice(self, states: Array, like: Array) -> Array:
        """Return states of chains as variables on the inducing lattice."""
        shape = jnp.moveaxis(like, self.axis, 0).shape
        return jnp.moveaxis(states.reshape(shape), 0, self.axis)

    def divergence(self, m: Array, chain: Chain) -> Array:
        """KL(N(m, S) ‖ p(w)) = ½ (tr PS + mᵀPm − dim − log |P| |S|), by the moves of the chain."""
        x = self.states(m)
        same = jnp.asarray(self.same) + x @ jnp.swapaxes(x, 1, 2)
        following = jnp.asarray(self.following) + x[:-1] @ jnp.swapaxes(x[1:], 1, 2)
        logdet = jnp.asarray(self.precision_logdet) + x.shape[-1] * chain.logdet()
        return 0.5 * (chain.square(same, following) - x.size + logdet)

    def quadratic(self, projection: Projection) -> Array:
        """Return aᵀ S a at every input."""
        A, at = self.over_places(projection), self._times(projection)
        functions = jnp.asarray(self.functions)
        if len(set(projection.spots)) == 1 and len(projection.spots) > 1:
            which = jnp.argmax(at, axis=0)

            def one(given: tuple[Array, Array]) -> Array:
                a, t = given
                return a @ functions[t] @ a

            return jax.lax.map(one, (A.T, which), batch_size=_ROWS_AT_ONCE)
        return self.at_cells(jnp.sum((functions @ A) * A, axis=1), projection)

    def natural_step(
        self,
        projection: Projection,
        weights: Array,
        pulled: Array,
        m: Array,
        rate: Array,
        chain: Chain,
    ) -> tuple[Markov, Array]:
        """Return S and the change of the mean m after a natural-gradient step.

        The new sites are (1 − rate) ω + rate · weights, and the mean changes by
        rate S (pulled − P m).
        """
        by_time = self._by_time(weights, projection)
        sites = (1.0 - rate) * self.sites + rate * by_time
        states = filtered(chain, _gram(self.over_places(projection), sites))
        gradient = self.states(pulled) - chain.times(self.states(m))
        change = rate * solve(states, gradient)
        return self._with(sites, states), self.lattice(change, m)

    def _with(self, sites: Array, states: Filtered) -> Markov:
        found = smoothed(states)
        where = lambda q: (q.sites, q.functions, q.same, q.following, q.precision_logdet)  # noqa: E731
        return eqx.tree_at(where, self, (sites, *found, states.logdet))

    def refreshed(self, A: Array, chain: Chain) -> Markov:
        """Return S for other hyperparameters with the same sites; A is that of `places`."""
        return self._with(jnp.asarray(self.sites), self.filtered(A, chain))

    def compact(self) -> Markov:
        """Return S by its sites alone."""
        nothing = np.zeros((0, *np.shape(self.functions)[1:]), np.asarray(self.sites).dtype)
        return eqx.tree_at(lambda q: q.functions, self, nothing)

    def filtered(self, A: Array, chain: Chain) -> Filtered:
        """Return the factorised precision; A is that of `places`."""
        return filtered(chain, _gram(A, jnp.asarray(self.sites)))

    def extended(
        self, m: Array, at: Array, A: Array, chain: Chain, longer: Chain
    ) -> tuple[Markov, Array]:
        """Return S and the mean with more times; the present ones are `at` positions among them.

        Times without data only need the prior: the natural parameters of the others stay.
        """
        x, sites = self.states(m), jnp.asarray(self.sites)
        natural = chain.times(x)
        natural = natural.at[:, 0].add(jnp.einsum("tij,tj->ti", _gram(A, sites), x[:, 0]))
        T = len(longer.A) + 1
        more = jnp.zeros((T, sites.shape[1]), sites.dtype).at[at].set(sites)
        states = filtered(longer, _gram(A, more))
        mean = solve(states, jnp.zeros((T, *x.shape[1:]), x.dtype).at[at].set(natural))
        shape = jnp.moveaxis(m, self.axis, 0).shape[1:]
        lattice = mean.reshape(T * self._d, *shape)
        return self._with(more, states), jnp.moveaxis(lattice, 0, self.axis)

    def over_places(self, projection: Projection) -> Array:
        """Return A over all groups but that of the times, [s × places]."""
        others = [a for i, a in enumerate(projection.A) if i != self.axis]
        if len(set(projection.spots)) == 1 and len(projection.spots) > 1:  # rows
            return reduce(lambda a, b: (a[:, None] * b).reshape(-1, b.shape[1]), others)
        return reduce(jnp.kron, others, jnp.ones((1, 1), projection.A[self.axis].dtype))

    def _times(self, projection: Projection) -> Array:
        """Return 1 where an input is at a time with states, [T × inputs along the axis]."""
        A = projection.A[self.axis]
        return A.reshape(-1, self._d, A.shape[-1])[:, 0]

    def _order(self, projection: Projection) -> list[int]:
        """Return the axes of the inputs: that of the times, then those of the other groups."""
        others = [spot for i, spot in enumerate(projection.spots) if i != self.axis]
        return [projection.spots[self.axis], *others]

    def _by_time(self, values: Array, projection: Projection) -> Array:
        """Return a number for each cell of the inputs as [T, places]."""
        used = sorted(projection.spots)
        values = projection.over_unused(values)
        values = jnp.transpose(values, [used.index(spot) for spot in self._order(projection)])
        return self._times(projection) @ values.reshape(len(values), -1)

    def at_cells(self, values: Array, projection: Projection) -> Array:
        """Return numbers of all states and places, [T, places], in the cells of a lattice."""
        order, used = self._order(projection), sorted(projection.spots)
        shaped = self._times(projection).T @ values
        shaped = shaped.reshape([projection.shape[spot] for spot in order])
        return projection.along_inputs(jnp.transpose(shaped, [order.index(s) for s in used]))


class ChainedGP(LatentGP):
    """A latent function on a lattice whose q has a full covariance along a chain of times."""

    q_cov: Markov  # type: ignore[assignment]

    @classmethod
    def create(  # type: ignore[override]
        cls,
        kernels: tuple[Kernel, ...],
        Z: tuple[np.ndarray, ...],
        columns: tuple[tuple[int, ...], ...],
        *,
        variance: float = 1.0,
        prior_mean: float = 0.0,
        dtype: str = "float64",
    ) -> ChainedGP:
        """Return a latent whose q starts as the prior; it needs `placed` before it is trained."""
        axis = time_axis(kernels, columns)
        assert axis is not None
        inducing = tuple(Inducing.at(z) for z in Z)
        chain = Chain.of(kernels[axis], jnp.asarray(inducing[axis].Z[:, 0]))
        shape = [len(z) for z in Z]
        q_cov = Markov.prior(chain, axis, prod(shape) // shape[axis])
        shape[axis] *= chain.A.shape[-1]
        latent = cls(
            kernels=tuple(kernels),
            inducing=inducing,
            q_mean=np.zeros(shape),
            q_cov=q_cov,
            log_variance=np.log(variance),
            prior_mean=np.asarray(prior_mean, float),
            jitter=default_jitter(dtype),
            columns=tuple(tuple(group) for group in columns),
        )
        return jax.tree.map(lambda leaf: np.asarray(leaf, dtype), latent)

    @property
    def chain(self) -> Chain:
        """The moves of the states between times."""
        axis = self.q_cov.axis
        return Chain.of(self.kernels[axis], self._groups[axis].Z[:, 0])

    def extended(self, at: Rows | Lattice) -> LatentGP:
        """Return this latent with a state at every time of these inputs."""
        axis = self.q_cov.axis
        (column,), known = self.columns[axis], np.asarray(self._groups[axis].Z[:, 0])
        aligned, spots = self._aligned(at)
        times = np.unique(np.asarray(select(aligned, (column,), spots[axis])))
        nearest = np.abs(times[:, None] - known).min(axis=1)
        new = times[nearest > _SAME_TIME * np.ptp([*known, *times])]
        if not len(new):
            return self
        every = np.sort(np.concatenate([known, new]))
        groups = list(self._groups)
        groups[axis] = Inducing.at(every[:, None])
        longer = Chain.of(self.kernels[axis], groups[axis].Z[:, 0])
        cov, mean = self._extended(jnp.asarray(np.searchsorted(every, known)), longer)
        return dataclasses.replace(self, inducing=tuple(groups), q_cov=cov, q_mean=mean)

    @eqx.filter_jit
    def _extended(self, at: Array, longer: Chain) -> tuple[Markov, Array]:
        m = jnp.asarray(self.q_mean)
        return self.q_cov.extended(m, at, self._over_places(), self.chain, longer)

    def placed(self, at: Rows | Lattice) -> LatentGP:
        aligned, spots = self._aligned(at)
        places = tuple(
            np.asarray(select(aligned, columns, spot))
            for i, (columns, spot) in enumerate(zip(self.columns, spots, strict=True))
            if i != self.q_cov.axis
        )
        return dataclasses.replace(self, q_cov=self.q_cov.placed(places))

    def compact(self) -> LatentGP:
        return dataclasses.replace(self, q_cov=self.q_cov.compact())

    def refreshed(self) -> LatentGP:
        """Return this latent with the covariance of q that its sites and hyperparameters give."""
        # Of the compact form, so that a model that was saved and loaded has the same bits.
        found = self.compact()._refreshed()  # type: ignore[attr-defined]
        return dataclasses.replace(self, q_cov=jax.tree.map(np.asarray, found))

    @eqx.filter_jit
    def _refreshed(self) -> Markov:
        return self.q_cov.refreshed(self._over_places(), self.chain)

    def _over_places(self) -> Array:
        """Return A of the places of the training data."""
        places = iter(self.q_cov.places)
        others = [
            self._whitened(kernel, group.Z, jnp.asarray(next(places)))
            for i, (kernel, group) in enumerate(zip(self.kernels, self._groups, strict=True))
            if i != self.q_cov.axis
        ]
        return reduce(jnp.kron, others, jnp.ones((1, 1)))

    def _project(self, at: Rows | Lattice) -> Projection:
        aligned, spots = self._aligned(at)
        A, prior = [], []
        for i, (kernel, group, columns, spot) in enumerate(
            zip(self.kernels, self._groups, self.columns, spots, strict=True)
        ):
            X = select(aligned, columns, spot)
            prior.append(kernel.diag(X))
            if i == self.q_cov.axis:
                A.append(self.q_cov.read(group.Z[:, 0], X[:, 0]))
            else:
                A.append(self._whitened(kernel, group.Z, X))
        return Projection(tuple(A), tuple(prior), spots, aligned.shape, at.shape)

    def _kl(self) -> Array:
        return self.q_cov.divergence(jnp.asarray(self.q_mean), self.chain)

    def _step(
        self, projection: Projection, weights: Array, pulled: Array, rate: Array
    ) -> tuple[Markov, Array]:
        m = jnp.asarray(self.q_mean)
        return self.q_cov.natural_step(projection, weights, pulled, m, rate, self.chain)

    def _draw(
        self, at: Rows | Lattice, key: PRNGKeyArray, shift: Float[Array, "n ..."]
    ) -> Float[Array, "n ..."]:
        """Draw functions, at times that have states.

        A draw of the states gives the part that depends on the inducing places. What is left is
        independent of it, with the covariance (K(X, X) − AᵀA) over places times that over time.
        """
        cov, chain, n = self.q_cov, self.chain, len(shift)
        aligned, spots = self._aligned(at)
        projection = self._project(aligned)
        states, m = cov.filtered(self._over_places(), chain), jnp.asarray(self.q_mean)
        T, d, s = cov.states(m).shape
        inputs = [select(aligned, c, spot) for c, spot in zip(self.columns, spots, strict=True)]
        K = [kernel(X, X) for kernel, X in zip(self.kernels, inputs, strict=True)]
        over_time = K.pop(cov.axis)
        A = cov.over_places(projection)
        rows = len(set(spots)) == 1 and len(spots) > 1
        prior = reduce(mul if rows else jnp.kron, K, jnp.ones((1, 1)))
        rest = with_jitter(prior - A.T @ A, self.jitter, relative_to=prior)
        root = jnp.linalg.cholesky(rest * over_time if rows else rest)

        def one(key: PRNGKeyArray) -> Array:
            key_states, key_rest = jax.random.split(key)
            drawn = colour(states, jax.random.normal(key_states, (T, d * s), m.dtype))
            mean = projection.mean(m + cov.lattice(drawn, m))
            if rows:
                left = root @ jax.random.normal(key_rest, (len(root),), m.dtype)
            else:
                noise = jax.random.normal(key_rest, (T, d, len(root)), m.dtype)
                left = cov.at_cells(walk(chain, noise)[:, 0] @ root.T, projection)
            return self._in_units(mean + left)

        return jax.lax.map(one, jax.random.split(key, n)).reshape(n, *at.shape)


def time_axis(kernels: Sequence[Kernel], columns: Sequence[Sequence[int]]) -> int | None:
    """Return the last group of one column whose kernel has a Markov form, if there is one."""
    fit = [
        i
        for i, (kernel, group) in enumerate(zip(kernels, columns, strict=True))
        if type(kernel) in ORDERS and len(group) == 1
    ]
    return fit[-1] if fit else None


def _gram(A: Array, sites: Array) -> Array:
    """A diag(ω_t) Aᵀ for each time, [T, s, s]."""
    return (A * sites[:, None, :]) @ A.T
