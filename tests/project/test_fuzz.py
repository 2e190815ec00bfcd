"""A sample of the generated bad input; `make fuzz` runs ten thousand cases."""

import json
from pathlib import Path

import pytest
from fuzz import outcome_of

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
CASES = {
    "csv": 10, "parquet": 6, "lattice": 4, "model": 22, "toml": 12, "command": 10,
    "settings": 2,
}  # fmt: skip


@pytest.mark.parametrize("kind", CASES)
def test_bad_input_is_handled_or_reported(kind):
    outcomes = {seed: outcome_of(kind, seed).wrong for seed in range(CASES[kind])}
    assert {seed: wrong for seed, wrong in outcomes.items() if wrong} == {}


@pytest.mark.parametrize(
    ("kind", "seed"), [("csv", 0), pytest.param("command", 2, marks=pytest.mark.slow)]
)
def test_bad_input_is_handled_or_reported_in_a_process_of_its_own(kind, seed, tmp_path):
    assert outcome_of(kind, seed, tmp_path).wrong == ""


def test_the_recorded_run_had_ten_thousand_cases_and_none_was_wrong():
    recorded = json.loads((RESULTS / "fuzz.json").read_text())
    assert recorded["total"] >= 10_000
    assert recorded["by_the_command"] >= 200
    assert recorded["wrong"] == 0
