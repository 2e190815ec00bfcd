"""Record the numbers of a fixed set of small fits, and compare two such recordings.

    python benchmarks/regression.py record OUT.npz [PART ...]
    python benchmarks/regression.py compare OLD.npz NEW.npz [--rtol 1e-9]

`record` fits every estimator to every kind of data, runs the command line, and writes one file. It
uses only the public interface, so the same script runs before and after a change of the code.
Entries have names such as `rows/zinb/predict/mean`; a PART is the first word of names (`rows`), by
default all. `compare` exits with 1 if numbers differ by more than the tolerance or if an entry is
in one file only. Texts (advice, errors, output of commands) are listed where they differ, but do
not count as failures.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

import zigp

Entries = dict[str, np.ndarray]
Settings = dict[str, Any]

# Settings that got another name after the first recording: old name to new name.
RENAMED = {"dtype": "precision", "covariance": "posterior"}
FLOAT32_RTOL = 1e-3  # for entries with "float32" in their names
ATTRIBUTES = ("likelihood_", "n_iter_", "on_lattice_", "stopped_", "retried_")


class Data(NamedTuple):
    """Inputs to fit and to predict at, targets by name, weights of rows, and a stream if any."""

    X: Any
    new: Any
    y: dict[str, Any]
    weight: np.ndarray | None = None
    stream: Callable[[str], Any] | None = None


def targets(a: np.ndarray, b: np.ndarray, seed: int) -> dict[str, Any]:
    """Return noisy functions of two numbers a row: amounts and counts with zeros, and others."""
    rng, n = np.random.default_rng(seed), len(a)
    on = np.sin(a) + 0.3 * rng.normal(size=n) > -0.1
    level = 0.6 + 0.7 * np.cos(b)
    amount = np.where(on, np.round(np.exp(level + 0.3 * rng.normal(size=n)) + 0.1, 1), 0.0)
    smooth = np.sin(a) * np.cos(b) + 0.1 * rng.normal(size=n)
    both = np.column_stack([smooth, np.cos(a) - 0.5 * np.sin(b) + 0.1 * rng.normal(size=n)])
    gaps = np.where(rng.random(both.shape) < 0.2, np.nan, both)
    found = {"amount": amount, "count": 1.0 * np.where(on, rng.poisson(np.exp(level)), 0)}
    found |= {"smooth": smooth, "on": 1 * on, "word": np.where(on, "wet", "dry")}
    return found | {"both": both, "gaps": gaps, "logs": np.exp(gaps)}


def rows() -> Data:
    """Return scattered rows of two columns; some of them are predicted again."""
    rng = np.random.default_rng(10)
    X = rng.uniform(0, 6, size=(90, 2))
    new = np.concatenate([X[:12], rng.uniform(0, 6, (12, 2))])
    return Data(X, new, targets(X[:, 0], X[:, 1], 11))


def weighted() -> Data:
    """Return the same rows with weights, some of them zero."""
    weight = np.random.default_rng(12).uniform(0, 2, 90) * (np.arange(90) % 9 > 0)
    return rows()._replace(weight=weight)


def table() -> Data:
    """Return a frame with degrees, times, levels and efforts."""
    rng, n = np.random.default_rng(20), 120
    hours, gear = rng.integers(0, 200, n), rng.integers(0, 3, n)
    X = pd.DataFrame({"lat": rng.uniform(60, 64, n), "lon": rng.uniform(21, 27, n)}).round(3)
    X["time"] = pd.Timestamp("2024-03-30 18:00") + pd.to_timedelta(hours, unit="h")
    X["gear"] = pd.Categorical(np.array(["line", "net", "trap"])[gear])
    X["effort"] = rng.uniform(0.5, 3.0, n).round(2)
    y = targets(X["lon"].to_numpy() - 20, hours / 30 + gear, 21)
    return Data(X, X.iloc[::5], y | {"both": pd.DataFrame(y["both"], columns=["zinc", "lead"])})


def cells() -> Data:
    """Return a frame of stations and hours with a tenth of the cells missing."""
    rng = np.random.default_rng(30)
    places = pd.DataFrame({"lat": rng.uniform(60, 64, 9), "lon": rng.uniform(21, 27, 9)}).round(2)
    whole = places.merge(pd.DataFrame({"hour": np.arange(14.0)}), how="cross")
    X = whole[rng.random(len(whole)) > 0.1].reset_index(drop=True)
    y = targets(X["hour"].to_numpy() / 2, (X["lat"] + X["lon"]).to_numpy(), 31)
    return Data(X, whole.iloc[::6].reset_index(drop=True), y)


def grid() -> Data:
    """Return the same cells as a Dataset over stations and hours."""
    X, _, y, *_ = cells()
    frame = X.assign(amount=y["amount"], count=y["count"], smooth=y["smooth"])
    frame = frame.assign(second=y["both"][:, 1], station=X.groupby(["lat", "lon"]).ngroup())
    places = frame.groupby("station")[["lat", "lon"]].first()
    found = frame.drop(columns=["lat", "lon"]).set_index(["station", "hour"]).to_xarray()
    found["effort"] = ("station", "hour"), 1.0 + 0.1 * np.add.outer(np.arange(9), np.arange(14))
    at = {name: ("station", places[name].to_numpy()) for name in places}
    found = found.drop_vars("station").assign_coords(at)
    names = {"amount": "amount", "count": "count", "both": ["smooth", "second"]}
    return Data(found, found.isel(hour=slice(2, 11)), names)


def array() -> Data:
    """Return the amounts of the lattice as a DataArray, to predict in chunks of dask."""
    X, new, *_ = grid()
    return Data(X["amount"], new["amount"].chunk({"hour": 4}), {"itself": None})


def stream(name: str) -> Data:
    """Return the rows of the table in a file or folder of this name, to be read as a stream."""
    data = table()
    ys = {target: data.y[target] for target in ("amount", "count", "smooth", "on")}
    frame, path = data.X.assign(gear=data.X["gear"].astype(str), **ys), Path(name)
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        frame.to_parquet(path, row_group_size=20)
    else:
        path.mkdir()
        for part in range(3):
            frame.iloc[part::3].to_parquet(path / f"{part}.parquet", row_group_size=16)
    read: Settings = {"columns": list(data.X), "categories": ["gear"], "rows_per_block": 64}
    return data._replace(stream=lambda target: zigp.open_stream(name, target=target, **read))


parquet, folder, csv = (partial(stream, name) for name in ("rows.parquet", "folder", "rows.csv"))


def zarr() -> Data:
    """Return the cells, with the lattice as a stream."""
    grid().X.chunk({"hour": 5}).to_zarr("grid.zarr", consolidated=False)
    opened = partial(zigp.open_stream, "grid.zarr", rows_per_block=64)
    return cells()._replace(stream=lambda target: opened(target=target))


class Case(NamedTuple):
    """A model, its data and its target; `full` asks it all questions."""

    name: str
    model: Any
    data: Callable[[], Data]
    target: str
    full: bool


def case(
    estimator: str,
    name: str,
    data: Callable[[], Data],
    target: str,
    full: bool = False,
    **settings: Any,
) -> Case:
    """Return a case with a model that is small unless the settings say otherwise."""
    make = getattr(zigp, estimator)
    known = make().get_params()
    given = {"n_inducing": 12, "steps": 30, "random_state": 1} | settings
    model = make(**{key if key in known else RENAMED[key]: v for key, v in given.items()})
    return Case(name, model, data, target, full)


inflated = partial(case, "ZeroInflatedGPRegressor")
hurdle = partial(case, "HurdleGPRegressor")
plain = partial(case, "SparseGPRegressor")
classes = partial(case, "SparseGPClassifier")
network = partial(case, "GPNetworkRegressor", n_inducing=8, steps=20, n_restarts=1)

KERNELS = ("squared_exponential", "matern12", "matern32", "matern52", "linear")
AMOUNTS = ("gaussian", "gated", "hurdle_lognormal", "hurdle_gamma")
COUNTS = ("zip", "zinb")
WITH_ZEROS = ("hurdle_lognormal", "hurdle_gamma", *COUNTS)  # P(y = 0) is positive
ZINB: Settings = {"likelihood": "zinb"}
NATURAL: Settings = {"method": "natural"}
DIAGONAL: Settings = {"covariance": "diagonal"}
BATCHES: Settings = {"batch_size": 32}
GROUPS: Settings = {"column_groups": {"a": [0], "b": [1]}, "n_inducing": {"a": 5, "b": 4}}
PACES = {"variational": 0.05, "kernel": 0.02, "inducing": 0.01, "noise": 0.03}
NO_GATES: Settings = {"sparse_weights": False}
GLOBE: Settings = {"latlon": ["lat", "lon"]}
EVERY = GLOBE | {"n_inducing": None}  # an inducing point at every coordinate
SOME = GLOBE | {"column_groups": {"space": ["lat", "lon"], "time": ["hour"]}}
SOME |= {"n_inducing": {"space": 5, "time": 7}}
FEW: Settings = {"n_inducing": {"station": 5, "hour": 7}}
EXPOSED: Settings = {"exposure": "effort", "gate_inputs": ["gear", "time"]}
PASSES = GLOBE | BATCHES | {"steps": None}

# fmt: off
CASES = [
    # Every likelihood, by both ways of training.
    *(inflated(f"rows/{one}", rows, "amount", full=True, likelihood=one) for one in AMOUNTS),
    *(inflated(f"rows/{one}", rows, "count", full=True, likelihood=one) for one in COUNTS),
    *(inflated(f"natural/{one}", rows, "amount", likelihood=one, **NATURAL) for one in AMOUNTS),
    *(inflated(f"natural/{one}", rows, "count", likelihood=one, **NATURAL) for one in COUNTS),
    inflated("natural/zinb, minibatches", rows, "count", **ZINB, **NATURAL, **BATCHES),
    inflated("rows/auto for amounts", rows, "amount", likelihood="auto"),
    inflated("rows/auto for counts", rows, "count", likelihood="auto"),
    # Every kernel and setting, with weights of rows.
    *(plain(f"settings/{one}", weighted, "smooth", kernel=one) for one in KERNELS),
    plain("settings/warm start", weighted, "smooth", full=True, warm_start=True),
    plain("settings/natural", weighted, "smooth", **NATURAL),
    plain("settings/natural, minibatches", weighted, "smooth", **NATURAL, **BATCHES),
    plain("settings/float32", weighted, "smooth", dtype="float32"),
    plain("settings/diagonal", weighted, "smooth", **DIAGONAL),
    plain("settings/diagonal, natural", weighted, "smooth", **DIAGONAL, **NATURAL),
    plain("settings/groups", weighted, "smooth", kernel={"a": "matern12", "b": "linear"}, **GROUPS),
    plain("settings/one input", weighted, "smooth", inputs=[1]),
    plain("settings/rates", weighted, "smooth", learning_rate=PACES, schedule="constant"),
    plain("settings/fixed", weighted, "smooth", fixed=["noise", "kernel"], learn_inducing=False),
    plain("settings/stopped early", weighted, "smooth", steps=2000, tol=0.1),
    plain("settings/another seed", weighted, "smooth", random_state=5),
    inflated("settings/gated", weighted, "amount"),
    inflated("settings/gate kernel", weighted, "amount", gate_inputs=[0], gate_kernel="matern12"),
    inflated("settings/resolution", weighted, "amount", resolution=0.5),
    inflated("settings/gated, float32", weighted, "amount", dtype="float32"),
    inflated("settings/gates", weighted, "amount", gate_kernel=["linear", "matern52"], **GROUPS),
    inflated("settings/gated, diagonal, natural", weighted, "amount", **DIAGONAL, **NATURAL),
    inflated("settings/gated, minibatches", weighted, "amount", **BATCHES),
    hurdle("settings/hurdle", weighted, "amount", full=True, gate_kernel="matern52"),
    hurdle("settings/hurdle, all", weighted, "amount", amount_rows="all", combine="expectation"),
    hurdle("settings/hurdle, predicted", weighted, "amount", amount_rows="predicted"),
    classes("settings/classes", weighted, "word"),
    classes("settings/classes, natural", weighted, "on", **NATURAL),
    classes("settings/classes, minibatches", weighted, "on", **BATCHES),
    # Networks: gates, latent noise, missing outputs, transforms, restarts.
    network("network/gates on weights", weighted, "both", full=True, n_restarts=3),
    network("network/latent noise", rows, "gaps", full=True, latent_noise=True),
    network("network/no gates", rows, "both", **NO_GATES),
    network("network/gates on latents", rows, "both", sparse_latents=True, **NO_GATES),
    network("network/gates on both", rows, "both", sparse_latents=True),
    network("network/gates, latent noise", rows, "gaps", sparse_latents=True, latent_noise=True),
    network("network/missing", rows, "gaps"),
    network("network/shared", rows, "gaps", inducing="one", weight_kernel="matern52"),
    network("network/adam", rows, "gaps", method="adam", n_restarts=2),
    network("network/minibatches", rows, "gaps", n_restarts=2, **BATCHES, **NO_GATES),
    network("network/log1p", rows, "logs", y_transform="log1p", **NO_GATES),
    network("network/one output", rows, "smooth", n_latents=1, **NO_GATES),
    # A frame with degrees, times, levels and efforts.
    inflated("table/zinb, exposure", table, "count", full=True, **ZINB, **EXPOSED, **GLOBE),
    inflated("table/gated, exposure", table, "amount", **EXPOSED, **GLOBE),
    plain("table/plain", table, "smooth", full=True, **GLOBE),
    hurdle("table/hurdle", table, "amount", **GLOBE),
    classes("table/classes", table, "on", **GLOBE),
    network("table/network", table, "both", **GLOBE),
    # Stations × hours as a table and as xarray.
    inflated("lattice/gated", cells, "amount", full=True, **EVERY),
    inflated("lattice/gaussian", cells, "amount", likelihood="gaussian", **EVERY),
    inflated("lattice/zinb", cells, "count", **ZINB, **EVERY),
    inflated("lattice/hurdle_gamma", cells, "amount", likelihood="hurdle_gamma", **SOME),
    inflated("lattice/diagonal", cells, "amount", **DIAGONAL, **EVERY),
    inflated("lattice/diagonal, natural", cells, "amount", **DIAGONAL, **NATURAL, **EVERY),
    inflated("lattice/natural", cells, "amount", **NATURAL, **SOME),
    inflated("lattice/slabs", cells, "amount", batch_size=45, **SOME),
    plain("lattice/plain", cells, "smooth", **EVERY),
    hurdle("lattice/hurdle", cells, "amount", **SOME),
    classes("lattice/classes", cells, "on", **SOME),
    network("lattice/network", cells, "both", **SOME),
    inflated("xarray/gated in chunks", array, "itself", n_inducing=None),
    inflated("xarray/zinb, exposure", grid, "count", **ZINB, exposure="effort", **FEW),
    plain("xarray/plain", grid, "amount", **FEW),
    hurdle("xarray/hurdle", grid, "amount", **FEW),
    network("xarray/network", grid, "both", **FEW),
    # Streams; CSV is refused.
    inflated("stream/zinb, exposure", parquet, "count", **ZINB, **EXPOSED, **PASSES),
    inflated("stream/natural", folder, "amount", **NATURAL, **PASSES),
    plain("stream/plain", folder, "smooth", **PASSES),
    classes("stream/classes", folder, "on", **PASSES),
    network("stream/network", folder, "smooth", **NO_GATES, **PASSES),
    inflated("stream/zarr", zarr, "amount", **BATCHES, **FEW),
    inflated("stream/csv", csv, "amount"),
]
# fmt: on


def questions(case: Case, data: Data) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the names of questions to a fitted model, with functions that answer them."""
    model, kind, (X, new, ys, weight, _) = case.model, type(case.model).__name__, data
    y = ys[case.target]
    for name in ATTRIBUTES:
        if hasattr(model, name):
            yield name, partial(getattr, model, name)
    yield "sanity", lambda: "\n".join(model.sanity())
    yield "saved", lambda: model.save("model.zigp")
    yield "loaded/predict", lambda: zigp.load("model.zigp").predict(new)
    if isinstance(X, xr.DataArray | xr.Dataset):
        yield "predict", lambda: model.predict(new)
        return
    yield "elbo", lambda: model.elbo(X, y, sample_weight=weight)
    if hasattr(model, "prob_on"):
        yield "prob_on", lambda: model.prob_on(new)
    if case.target not in ("gaps", "logs"):
        yield "score", lambda: model.score(X, y)
    if kind == "SparseGPClassifier":
        yield "predict", lambda: model.predict(new)
        return
    names = ("mean", "sd")
    yield "predict", lambda: dict(zip(names, model.predict(new, return_std=True), strict=True))
    if not case.full:
        return
    if case.target == "gaps":
        yield "predict given some", lambda: model.predict(X, known=y)
    yield "quantiles", lambda: model.predict_quantiles(new)
    parts = {"ZeroInflatedGPRegressor": ("if_on", "latent", "gate"), "HurdleGPRegressor": ["if_on"]}
    for part in parts.get(kind, ()):
        yield f"quantiles of {part}", partial(model.predict_quantiles, new, [0.1, 0.8], of=part)
    yield "interval", lambda: model.predict_interval(new, level=0.8)
    yield "prob_zero", lambda: model.prob_zero(new, tol=0.05)
    if kind == "HurdleGPRegressor" or getattr(model, "likelihood_", "") in WITH_ZEROS:
        yield "prob_zero exactly", lambda: model.prob_zero(new)
    yield "sample", lambda: model.sample(new, 50, random_state=3)
    by = np.arange(len(new)) % 3
    total = partial(model.aggregate, new, n_samples=50, random_state=4)
    yield "aggregate", lambda: total(by=by, weights=1.0 + by, how="mean")
    yield "aggregate of all", total


