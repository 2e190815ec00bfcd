"""Files and names with hostile content: nothing of them is run, read, filled or written."""

import gzip
import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray as xr
from fuzz.material import NAMES, cube, model_file, put_model, rain
from fuzz.models import joined, parts_of, signed
from fuzz.running import in_process, listing
from markupsafe import escape

from zigp import SparseGPRegressor, ZeroInflatedGPRegressor, load

# -- files of models ------------------------------------------------------------------------------


def forged(learned=(), settings=(), header=(), tensor=()) -> bytes:
    """Return the bytes of a model with other content and a digest that agrees with it."""
    head, outer, data = parts_of(model_file("ready").read_bytes())
    head["content"]["learned"].update(learned)
    head["content"]["settings"].update(settings)
    head.update(header)
    outer["0"].update(tensor)
    return signed(head, outer, data)


def wide(length: int) -> dict:
    """Return an array of empty texts and one that is as long as they are many."""
    return {"texts": ["x" * length, *[""] * (length - 1)], "object": False}


# content: (changes to a model, part of the message)
HOSTILE = {
    "a function": ({"learned": {"w_": {"is": "os.system", "with": {}}}}, "no class"),
    "a call": ({"learned": {"w_": {"call": "print"}}}, "its content holds"),
    "a module": ({"learned": {"w_": {"estimator": "antigravity"}}}, "antigravity"),
    "a pickle": ({"learned": {"w_": {"py/reduce": [{"py/type": "os.system"}, ["touch x"]]}}}, ""),
    "a path": ({"learned": {"w_": {"array": "../../../../etc/passwd"}}}, "passwd"),
    "a method": ({"learned": {"predict": "x"}}, ""),
    "a class": ({"learned": {"__class__": {"is": "columns.Table", "with": {"columns": {}}}}}, ""),
    "all attributes": ({"learned": {"__dict__": {"dict": []}}}, ""),
    "lists in lists": ({"learned": {"w_": "@lists@"}}, ""),
    "texts that are none": ({"learned": {"w_": {"texts": [[[1]], 2], "object": True}}}, ""),
    "a float that is none": ({"learned": {"w_": {"float": "one"}}}, "one"),
    "a dictionary that is none": ({"learned": {"w_": {"dict": [[1]]}}}, "unpack"),
    "an unknown setting": ({"settings": {"colour": "red"}}, "colour"),
    "no estimator": ({"header": {"content": {"list": [1]}}}, ""),
    "a newer format": ({"header": {"format": 99, "library": "9.9"}}, "zigp 9.9.*newer zigp"),
    "a number of five thousand digits": (
        {"header": {"format": "@digits@"}},
        "cut short or changed",
    ),
    "a huge shape": ({"tensor": {"shape": [2**62, 2**62]}}, ""),
    "a large shape": ({"tensor": {"shape": [10**10]}}, ""),
    "a negative shape": ({"tensor": {"shape": [-1]}}, ""),
    "one tensor over another": ({"tensor": {"data_offsets": [8, 16]}}, ""),
    "no offsets": ({"tensor": {"data_offsets": []}}, "cut short or changed"),
    "offsets past the end": ({"tensor": {"data_offsets": [0, 2**60]}}, "cut short or changed"),
    "offsets before the start": ({"tensor": {"data_offsets": [-8, 0]}}, ""),
}
# These can be loaded, but must not take the memory that they ask for.
WIDE = {
    "a wide text": {"w_": wide(99_999)},
    "several wide texts": {"w_": {"list": [wide(4096)] * 6}},
}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    changes = {name: change for name, (change, _) in HOSTILE.items()}
    for name, change in (changes | {name: {"learned": WIDE[name]} for name in WIDE}).items():
        (folder / f"{name}.zigp").write_bytes(forged(**change))
    return folder


@pytest.mark.parametrize("name", HOSTILE)
def test_content_that_does_not_belong_in_a_model_is_refused(hostile, name):
    with pytest.raises(ValueError, match=rf"{name}\.zigp.*{HOSTILE[name][1]}"):
        load(hostile / f"{name}.zigp")


