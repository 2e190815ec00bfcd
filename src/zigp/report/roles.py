"""Roles of a model's columns: target, places, time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from zigp.data.columns import is_time, places_among
from zigp.plots.marks import degrees_of


@dataclass(frozen=True)
class Roles:
    """The roles of columns in a report: the target, places and the time.

    Parameters
    ----------
    target : str
        Name of the observations.
    places : pair of str, default=None
        Columns that run east and north on a map.
    time : str, default=None
        Column of times.
    unit : str, default=""
        Unit of the target.

    Examples
    --------
    >>> Roles("rain_mm", ("lon", "lat"), "hour", unit="mm").places
    ('lon', 'lat')
    """

    target: str
    places: tuple[str, str] | None = None
    time: str | None = None
    unit: str = ""

    @classmethod
    def of(
        cls,
        model: Any,
        *,
        target: str | None = None,
        space: Sequence[str] | None = None,
        time: str | None = None,
    ) -> Self:
        """Return the roles given to `fit`, or else those that the names of columns suggest.

        Parameters
        ----------
        model : estimator
            A fitted model.
        target : str, default=None
            Name of the observations.
        space : pair of str, default=None
            Columns that run east and north on a map.
        time : str, default=None
            Column of times.

        Returns
        -------
        Roles
            The roles of the columns.
        """
        kinds = kinds_of(model)
        fitted, units = getattr(model, "origin_", {}), getattr(model, "units_", {})
        if space is not None and len(space) != 2:
            raise ValueError(f"A map needs two columns, such as lon,lat; not {', '.join(space)}.")
        for name in (*(space or ()), *([time] if time else [])):
            if name not in kinds:
                raise ValueError(f"The model has no column {name!r}; it has {', '.join(kinds)}.")
            if kinds[name] == "category" or (name != time and kinds[name] != "number"):
                raise ValueError(
                    f"Column {name!r} cannot be an axis of a map, since it does not hold numbers."
                )
        if target is not None and (target in kinds or target not in (units or {target})):
            known = f" It was fitted to {', '.join(units)}." if units else ""
            raise ValueError(f"{target!r} is not the target of the model.{known}")
        target = target or next(iter(units), "y")
        times = [name for name, kind in kinds.items() if kind == "time"]
        times += [name for name, kind in kinds.items() if kind == "number" and is_time(name)]
        time = time or fitted.get("time") or next(iter(times), None)
        numbers = [name for name, kind in kinds.items() if kind == "number" and name != time]
        if space is None:
            recorded = [name for name in fitted.get("space") or () if name in numbers]
            space = degrees_of(model) or (recorded if len(recorded) == 2 else None)
        places = places_among(space or numbers) or ((space[0], space[1]) if space else None)
        return cls(target, places, time, units.get(target, ""))


def kinds_of(model: Any) -> dict[str, str]:
    """Return what each column of the model holds: number, time or category."""
    table = getattr(model, "table_", None)
    return {} if table is None else {name: one.kind for name, one in table.columns.items()}