def answer(case: Case, entries: Entries) -> None:
    """Fit, ask all questions, and keep the answers; an error is an answer too."""
    model, data = case.model, case.data()

    def fit() -> None:
        if data.stream is not None:
            model.fit_stream(data.stream(case.target), passes=4)
            return
        for _ in range(1 + model.warm_start):
            model.fit(data.X, data.y[case.target], sample_weight=data.weight)

    def asked(name: str, question: Callable[[], Any]) -> bool:
        try:
            keep(entries, f"{case.name}/{name}", question())
        except Exception as error:
            keep(entries, f"{case.name}/{name}/error", f"{type(error).__name__}: {error}")
            return False
        return True

    if asked("fit", fit):
        for name, question in questions(case, data):
            asked(name, question)


def commands(entries: Entries) -> None:
    """Run the command line on simulated rain and a lattice; keep what it prints and writes."""
    # Compiled programs of other versions stay out of reach.
    own = {"JAX_COMPILATION_CACHE_DIR": str(Path("compiled").resolve()), "COLUMNS": "120"}
    program = str(Path(sys.executable).with_name("zigp"))

    def run(name: str, words: str) -> str:
        call = [program, *words.split()]
        done = subprocess.run(call, env=os.environ | own, capture_output=True, text=True)
        keep(entries, f"command/{name}/exit status", done.returncode)
        keep(entries, f"command/{name}/stdout", without_seconds(done.stdout))
        keep(entries, f"command/{name}/stderr", without_seconds(done.stderr))
        return done.stdout

    def keep_table(name: str, table: pd.DataFrame | xr.Dataset) -> None:
        keep(entries, f"command/{name}/columns", ", ".join(map(str, table)))
        keep(entries, f"command/{name}", table)

    roles, small = "--target rain_mm --space lat,lon --time hour", "--steps 20 --seed 3 --quiet"
    run("simulate", "simulate --stations 10 --hours 16 --seed 4 --out rain.csv")
    rain = pd.read_csv("rain.csv")
    keep_table("simulate", rain)
    for model, more in (("zigp", ""), ("hurdle", "--inducing lat,lon=5,hour=6"), ("gp", "")):
        out = f"--out {model}.zigp --model {model} {more}"
        run(f"fit {model}", f"fit rain.csv {roles} {small} {out}")
        run(f"predict {model}", f"predict {model}.zigp rain.csv --out {model}.csv")
        keep_table(f"predict {model}", pd.read_csv(f"{model}.csv"))
    rain.drop(columns="rain_mm").iloc[::2].to_parquet("new.parquet")
    run("predict below", "predict zigp.zigp new.parquet --below 0.2 --level 0.5 --out out.parquet")
    keep_table("predict below", pd.read_parquet("out.parquet"))
    run("fit more", f"fit rain.csv {roles} {small} --from zigp.zigp --out more.zigp")
    run("info", "info more.zigp")
    found = json.loads(run("info as json", "info more.zigp --json"))
    keep(entries, "command/info/noise", found["noise"])
    run("draw", "simulate --model more.zigp --data rain.csv --draws 3 --out draws.csv")
    keep_table("draw", pd.read_csv("draws.csv"))
    scores = f"evaluate rain.csv {roles} {small} --cv 2"
    found = json.loads(run("evaluate", f"{scores} --models zero,gp,hurdle,zigp --json"))
    keep_table("evaluate", pd.DataFrame(found["rows"]).set_index("model"))
    run("evaluate zero", f"{scores} --models zero")
    run("report", "report zigp.zigp --data rain.csv --out report.html")
    page = re.sub(r"(?s)<(script|style|svg)\b.*?</\1>", "", Path("report.html").read_text())
    words = filter(None, map(str.strip, re.sub(r"<[^>]*>", "\n", page).splitlines()))
    keep(entries, "command/report/page", without_seconds("\n".join(words)))
    grid().X[["amount"]].to_netcdf("grid.nc", engine="h5netcdf")
    run("fit lattice", f"fit grid.nc --target amount {small} --out grid.zigp")
    run("predict lattice", "predict grid.zigp grid.nc --below 0.2 --out out.nc")
    with xr.open_dataset("out.nc", engine="h5netcdf") as predicted:
        keep_table("predict lattice", predicted.load())
    for model, *numbers in re.findall(r"(\w+)" + r" +│ +([\d.]+)" * 6, run("demo", "demo")):
        keep(entries, f"command/demo/scores of {model}", np.array(numbers, float))
    files = (str(path) for path in Path().rglob("*") if "compiled" not in path.parts)
    keep(entries, "command/files", "\n".join(sorted(files)))


