"""Files and names by somebody who means harm: nothing is run, read, filled or written for them."""

from __future__ import annotations

import gzip
import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fuzz.material import NAMES, cube, model_file, put_model, rain
from fuzz.models import joined, parts_of, signed
from fuzz.running import in_process, listing
from markupsafe import escape

from zigp import SparseGPRegressor, ZeroInflatedGPRegressor, load
from zigp.cli.errors import ModelError
from zigp.cli.predicting import _tell_of_nonsense
from zigp.estimators import persistence

# -- files of models ------------------------------------------------------------------------------


def _changed(change):
    """The bytes of a model after a change that its digest agrees with."""
    header, outer, data = parts_of(model_file("ready").read_bytes())
    change(header, outer)
    return signed(header, outer, data)


def _content(key, value):
    return lambda header, _: header["content"]["learned"].update({key: value})


HOSTILE = {
    "a function": _content("y_scale_", {"is": "os.system", "with": {"command": "touch x"}}),
    "a module": _content("y_scale_", {"estimator": "antigravity", "settings": {}, "learned": {}}),
    "a pickle": _content("y_scale_", {"py/reduce": [{"py/type": "os.system"}, ["touch x"]]}),
    "a path": _content("y_scale_", {"array": "../../../../etc/passwd"}),
    "a method": _content("predict", "x"),
    "a class": _content("__class__", {"is": "columns.Table", "with": {"columns": {"dict": []}}}),
    "all attributes": _content("__dict__", {"dict": []}),
    "lists in lists": _content("y_scale_", "@5000@"),
    "texts that are none": _content("w_", {"texts": [[[1]], 2], "object": True}),
    "no estimator": lambda header, _: header.update(content={"list": [1]}),
    "a huge shape": lambda _, outer: outer["0"].update(shape=[2**62, 2**62]),
    "a large shape": lambda _, outer: outer["0"].update(shape=[10**10]),
    "a negative shape": lambda _, outer: outer["0"].update(shape=[-1]),
    "one tensor over another": lambda _, outer: outer.update({"1": outer["0"]}),
    "offsets past the end": lambda _, outer: outer["0"].update(data_offsets=[0, 2**60]),
    "offsets before the start": lambda _, outer: outer["0"].update(data_offsets=[-8, 0]),
    "a number of five thousand digits": lambda header, _: header.update(format="@digits@"),
}


def _wide(arrays, texts):
    """Arrays of many short texts and a long one, in all of which each would be as wide as that."""
    wide = {"texts": ["x" * texts, *[""] * (texts - 1)], "object": False}
    return _content("w_", {"list": [wide] * arrays})


# What can be loaded, but must not take the room that it asks for.
WIDE = {"a wide text": _wide(1, 99_999), "several wide texts": _wide(6, 4096)}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    for name, change in (HOSTILE | WIDE).items():
        raw = _changed(change)
        if name.endswith("digits"):
            header, outer, data = parts_of(raw)
            text = json.dumps(header).replace('"@digits@"', "9" * 5000)
            outer["__metadata__"] = {"zigp": text}
            head = json.dumps(outer, separators=(",", ":")).encode()
            raw = len(head).to_bytes(8, "little") + head + data
        (folder / f"{name}.zigp").write_bytes(raw)
    return folder


@pytest.mark.parametrize("name", HOSTILE)
def test_what_does_not_belong_in_a_model_is_refused(hostile, name):
    with pytest.raises(ValueError, match=f"{name}.zigp"):
        load(hostile / f"{name}.zigp")


_WATCHED = """
import json, resource, sys
from pathlib import Path
import zigp
zigp.load(sys.argv[1])  # what Python imports late, it has imported now
seen, peak = {}, lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
events = ("open", "import", "exec", "compile", "os.", "subprocess.", "socket.", "shutil.")
now = None
def watch(event, args):
    if now is not None and event.startswith(events):
        seen.setdefault(now, []).append([event, str(args[0])[:200]])
sys.addaudithook(watch)
grown = {}
for path in sys.argv[2:]:
    before, now = peak(), path
    try:
        zigp.load(path)
    except ValueError:
        pass
    now, grown[path] = None, peak() - before
print(json.dumps([seen, grown]))
"""


