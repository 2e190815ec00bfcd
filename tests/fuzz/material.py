"""What cases start from before it is spoiled: a table, a lattice, and models fitted to them."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

__all__ = [
    "NAMES", "Dice", "cube", "hauls", "model_file", "odd_name", "odd_text", "put_model", "rain",
]  # fmt: skip

# Names and texts that somebody could try to break out of a page, a shell or a folder with.
NAMES = (
    "</script><script>alert(1)</script>", "../../x", "/etc/passwd", "$(touch x)", "`touch x`",
    "; touch x", "a\nb", "a\tb", "a\x00b", "\x1b[31mred\x1b[0m", "\u202egnp.exe", "שלום", "日本語",
    "𝔘𝔫𝔦", "e\u0301", "\ufeffx", "'", '"', "{{ 7*7 }}", "{0}", "%s%n", "self", "index", "None",
    "nan", "__class__", "mean", "sd", "lower", "quantile", "_", "-", "--out", "a,b", "a=b",
    "x" * 3000, "🌧️", "con", "*", "\\", "<img src=x onerror=alert(1)>", "0", "1e5", " ",
    "\xa0", "é" * 200,
)  # fmt: skip
TEXTS = (
    *NAMES, "inf", "-inf", "Infinity", "NaN", "nan", "NA", "null", "1e999", "-1e999", "1e-999",
    "1e308", "-1e308", "5e-324", "9" * 400, "0x10", "1_000", "1,5", "1.5.2", "--1", "+1", "١٢٣",
    "1 2", "true", "False", "2020-01-01", "2020-13-45", "0000-00-00", "9999-12-31T23:59:59Z",
    "2020-01-01T00:00:00+99:99", "20200101", "2020010125", "12:00", "1e5", "²", "½", "-0", ".",
    "18446744073709551616", "-9223372036854775809", "0.1e", "1d5", "=1+1", "@SUM(A1)", "j", "1j",
)  # fmt: skip


class Dice(Random):
    """What is random of a case, and whether it must be quick."""

    def __init__(self, seed: str, *, quick: bool) -> None:
        super().__init__(seed)
        self.quick = quick


def odd_name(rng: Random) -> str:
    return rng.choice(NAMES)


def odd_text(rng: Random) -> str:
    if rng.random() < 0.1:
        return "".join(
            chr(rng.choice((rng.randrange(1, 0xD800), rng.randrange(1, 128)))) for _ in range(9)
        )
    return rng.choice(TEXTS)


@cache
def rain() -> pd.DataFrame:
    """Twelve rows of rain, always with the same columns."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"lat": rng.uniform(60, 61, 12), "lon": rng.uniform(20, 21, 12)})
    table["hour"] = np.arange(12.0)
    table["rain_mm"] = np.where(table["hour"] > 5, rng.uniform(0, 3, 12), 0.0).round(1)
    return table.round(3)


@cache
def hauls() -> pd.DataFrame:
    """Twelve hauls with levels, times and efforts."""
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"depth": rng.uniform(0, 99, 12).round(2)})
    table["gear"] = pd.Categorical(["net", "trap", "line"] * 4)
    table["when"] = pd.date_range("2020-01-01", periods=12, freq="6h")
    table["hours"] = 2.0
    table["catch"] = rng.poisson(3.0, 12).astype(float)
    return table


@cache
def cube() -> xr.Dataset:
    """Rain along three times and four places."""
    rng = np.random.default_rng(2)
    values = np.where(rng.random((3, 4)) < 0.5, 0.0, rng.uniform(0, 3, (3, 4)).round(1))
    return xr.Dataset(
        {"rain_mm": (("time", "x"), values)}, {"time": [0.0, 1.0, 2.0], "x": [0.0, 1.0, 2.0, 3.0]}
    )


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="zigp-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def model_file(name: str) -> Path:
    """A model of one of several sorts, fitted for a step."""
    path = _folder() / f"{name}.zigp"
    model = _fitted(name)
    if name in ("ready", "plain", "hurdle"):
        model.set_origin("rain_mm")
    model.save(path)
    return path


def _fitted(name: str) -> Any:
    import zigp

    table, small = rain(), {"steps": 1, "n_inducing": 3}
    X, y = table[["lat", "lon", "hour"]], table["rain_mm"]
    match name:
        case "ready":
            return zigp.ZeroInflatedGPRegressor(**small).fit(X, y)
        case "plain":
            return zigp.SparseGPRegressor(**small).fit(X, y)
        case "class":
            return zigp.SparseGPClassifier(**small).fit(X, np.where(y > 0, "wet", "dry"))
        case "hurdle":
            return zigp.HurdleGPRegressor(**small).fit(X, y)
        case "network":
            return zigp.GPNetworkRegressor(1, n_restarts=1, **small).fit(X, np.c_[y, y + 1.0])
        case "cube":
            return zigp.ZeroInflatedGPRegressor(steps=1).fit(cube(), "rain_mm")
    counts = zigp.ZeroInflatedGPRegressor(likelihood="zinb", exposure="hours", **small)
    return counts.fit(hauls().drop(columns="catch"), hauls()["catch"])


def put_model(folder: Path, name: str = "ready") -> str:
    """A sound model in a case's folder, and what it is called there."""
    shutil.copyfile(model_file(name), folder / f"{name}.zigp")
    return f"{name}.zigp"
