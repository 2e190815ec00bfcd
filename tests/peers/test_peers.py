"""The same numbers as GPflow and GPyTorch, on random sparse GPs: `make test-peers`.

The peers need another Python than zigp and live in environments of their own: each is asked by a
program there, `ask_gpflow.py` and `ask_gpytorch.py`.
"""

import json
import os
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import random_cases
from random_cases import Case

from zigp.runtime.session import session

pytestmark = pytest.mark.peers

HERE = Path(__file__).parent
ENVIRONMENTS = HERE.parents[1] / "benchmarks" / ".peers"
PROBLEMS = ("regression", "classification", "certain_classification")
CLOSE = 1e-8  # relative where a number is above one

Numbers = dict[str, np.ndarray]
Answered = dict[str, list[tuple[Case, Numbers, Numbers]]]


@pytest.fixture(scope="module", params=["gpflow", "gpytorch"])
def peer(request: pytest.FixtureRequest) -> str:
    if not (ENVIRONMENTS / request.param / "ready").exists():
        pytest.skip(f"the environment of {request.param} is not built: run `make test-peers`")
    return request.param


@pytest.fixture(scope="module")
def answered(peer: str) -> Answered:
    """Every case of every problem, with zigp's numbers and the peer's."""
    with session():
        cases = [(name, case) for name in PROBLEMS for case in getattr(random_cases, name)(peer)]
        ours = [random_cases.numbers(case) for _, case in cases]
    theirs = asked(peer, [case for _, case in cases])
    found: Answered = {name: [] for name in PROBLEMS}
    for (name, case), here, there in zip(cases, ours, theirs, strict=True):
        found[name].append((case, here, there))
    return found


def asked(peer: str, cases: list[Case]) -> list[Numbers]:
    typed = json.dumps(cases, default=lambda array: array.tolist())
    program = [ENVIRONMENTS / peer / "bin" / "python", "-I", HERE / f"ask_{peer}.py"]
    done = subprocess.run(program, input=typed, capture_output=True, text=True, env=bare())
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    assert len(answers) == len(cases)
    return [{name: np.array(values) for name, values in answer.items()} for answer in answers]


def bare() -> dict[str, str]:
    """The environment's variables, less those that speak to this Python and this JAX."""
    ours = ("PYTHON", "JAX", "XLA")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


QUANTITIES = [
    *(("regression", q) for q in ("bound", "KL", "mean", "variance", "mean of y", "variance of y")),
    *(("classification", q) for q in ("bound", "KL", "mean", "variance", "probability")),
    *(("certain_classification", q) for q in ("bound", "probability")),
]


@pytest.mark.parametrize(("problem", "quantity"), QUANTITIES)
def test_every_number_is_the_peers(problem, quantity, answered, peer, record_property):
    differences = [
        np.abs(ours[quantity] - theirs[quantity]) / np.maximum(1.0, np.abs(theirs[quantity]))
        for _, ours, theirs in answered[problem]
    ]
    record_property("differences", (peer, problem, quantity, np.concatenate(differences).tolist()))
    far = [
        f"case {i}, {case['kernel']}, whitened {case['whitened']}, diagonal {case['diagonal']}: "
        f"off by {difference.max():.1e}"
        for i, ((case, _, _), difference) in enumerate(
            zip(answered[problem], differences, strict=True)
        )
        if not difference.max() <= CLOSE
    ]
    assert not far, "\n".join(far)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_there_are_twenty_cases_for_each_kind_of_q(problem, answered):
    kinds = Counter((case["whitened"], case["diagonal"]) for case, _, _ in answered[problem])
    assert len(kinds) == 4
    assert min(kinds.values()) >= 20


def test_the_bound_by_the_peers_own_nodes_is_within_what_is_promised(answered):
    """`zigp.special.log_probit_mean` promises 1e-7 (1 + |E|) a row for variances up to 1."""
    for case, ours, theirs in answered["classification"]:
        assert ours["variance"].max() <= 1.0
        own = theirs["bound by its own rule"]
        promised = 1e-7 * (case["rows_in_all"] + np.abs(own + ours["KL"]))
        assert np.abs(ours["bound"] - own) <= promised
