"""Axes, figures, line styles, legends and labels shared by all plots."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure, SubFigure
from sklearn.utils.validation import check_is_fitted

Canvas = Figure | SubFigure

DATA, SIGNAL = "0.45", "#0072B2"
REFERENCE: dict[str, Any] = {"color": "0.4", "linewidth": 0.8, "zorder": 0.5}
# Okabe and Ito's colours, which colour-blind readers can distinguish; the dashes work in grey.
_LINES = (
    ("#0072B2", "-"),
    ("#D55E00", "--"),
    ("#009E73", "-."),
    ("#CC79A7", ":"),
    ("#000000", (0, (5, 1, 1, 1, 1, 1))),
)
_WRITTEN = {"degrees_north": "°N", "degrees_east": "°E", "1": ""}  # units as CF spells them
MOST_VECTORS = 1_000  # dots in a vector graphic; more are drawn as pixels


def axes_for(ax: Axes | None) -> Axes:
    """Return the given axes, or pyplot's current ones."""
    return plt.gca() if ax is None else ax


def figure_for(figure: Canvas | None, width: float, height: float) -> Canvas:
    """Return the given figure, or a new one of pyplot's; width and height are in inches."""
    return figure or plt.figure(figsize=(width, height), layout="compressed")


def curves(ax: Axes) -> list[Any]:
    """Return the curves on the axes that stand for a model or a series."""
    return [one for one in [*ax.lines, *ax.patches] if one.get_gid() == "curve"]


def next_line(ax: Axes) -> dict[str, Any]:
    """Return colour and dashes of the next curve, distinct from those already on the axes."""
    colour, dashes = _LINES[len(curves(ax)) % len(_LINES)]
    return {"color": colour, "linestyle": dashes, "gid": "curve"}


def draw_once(ax: Axes, gid: str, draw: Callable[..., Any], *args: Any, **style: Any) -> bool:
    """Draw a reference shared by all curves, unless it is there; return whether it was drawn."""
    if any(artist.get_gid() == gid for artist in ax.get_children()):
        return False
    draw(*args, gid=gid, **REFERENCE | style)
    return True


def draw_data(ax: Axes, x: Any, y: Any, **style: Any) -> None:
    """Draw observations as small grey dots."""
    dots: dict[str, Any] = {"color": DATA, "markersize": 3, "zorder": 1, **style}
    ax.plot(x, y, ".", rasterized=len(y) > MOST_VECTORS, **dots)


def with_legend(ax: Axes) -> Axes:
    """Add a legend above the axes if anything on them is labelled, and return the axes."""
    if ax.get_legend_handles_labels()[1]:
        ax.legend(
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            ncols=3,
            frameon=False,
            fontsize="small",
            borderaxespad=0.2,
            handlelength=1.4,
            handletextpad=0.4,
            columnspacing=0.9,
        )
    return ax


def mark_dates(axis: Axis, values: Any) -> None:
    """Label an axis of times with a few short dates; leave an axis of numbers as it is."""
    if np.asarray(values).dtype.kind == "M":
        locator = AutoDateLocator(minticks=2, maxticks=5)
        axis.set_major_locator(locator)
        axis.set_major_formatter(ConciseDateFormatter(locator))


def label_outer(axes: np.ndarray) -> None:
    """Keep axis labels and numbers only at the left and at the bottom of the panels in use."""
    for lines, axis, side in (
        (axes.T, "xaxis", "labelbottom"),
        (axes[:, ::-1], "yaxis", "labelleft"),
    ):
        for line in lines:
            *inner, outer = [ax for ax in line if ax.axison]
            outer.tick_params(**{side: True})
            for ax in inner:
                getattr(ax, axis).set_label_text("")


# -- names and units of inputs and outputs, and values as text -------------------------------------


def with_unit(name: str, unit: str) -> str:
    """Return a label such as "rain, mm".

    >>> with_unit("rain", "mm"), with_unit("lat", "degrees_north"), with_unit("y", "")
    ('rain, mm', 'lat, °N', 'y')
    """
    unit = _WRITTEN.get(unit, unit)
    return f"{name}, {unit}" if unit else name


def input_names(model: Any) -> list[str]:
    """Return the names of a fitted model's input columns."""
    count = model.n_features_in_
    numbered = ["x"] if count == 1 else [f"column {c}" for c in range(count)]
    return [str(name) for name in getattr(model, "feature_names_in_", numbered)]


def check_can(model: Any, method: str, message: str) -> None:
    """Raise an error if a model lacks a method, or is not fitted; {} stands for its class."""
    if not hasattr(model, method):
        raise ValueError(message.format(type(model).__name__))
    check_is_fitted(model)


def output_names(model: Any) -> list[str]:
    """Return the names of a model's outputs if it has several, otherwise nothing."""
    return list(getattr(model, "_output_names", None) or [])


def target_label(model: Any = None, y: Any = None, unit: str | None = None) -> str:
    """Return the name of the target with its unit, as far as the data or the model have them."""
    units: Mapping[str, str] = getattr(model, "units_", None) or {}
    default = next(iter(units)) if len(units) == 1 else "y"
    name = str(getattr(y, "name", None) or default)
    own = getattr(y, "attrs", {}).get("units", units.get(name, ""))
    return with_unit(name, own if unit is None else unit)


def as_table(X: Any, model: Any = None) -> pd.DataFrame:
    """Return inputs as a table; columns without a name have that of the model, or a number."""
    if hasattr(X, "columns"):
        return X.set_axis([str(name) for name in X.columns], axis=1)
    array = np.asarray(X)
    named = model is not None and model.n_features_in_ == array.shape[1]
    names = input_names(model) if named else [f"column {c}" for c in range(array.shape[1])]
    return pd.DataFrame(array, columns=names)


def one_per_row(values: Any, rows: Any, name: str) -> np.ndarray:
    """Return values as numbers, or raise an error if they are not one for each row."""
    numbers = np.asarray(values, float)
    if numbers.shape != (len(rows),):
        raise ValueError(f"{name} has shape {numbers.shape}, but there are {len(rows)} rows.")
    return numbers


def value_text(value: Any) -> str:
    """Return an input as text: numbers with eight digits, times to the minute if they are whole.

    >>> value_text(20240101.0), value_text(np.datetime64("2024-01-01T06:00"))
    ('20240101', '2024-01-01 06:00')
    """
    if isinstance(value, (int, float, np.number)):
        return f"{value:.8g}"
    if isinstance(value, (np.datetime64, datetime)):
        stamp = pd.Timestamp(value)
        whole = stamp == stamp.floor("min")
        return stamp.isoformat(" ", "minutes" if whole else "auto").removesuffix(" 00:00")
    return str(value)


def time_label(name: str, moment: Any, between: str = " ") -> str:
    """Return a time as text: a date, `between` it and its hour if it has one, or a named number."""
    if isinstance(moment, (int, float, np.number)):
        return f"{name} {value_text(moment)}"
    return value_text(moment).replace(" ", between)
