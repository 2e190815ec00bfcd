"""Natural-gradient steps: every latent's q in turn, with all else held.

One function for every model, which it knows by its marginals alone: the derivative of the expected
log likelihood with respect to a latent's mean and variance at every input is all that a step
needs. Where a latent enters linearly under Gaussian noise, a step of rate 1 is the exact optimum.
Elsewhere, as inside a gate, steps are shorter, and none is taken that lowers the bound.

What is expected of the data depends on hyperparameters through the marginals as well, and on those
of the likelihood: with the slopes that the last step ends with, their gradient needs no look at the
data of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from zigp.gp.batch import Batch
from zigp.gp.covariances import Adder, Kronecker
from zigp.gp.latent import LatentGP, part_of, with_part
from zigp.gp.moments import Moments
from zigp.gp.projection import Projection
from zigp.models.model import Model
from zigp.models.objective import Slopes, slopes

__all__ = ["has_steps", "natural_sweep"]

_DAMPING = 0.5  # of a step where the bound is not quadratic
_HALVINGS = 4  # of a step that lowers the bound, before it is given up


def has_steps(latent: LatentGP) -> bool:
    """Whether a latent's q has natural-gradient steps: a Kronecker product has none."""
    return not isinstance(latent.q_cov, Kronecker)


def natural_sweep(
    model: Model,
    batch: Batch,
    seen: Mapping[str, Projection],
    rate: ArrayLike = 1.0,
    total: Adder = lambda part: part,
    names: Sequence[str] | None = None,
) -> tuple[Model, Slopes]:
    """The model after a natural-gradient step for the q of each latent named, one after another.

    Members of a family that enter one output, as the latents of a network do, take their steps in
    turn as well. `seen` is how each latent sees the batch. `total` adds up over devices what was
    summed over the inputs of one. With the model come the slopes of what it expects of the data, of
    which each device knows those of its own.
    """
    complete = model.complete()
    marginals = {name: latent.through(seen[name]) for name, latent in complete.items()}
    known = None
    for name in [n for n in complete if has_steps(complete[n])] if names is None else names:
        complete[name], marginals[name], known = _stepped(
            model, batch, name, complete[name], seen[name], marginals, rate, total
        )
    return model.with_q(complete), slopes(model, marginals, batch) if known is None else known


def _stepped(
    model: Model,
    batch: Batch,
    name: str,
    latent: LatentGP,
    seen: Projection,
    marginals: Mapping[str, Moments],
    rate: ArrayLike,
    total: Adder,
) -> tuple[LatentGP, Moments, Slopes | None]:
    """A latent after its step, or a family after the step of each, and its marginals there.

    If the last step had to be judged by the bound after it, the slopes there are known.
    """
    linear = model.likelihood.linear and name in model.signal.linear
    rate = jnp.asarray(rate if linear else rate * _DAMPING, marginals[name].mean.dtype)
    places, shape = _turns(model, name, latent)

    Held = tuple[LatentGP, Moments, Slopes | None]

    def turn(held: Held, first: Array) -> tuple[Held, None]:
        whole, all_own, _ = held

        def of(family: Any) -> Any:
            return jax.tree.map(lambda leaf: part_of(leaf, first, shape), family)

        def among(own: Moments) -> dict[str, Moments]:
            family = jax.tree.map(lambda leaf, new: with_part(leaf, first, new), all_own, own)
            return {**marginals, name: family}

        def look(own: Moments) -> Slopes:
            return slopes(model, among(own), batch)

        latent, own, here = whole.part(first, shape), of(all_own), of(seen)
        before, after = look(own), None
        slope = of(before.marginals[name])
        if linear:
            latent = latent.natural_step(here, slope, rate, total)
            own = latent.through(here)
        else:
            latent, own, after = _safe_step(latent, own, here, slope, rate, total, look, before)
        return (whole.with_part(first, latent), among(own)[name], after), None

    unknown = None
    if not linear:  # something of the same shapes, for the loop to put the slopes in
        shapes = jax.eval_shape(lambda: slopes(model, marginals, batch))
        unknown = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    # A loop, so that a network of twenty latents compiles as fast as one of two.
    return jax.lax.scan(turn, (latent, marginals[name], unknown), places)[0]


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
    total: Adder,
    look: Callable[[Moments], Slopes],
    before: Slopes,
) -> tuple[LatentGP, Moments, Slopes]:
    """A step that is halved while it lowers the bound, and not taken if it still does."""
    Tried = tuple[Array, LatentGP, Moments, Slopes, Array]
    reached = total(before.value) - latent.kl()

    def lower(state: Tried) -> Array:
        halved, *_, value = state
        return ~(value >= reached) & (halved < _HALVINGS)

    def halve(state: Tried) -> Tried:
        halved = state[0] + 1
        # Negative curvature counts where that goes well: without it the optimum is missed.
        convex = (halved < _HALVINGS).astype(rate.dtype)
        new = latent.natural_step(seen, slope, rate * 0.5**halved, total, convex)
        there = new.through(seen)
        after = look(there)
        return halved, new, there, after, total(after.value) - new.kl()

    # The first try is the whole step, and everything is better than no try at all.
    state = jnp.asarray(-1), latent, own, before, jnp.full_like(reached, -jnp.inf)
    *_, new, there, after, value = jax.lax.while_loop(lower, halve, state)
    better = value >= reached
    stayed = latent, own, before
    return jax.tree.map(lambda n, o: jnp.where(better, n, o), (new, there, after), stayed)
