"""Mutants: small wrong changes to the rooms that all numbers stand on. Do the tests notice?

`make mutants` makes them with cosmic-ray's operators, one at a time, in a copy of the package, and
runs the tests of that room on each in a new process. Of a long room it tries a sample, the same at
every time. It writes `results.json`, fails where a mutant that no test notices has no reason in
`survivors.toml`, and writes docs/mutants.md from both.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# What is tried of a room, if not all: an hour is what one waits for.
SHARES = {"special": 0.2}

# The rooms, and the tests that hold each: those that see it closely, and are quick.
_OBJECTIVE = "tests/models/test_objective.py::test_"
ROOMS = {
    "special": ("tests/math/test_special.py",),
    "signal": ("tests/models/test_signal.py",),
    "objective": (
        _OBJECTIVE + "bound_is_the_papers_written_out_by_hand[dense-0]",
        _OBJECTIVE + "the_prior_counts_every_length_that_there_is",
        "tests/training/test_natural.py::test_the_slopes_that_a_sweep_ends_with_give_the_gradient[rows]",
    ),
}