WATCHED = """
import json, resource, sys
import zigp
zigp.load(sys.argv[1])  # what Python imports late is imported now
seen, grown, now = {}, {}, None
events = ("open", "import", "exec", "compile", "os.", "subprocess.", "socket.", "shutil.")
def watch(event, args):
    if now is not None and event.startswith(events):
        seen.setdefault(now, []).append([event, str(args[0])[:200]])
sys.addaudithook(watch)
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sys.argv[2:]:
    before, now = peak(), path
    try:
        zigp.load(path)
    except ValueError:
        pass
    now, grown[path] = None, peak() - before
print(json.dumps([seen, grown]))
"""


def test_loading_a_hostile_file_runs_and_reads_nothing_and_takes_no_memory(hostile):
    files = sorted(hostile.iterdir())
    paths = [str(path) for path in files if path.stem != "a newer format"]  # compares versions
    command = [sys.executable, "-c", WATCHED, str(model_file("ready")), *paths]
    done = subprocess.run(command, capture_output=True, text=True, cwd=hostile)
    assert done.returncode == 0, done.stderr
    seen, grown = json.loads(done.stdout.splitlines()[-1])
    assert seen == {path: [["open", path]] for path in paths}
    assert max(grown.values()) < 64 << 10, grown  # KiB
    assert sorted(hostile.iterdir()) == files


def test_every_changed_byte_is_detected(tmp_path):
    raw, path = model_file("ready").read_bytes(), tmp_path / "m.zigp"
    rng = np.random.default_rng(0)
    for at in rng.choice(len(raw), 400, replace=False):
        changed = bytearray(raw)
        changed[at] ^= 1 << rng.integers(8)
        path.write_bytes(changed)
        with pytest.raises(ValueError, match=r"m\.zigp"):
            load(path)


def test_a_file_without_a_digest_is_refused(tmp_path):
    header, outer, data = parts_of(model_file("ready").read_bytes())
    del header["digest"]
    (tmp_path / "m.zigp").write_bytes(joined(header, outer, data))
    with pytest.raises(ValueError, match="changed after it was saved"):
        load(tmp_path / "m.zigp")


@pytest.mark.parametrize("sort", ["ready", pytest.param("hurdle", marks=pytest.mark.slow)])
def test_no_file_says_where_checkpoints_are_written_or_read(sort, tmp_path):
    """Training a stranger's model further would write to a folder of the stranger's choice."""
    model = load(model_file(sort)).set_params(checkpoint=tmp_path / "mine")
    model.save(tmp_path / "m.zigp")
    header, outer, data = parts_of((tmp_path / "m.zigp").read_bytes())
    assert "checkpoint" not in header["content"]["settings"]
    for part in [header["content"], *header["content"]["learned"].values()]:
        if isinstance(part, dict) and "settings" in part:
            part["settings"] |= {"checkpoint": str(tmp_path / "theirs"), "resume": True}
    (tmp_path / "m.zigp").write_bytes(signed(header, outer, data))
    again = load(tmp_path / "m.zigp")
    for part in (again, *again.parts_.values()):
        assert (part.checkpoint, part.resume) == (None, False)


# -- names from data ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_column_of_any_name_is_fitted_saved_loaded_and_described(name, tmp_path):
    table = rain().rename(columns={"lat": name})
    X, y = table[[name, "lon", "hour"]], table["rain_mm"]
    model = SparseGPRegressor(steps=1, n_inducing=3).fit(X, y)
    model.save(tmp_path / "m.zigp")
    again = load(tmp_path / "m.zigp")
    assert list(again.feature_names_in_) == [name, "lon", "hour"]
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    answer = in_process(["info", "m.zigp"], tmp_path)
    assert answer.code == 0, answer.said
    assert all(c.isprintable() or c == "\n" for c in answer.out)
    assert list(listing(tmp_path)) == ["m.zigp"]


_TAKEN = ("mean", "sd", "lower", " ", "\xa0", "a\x00b")  # or not kept by a CSV
_IN_TABLES = [name for name in NAMES if name not in _TAKEN]


