"""Sentences on what a model has learned: distances and hours rather than length-scales."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq

from zigp.gp.kernels import Categorical, Linear, Periodic, Stationary
from zigp.gp.latent import LatentGP
from zigp.report.roles import Roles, kinds_of
from zigp.runtime.session import entry_point

_UNITS = ("hour", "day", "week", "month", "year")
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
    parts = model.parts_.values()
    latents = {name: gp for part in parts for name, gp in part.model_.untied().items()}
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
    """Yield a sentence for each kernel of a latent function, or for each of its columns."""
    kinds = kinds_of(model)
    for kernel, group, Z in zip(latent.kernels, latent.columns, latent.Z, strict=True):
        for leaf, columns in kernel.leaves(tuple(range(len(group)))):
            names = [str(model.feature_names_in_[group[c]]) for c in columns]
            match leaf:
                case Stationary():
                    extents = np.ptp(np.asarray(Z)[:, columns], axis=0)
                    yield from _distances(leaf, names, extents, kinds, roles)
                case Periodic():
                    units = ["hours" if kinds.get(name) == "time" else name for name in names]
                    yield f"It repeats every {leaf.period:g} {' and '.join(units)}."
                case Linear():
                    yield f"It changes in straight lines with {' and '.join(names)}."
                case Categorical():
                    alike = np.broadcast_to(np.asarray(leaf.similarity), len(names))
                    for name, one in zip(names, alike, strict=True):
                        yield f"Different levels of {name} are {one:.0%} correlated."


def _distances(
    kernel: Stationary,
    names: Sequence[str],
    extents: np.ndarray,
    kinds: Mapping[str, str],
    roles: Roles,
) -> Iterator[str]:
    """Yield the distance along each column, or in all of them, of half the correlation."""
    in_lengthscales = brentq(
        lambda r: float(kernel.correlation(jnp.asarray(r * r))) - 0.5, 1e-6, 50.0
    )
    half = np.asarray(kernel.lengthscale, float) * in_lengthscales
    if kernel.metric == "chordal":
        yield f"{amount(float(half), 'km')} apart the correlation is one half."
        return
    makes = "makes"
    if half.ndim == 0 and len(names) > 1:
        names, extents, makes = [" and ".join(names)], extents.max(keepdims=True), "make"
    for name, one, extent in zip(names, np.broadcast_to(half, len(names)), extents, strict=True):
        what, distance, apart = name, one, f"apart in {name}"
        if kinds.get(name) == "time":
            unit, per = ("days", 24.0) if one >= 48 else ("hours", 1.0)
            what, distance, apart = "time", one / per, f"{unit} apart"
        elif name == roles.time and name.lower() in _UNITS:
            apart = f"{name.lower()}s apart"
        if one > _LONG * max(extent, 1e-300):
            yield f"{what[0].upper()}{what[1:]} {makes} next to no difference."
        else:
            yield f"{amount(float(distance))} {apart} the correlation is one half."