def test_loading_a_hostile_file_runs_and_reads_nothing_and_takes_no_room(hostile):
    paths = [str(path) for path in sorted(hostile.iterdir())]
    sound = str(model_file("ready"))
    done = subprocess.run(
        [sys.executable, "-c", _WATCHED, sound, *paths], capture_output=True, text=True, cwd=hostile
    )
    assert done.returncode == 0, done.stderr
    seen, grown = json.loads(done.stdout.splitlines()[-1])
    assert sorted(seen) == paths
    for path, events in seen.items():
        assert events == [["open", path]], path
    assert max(grown.values()) < 64 << 10, grown  # KiB
    assert sorted(map(str, hostile.iterdir())) == paths


@pytest.mark.parametrize("texts", [["a", "b"], ["a", "b", "x" * 99], [*"abcdefgh" * 9, "x" * 999]])
def test_texts_of_any_length_are_kept(texts, tmp_path):
    model = load(model_file("ready"))
    model.w_ = np.array(texts)
    model.save(tmp_path / "m.zigp")
    again = load(tmp_path / "m.zigp").w_
    assert again.tolist() == texts
    assert again.dtype == (object if len(texts) > 9 else model.w_.dtype)


def test_every_changed_byte_is_noticed(tmp_path):
    raw, path = model_file("ready").read_bytes(), tmp_path / "m.zigp"
    rng = np.random.default_rng(0)
    for at in rng.choice(len(raw), 400, replace=False):
        changed = bytearray(raw)
        changed[at] ^= 1 << rng.integers(8)
        path.write_bytes(changed)
        with pytest.raises(ValueError, match=r"m\.zigp"):
            load(path)


@pytest.mark.parametrize("command", ["info m.zigp", "predict m.zigp rain.csv --out p.csv"])
def test_a_model_whose_parts_do_not_fit_together_is_told(command, tmp_path):
    (tmp_path / "m.zigp").write_bytes(_changed(_content("model_", {"float": "nan"})))
    rain().to_csv(tmp_path / "rain.csv", index=False)
    answer = in_process(command.split(), tmp_path)
    assert answer.code == 1
    assert answer.said.startswith("m.zigp is not a model that this zigp can use: ")
    with pytest.raises(ModelError) as debugged:
        in_process([*command.split(), "--debug"], tmp_path)
    assert isinstance(debugged.value.__cause__, AttributeError)


def test_lists_in_lists_reach_the_parser_of_a_file_that_agrees_with_its_digest(tmp_path):
    (tmp_path / "m.zigp").write_bytes(_changed(_content("w_", "@50@")))
    found, levels = load(tmp_path / "m.zigp").w_, 0
    while isinstance(found, list):
        (found,), levels = found, levels + 1
    assert (found, levels) == (1, 50)


def test_a_file_without_a_digest_is_refused(tmp_path):
    header, outer, data = parts_of(model_file("ready").read_bytes())
    del header["digest"]
    (tmp_path / "m.zigp").write_bytes(joined(header, outer, data))
    with pytest.raises(ValueError, match="changed after it was saved"):
        load(tmp_path / "m.zigp")


def test_the_classes_of_a_file_are_those_that_hold_data():
    known = {*persistence._CLASSES.values(), *persistence._ESTIMATORS.values()}
    assert all(cls.__module__.startswith("zigp.") for cls in known)


# -- names from data ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_column_of_any_name_is_fitted_saved_loaded_and_described(name, tmp_path):
    table = rain().rename(columns={"lat": name})
    X, y = table[[name, "lon", "hour"]], table["rain_mm"]
    model = SparseGPRegressor(steps=1, n_inducing=3).fit(X, y)
    model.units_ = {name: name}
    model.save(tmp_path / "m.zigp")
    again = load(tmp_path / "m.zigp")
    assert list(again.feature_names_in_) == [name, "lon", "hour"]
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    answer = in_process(["info", "m.zigp"], tmp_path)
    assert answer.code == 0, answer.said
    assert all(c.isprintable() or c == "\n" for c in answer.out)
    assert json.loads(in_process(["info", "m.zigp", "--json"], tmp_path).out)["target"] == [name]
    assert [p.name for p in tmp_path.iterdir()] == ["m.zigp"]


