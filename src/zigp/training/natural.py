"""Natural-gradient steps of the q of each latent in turn, with everything else fixed.

One function serves every model: a step only needs the derivatives of the expected log likelihood by
the mean and variance of a latent at every input. For a latent that enters linearly with Gaussian
noise, a step of rate 1 is the exact optimum. For others, such as those inside a gate, steps are
shorter, and none is taken that lowers the bound.

The expected log likelihood depends on hyperparameters through the marginals and through those of
the likelihood: the slopes after the last step give their gradient without another pass over the
data.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from zigp.gp.batch import Batch
from zigp.gp.joint import Joint
from zigp.gp.latent import part_of, with_part
from zigp.gp.moments import Moments
from zigp.gp.projection import Projection
from zigp.models.model import Model
from zigp.models.objective import Slopes, slopes

Several = dict[str, Moments]

_DAMPING = 0.5  # of a step where the bound is not quadratic
_HALVINGS = 4  # of a step that lowers the bound, before it is given up


def natural_sweep(
    model: Model,
    batch: Batch,
    projections: Mapping[str, Projection],
    rate: ArrayLike = 1.0,
    names: Sequence[str] | None = None,
) -> tuple[Model, Slopes]:
    """Take a natural-gradient step for the q of each named latent, one after another.

    Members of a family that enter the same output, such as the latents of a network, take their
    steps in turn as well. `projections` are those of the latents at the batch. The slopes after the
    last step are returned too.
    """
    joints, after = model.joints(), None
    marginals = model.through(projections)
    for i, joint in enumerate(joints):
        if names is None or joint.names[0] in names:
            joints[i], moved, after = _stepped(model, batch, joint, projections, marginals, rate)
            marginals = {**marginals, **moved}
    return model.with_q(joints), slopes(model, marginals, batch) if after is None else after


def _stepped(
    model: Model,
    batch: Batch,
    joint: Joint,
    projections: Mapping[str, Projection],
    marginals: Mapping[str, Moments],
    rate: ArrayLike,
) -> tuple[Joint, Several, Slopes | None]:
    """Return latents, or families, after their steps, and their marginals there.

    The slopes there are returned if the last step was judged by the bound after it.
    """
    names = joint.names
    alone = len(names) == 1 and model.mixing is None
    linear = model.likelihood.linear and alone and names[0] in model.signal.linear
    rate = jnp.asarray(rate if linear else rate * _DAMPING, marginals[names[0]].mean.dtype)
    places, shape = _turns(model, joint)
    projection = {name: projections[name] for name in names}

    Carry = tuple[Joint, Several, Slopes | None]

    def turn(carry: Carry, first: Array) -> tuple[Carry, None]:
        family, family_marginals, _ = carry

        def own(tree: Any) -> Any:
            return jax.tree.map(lambda leaf: part_of(leaf, first, shape), tree)

        def whole(moments: Several) -> Several:
            return jax.tree.map(
                lambda leaf, new: with_part(leaf, first, new), family_marginals, moments
            )

        def slopes_at(moments: Several) -> Slopes:
            return slopes(model, {**marginals, **whole(moments)}, batch)

        member, at, moments = family.part(first, shape), own(projection), own(family_marginals)
        before, after = slopes_at(moments), None
        slope = own({name: before.marginals[name] for name in names})
        if linear:
            member = member.natural_step(at, slope, rate)
            moments = member.through(at)
        else:
            member, moments, after = _safe_step(member, moments, at, slope, rate, slopes_at, before)
        return (family.with_part(first, member), whole(moments), after), None

    unknown = None
    if not linear:  # the loop needs slopes of the right shapes to begin with
        shapes = jax.eval_shape(lambda: slopes(model, marginals, batch))
        unknown = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    # With a loop a network of twenty latents compiles as fast as one of two.
    own_marginals = {name: marginals[name] for name in names}
    return jax.lax.scan(turn, (joint, own_marginals, unknown), places)[0]


def _turns(model: Model, joint: Joint) -> tuple[Array, tuple[int, ...]]:
    """Return the index at which each turn starts in a family, [turns, axes], and its shape.

    Members that are summed into one output take turns.
    """
    name = joint.names[0]
    letters = next(leaf.letters for leaf in model.signal.leaves if leaf.name == name)
    axes = [
        (n, letter not in model.signal.axes)
        for n, letter in zip(joint.latents[name].family_shape, letters, strict=True)
    ]
    turns = np.ndindex(*(n if waits else 1 for n, waits in axes))
    return jnp.asarray(list(turns), dtype=int), tuple(1 if waits else n for n, waits in axes)


def _safe_step(
    joint: Joint,
    moments: Several,
    projection: Mapping[str, Projection],
    slope: Several,
    rate: Array,
    slopes_at: Callable[[Several], Slopes],
    before: Slopes,
) -> tuple[Joint, Several, Slopes]:
    """Halve a step while it lowers the bound, and do not take it if it still does."""
    Attempt = tuple[Array, Joint, Several, Slopes, Array]
    reached = before.value - joint.kl()

    def lower(state: Attempt) -> Array:
        halved, *_, value = state
        return ~(value >= reached) & (halved < _HALVINGS)

    def halve(state: Attempt) -> Attempt:
        halved = state[0] + 1
        # Negative curvature is used where it raises the bound: without it the optimum is missed.
        convex = (halved < _HALVINGS).astype(rate.dtype)
        new = joint.natural_step(projection, slope, rate * 0.5**halved, convex)
        there = new.through(projection)
        after = slopes_at(there)
        return halved, new, there, after, after.value - new.kl()

    # The first attempt is the whole step, and any attempt is better than none.
    state = jnp.asarray(-1), joint, moments, before, jnp.full_like(reached, -jnp.inf)
    *_, new, there, after, value = jax.lax.while_loop(lower, halve, state)
    better = value >= reached
    stayed = joint, moments, before
    return jax.tree.map(lambda n, o: jnp.where(better, n, o), (new, there, after), stayed)
