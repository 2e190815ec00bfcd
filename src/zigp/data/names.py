"""Columns that hold places or times, by their names."""

from collections.abc import Iterable

_LATITUDES = ("lat", "latitude")
_LONGITUDES = ("lon", "lng", "long", "longitude")
_PLANES = (("x", "y"), ("east", "north"), ("easting", "northing"), ("xloc", "yloc"))
_TIMES = ("time", "date", "datetime", "timestamp", "year", "month", "week", "day", "hour")


def is_latitude(name: str) -> bool:
    """Return whether a column holds latitudes."""
    return name.lower() in _LATITUDES


def is_longitude(name: str) -> bool:
    """Return whether a column holds longitudes."""
    return name.lower() in _LONGITUDES


def is_globe(across: str, up: str) -> bool:
    """Return whether two columns are longitude and latitude."""
    return is_longitude(across) and is_latitude(up)


def is_plane(across: str, up: str) -> bool:
    """Return whether two columns are places on a plane."""
    return (across.lower(), up.lower()) in _PLANES


def is_time(name: str) -> bool:
    """Return whether a column holds times."""
    return name.lower() in _TIMES


def places_among(names: Iterable[str]) -> tuple[str, str] | None:
    """Return the only two columns that run across and up a map, degrees if there are some.

    >>> places_among(["lat", "lon", "depth"])
    ('lon', 'lat')
    """
    names = list(names)
    pairs = [(a, b) for a in names for b in names]
    for is_pair in (is_globe, is_plane):
        if len(places := [pair for pair in pairs if is_pair(*pair)]) == 1:
            return places[0]
    return None