def without_seconds(text: str) -> str:
    """Return the text without the times that something took, and without progress."""
    text = re.sub(r".* s left.*\n", "", text)
    return re.sub(r'\b\d[\d.]* s\b|(?<="seconds": )[\d.]+', "…", text)


def keep(entries: Entries, name: str, value: Any) -> None:
    """Keep a value under a name, or each part of it: numbers as arrays, all else as text."""
    if isinstance(value, pd.DataFrame):
        named = {c if isinstance(c, tuple) else (c,): value[c].to_numpy() for c in value}
        value = {"/".join(map(str, c)): column for c, column in named.items()}
    if isinstance(value, xr.Dataset):
        value = {key: one.values for key, one in value.variables.items()}
    if isinstance(value, dict):
        for key, part in value.items():
            keep(entries, f"{name}/{key}", part)
    elif value is not None:
        array = np.asarray(value)
        if array.dtype.kind in "biuf":
            array = array.astype(float)
        elif not isinstance(value, str):
            array = np.asarray("\n".join(map(str, array.ravel())))
        if name in entries:
            raise ValueError(f"There are two entries {name}.")
        entries[name] = array


def recorded(part: str) -> Entries:
    """Return the entries of one part."""
    warnings.simplefilter("ignore")
    entries: Entries = {}
    start = time.monotonic()
    todo: list[Any] = [partial(answer, one) for one in CASES if one.name.startswith(f"{part}/")]
    for job in todo or [commands]:
        with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):
            job(entries)
    print(f"{part}: {len(entries)} entries in {time.monotonic() - start:.0f} s", flush=True)
    return entries