_IN_TABLES = [
    n for n in NAMES if "\0" not in n and n.strip() == n and n not in ("mean", "sd", "lower")
]


@pytest.mark.parametrize(
    "name",
    [
        n if i % 8 == 0 else pytest.param(n, marks=pytest.mark.slow)
        for i, n in enumerate(_IN_TABLES)
    ],
)
def test_a_table_with_a_column_of_any_name_is_predicted_at(name, tmp_path):
    table = rain().copy()
    table[name] = "=1+1"
    table.to_csv(tmp_path / "data.csv", index=False)
    put_model(tmp_path)
    answer = in_process(["predict", "ready.zigp", "data.csv", "--out", "p.csv"], tmp_path)
    assert answer.code == 0, answer.said
    assert name in pd.read_csv(tmp_path / "p.csv")
    assert sorted(listing(tmp_path)) == ["data.csv", "p.csv", "ready.zigp"]


@pytest.mark.slow
def test_text_from_data_stays_text_in_the_report(tmp_path):
    """The names of columns, targets, units and files, as a page and as a command to paste."""
    script, image = "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>"
    file = "$(touch x) `touch y`; touch z.csv"

    def rename(header, _):
        learned = json.dumps(header["content"]["learned"])
        learned = learned.replace('"lat"', json.dumps(script)).replace(
            '"rain_mm"', json.dumps(image)
        )
        header["content"]["learned"] = json.loads(learned)
        made = {"dict": [["command", {"list": ["zigp", "fit", script]}]]}
        header["content"]["learned"]["origin_"] = made

    (tmp_path / "m.zigp").write_bytes(_changed(rename))
    table = rain().rename(columns={"lat": script, "rain_mm": image})
    table.to_csv(tmp_path / file, index=False)
    words = ["report", "m.zigp", "--data", file, "--quick", "--out", "r.html", "--quiet"]
    answer = in_process(words, tmp_path)
    assert answer.code == 0, answer.said
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert text.count(str(escape(script))) > 2
    assert str(escape(shlex.quote(file))) in text
    for tag in ("<script>alert", "<img src=x"):
        assert tag not in text
    assert sorted(listing(tmp_path)) == sorted([file, "m.zigp", "r.html"])


# -- what was found, each by itself ---------------------------------------------------------------


def test_what_would_steer_a_terminal_is_spelled_out(tmp_path):
    table = rain().rename(columns={"lat": "\x1b[31mlat\u202e"})
    table.to_csv(tmp_path / "data.csv", index=False)
    answer = in_process(["evaluate", "data.csv", "--target", "snow"], tmp_path)
    assert answer.code == 1
    assert r"\x1b[31mlat\u202e, lon" in answer.said


def test_a_thousand_columns_are_not_listed(tmp_path):
    wide = pd.DataFrame(np.ones((2, 2000)), columns=[f"column {i}" for i in range(2000)])
    wide.to_csv(tmp_path / "data.csv", index=False)
    answer = in_process(["evaluate", "data.csv", "--target", "snow"], tmp_path)
    assert answer.code == 1
    assert len(answer.said) < 2_100
    assert answer.said.startswith("data.csv has no column 'snow'. It has column 0, column 1, ")
    assert answer.said.endswith("column 1999.\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("steps = " + "[" * 5000 + "]" * 5000, "is not TOML"),
        ("steps = " + "9" * 5000, "is not TOML"),
        ("steps = inf", "--steps"),
        ("seed = nan", "--seed"),
    ],
)
def test_options_that_no_file_should_hold_are_told(text, words, tmp_path):
    rain().to_csv(tmp_path / "rain.csv", index=False)
    (tmp_path / "o.toml").write_text(text)
    answer = in_process(
        ["evaluate", "rain.csv", "--target", "rain_mm", "--config", "o.toml"], tmp_path
    )
    assert answer.code == 2, answer.said
    assert words in answer.said


