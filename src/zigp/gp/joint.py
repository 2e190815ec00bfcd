"""Latents that share one q: a latent by itself, or two that are coupled."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import add
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import PRNGKeyArray

from zigp.gp.batch import Lattice, Rows
from zigp.gp.coupling import Coupling, Curvature, Pair
from zigp.gp.covariances import Covariance
from zigp.gp.latent import LatentGP, part_of, with_part
from zigp.gp.moments import Moments
from zigp.gp.projection import Projection


class Joint(eqx.Module):
    """The latents of one q by name, and the coupling of two."""

    latents: dict[str, LatentGP]
    coupling: Coupling | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the latents; of two, the second follows the first."""
        if self.coupling is None:
            return tuple(self.latents)
        return (self.coupling.on, *(name for name in self.latents if name != self.coupling.on))

    @property
    def pair(self) -> Pair[LatentGP]:
        return Pair(*(self.latents[name] for name in self.names))

    def through(self, projections: Mapping[str, Projection]) -> dict[str, Moments]:
        """Return the moments of each latent at every input, with their covariance."""
        moments = {name: gp.through(projections[name]) for name, gp in self.latents.items()}
        if self.coupling is None:
            return moments
        one, two = self.names

        def added(
            coupling: Coupling, v: Pair[Array], cov: Covariance, seen: Pair[Projection]
        ) -> Any:
            var, between = coupling.added(seen, cov)
            inputs = seen.first.inputs
            between = jnp.sqrt(v.first * v.second) * between
            return (v.second * var).reshape(inputs), between.reshape(inputs)

        first_cov, seen = self.pair.first.q_cov, Pair(projections[one], projections[two])
        var, cov = self._each(added, self.coupling, self._variances, first_cov, seen)
        first, second = moments[one], moments[two]
        return {
            one: Moments(first.mean, first.var, {two: cov}),
            two: Moments(second.mean, second.var + var),
        }

    def kl(self) -> Array:
        """Return KL(q(w) ‖ N(0, I))."""
        apart = reduce(add, (gp.kl() for gp in self.latents.values()))
        return apart if self.coupling is None else apart + self.coupling.penalty()

    def at_noise(self, noise: Mapping[str, Array]) -> dict[str, Array]:
        """Return m + R ε for standard normal noise ε shaped as the means of q."""
        names, coupling = self.names, self.coupling
        pair = [self.latents[name] for name in names]

        def moved(
            coupling: Coupling | None, means: list[Array], covs: list[Any], noise: list[Array]
        ) -> list[Array]:
            drawn = [m + cov.colour(e) for m, cov, e in zip(means, covs, noise, strict=True)]
            if coupling is not None:
                drawn[1] = drawn[1] + coupling.follow(noise[0]).reshape(drawn[1].shape)
            return drawn

        means, covs = [jnp.asarray(gp.q_mean) for gp in pair], [gp.q_cov for gp in pair]
        for _ in range(pair[0].leading):
            moved = jax.vmap(moved)
        return dict(
            zip(names, moved(coupling, means, covs, [noise[n] for n in names]), strict=True)
        )

    def logdet(self) -> Array:
        """Return log |S|."""
        total = jnp.zeros(())
        for gp in self.latents.values():
            logdet = lambda cov: cov.logdet()  # noqa: E731
            for _ in range(gp.leading):
                logdet = jax.vmap(logdet)
            total = total + jnp.sum(logdet(gp.q_cov))
        return total

    def draw(
        self, keys: Mapping[str, PRNGKeyArray], at: Rows | Lattice, n: int
    ) -> dict[str, Array]:
        """Draw n functions of each latent, each jointly over all inputs."""
        if self.coupling is None:
            return {name: gp.draw(keys[name], at, n) for name, gp in self.latents.items()}
        (one, two), latents = self.names, self.pair
        noise = latents.first.noise(keys[one], n)

        def followed(coupling: Coupling, noise: Array, like: Array) -> Array:
            return jax.vmap(lambda one: coupling.follow(one).reshape(like.shape))(noise)

        shift = self._each(followed, self.coupling, noise, latents.second.q_mean)
        return {
            one: latents.first.draw(keys[one], at, n),
            two: latents.second.draw(keys[two], at, n, shift),
        }

    def natural_step(
        self,
        projections: Mapping[str, Projection],
        slopes: Mapping[str, Moments],
        rate: Array,
        convex: ArrayLike = 1.0,
    ) -> Joint:
        """Take a natural-gradient step of q up the bound, with everything else fixed.

        `slopes` are the derivatives of the expected log likelihood by the moments of the latents.
        With A and w = −2v ∂var, and −√(v₁v₂) ∂cov between two latents,

            H = I + A diag(w) Aᵀ        S⁻¹ ← (1 − rate) S⁻¹ + rate H
            m ← m + rate S (√v A ∂mean − m)

        At rate 1 this is the exact optimum of a latent that enters linearly with Gaussian noise.
        Elsewhere H can have negative eigenvalues, and no such S exists: `convex` multiplies
        negative w. A step that does not exist gives NaN.
        """
        if self.coupling is None:
            ((name, gp),) = self.latents.items()
            return Joint({name: gp.natural_step(projections[name], slopes[name], rate, convex)})
        one, two = self.names
        cov = slopes[one].cov[two]

        def step(
            coupling: Coupling,
            v: Pair[Array],
            means: Pair[Array],
            covs: Pair[Covariance],
            seen: Pair[Projection],
            slopes: Pair[Moments],
            cov: Array,
        ) -> tuple[Coupling, Pair[Covariance], Pair[Array]]:
            shape = seen.first.shape
            weights = Curvature(
                -2.0 * v.first * slopes.first.var.reshape(shape),
                -2.0 * v.second * slopes.second.var.reshape(shape),
                -jnp.sqrt(v.first * v.second) * cov.reshape(shape),
            ).cut(jnp.asarray(convex))
            gradients = [
                projection.pull(jnp.sqrt(scale) * slope.mean.reshape(shape)) - m
                for projection, scale, slope, m in zip(seen, v, slopes, means, strict=True)
            ]
            return coupling.natural_step(seen, covs, weights, Pair(*gradients), rate)

        pair, seen = self.pair, Pair(projections[one], projections[two])
        means, covs = Pair(*(gp.q_mean for gp in pair)), Pair(*(gp.q_cov for gp in pair))
        slope = Pair(*(Moments(slopes[name].mean, slopes[name].var) for name in self.names))
        own = (self._variances, means, covs)
        coupling, covs, change = self._each(step, self.coupling, *own, seen, slope, cov)
        moved = [
            eqx.tree_at(lambda gp: (gp.q_mean, gp.q_cov), gp, (gp.q_mean + by, cov))
            for gp, by, cov in zip(pair, change, covs, strict=True)
        ]
        return Joint(dict(zip(self.names, moved, strict=True)), coupling)

    def part(self, first: Array, shape: tuple[int, ...]) -> Joint:
        """Return the part of a family that starts at an index and has this shape."""
        latents = {name: gp.part(first, shape) for name, gp in self.latents.items()}
        return Joint(latents, jax.tree.map(lambda leaf: part_of(leaf, first, shape), self.coupling))

    def with_part(self, first: Array, part: Joint) -> Joint:
        """Return the family with a part of it replaced."""
        latents = {
            name: gp.with_part(first, part.latents[name]) for name, gp in self.latents.items()
        }
        coupling = jax.tree.map(
            lambda leaf, new: with_part(leaf, first, new), self.coupling, part.coupling
        )
        return Joint(latents, coupling)

    def _each(self, function: Any, *mapped: Any) -> Any:
        """Apply a function of one pair to the whole family at once."""
        for _ in range(self.pair.first.leading):
            function = jax.vmap(function)
        return function(*mapped)

    @property
    def _variances(self) -> Pair[Array]:
        return Pair(*(gp.variance for gp in self.pair))
