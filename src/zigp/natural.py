"""Natural-gradient steps: every latent's q in turn, with all else held.

One function for every model, which it knows by its marginals alone: the derivative of the expected
log likelihood with respect to a latent's mean and variance at every input is all that a step
needs. Where a latent enters linearly under Gaussian noise, a step of rate 1 is the exact optimum.
Elsewhere, as inside a gate, steps are shorter, and none is taken that lowers the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from zigp.batch import Batch
from zigp.covariances import Kronecker, Total
from zigp.latent import LatentGP, Moments, part_of, with_part
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
    total: Total = lambda part: part,
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
        complete[name], marginals[name] = _stepped(
            model, batch, name, complete[name], seen[name], marginals, rate, total
        )
    return model.with_q(complete)


def _stepped(
    model: Model,
    batch: Batch,
    name: str,
    latent: LatentGP,
    seen: Projection,
    marginals: Mapping[str, Moments],
    rate: ArrayLike,
    total: Total,
) -> tuple[LatentGP, Moments]:
    """A latent after its step, or a family after the step of each, and its marginals there."""
    linear = model.likelihood.linear and name in model.signal.linear
    rate = jnp.asarray(rate if linear else rate * _DAMPING, marginals[name].mean.dtype)
    places, shape = _turns(model, name, latent)

    def turn(held: tuple[LatentGP, Moments], first: Array) -> tuple[tuple[LatentGP, Moments], None]:
        whole, all_own = held

        def of(family: Any) -> Any:
            return jax.tree.map(lambda leaf: part_of(leaf, first, shape), family)

        def among(own: Moments) -> Moments:
            return jax.tree.map(lambda leaf, new: with_part(leaf, first, new), all_own, own)

        def expected(own: Moments) -> Array:
            acting = model.exposed({**marginals, name: among(own)}, batch.at)
            return model.likelihood.expected(model.signal, acting, batch)

        latent, own, here = whole.part(first, shape), of(all_own), of(seen)
        before, slope = jax.value_and_grad(expected)(own)
        if linear:
            latent = latent.natural_step(here, slope, rate, total)
            own = latent.through(here)
        else:
            reached = total(before)
            latent, own = _safe_step(latent, own, here, slope, rate, total, expected, reached)
        return (whole.with_part(first, latent), among(own)), None

    # A loop, so that a network of twenty latents compiles as fast as one of two.
    return jax.lax.scan(turn, (latent, marginals[name]), places)[0]


def _turns(model: Model, name: str, latent: LatentGP) -> tuple[Array, tuple[int, ...]]:
    """Where in a family each turn begins, [turns, axes], and the shape of those who step in it.

    Those that are added up into one output take turns.
    """
    letters = next(leaf.letters for leaf in model.signal.leaves if leaf.name == name)
    family = np.shape(latent.log_variance)[: latent.leading]
    waits = [letter not in model.signal.axes for letter in letters]
    turns = np.ndindex(*(n if w else 1 for n, w in zip(family, waits, strict=True)))
    shape = tuple(1 if w else n for n, w in zip(family, waits, strict=True))
    return jnp.asarray(list(turns), dtype=int), shape


def _safe_step(
    latent: LatentGP,
    own: Moments,
    seen: Projection,
    slope: Moments,
    rate: Array,
    total: Total,
    expected: Callable[[Moments], Array],
    before: Array,
) -> tuple[LatentGP, Moments]:
    """A step that is halved while it lowers the bound, and not taken if it still does."""
    reached = before - latent.kl()

    def lower(state: tuple[Array, LatentGP, Moments, Array]) -> Array:
        halved, *_, value = state
        return ~(value >= reached) & (halved < _HALVINGS)

    def halve(state: tuple[Array, LatentGP, Moments, Array]) -> tuple:
        halved = state[0] + 1
        # Negative curvature counts where that goes well: without it the optimum is missed.
        convex = (halved < _HALVINGS).astype(rate.dtype)
        new = latent.natural_step(seen, slope, rate * 0.5**halved, total, convex)
        there = new.through(seen)
        return halved, new, there, total(expected(there)) - new.kl()

    # The first try is the whole step, and everything is better than no try at all.
    state = jnp.asarray(-1), latent, own, jnp.full_like(reached, -jnp.inf)
    _, new, there, value = jax.lax.while_loop(lower, halve, state)
    better = value >= reached
    return jax.tree.map(lambda n, o: jnp.where(better, n, o), (new, there), (latent, own))