@pytest.mark.parametrize(
    "name", _IN_TABLES[::8] + [pytest.param(n, marks=pytest.mark.slow) for n in _IN_TABLES]
)
def test_a_table_with_a_column_of_any_name_is_predicted(name, tmp_path):
    rain().join(pd.Series("=1+1", range(12), name=name)).to_csv(tmp_path / "data.csv", index=False)
    put_model(tmp_path)
    answer = in_process(["predict", "ready.zigp", "data.csv", "--out", "p.csv"], tmp_path)
    assert answer.code == 0, answer.said
    assert name in pd.read_csv(tmp_path / "p.csv")
    assert sorted(listing(tmp_path)) == ["data.csv", "p.csv", "ready.zigp"]


@pytest.mark.slow
def test_names_from_data_stay_text_in_the_report(tmp_path):
    """The names of columns, targets and files, on the page and in the command to paste."""
    script, image = "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>"
    file = "$(touch x) `touch y`; touch z.csv"
    rain().rename(columns={"lat": script, "rain_mm": image}).to_csv(tmp_path / file, index=False)
    roles = ["--target", image, "--inputs", f"{script},lon,hour", "--inducing", "3", "--steps", "1"]
    for words in (
        ["fit", file, *roles, "--quiet", "--out", "m.zigp"],
        ["report", "m.zigp", "--data", file, "--quick", "--out", "r.html", "--quiet"],
    ):
        answer = in_process(words, tmp_path)
        assert answer.code == 0, answer.said
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert text.count(str(escape(script))) > 2
    assert str(escape(shlex.quote(file))) in text
    assert [tag for tag in ("<script>alert", "<img src=x") if tag in text] == []
    assert sorted(listing(tmp_path)) == sorted([file, "m.zigp", "r.html"])


def test_a_file_name_that_is_no_text_is_fitted(tmp_path):
    rain().to_csv(tmp_path / "\udcff.csv", index=False)
    words = "fit \udcff.csv --target rain_mm --model gp --inducing 3 --steps 1 --out m.zigp --quiet"
    answer = in_process(words.split(" "), tmp_path)
    assert answer.code == 0, answer.said
    assert load(tmp_path / "m.zigp").n_iter_ == 1


# -- files with odd content -----------------------------------------------------------------------

_EARLY = pa.array([-(10**11)] * 12, pa.timestamp("s", "UTC"))
_RAIN = pa.Table.from_pandas(rain()).set_column(1, "lon", _EARLY)
_WIDE = pd.DataFrame(np.ones((2, 2000)), columns=[f"column {i}" for i in range(2000)])
EVALUATE = "evaluate data.csv --target rain_mm --config data.toml"

