"""Which of a model's columns are places, and which is the time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Roles"]

_NORTH = ("lat", "latitude", "y", "north", "northing", "ylat")
_EAST = ("lon", "lng", "long", "longitude", "x", "east", "easting", "xlong", "xloc")
_NORTH_TOO = ("yloc",)
_TIMES = ("time", "date", "datetime", "timestamp", "hour", "day", "week", "month", "year", "t")


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
        names = [str(name) for name in getattr(model, "feature_names_in_", ())]
        said, units = getattr(model, "made_by_", {}), getattr(model, "units_", {})
        for name in (*(space or ()), *([time] if time else [])):
            if name not in names:
                raise ValueError(f"The model has no column {name!r}; it has {', '.join(names)}.")
        target = target or next(iter(units), "y")
        time = time or said.get("time") or _time(model, names)
        latlon = _latlon(model, names)
        given = list(space or said.get("space") or ())
        if space is None and latlon:
            places: tuple[str, str] | None = (latlon[1], latlon[0])
        else:
            places = _pair(given or [name for name in names if name != time])
        if space and places is None:
            places = (space[0], space[1]) if len(space) == 2 else None
        return cls(target, places, time, units.get(target, ""), bool(latlon and places))

    def others(self, names: Sequence[str]) -> list[str]:
        """The columns that are neither places nor the time."""
        return [name for name in names if name not in (self.places or ()) and name != self.time]

    @property
    def in_unit(self) -> str:
        """The target with its unit, for the axis of a chart."""
        return f"{self.target}, {self.unit}" if self.unit else self.target


def _time(model: Any, names: Sequence[str]) -> str | None:
    """A column of times; or of numbers, by its name."""
    table = getattr(model, "table_", None)
    kinds = {} if table is None else {name: one.kind for name, one in table.columns.items()}
    by_kind = [name for name in names if kinds.get(name) == "time"]
    by_name = [name for known in _TIMES for name in names if name.lower() == known]
    return next(iter([*by_kind, *by_name]), None)


def _latlon(model: Any, names: Sequence[str]) -> tuple[str, str] | None:
    """Latitude and longitude, where the model measures in km over the globe."""
    part = getattr(model, "regressor_", model)
    pair = getattr(part, "layout_", None) and part.layout_.latlon
    return (names[pair[0]], names[pair[1]]) if pair and names else None


def _pair(names: Sequence[str]) -> tuple[str, str] | None:
    """East and north among some names; two that were named stand for a plane."""
    by_name = {name.lower(): name for name in names}
    east = [by_name[known] for known in _EAST if known in by_name]
    north = [by_name[known] for known in (*_NORTH, *_NORTH_TOO) if known in by_name]
    return (east[0], north[0]) if east and north else None
