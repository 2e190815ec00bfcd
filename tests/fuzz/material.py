"""Sound tables, lattices and models that cases start from, and odd names and texts."""

import shutil
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import pandas as pd
import xarray as xr

from .running import SCRATCH, in_process

# Names and texts that try to break out of a page, a shell or a folder.
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
    """A random generator for one case; `quick` asks for cases that compile little."""

    def __init__(self, seed: str, *, quick: bool) -> None:
        super().__init__(seed)
        self.quick = quick


def odd_text(rng: Random) -> str:
    if rng.random() < 0.1:
        return "".join(chr(rng.choice((rng.randrange(1, 0xD800), 65))) for _ in range(9))
    return rng.choice(TEXTS)


@cache
def rain() -> pd.DataFrame:
    """Return twelve rows of rain."""
    rng, hour = np.random.default_rng(0), np.arange(12.0)
    where = {"lat": rng.uniform(60, 61, 12).round(3), "lon": rng.uniform(20, 21, 12).round(3)}
    amount = np.where(hour > 5, rng.uniform(0, 3, 12), 0.0).round(1)
    return pd.DataFrame(where | {"hour": hour, "rain_mm": amount})


@cache
def hauls() -> pd.DataFrame:
    """Return twelve hauls with levels, times and efforts."""
    rng = np.random.default_rng(1)
    columns = {
        "depth": rng.uniform(0, 99, 12).round(2),
        "gear": pd.Categorical(["net", "trap", "line"] * 4),
        "when": pd.date_range("2020-01-01", periods=12, freq="6h"),
        "hours": np.full(12, 2.0),
        "catch": rng.poisson(3.0, 12).astype(float),
    }
    return pd.DataFrame(columns)


@cache
def cube() -> xr.Dataset:
    """Return rain along three times and four places."""
    rng = np.random.default_rng(2)
    values = np.where(rng.random((3, 4)) < 0.5, 0.0, rng.uniform(0, 3, (3, 4)).round(1))
    return xr.Dataset(
        {"rain_mm": (("time", "x"), values)}, {"time": [0.0, 1.0, 2.0], "x": [0.0, 1.0, 2.0, 3.0]}
    )


@cache
def model_file(name: str) -> Path:
    """Return the file of a model of one of several sorts, fitted for a single step.

    The command line fits "ready", "plain" and "hurdle", so that their files hold all that it adds.
    """
    path = Path(SCRATCH.name) / f"{name}.zigp"
    if name not in _BY_COMMAND:
        _fitted(name).save(path)
        return path
    rain().to_csv(path.with_name("rain.csv"), index=False)
    answer = in_process(
        [*_FIT.split(), "--model", _BY_COMMAND[name], "--out", path.name], path.parent
    )
    assert answer.code == 0, answer.said
    return path


_FIT = "fit rain.csv --target rain_mm --inputs lat,lon,hour --steps 1 --inducing 3 --quiet"
_BY_COMMAND = {"ready": "zigp", "plain": "gp", "hurdle": "hurdle"}


def _fitted(name: str):
    import zigp

    small = {"steps": 1, "n_inducing": 3}
    X, y = rain()[["lat", "lon", "hour"]], rain()["rain_mm"]
    model, inputs, target = {
        "class": (zigp.SparseGPClassifier(**small), X, np.where(y > 0, "wet", "dry")),
        "network": (zigp.GPNetworkRegressor(1, n_restarts=1, **small), X, np.c_[y, y + 1.0]),
        "cube": (zigp.ZeroInflatedGPRegressor(steps=1), cube(), "rain_mm"),
        "hauls": (
            zigp.ZeroInflatedGPRegressor(likelihood="zinb", exposure="hours", **small),
            hauls().drop(columns="catch"),
            hauls()["catch"],
        ),
    }[name]
    return model.fit(inputs, target)


def put_model(folder: Path, name: str = "ready") -> str:
    """Copy a sound model into the folder of a case, and return its name there."""
    return shutil.copyfile(model_file(name), folder / f"{name}.zigp").name
