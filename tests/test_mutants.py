"""What is known of mutants: enough were tried and caught, and each survivor is explained."""

from __future__ import annotations

import subprocess
import sys

from mutants import ROOMS, ROOT, SHARES
from mutants.making import Mutant, mutants_of, sampled, source_of
from mutants.recording import (
    LEAST_CAUGHT,
    PAGE,
    caught,
    page,
    read_reasons,
    read_results,
    result_of,
    survivors_in,
    totals,
    tried,
    unexplained,
)


def test_enough_were_tried_and_caught_in_every_room():
    results = read_results()
    assert results.keys() == ROOMS.keys()
    assert tried(totals(results)) >= 150
    assert all(caught(counts) >= LEAST_CAUGHT for counts in results.values())


def test_what_was_tried_are_mutants_of_the_code_as_it_is():
    made = {room: counts["made"] for room, counts in read_results().items()}
    assert made == {room: len(mutants_of(room)) for room in ROOMS}, "run make mutants again"


def test_every_survivor_is_explained_and_nothing_else():
    results = read_results()
    assert all(len(counts["survivors"]) == counts["survived"] for counts in results.values())
    assert unexplained(results, read_reasons()) == ([], [])


def test_survivors_are_changes_of_lines_that_still_stand():
    for key in survivors_in(read_results()):
        room, before = key.split(".")[0], key.split(": ", 1)[1].split(" → ")[0]
        assert before in source_of(room), f"run make mutants again: {key}"


def test_the_page_is_what_the_results_make_of_it():
    assert PAGE.read_text() == page(read_results(), read_reasons())


def test_counts_are_of_how_mutants_ended():
    result = result_of(9, [("a", "caught"), ("b", "survived"), ("c", "slow"), ("d", "caught")])
    assert result == {"made": 9, "caught": 2, "slow": 1, "survived": 1, "survivors": ["b"]}
    assert tried(result) == 4
    assert caught(result) == 0.75
    assert unexplained({"signal": result}, [{"mutants": ["x"]}]) == (["b"], ["x"])


def test_a_sample_is_the_same_at_every_time():
    many = [Mutant("signal", "", i, (1, 0), (1, 1), "", "", "") for i in range(40)]
    assert sampled(many, 1.0) == many
    assert len(sampled(many, 0.25)) == 10
    assert sampled(many, 0.25) == sampled(many, 0.25)


def test_what_is_tried_if_nothing_is_said_is_what_the_results_are_of():
    for room, counts in read_results().items():
        assert tried(counts) == round(SHARES.get(room, 1.0) * counts["made"])


def test_the_page_says_what_is_a_sample_and_what_is_not():
    part = {"made": 10, "caught": 2, "slow": 0, "survived": 0, "survivors": []}
    whole = part | {"made": 2}
    assert "Tried were 20 % of those of `special`" in page({"special": part, "signal": whole}, [])
    assert "All of these changes were tried." in page({"signal": whole}, [])


def test_annotations_and_declarations_are_no_mutants():
    changes = {(m.before, m.after) for m in mutants_of("objective")}
    assert ("total = jnp.zeros(())", "total = jnp.zeros(())") not in changes
    assert all(before != after for before, after in changes)
    assert len(changes) > 10


def test_who_tries_mutants_has_no_threads_of_jax():
    """It starts a process for each; one forked beside running threads could hang."""
    look = "import sys, tests.mutants.__main__; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", look], cwd=ROOT).returncode == 0
