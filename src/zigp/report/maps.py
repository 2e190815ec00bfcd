"""The rows on a map, one picture after another in time, small enough for a page."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from zigp.report.roles import Roles
from zigp.report.words import as_it_is

__all__ = ["Maps", "as_number", "chosen_rows", "maps_of"]

_MOST_CELLS = 150_000  # on all pictures together
_MOST_PLACES = 30_000
_MOST_PICTURES = 60  # where every row has a time of its own
_ROWS_OF_A_TIME = 5  # at least, for a picture of its own
_STEPS = 65_534  # that a value is rounded to, of its range; one more stands for nothing


@dataclass(frozen=True)
class Maps:
    """What the page draws: places, and for each picture the values at some of them."""

    places: np.ndarray  # [P, 2], east and north
    place: np.ndarray  # [cells] which of them
    starts: np.ndarray  # [pictures + 1] of the cells of each picture
    labels: list[str]  # of the pictures
    values: dict[str, np.ndarray]  # [cells] of each kind of value
    note: str  # what was left out or averaged, in words; or nothing

    def packed(self) -> dict[str, Any]:
        """As text: numbers of 16 bits, and what takes them back to values."""
        found = {}
        for name, values in self.values.items():
            low, high = np.nanmin(values), np.nanmax(values)
            step = (high - low) / _STEPS if high > low else 1.0
            cells = np.where(np.isfinite(values), np.round((values - low) / step), _STEPS + 1)
            found[name] = {"low": float(low), "step": float(step), "cells": _text(cells, "<u2")}
        return {
            "east": self.places[:, 0].round(6).tolist(),
            "north": self.places[:, 1].round(6).tolist(),
            "place": _text(self.place, "<u4"),
            "starts": self.starts.tolist(),
            "labels": self.labels,
            "values": found,
            "zero": _text(self.values["observed"] == 0, "u1"),
            "note": self.note,
        }


def maps_of(
    X: pd.DataFrame, roles: Roles, rows: np.ndarray, values: Mapping[str, np.ndarray], note: str
) -> Maps:
    """Pictures of the chosen rows; `values` are in their order."""
    assert roles.places is not None
    here = X.iloc[rows]
    picture, labels = _pictures(here, roles)
    where = here[list(roles.places)].to_numpy(float)
    places, place = np.unique(where, axis=0, return_inverse=True)
    # One mark for each place in each picture: several rows there are averaged.
    cells, cell = np.unique(picture * len(places) + place.reshape(-1), return_inverse=True)
    count = np.bincount(cell)
    if count.max() > 1:
        note = f"{note} Rows at the same place and time are shown by their mean.".strip()
    return Maps(
        places,
        cells % len(places),
        np.searchsorted(cells // len(places), np.arange(len(labels) + 1)),
        labels,
        {name: np.bincount(cell, one) / count for name, one in values.items()},
        note,
    )


def chosen_rows(X: pd.DataFrame, roles: Roles) -> tuple[np.ndarray, str]:
    """Rows that a page has room for: whole times, evenly apart, or some rows of each."""
    rows = np.arange(len(X))
    assert roles.places is not None
    if len(X) > _MOST_PLACES and len(X[list(roles.places)].drop_duplicates()) > _MOST_PLACES:
        some = np.sort(np.random.default_rng(0).permutation(rows)[:_MOST_PLACES])
        return some, f"{_MOST_PLACES:,} of the {len(X):,} rows are shown, picked at random."
    if len(X) <= _MOST_CELLS:
        return rows, ""
    every = -(-len(X) // _MOST_CELLS)
    if roles.time is not None:
        times, at = np.unique(as_number(X[roles.time]), return_inverse=True)
        if len(times) >= every * 2:
            kept = at % every == 0
            note = f"One in {every} of the {len(times):,} times is shown."
            if kept.sum() <= 2 * _MOST_CELLS:
                return rows[kept], note
    some = np.sort(np.random.default_rng(0).permutation(rows)[:_MOST_CELLS])
    return some, f"{_MOST_CELLS:,} of the {len(X):,} rows are shown, picked at random."


def _pictures(X: pd.DataFrame, roles: Roles) -> tuple[np.ndarray, list[str]]:
    """For each row the number of its picture, and the pictures' labels."""
    if roles.time is None:
        return np.zeros(len(X), int), [""]
    column = X[roles.time]
    number = as_number(column)
    times, first, at = np.unique(number, return_index=True, return_inverse=True)
    if len(X) >= _ROWS_OF_A_TIME * len(times) or len(times) <= _MOST_PICTURES:
        return at.reshape(-1), [_label(column.iloc[i], roles.time) for i in first]
    edges = np.linspace(times[0], times[-1], _MOST_PICTURES + 1)
    part = np.clip(np.searchsorted(edges, number, side="right") - 1, 0, _MOST_PICTURES - 1)
    shown, picture = np.unique(part, return_inverse=True)
    labels = []
    for one in shown:
        inside = column[part == one]
        ends = [_label(end, roles.time) for end in (inside.min(), inside.max())]
        labels.append(" to ".join(dict.fromkeys(ends)))
    return picture.reshape(-1), labels


def as_number(column: pd.Series) -> np.ndarray:
    """Return times as numbers in their order."""
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    return column.to_numpy().astype(float)


def _label(time: Any, name: str) -> str:
    text = as_it_is(time)
    return f"{name} {text}" if isinstance(time, (int, float, np.number)) else text


def _text(values: np.ndarray, dtype: str) -> str:
    return base64.b64encode(np.asarray(values).astype(dtype).tobytes()).decode()