def test_a_damaged_lattice_is_told_in_one_sentence(tmp_path):
    cube().to_netcdf(tmp_path / "cube.nc", engine="h5netcdf")
    raw = (tmp_path / "cube.nc").read_bytes()
    done = []
    for at in range(48, len(raw), 200):
        changed = bytearray(raw)
        changed[at] ^= 255
        (tmp_path / "cube.nc").write_bytes(changed)
        done.append(in_process(["evaluate", "cube.nc", "--target", "snow"], tmp_path))
    for answer in done:
        assert answer.code == 1
        assert len(answer.said.splitlines()) == 1, answer.said


def test_a_lattice_without_places_is_told(tmp_path):
    cube().isel(x=slice(0)).to_netcdf(tmp_path / "cube.nc", engine="h5netcdf")
    (tmp_path / "m.zigp").write_bytes(model_file("ready").read_bytes())
    answer = in_process(["predict", "m.zigp", "cube.nc", "--out", "p.nc"], tmp_path)
    assert answer.code == 1
    assert "Dimension 'x' of cube.nc is empty" in answer.said


def test_a_line_that_would_fill_the_memory_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr("zigp.data.tables.csv._LONGEST_LINE", 1000)
    (tmp_path / "data.csv").write_bytes(gzip.compress(b"a,b\n1," + b"1" * 10**6))
    answer = in_process(["evaluate", "data.csv", "--target", "a"], tmp_path)
    assert answer.code == 1
    assert answer.said.startswith("data.csv, line 2 has more than 1,000 bytes")


def test_a_file_name_that_is_no_text_is_fitted_and_kept(tmp_path):
    rain().to_csv(tmp_path / "\udcff.csv", index=False)
    words = "fit \udcff.csv --target rain_mm --model gp --inducing 3 --steps 1 --out m.zigp --quiet"
    answer = in_process(words.split(" "), tmp_path)
    assert answer.code == 0, answer.said
    assert load(tmp_path / "m.zigp").origin_["command"][2] == "?.csv"


