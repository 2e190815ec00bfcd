"""Values on maps, one picture for each time, small enough for a page."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from zigp.plots.labels import time_label
from zigp.report.roles import Roles

_MOST_CELLS = 150_000  # in all pictures together
_MOST_PLACES = 30_000
_MOST_PICTURES = 60  # if nearly every row has a time of its own
_ROWS_OF_A_TIME = 5  # on average, for a picture of each time
_STEPS = 65_534  # into which the range of values is divided; one more stands for missing


@dataclass(frozen=True)
class MapData:
    """Values at places, sorted by picture."""

    places: np.ndarray  # [P, 2], east and north
    place: np.ndarray  # of each value
    starts: np.ndarray  # of each picture among the values, and their number
    labels: list[str]  # of the pictures
    values: dict[str, np.ndarray]  # of each kind
    note: str  # on what was left out or averaged

    @property
    def first(self) -> int:
        """The picture with the most non-zero observations."""
        return int(np.argmax(np.add.reduceat(self.values["observed"] != 0, self.starts[:-1])))

    def packed(self) -> dict[str, Any]:
        """Return the data for a page: values as numbers of 16 bits, in base64."""
        values = {}
        for name, one in self.values.items():
            low, high = np.nanmin(one), np.nanmax(one)
            step = (high - low) / _STEPS if high > low else 1.0
            cells = np.where(np.isfinite(one), np.round((one - low) / step), _STEPS + 1)
            values[name] = {"low": float(low), "step": float(step), "cells": _text(cells, "<u2")}
        return {
            "east": self.places[:, 0].round(6).tolist(),
            "north": self.places[:, 1].round(6).tolist(),
            "place": _text(self.place, "<u4"),
            "starts": self.starts.tolist(),
            "labels": self.labels,
            "values": values,
            "first": self.first,
        }


def map_data(X: pd.DataFrame, roles: Roles, values: Mapping[str, np.ndarray], note: str) -> MapData:
    """Return the values of rows as pictures; several rows of a picture at a place are averaged."""
    picture, labels = _pictures(X, roles)
    where = X[list(roles.places or ())].to_numpy(float)
    places, place = np.unique(where, axis=0, return_inverse=True)
    cells, cell = np.unique(picture * len(places) + place.reshape(-1), return_inverse=True)
    count = np.bincount(cell)
    if count.max() > 1:
        note = f"{note} Rows at the same place and time are shown by their mean.".strip()
    return MapData(
        places,
        cells % len(places),
        np.searchsorted(cells // len(places), np.arange(len(labels) + 1)),
        labels,
        {name: np.bincount(cell, one) / count for name, one in values.items()},
        note,
    )


def chosen_rows(X: pd.DataFrame, roles: Roles) -> tuple[np.ndarray, str]:
    """Return rows that a page has room for, and a note: whole times if possible, else a sample."""
    rows, every = np.arange(len(X)), -(-len(X) // _MOST_CELLS)
    few_places = len(X[list(roles.places or ())].drop_duplicates()) <= _MOST_PLACES
    if few_places and every == 1:
        return rows, ""
    if few_places and roles.time is not None:
        at, times = pd.factorize(X[roles.time], sort=True)
        kept = at % every == 0
        if len(times) >= 2 * every and kept.sum() <= 2 * _MOST_CELLS:
            return rows[kept], f"One in {every} of the {len(times):,} times is shown."
    most = _MOST_CELLS if few_places else _MOST_PLACES
    some = np.sort(np.random.default_rng(0).permutation(rows)[:most])
    return some, f"A random sample of {most:,} of the {len(X):,} rows is shown."


def _pictures(X: pd.DataFrame, roles: Roles) -> tuple[np.ndarray, list[str]]:
    """Return the picture of each row, and the labels of the pictures."""
    if roles.time is None:
        return np.zeros(len(X), int), [""]
    times = X[roles.time].reset_index(drop=True)
    count = times.nunique()
    own = len(X) >= _ROWS_OF_A_TIME * count or count <= _MOST_PICTURES
    parts = times if own else pd.cut(times, _MOST_PICTURES, labels=False)
    picture, _ = pd.factorize(parts, sort=True)
    ends = times.groupby(picture).agg(["min", "max"])
    labels = [
        dict.fromkeys(time_label(roles.time, end) for end in pair)
        for pair in ends.itertuples(index=False)
    ]
    return picture, [" to ".join(label) for label in labels]


def _text(values: np.ndarray, dtype: str) -> str:
    return base64.b64encode(np.asarray(values).astype(dtype).tobytes()).decode()
