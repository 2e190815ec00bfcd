"""GPflow and GPyTorch compute the same numbers of random sparse GPs: `make test-peers`.

The peers need another Python than zigp and live in environments of their own, where `ask_gpflow.py`
and `ask_gpytorch.py` run.
"""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import random_cases

from zigp.runtime.session import session

pytestmark = pytest.mark.peers

HERE = Path(__file__).parent
ENVIRONMENTS = HERE.parents[1] / "benchmarks" / ".peers"
PROBLEMS = ("regression", "classification", "certain_classification")
CLOSE = 1e-8  # relative where a number is above one


@pytest.fixture(scope="module", params=["gpflow", "gpytorch"])
def peer(request):
    if not (ENVIRONMENTS / request.param / "ready").exists():
        pytest.skip(f"the environment of {request.param} is not built: run `make test-peers`")
    return request.param


@pytest.fixture(scope="module")
def answered(peer):
    """Every case of every problem, with zigp's numbers and the peer's."""
    with session():
        cases = {name: getattr(random_cases, name)(peer) for name in PROBLEMS}
        ours = {name: [random_cases.numbers(case) for case in cases[name]] for name in PROBLEMS}
    theirs = iter(asked(peer, [case for name in PROBLEMS for case in cases[name]]))
    return {name: list(zip(cases[name], ours[name], theirs, strict=False)) for name in PROBLEMS}


def asked(peer: str, cases: list[dict]) -> list[dict[str, np.ndarray]]:
    typed = json.dumps(cases, default=lambda array: array.tolist())
    program = [ENVIRONMENTS / peer / "bin" / "python", "-I", HERE / f"ask_{peer}.py"]
    done = subprocess.run(program, input=typed, capture_output=True, text=True, env=bare())
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    assert len(answers) == len(cases)
    return [{name: np.array(values) for name, values in answer.items()} for answer in answers]


def bare() -> dict[str, str]:
    """Return the environment without variables for this Python and this JAX."""
    ours = ("PYTHON", "JAX", "XLA")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


_LATENT = ("bound", "KL", "mean", "variance")
QUANTITIES = {
    "regression": (*_LATENT, "mean of y", "variance of y"),
    "classification": (*_LATENT, "mean of y"),
    "certain_classification": ("bound", "mean of y"),
}


@pytest.mark.parametrize(
    ("problem", "quantity"), [(name, one) for name in PROBLEMS for one in QUANTITIES[name]]
)
def test_every_number_is_the_peers(problem, quantity, answered):
    far = {}
    for i, (case, ours, theirs) in enumerate(answered[problem]):
        difference = np.abs(ours[quantity] - theirs[quantity])
        if not np.all(difference <= CLOSE * np.maximum(1.0, np.abs(theirs[quantity]))):
            far[i, case["kernel"], case["whitened"], case["diagonal"]] = difference.max()
    assert far == {}


def test_the_bound_by_the_peers_own_nodes_is_within_what_is_promised(answered):
    """`zigp.special.log_probit_mean` promises 1e-7 (1 + |E|) a row for variances up to 1."""
    for case, ours, theirs in answered["classification"]:
        assert ours["variance"].max() <= 1.0
        own = theirs["bound by its own rule"]
        promised = 1e-7 * (case["rows_in_all"] + np.abs(own + ours["KL"]))
        assert np.abs(ours["bound"] - own) <= promised