def test_times_before_all_years_are_told(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pandas(rain(), preserve_index=False)
    early = pa.array([-(10**11)] * 12, pa.timestamp("s", "UTC"))
    pq.write_table(table.set_column(1, "lon", early), tmp_path / "data.parquet")
    (tmp_path / "m.zigp").write_bytes(model_file("ready").read_bytes())
    evaluated = in_process(["evaluate", "data.parquet", "--target", "rain_mm"], tmp_path)
    assert evaluated.said == "Column 'lon' of data.parquet holds times: name it with --time.\n"
    predicted = in_process(["predict", "m.zigp", "data.parquet", "--out", "p.csv"], tmp_path)
    assert "column 'lon': 'a time outside of the years 1 to 9999' is not a number" in predicted.said


def test_numbers_that_are_too_large_are_told():
    X = rain()[["lat", "lon"]].astype(object)
    X.iloc[3, 1] = 10**400
    with pytest.raises(ValueError, match="Column 'lon' has numbers that are too large"):
        SparseGPRegressor(steps=1, n_inducing=3).fit(X, rain()["rain_mm"])


def test_more_draws_than_a_table_has_columns_are_refused(tmp_path):
    words = ["simulate", "--model", "m.zigp", "--data", "d.csv", "--draws", "1000000000000"]
    answer = in_process(words, tmp_path)
    assert answer.code == 2
    assert "--draws" in answer.said


@pytest.mark.slow
@pytest.mark.parametrize("name", ["y_offset_", "y_scale_"])
@pytest.mark.parametrize("wrong", ["nan", "inf"])
def test_units_that_are_no_numbers_are_told(name, wrong, tmp_path):
    (tmp_path / "m.zigp").write_bytes(_changed(_content(name, {"float": wrong})))
    rain().to_csv(tmp_path / "rain.csv", index=False)
    answer = in_process(["predict", "m.zigp", "rain.csv", "--out", "p.csv", "--quiet"], tmp_path)
    assert answer.code == 1
    assert f"m.zigp is damaged: its {name} is not a number" in answer.said
    assert not (tmp_path / "p.csv").exists()


def test_predictions_that_are_infinite_are_told(capsys):
    _tell_of_nonsense({"mean": np.ones(3), "sd": np.array([1.0, np.inf, np.nan])})
    assert capsys.readouterr().err == "Look at this: 2 of sd are not finite.\n"


@pytest.mark.parametrize(
    ("settings", "scale", "words"),
    [
        ({"n_inducing": np.inf}, (1.0, 1.0), "n_inducing must be at least 1"),
        ({}, (1e200, 1.0), "Column 0 of X reaches 8e"),
        ({}, (1.0, 1e200), "y reaches"),
    ],
)
def test_numbers_that_no_fit_can_use_are_told(settings, scale, words):
    X, y = np.arange(1.0, 9.0)[:, None], np.arange(8.0)
    for kind in (SparseGPRegressor, ZeroInflatedGPRegressor):
        with pytest.raises(ValueError, match=words):
            kind(steps=1, **settings).fit(scale[0] * X, scale[1] * y)


def test_a_resolution_that_no_fit_can_use_is_told():
    X = np.arange(8.0)[:, None]
    with pytest.raises(ValueError, match="resolution reaches"):
        ZeroInflatedGPRegressor(steps=1, resolution=1e300).fit(X, X[:, 0])


def test_inputs_that_no_distance_can_be_taken_to_are_told():
    model = load(model_file("ready"))
    far = rain()[["lat", "lon", "hour"]] * [1.0, 1.0, 1e200]
    with pytest.raises(FloatingPointError, match="prediction at row 1 is not a number"):
        model.predict(far)


@pytest.mark.parametrize("sort", ["ready", pytest.param("hurdle", marks=pytest.mark.slow)])
def test_no_file_says_where_checkpoints_are_written_or_read(sort, tmp_path):
    """Who trains a stranger's model on would write to a folder of the stranger's choice."""
    model, folder = load(model_file(sort)), str(tmp_path / "theirs")
    model.set_params(checkpoint=tmp_path / "mine").save(tmp_path / "m.zigp")
    header, outer, data = parts_of((tmp_path / "m.zigp").read_bytes())
    assert "checkpoint" not in header["content"]["settings"]
    parts = [header["content"], *header["content"]["learned"].values()]
    for part in (part for part in parts if isinstance(part, dict) and "settings" in part):
        part["settings"] |= {"checkpoint": folder, "resume": True}
    (tmp_path / "m.zigp").write_bytes(signed(header, outer, data))
    again = load(tmp_path / "m.zigp")
    parts = [again, again.classifier_, again.regressor_] if sort == "hurdle" else [again]
    assert all((part.checkpoint, part.resume) == (None, False) for part in parts)


def test_amounts_that_cannot_be_scored_are_told_before_the_report(tmp_path):
    rain().assign(rain_mm=1e308).to_csv(tmp_path / "data.csv", index=False)
    (tmp_path / "m.zigp").write_bytes(model_file("ready").read_bytes())
    words = ["report", "m.zigp", "--data", "data.csv", "--quick", "--out", "r.html", "--quiet"]
    answer = in_process(words, tmp_path)
    assert answer.code == 1
    assert "y reaches 1e+308, too large to be squared: use a larger unit." in answer.said


def test_a_signal_that_is_to_be_ignored_is(tmp_path, monkeypatch):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    monkeypatch.setattr("zigp.cli.info._described", lambda _: signal.raise_signal(signal.SIGHUP))
    try:
        answer = in_process(["info", "m.zigp", "--json"], tmp_path)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (answer.code, answer.out) == (0, "null\n")


def test_warnings_are_lines_without_a_place_in_the_code(tmp_path, monkeypatch):
    import warnings

    def warned(_):
        warnings.warn("Half of it\nis missing.", UserWarning, stacklevel=1)

    monkeypatch.setattr("zigp.cli.info._described", warned)
    assert in_process(["info", "m.zigp", "--json"], tmp_path).said == "Half of it is missing.\n"