def record(path: Path, parts: list[str]) -> int:
    """Write the numbers of all fits to a file; two processes share the parts."""
    about = {name: version(name) for name in ("jax", "jaxlib", "numpy", "scipy", "scikit-learn")}
    entries: Entries = {}
    keep(entries, "about", about | {"python": sys.version, "cores": str(os.cpu_count())})
    with multiprocessing.get_context("spawn").Pool(2, maxtasksperchild=1) as pool:
        for found in pool.imap(recorded, parts, chunksize=1):
            entries |= found
    with path.open("wb") as file:
        np.savez_compressed(file, **entries)  # type: ignore[arg-type]
    for name in entries:
        if name.endswith("/error"):
            print(f"{name}: {entries[name]}")
    print(f"{len(entries):,} entries: {path}")
    return 0


def difference(old: np.ndarray, new: np.ndarray) -> float:
    """Return max |old − new| / max(1, max |new|), infinite where NaNs or shapes differ."""
    if old.shape != new.shape:
        return np.inf
    differ = ~((old == new) | (np.isnan(old) & np.isnan(new)))
    size = np.max(np.abs(new[np.isfinite(new)]), initial=1.0)
    gaps = np.nan_to_num(np.abs(old[differ] - new[differ]), nan=np.inf)
    return float(np.max(gaps, initial=0.0) / size)


