"""Signs of trouble in a fitted model, as sentences that say what to do."""

from collections.abc import Iterator, Mapping, Sequence

import jax.numpy as jnp
import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import pdist
from scipy.special import ndtr

from zigp.gp.batch import Lattice
from zigp.gp.kernels import Stationary
from zigp.gp.latent import LatentGP
from zigp.models.likelihoods import Gated, Gaussian, HurdleLognormal
from zigp.models.likelihoods.gaussian import NOISE_FLOOR
from zigp.models.model import Model

_RISING = 0.05  # nats per row, over the last quarter of the steps
_FEWEST_STEPS = 100
_NEVER = 0.03  # the largest distance of a constant gate from 0 or 1
_COLLAPSED = 1e-5  # distance of two inducing inputs, in units of their spread
_MOST_PLACES = 2000
_EXTREME = 1e4  # a multiple of the median that leaves no digits for the rest
_OUTLIERS = (
    "The largest value of y is {:.1g} times the median of the non-zero values and sets the scale, "
    "so the others can hardly be told apart. Correct it, leave it out, or model logarithms, for "
    "example with likelihood='hurdle_lognormal'."
)
_KM_PER_DEGREE = 111.2
_APART = 1.05  # R-hat of chains that disagree
_FEWEST_DRAWS = 100  # that are independent
_GATES = ("g", "k")  # the latents of gates Φ(g)


def findings(
    model: Model,
    names: list[str],
    bounds: np.ndarray | None,
    failure: str,
    retried: Sequence[int] = (),
    reach: float = 1.0,
) -> list[str]:
    """Return a sentence for each sign of trouble.

    `bounds` are the bounds of the steps, per row; without them convergence is not checked.
    `retried` are the steps at which the jitter was raised, and `reach` is the largest output
    divided by the median.
    """
    latents = {
        f"{name}{list(place) or ''}": gp
        for name, whole in model.untied().items()
        for place, gp in whole.members()
    }
    return [
        *([f"Training failed. {failure}"] if failure else _training(bounds)),
        *_jitter(model, retried),
        *([_OUTLIERS.format(reach)] if reach > _EXTREME else []),
        *(said for name, gp in latents.items() for said in _latent(name, gp, names)),
        *(said for name, gp in latents.items() if name[0] in _GATES for said in _gate(name, gp)),
        *_noise(model),
    ]


def chain_findings(
    rhat: Mapping[str, np.ndarray], ess: Mapping[str, np.ndarray], divergent: np.ndarray
) -> list[str]:
    """Return a sentence for each sign that chains have not reached the posterior."""
    found = []
    if count := int(divergent.sum()):
        found.append(
            f"{count:,} of {divergent.size:,} transitions diverged: parts of the posterior may be "
            "left out. Raise warmup, or fix parameters that the data do not determine."
        )
    apart = {k: float(np.max(v)) for k, v in rhat.items() if np.max(v) > _APART}
    if apart:
        worst = max(apart, key=lambda name: apart[name])
        found.append(
            f"Chains disagree about {', '.join(apart)}: R-hat is up to {apart[worst]:.2f} "
            f"({worst}). Raise draws and warmup."
        )
    few = {k: float(np.min(v)) for k, v in ess.items() if np.min(v) < _FEWEST_DRAWS}
    if few:
        worst = min(few, key=lambda name: few[name])
        found.append(
            f"Few independent draws of {', '.join(few)}: as few as {few[worst]:.0f} ({worst}). "
            "Raise draws."
        )
    return found


def _training(bounds: np.ndarray | None) -> Iterator[str]:
    """Compare means of the bound at the end and a quarter of the steps before it."""
    if bounds is None:
        return
    quarter, few = len(bounds) // 4, max(len(bounds) // 20, 1)
    if len(bounds) < _FEWEST_STEPS:
        yield f"Not converged: {len(bounds)} steps are too few to tell. Raise steps."
        return
    gain = float(bounds[-few:].mean() - bounds[-quarter - few : -quarter].mean())
    if gain > _RISING:
        yield (
            f"Not converged: over the last quarter of its {len(bounds)} steps the bound still rose "
            f"by {gain:.2g} per row. Raise steps."
        )


