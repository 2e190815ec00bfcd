"""Natural-gradient steps: every latent's q in turn, with all else held.

One function for every model, which it knows by its marginals alone: the derivative of the expected
log likelihood with respect to a latent's mean and variance at every input is all that a step
needs. Where a latent enters linearly under Gaussian noise, a step of rate 1 is the exact optimum.
Elsewhere, as inside a gate, steps are shorter, and none is taken that lowers the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from zigp.batch import Batch
from zigp.covariances import Kronecker
from zigp.latent import LatentGP, Moments
from zigp.models import Model
from zigp.projection import Projection

__all__ = ["has_steps", "natural_sweep"]

_DAMPING = 0.5  # of a step where the bound is not quadratic
_HALVINGS = 4  # of a step that lowers the bound, before it is given up


def has_steps(latent: LatentGP) -> bool:
    """Whether a latent's q has natural-gradient steps: a Kronecker product has none."""
    return not isinstance(latent.q_cov, Kronecker)


def natural_sweep(
    model: Model,
    batch: Batch,
    rate: ArrayLike = 1.0,
    total: Callable[[Array], Array] = lambda part: part,
    names: Sequence[str] | None = None,
) -> Model:
    """The model after a natural-gradient step for the q of each latent named, one after another.

    Members of a family that enter one output, as the latents of a network do, take their steps in
    turn as well. `total` adds up over devices what was summed over the inputs of one.
    """
    complete, at = model.complete(), batch.at
    seen = {name: latent.project(at) for name, latent in complete.items()}
    marginals = {name: latent.through(seen[name]) for name, latent in complete.items()}
    for name in [n for n in complete if has_steps(complete[n])] if names is None else names:
        latent = complete[name]

        def expected(own: Moments, name: str = name, others: dict = marginals) -> Array:
            acting = model.exposed(others | {name: own}, at)
            return model.likelihood.expected(model.signal, acting, batch)

        own = marginals[name]
        linear = model.likelihood.linear and name in model.signal.linear
        for turn in _turns(model, name, latent):
            rates = jnp.asarray(turn * rate * (1.0 if linear else _DAMPING), own.mean.dtype)
            before, slope = jax.value_and_grad(expected)(own)
            if linear:
                latent = latent.natural_step(seen[name], slope, rates, total)
                own = latent.through(seen[name])
            else:
                latent, own = _safe_step(
                    latent, own, seen[name], slope, rates, total, expected, total(before)
                )
        complete[name], marginals = latent, marginals | {name: own}
    return model.with_q(complete)


def _turns(model: Model, name: str, latent: LatentGP) -> Iterator[np.ndarray]:
    """Who of a family steps, one array of zeros and ones after the other.

    Those that are added up into one output take turns.
    """
    letters = next(leaf.letters for leaf in model.signal.leaves if leaf.name == name)
    shape = np.shape(latent.log_variance)[: latent.leading]
    axis = [i for i, letter in enumerate(letters) if letter not in model.signal.axes]
    places = np.indices(shape).reshape(len(shape), *shape)
    for turn in np.ndindex(*(shape[i] for i in axis)):
        here = [places[i] == t for i, t in zip(axis, turn, strict=True)]
        yield np.asarray(np.all(here, axis=0) if here else np.ones(shape), float)


def _safe_step(
    latent: LatentGP,
    own: Moments,
    seen: Projection,
    slope: Moments,
    rates: Array,
    total: Callable[[Array], Array],
    expected: Callable[[Moments], Array],
    before: Array,
) -> tuple[LatentGP, Moments]:
    """A step that is halved while it lowers the bound, and not taken if it still does."""
    reached = before - latent.kl()

    def tried(halved: Array) -> tuple[LatentGP, Moments, Array]:
        # Negative curvature counts where that goes well: without it the optimum is missed.
        convex = (halved < _HALVINGS).astype(rates.dtype)
        new = latent.natural_step(seen, slope, rates * 0.5**halved, total, convex)
        there = new.through(seen)
        return new, there, total(expected(there)) - new.kl()

    def lower(state: tuple) -> Array:
        halved, (_, _, value) = state
        return ~(value >= reached) & (halved < _HALVINGS)

    def halve(state: tuple) -> tuple:
        halved = state[0] + 1
        return halved, tried(halved)

    first = jnp.asarray(0)
    _, (new, there, value) = jax.lax.while_loop(lower, halve, (first, tried(first)))
    better = value >= reached
    return jax.tree.map(lambda n, o: jnp.where(better, n, o), (new, there), (latent, own))
