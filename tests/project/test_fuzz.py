"""Generated bad input, a little of it; `make fuzz` runs ten thousand cases."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from fuzz import COMMANDS, KINDS, SHARES, call, generated
from fuzz.campaign import cases, outcome_of
from fuzz.running import Answer, _grown, judged, listing, own_folder

ROOT = Path(__file__).parents[2]
_HERE = {"csv": 10, "parquet": 6, "lattice": 4, "model": 20, "forged": 2, "toml": 12}
_HERE |= {"command": 10, "settings": 2}


@pytest.mark.parametrize("kind", KINDS)
def test_bad_input_works_or_is_told(kind):
    wrong = {seed: outcome_of(kind, seed).wrong for seed in range(_HERE[kind])}
    assert {seed: what for seed, what in wrong.items() if what} == {}


@pytest.mark.parametrize(
    ("kind", "seed"), [("csv", 0), pytest.param("command", 2, marks=pytest.mark.slow)]
)
def test_bad_input_works_or_is_told_by_the_command_too(kind, seed, tmp_path):
    assert outcome_of(kind, seed, command=tmp_path).wrong == ""


@pytest.mark.parametrize("kind", COMMANDS)
def test_a_case_is_known_by_its_seed(kind, tmp_path):
    folders = [tmp_path / name for name in "ab"]
    typed = []
    for folder in folders:
        folder.mkdir()
        typed.append(generated(kind, 3, folder))
    assert typed[0] == typed[1]
    names = [sorted(listing(folder)) for folder in folders]
    assert names[0] == names[1]


@pytest.mark.parametrize("place", ["left.csv", "../left.csv", "~/left.csv", "asked.csv"])
def test_what_is_written_beside_the_output_is_seen(place, monkeypatch):
    def run(words, folder):
        monkeypatch.setenv("HOME", str(folder.parent))
        (folder / os.path.expanduser(place)).write_text("1")
        return Answer(0, "", "", 0)

    with own_folder() as folder:
        found = judged(["simulate", "--out", "asked.csv"], folder, run)
    assert (found.wrong == "") == (place == "asked.csv")


def test_memory_is_that_of_a_case_alone():
    if not os.access("/proc/self/clear_refs", os.W_OK):
        pytest.skip("only Linux forgets the most that a process has used")
    for _ in range(2):
        grown = _grown()
        np.ones(1 << 25).sum()  # a quarter of a GiB, given back at once
        assert 1 << 17 < grown() < 1 << 20
    assert _grown()() < 1 << 17


def test_ten_thousand_cases_ended_as_they_should():
    """The last run of `make fuzz`, which the page about reliability tells of."""
    found = json.loads((ROOT / "benchmarks" / "results" / "fuzz.json").read_text())
    assert found["total"] == found["in_process"] + found["by_the_command"] >= 10_000
    assert found["by_the_command"] >= 200
    assert found["wrong"] == 0
    counted = sum(count for ended in found["ended"].values() for count in ended.values())
    assert counted == found["total"]


def test_shares_add_up():
    assert sum(SHARES.values()) == 100
    assert len(list(cases(1000))) == 1000
    assert callable(call(0))
