"""What was learned, in sentences: distances and hours rather than length-scales."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq

from zigp.gp.kernels import Categorical, Kernel, Linear, Periodic, Stationary
from zigp.gp.latent import LatentGP
from zigp.report.roles import Roles
from zigp.runtime.session import entry_point

__all__ = ["amount", "as_it_is", "learned", "noise"]

_UNITS = {name: f"{name}s" for name in ("hour", "day", "week", "month", "year")}
_LONG = 20.0  # times the extent of the data: as good as constant


def amount(value: float, unit: str = "") -> str:
    """A number as people write it, with three digits that count.

    >>> amount(1234.5), amount(0.012345, "mm"), amount(3.0)
    ('1,230', '0.0123 mm', '3')
    """
    if value == 0 or not np.isfinite(value):
        text = f"{value:g}"
    elif abs(value) >= 100:
        digits = 2 - int(np.floor(np.log10(abs(value))))
        text = f"{round(value, digits):,.0f}"
    else:
        text = f"{float(f'{value:.3g}'):.10g}"
    return f"{text} {unit}".strip()


def as_it_is(value: Any) -> str:
    """An input as text, with eight digits; times to the minute if that is all they have.

    >>> as_it_is(20240101.0)
    '20240101'
    """
    if isinstance(value, (int, float, np.number)):
        return f"{value:.8g}"
    text = str(value)
    clock = getattr(value, "second", 1) == 0 and getattr(value, "microsecond", 0) == 0
    return text[:16] + text[19:] if clock and text[13:14] == ":" == text[16:17] else text


@entry_point
def learned(model: Any, roles: Roles) -> list[tuple[str, list[str]]]:
    """What a fit says about amount and gate: a heading and sentences for each."""
    if hasattr(model, "regressor_"):
        parts = [
            (f"Whether there is any {roles.target}", model.classifier_, "g"),
            (f"How much {roles.target} there is", model.regressor_, "f"),
        ]
    elif hasattr(model, "prob_on"):
        parts = [
            (f"Where {roles.target} is switched on", model, "g"),
            (f"How much {roles.target} there is where it is on", model, "f"),
        ]
    else:
        parts = [(f"How {roles.target} varies", model, "f")]
    return [
        (title, list(_latent(part.model_.untied()[name], model, roles)))
        for title, part, name in parts
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
        yield f"{amount(float(half), 'km')} apart it is half as correlated."
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
    return f"{amount(distance)} {apart} it is half as correlated."


def _is_time(model: Any, name: str) -> bool:
    table = getattr(model, "table_", None)
    return (
        table is not None
        and table.columns.get(name) is not None
        and (table.columns[name].kind == "time")
    )


def _half(kernel: Stationary) -> float:
    """The distance, in length-scales, at which values are half as correlated."""
    return float(brentq(lambda r: float(kernel.correlation(jnp.asarray(r * r))) - 0.5, 1e-6, 50.0))


def noise(model: Any, roles: Roles) -> str:
    """How observations scatter around what was learned, in one sentence."""
    found = getattr(model, "noise_", None)
    if hasattr(model, "regressor_"):
        found = {"sd": float(model.regressor_.noise_sd_)}
    elif found is None:
        found = {"sd": float(model.noise_sd_)}
    unit = roles.unit
    match found:
        case {"off_sd": off, "on_sd": on}:
            return (
                f"Observations scatter by about {amount(off, unit)} where {roles.target} is off "
                f"and by {amount(on, unit)} where it is fully on."
            )
        case {"sd": sd}:
            return f"Observations scatter by about {amount(sd, unit)} around the signal."
        case {"log_sd": sd}:
            return (
                f"Where there is any {roles.target}, two of three observations are within a factor "
                f"of {amount(float(np.exp(sd)))} of what is typical."
            )
        case {"shape": shape}:
            share = float(1.0 / np.sqrt(shape))
            return f"Where there is any {roles.target}, it scatters by {share:.0%} of its mean."
        case {"dispersion": r}:
            sd = float(np.sqrt(10.0 + 100.0 / r))
            return f"Counts around a mean of 10 have a standard deviation of {amount(sd)}."
        case _:
            return "Counts scatter as Poisson counts do."
