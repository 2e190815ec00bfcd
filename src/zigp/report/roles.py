"""Which of a model's columns are places, and which is the time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from zigp.data.names import is_globe, is_plane, is_time, places_among
from zigp.plots.labels import with_unit

__all__ = ["Roles"]


@dataclass(frozen=True)
class Roles:
    """What the columns are to a reader: the target, places (east, north), time, and the rest.

    >>> Roles("rain_mm", ("lon", "lat"), "hour").others(["lat", "lon", "hour", "height"])
    ['height']
    """

    target: str
    places: tuple[str, str] | None = None  # east, then north
    time: str | None = None
    unit: str = ""  # of the target
    on_earth: bool = False  # places are longitude and latitude in degrees

    @classmethod
    def of(
        cls,
        model: Any,
        *,
        target: str | None = None,
        space: Sequence[str] | None = None,
        time: str | None = None,
    ) -> Roles:
        """What was said when the model was fitted, or else what the columns' names suggest."""
        kinds = _kinds(model)
        said, units = getattr(model, "origin_", {}), getattr(model, "units_", {})
        if space is not None and len(space) != 2:
            raise ValueError(f"A map needs two columns, such as lon,lat; not {', '.join(space)}.")
        for name in (*(space or ()), *([time] if time else [])):
            if name not in kinds:
                raise ValueError(f"The model has no column {name!r}; it has {', '.join(kinds)}.")
            if kinds[name] == "category" or (name != time and kinds[name] != "number"):
                raise ValueError(f"Column {name!r} holds no numbers that a map could be drawn by.")
        if target is not None and (target in kinds or target not in (units or {target})):
            fitted = f" It was fitted to {', '.join(units)}." if units else ""
            raise ValueError(f"{target!r} is not what the model explains.{fitted}")
        target = target or next(iter(units), "y")
        time = time or said.get("time") or _time(kinds)
        latlon = _latlon(model, list(kinds))
        numbers = [name for name, kind in kinds.items() if kind == "number" and name != time]
        places = places_among(space or numbers)
        if space is not None:
            places = places or (space[0], space[1])
        elif latlon:
            places = (latlon[1], latlon[0])
        elif len(named := [n for n in said.get("space") or () if n in numbers]) == 2:
            places = places_among(named) or (named[0], named[1])
        on_earth = places is not None and (places == (latlon and latlon[::-1]) or is_globe(*places))
        return cls(target, places, time, units.get(target, ""), on_earth)

    def others(self, names: Sequence[str]) -> list[str]:
        """The columns that are neither places nor the time."""
        return [name for name in names if name not in (self.places or ()) and name != self.time]

    @property
    def to_scale(self) -> bool:
        """Whether east and north are lengths that a map shows alike."""
        return self.on_earth or (self.places is not None and is_plane(*self.places))

    @property
    def in_unit(self) -> str:
        """The target with its unit, for the axis of a chart."""
        return with_unit(self.target, self.unit)


def _kinds(model: Any) -> dict[str, str]:
    """What each of the model's columns holds."""
    table = getattr(model, "table_", None)
    if table is not None:
        return {name: one.kind for name, one in table.columns.items()}
    return {str(name): "number" for name in getattr(model, "feature_names_in_", ())}


def _time(kinds: dict[str, str]) -> str | None:
    """A column of times; or of numbers, by its name."""
    by_kind = [name for name, kind in kinds.items() if kind == "time"]
    numbers = [name for name, kind in kinds.items() if kind == "number"]
    by_name = [name for name in numbers if is_time(name)]
    return next(iter([*by_kind, *by_name]), None)


def _latlon(model: Any, names: Sequence[str]) -> tuple[str, str] | None:
    """Latitude and longitude, where the model measures in km over the globe."""
    part = getattr(model, "regressor_", model)
    pair = getattr(part, "layout_", None) and part.layout_.latlon
    return (names[pair[0]], names[pair[1]]) if pair and names else None