def _jitter(model: Model, retried: Sequence[int]) -> Iterator[str]:
    """Report covariance matrices that needed more jitter."""
    if retried:
        most = max(float(np.max(latent.jitter)) for latent in model.latents.values())
        yield (
            f"The bound was not finite after step {', '.join(map(str, retried))}, and the jitter "
            f"was raised tenfold there, to {most:.1g} of the prior variance. Use fewer inducing "
            "points, check for columns of X in extreme units, and use dtype='float64'."
        )


def _latent(name: str, latent: LatentGP, names: list[str]) -> Iterator[str]:
    for kernel, group, Z in zip(latent.kernels, latent.columns, latent.Z, strict=True):
        places = np.asarray(Z, float)  # the squares of large float32 numbers overflow
        yield from _collapsed(name, places)
        for part, columns in kernel.leaves(tuple(range(len(group)))):
            if not isinstance(part, Stationary):
                continue
            here = places[:, columns]
            if part.metric == "chordal":  # kilometres on the ground, north and east
                here = _KM_PER_DEGREE * here * [1.0, np.cos(np.deg2rad(here[:, 0].mean()))]
            called = [names[group[c]] for c in columns]
            yield from _lengths(name, np.asarray(part.lengthscale), here, called)


def _lengths(
    latent: str, lengths: np.ndarray, places: np.ndarray, columns: list[str]
) -> Iterator[str]:
    """Compare length-scales, one for all columns or one each, with the inducing points."""
    extents = np.ptp(places, axis=0)
    if lengths.ndim == 0:
        lengths, extents = lengths[None], extents.max(keepdims=True)
        columns = [" and ".join(columns)]
    for length, extent, column in zip(lengths, extents, columns, strict=True):
        if extent > 0 and length > 3.0 * extent:
            yield (
                f"{latent} hardly varies with {column}: its length-scale {length:.3g} is much "
                f"larger than the extent of the data, {extent:.3g}. Leave the column out, or check "
                "its units."
            )
    distinct = np.unique(places / lengths, axis=0)
    if len(distinct) < 3:
        return
    gap = float(np.median(cKDTree(distinct).query(distinct, k=2)[0][:, 1]))
    if gap > 2.0:
        yield (
            f"{latent} varies with {' and '.join(columns)} faster than the inducing points resolve"
            f": neighbouring ones are {gap:.3g} length-scales apart, and between them predictions "
            "return to the prior mean. Raise n_inducing, or choose another kernel."
        )


def _collapsed(latent: str, places: np.ndarray) -> Iterator[str]:
    some, spread = places[:_MOST_PLACES], places.std(axis=0)
    if len(some) > 1 and pdist(some / np.where(spread > 0, spread, 1.0)).min() < _COLLAPSED:
        yield (
            f"Inducing points of {latent} have collapsed onto each other: fewer would do. Lower "
            "n_inducing."
        )


def _gate(name: str, latent: LatentGP) -> Iterator[str]:
    """Report a gate that is open, or shut, at all inducing inputs."""
    g = latent.marginal(Lattice(latent.Z, latent.columns))
    on = ndtr(np.asarray(g.mean / jnp.sqrt(1.0 + g.var)))
    if on.min() > 1.0 - _NEVER:
        yield f"The gate {name} is open everywhere: the signal is never switched off."
    if on.max() < _NEVER:
        yield f"The gate {name} is shut everywhere: the signal is never switched on."


def _noise(model: Model) -> Iterator[str]:
    match model.likelihood:
        case Gated() as noise:
            values, what = noise.on, "Where the signal is on the noise"
        case Gaussian() | HurdleLognormal() as noise:
            values, what = noise.noise, "The noise"
        case _:
            return
    if np.any(np.asarray(values) < 2.0 * NOISE_FLOOR):
        yield (
            f"{what} is at its floor: the model passes through the observations. Check for "
            "duplicated rows or noise-free data, or use fewer inducing points."
        )
