"""Sentences on what a model has learned: distances and hours rather than length-scales."""

from collections.abc import Iterator, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq

from zigp.gp.kernels import Categorical, Kernel, Linear, Periodic, Stationary
from zigp.gp.latent import LatentGP
from zigp.report.roles import Roles, kinds_of
from zigp.runtime.session import entry_point

_UNITS = {name: f"{name}s" for name in ("hour", "day", "week", "month", "year")}
_LONG = 20.0  # times the extent of the data, from which on a function is practically constant


def amount(value: float, unit: str = "") -> str:
    """Return a number as text with three significant digits.

    >>> amount(1234.5), amount(0.012345, "mm"), amount(3.0)
    ('1,230', '0.0123 mm', '3')
    """
    return f"{float(f'{value:.3g}'):,.10g} {unit}".strip()


@entry_point
def learned(model: Any, roles: Roles) -> list[tuple[str, list[str]]]:
    """Return a heading and sentences for the gate, if there is one, and for the amount."""
    latents: dict[str, LatentGP] = {}
    for part in model.parts_.values():
        latents |= part.model_.untied()
    where_on = " where it is on" if "g" in latents else ""
    headings = {
        "g": f"Where {roles.target} is switched on",
        "f": f"How {roles.target} varies{where_on}",
    }
    return [
        (heading, list(_latent(latents[name], model, roles)))
        for name, heading in headings.items()
        if name in latents
    ]


def _latent(latent: LatentGP, model: Any, roles: Roles) -> Iterator[str]:
    names = [str(n) for n in getattr(model, "feature_names_in_", range(model.n_features_in_))]
    for kernel, group, Z in zip(latent.kernels, latent.columns, latent.Z, strict=True):
        for leaf, columns in kernel.leaves(tuple(range(len(group)))):
            called, places = [names[group[c]] for c in columns], np.asarray(Z)[:, columns]
            yield from _kernel(leaf, called, places, model, roles)


def _kernel(
    kernel: Kernel, names: Sequence[str], Z: np.ndarray, model: Any, roles: Roles
) -> Iterator[str]:
    match kernel:
        case Stationary():
            yield from _distances(kernel, names, Z, model, roles)
        case Periodic():
            units = ["hours" if _is_time(model, name) else name for name in names]
            yield f"It repeats every {kernel.period:g} {' and '.join(units)}."
        case Linear():
            yield f"It changes in straight lines with {' and '.join(names)}."
        case Categorical():
            alike = np.atleast_1d(np.asarray(kernel.similarity))
            for name, one in zip(names, np.broadcast_to(alike, len(names)), strict=True):
                yield f"Different levels of {name} are {one:.0%} correlated."


def _distances(
    kernel: Stationary, names: Sequence[str], Z: np.ndarray, model: Any, roles: Roles
) -> Iterator[str]:
    lengths = np.asarray(kernel.lengthscale, float)
    half = lengths * _half(kernel)
    if kernel.metric == "chordal":
        yield f"{amount(float(half), 'km')} apart the correlation is one half."
        return
    extents = np.ptp(Z, axis=0)
    if half.ndim == 0 and len(names) > 1:
        named, far = " and ".join(names), float(extents.max())
        yield _half_as(float(half), far, f"apart in {named}", f"{named} make")
        return
    for name, one, far in zip(names, np.atleast_1d(half), extents, strict=True):
        if _is_time(model, name):
            unit, per = ("days", 24.0) if one >= 48 else ("hours", 1.0)
            yield _half_as(one / per, far / per, f"{unit} apart", "time makes")
        else:
            of_time = _UNITS.get(name.lower()) if name == roles.time else None
            apart = f"{of_time} apart" if of_time else f"apart in {name}"
            yield _half_as(one, far, apart, f"{name} makes")


def _half_as(distance: float, extent: float, apart: str, what: str) -> str:
    if distance > _LONG * max(extent, 1e-300):
        return f"{what[0].upper()}{what[1:]} next to no difference."
    return f"{amount(distance)} {apart} the correlation is one half."


def _is_time(model: Any, name: str) -> bool:
    return kinds_of(model).get(name) == "time"


def _half(kernel: Stationary) -> float:
    """Return the distance, in length-scales, at which the correlation is one half."""
    return float(brentq(lambda r: float(kernel.correlation(jnp.asarray(r * r))) - 0.5, 1e-6, 50.0))