def compare(old_path: Path, new_path: Path, rtol: float) -> int:
    """Print all differences; return 1 if numbers differ or entries are in one file only."""
    with np.load(old_path) as old_file, np.load(new_path) as new_file:
        old, new = dict(old_file), dict(new_file)
    failed, texts, largest = 0, 0, (0.0, "")
    for name in sorted(old.keys() ^ new.keys()):
        print(f"only in {old_path if name in old else new_path}: {name}")
        failed += 1
    for name in sorted(old.keys() & new.keys()):
        a, b = old[name], new[name]
        if "U" in (a.dtype.kind, b.dtype.kind):
            if str(a) != str(b):
                lines = zip(f"{a}\n\n".splitlines(), f"{b}\n\n".splitlines(), strict=False)
                was, now = next((pair for pair in lines if pair[0] != pair[1]), ("", ""))
                print(f"text differs: {name}\n  - {was}\n  + {now}")
                texts += 1
            continue
        gap, single = difference(a, b), "float32" in name
        largest = largest if single else max(largest, (gap, name))
        if gap > (max(rtol, FLOAT32_RTOL) if single else rtol):
            print(f"{gap:.1e}  {name}")
            failed += 1
    print(
        f"{len(old.keys() & new.keys()):,} entries in both: {failed} differ or are in one only, "
        f"{texts} texts differ; largest difference {largest[0]:.1e} {largest[1]}"
    )
    return int(failed > 0)


def main() -> int:
    """Run the command that was typed."""
    parts = list(dict.fromkeys(["command", *(one.name.split("/")[0] for one in CASES)]))
    parser = argparse.ArgumentParser(description="Record the numbers of small fits, and compare.")
    choices = parser.add_subparsers(dest="command", required=True)
    one = choices.add_parser("record", help="write the numbers of all fits to a file")
    one.add_argument("out", type=Path)
    one.add_argument("parts", nargs="*", default=parts, metavar="part", help=", ".join(parts))
    two = choices.add_parser("compare", help="compare two recordings")
    two.add_argument("old", type=Path)
    two.add_argument("new", type=Path)
    two.add_argument("--rtol", type=float, default=1e-9)
    given = parser.parse_args()
    if given.command == "record":
        return record(given.out.resolve(), given.parts)
    return compare(given.old, given.new, given.rtol)


if __name__ == "__main__":
    sys.exit(main())
