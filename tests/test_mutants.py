"""Mutants: how they are made, sampled and counted. `make mutants` tries them."""

from __future__ import annotations

import subprocess
import sys

from mutants import ROOT
from mutants.making import Mutant, mutants_of, sampled
from mutants.recording import caught, result_of, tried, unexplained


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


def test_annotations_and_declarations_are_no_mutants():
    changes = {(m.before, m.after) for m in mutants_of("objective")}
    assert ("total = jnp.zeros(())", "total = jnp.zeros(())") not in changes
    assert all(before != after for before, after in changes)
    assert len(changes) > 10


def test_who_tries_mutants_has_no_threads_of_jax():
    """It starts a process for each; one forked beside running threads could hang."""
    look = "import sys, tests.mutants.__main__; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", look], cwd=ROOT).returncode == 0
