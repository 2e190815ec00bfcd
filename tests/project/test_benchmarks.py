"""The page of performance and the bars: made from the results, and from nothing else."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import check
import page
import run

BENCHMARKS = Path(page.__file__).parent
# How settings were chosen: no matter of performance. docs/decisions.md reads them.
OF_CHOICES = {"latent_noise", "tune_jura", "tune_precipitation"}
OF_OTHER_PAGES = {"calibration", "fuzz"}


@pytest.fixture(scope="module")
def results():
    return check.read()


def test_the_page_is_what_the_results_make_of_it(results):
    assert page.PAGE.read_text() == page.page(results)
    assert page.page(results) == page.page(dict(reversed(results.items())))


def test_every_file_of_results_is_on_the_page(results):
    whole = page.page(results)
    for name in results.keys() - OF_CHOICES - OF_OTHER_PAGES:
        without = {key: value for key, value in results.items() if key != name}
        assert page.page(without) != whole, name


def test_what_is_written_says_what_it_was_measured_on(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "RESULTS", tmp_path)
    run.write("gradient", {"ratio": 0.1})
    on = json.loads((tmp_path / "gradient.json").read_text())["on"]
    assert {"cpu", "cores", "python", "versions"} <= on.keys()
    assert {"zigp", "jax", "numpy"} <= on["versions"].keys()
    words = page.machine({"on": {"device": "a card"} | on})
    assert words.startswith(f"a card, {on['cpu']}, {on['cores']} cores, Python {on['python']}, jax")


def test_every_script_that_writes_results_writes_the_same_record():
    for script in BENCHMARKS.glob("*.py"):
        text = script.read_text()
        if "RESULTS" in text and '"on":' in text:
            assert "machine()" in text, script.name


def test_no_seconds_are_typed_in_the_page():
    source = (BENCHMARKS / "page.py").read_text()
    assert not re.search(r"\d+(\.\d+)? (s|ms|MB|seconds)\b", source)


def test_made_up_results_within_the_bars_pass_and_above_one_fail(tmp_path):
    good = {
        **{name: {} for name in check.WITHOUT_BARS},
        "gradient": {"ratio": 0.12},
        "scattered": {"diagonal": {"ratio": 0.9}, "dense": {"ratio": 0.9}},
        "memory": {"peak_mb": 900.0},
        "imports": {"ratio": 1.1},
        "second_start": {"ratio": 0.4},
        "convergence": {"ratios": {"precipitation": 0.1, "jura": 0.1}},
        "streaming": {"ratio": 1.0, "peak_mb": 1000.0},
    }
    bad = {
        "gradient": {"ratio": 0.2},
        "scattered": {"diagonal": {"ratio": 1.1}, "dense": {"ratio": 0.5}},
        "memory": {"peak_mb": 1100.0},
        "imports": {"ratio": 1.4},
        "second_start": {"ratio": 0.6},
        "convergence": {"ratios": {"precipitation": 0.1, "jura": 0.5}},
        "streaming": {"ratio": 1.0, "peak_mb": 3000.0},
    }
    assert exit_code(tmp_path / "good", good) == 0
    for name, result in bad.items():
        assert exit_code(tmp_path / name, good | {name: result}) == 1, name
    for name in good:  # as it was measured before results said where
        assert exit_code(tmp_path / name, good | {name: good[name] | {"on": {}}}) == 1, name


def test_what_was_not_measured_fails(tmp_path):
    assert exit_code(tmp_path, {"gradient": {"ratio": 0.1}}) == 1


def exit_code(folder: Path, results: dict) -> int:
    folder.mkdir(exist_ok=True)
    for name, result in results.items():
        (folder / f"{name}.json").write_text(json.dumps({"on": run.machine()} | result))
    return check.main(folder)