# content: (ending of the file, what is in it, the command that reads it, its code, its message)
REPORTED = {
    "names that steer a terminal": (
        "csv", rain().rename(columns={"lat": "\x1b[31mlat\u202e"}),
        "evaluate data.csv --target snow", 1, r"\x1b[31mlat\u202e, lon",
    ),
    "two thousand columns": (
        "csv", _WIDE, "evaluate data.csv --target snow", 1,
        "data.csv has no column 'snow'. It has column 0, column 1, ",
    ),
    "lists in lists": ("toml", "steps = " + "[" * 5000 + "]" * 5000, EVALUATE, 2, "is not TOML"),
    "five thousand digits": ("toml", "steps = " + "9" * 5000, EVALUATE, 2, "is not TOML"),
    "infinitely many steps": ("toml", "steps = inf", EVALUATE, 2, "--steps"),
    "a seed that is no number": ("toml", "seed = nan", EVALUATE, 2, "--seed"),
    "a lattice without places": (
        "nc", cube().isel(x=slice(0)),
        "predict ready.zigp data.nc --out p.nc", 1, "Dimension 'x' is empty: it has no places",
    ),
    "times before all years": (
        "parquet", _RAIN, "evaluate data.parquet --target rain_mm", 1,
        "years 1 to 9999' is not a number, nor is any other of 12 values. Correct them, leave the",
    ),
    "times that are no inputs": (
        "parquet", _RAIN, "predict ready.zigp data.parquet --out p.csv", 1,
        "column 'lon': 'a time outside of the years 1 to 9999' is not a number",
    ),
    "amounts that cannot be squared": (
        "csv", rain().assign(rain_mm=1e308),
        "report ready.zigp --data data.csv --quick --out r.html --quiet", 1,
        "y reaches 1e+308, too large to be squared: use a larger unit.",
    ),
    "more draws than columns": (
        "csv", rain(),
        f"simulate --model ready.zigp --data data.csv --draws {10**12}", 2, "--draws",
    ),
    "a model whose parts do not fit together": (
        "zigp", {"learned": {"model_": {"float": "nan"}}}, "info data.zigp", 1,
        "data.zigp is not a model that this zigp can use: ",
    ),
    "a scale that is no number": (
        "zigp", {"learned": {"y_scale_": {"float": "nan"}}}, "info data.zigp", 1,
        "data.zigp is damaged: its y_scale_ is not a number",
    ),
    "an infinite offset": (
        "zigp", {"learned": {"y_offset_": {"float": "inf"}}}, "info data.zigp", 1,
        "data.zigp is damaged: its y_offset_ is not a number",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REPORTED)
def test_hostile_content_is_reported_briefly_and_changes_no_file(name, tmp_path):
    ending, content, command, code, message = REPORTED[name]
    path = tmp_path / f"data.{ending}"
    put_model(tmp_path)
    match content:
        case pd.DataFrame():
            content.to_csv(path, index=False)
        case pa.Table():
            pq.write_table(content, path)
        case xr.Dataset():
            content.to_netcdf(path, engine="h5netcdf")
        case str():
            path.write_text(content)
        case dict():
            path.write_bytes(forged(**content))
    before = listing(tmp_path)
    answer = in_process(command.split(), tmp_path)
    assert answer.code == code, answer.said
    assert message in answer.said
    assert len(answer.said) < 2_100
    assert listing(tmp_path) == before


def test_a_line_that_would_fill_the_memory_is_not_read(tmp_path):
    (tmp_path / "data.csv").write_bytes(gzip.compress(b"a,b\n1," + b"1" * (1 << 26), 1))
    answer = in_process(["evaluate", "data.csv", "--target", "a"], tmp_path)
    assert answer.code == 1
    assert answer.said.startswith("data.csv, line 2 has more than 67,108,864 bytes")


# -- numbers --------------------------------------------------------------------------------------


def test_integers_that_are_too_large_are_reported():
    X = rain()[["lat", "lon"]].astype(object)
    X.iloc[3, 1] = 10**400
    with pytest.raises(ValueError, match="Column 'lon' has numbers that are too large"):
        SparseGPRegressor(steps=1, n_inducing=3).fit(X, rain()["rain_mm"])


@pytest.mark.parametrize("kind", [SparseGPRegressor, ZeroInflatedGPRegressor])
@pytest.mark.parametrize(
    ("scale", "message"), [((1e200, 1.0), "Column 0 of X reaches 8e"), ((1.0, 1e200), "y reaches")]
)
def test_numbers_that_cannot_be_squared_are_reported(kind, scale, message):
    X, y = np.arange(1.0, 9.0)[:, None], np.arange(8.0)
    with pytest.raises(ValueError, match=message):
        kind(steps=1).fit(scale[0] * X, scale[1] * y)


# -- signals --------------------------------------------------------------------------------------


def test_a_signal_that_is_ignored_stays_ignored(tmp_path, monkeypatch):
    """Under nohup a command goes on when its terminal closes."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    hang_up = Mock(side_effect=lambda path: signal.raise_signal(signal.SIGHUP) or load(path))
    monkeypatch.setattr("zigp.cli.info.load", hang_up)
    put_model(tmp_path)
    try:
        assert in_process(["info", "ready.zigp"], tmp_path).code == 0
    finally:
        signal.signal(signal.SIGHUP, before)
    assert hang_up.called
