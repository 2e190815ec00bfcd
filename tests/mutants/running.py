"""Try mutants: each in a copy of the package, by the tests of its room, in a new process.

This process never imports JAX: a process forked from one whose threads run can hang.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.testing import run_tests
from cosmic_ray.work_item import MutationSpec, TestOutcome, WorkerOutcome

from . import ROOMS, ROOT
from .making import Mutant

LIMIT = 300  # seconds; the tests of a room take some ten
# The tests here are small: most of their time is XLA's. It optimises little and keeps everything.
QUICK = {
    "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}


def tried(mutants: list[Mutant], workers: int) -> Iterator[tuple[Mutant, str]]:
    """Each mutant with how it ended (caught, slow or survived), as they end."""
    os.environ |= QUICK
    with _copies(workers) as copies, ThreadPoolExecutor(workers) as pool:
        _check_that_tests_see_the_copy({mutant.room for mutant in mutants}, copies)

        def ended(mutant: Mutant) -> tuple[Mutant, str]:
            copy = copies.get()
            try:
                return mutant, _outcome(mutant, copy)
            finally:
                copies.put(copy)

        yield from pool.map(ended, mutants)


@contextmanager
def _copies(count: int) -> Iterator[SimpleQueue[Path]]:
    """As many copies of the package and its tests, which mutants may spoil."""
    with tempfile.TemporaryDirectory(prefix="zigp-mutants-") as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for i in range(count):
            copy = Path(folder) / str(i)
            for part in ("src", "tests"):
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(ROOT / part, copy / part, ignore=ignored)
            shutil.copy(ROOT / "pyproject.toml", copy)
            copies.put(copy)
        yield copies


def _check_that_tests_see_the_copy(rooms: set[str], copies: SimpleQueue[Path]) -> None:
    """They must pass there as it is, and fail where a room is empty."""
    copy = copies.get()
    for room in rooms:
        outcome, said = run_tests(_command(room, copy), LIMIT)
        if outcome is not TestOutcome.SURVIVED:
            sys.exit(f"The tests of {room} fail before anything is changed:\n{said}")
        path = _source(room, copy)
        whole = path.read_text()
        path.write_text("")
        outcome, _ = run_tests(_command(room, copy), LIMIT)
        path.write_text(whole)
        if outcome is not TestOutcome.KILLED:
            sys.exit(f"The tests of {room} pass without it: they import another copy.")
    copies.put(copy)


def _outcome(mutant: Mutant, copy: Path) -> str:
    spec = MutationSpec(
        module_path=_source(mutant.room, copy),
        operator_name=f"core/{mutant.operator}",
        occurrence=mutant.occurrence,
        start_pos=mutant.start,
        end_pos=mutant.end,
    )
    result = mutate_and_test([spec], _command(mutant.room, copy), LIMIT)
    if result.output == "timeout":  # the machine may have been busy: only twice is not by chance
        shutil.rmtree(
            _compiled(copy), ignore_errors=True
        )  # it was killed, perhaps while it wrote there
        result = mutate_and_test([spec], _command(mutant.room, copy), LIMIT)
    if result.worker_outcome is not WorkerOutcome.NORMAL:
        sys.exit(f"{mutant.key} could not be tried:\n{result.output}")
    if result.test_outcome is TestOutcome.SURVIVED:
        return "survived"
    return "slow" if result.output == "timeout" else "caught"


def _source(room: str, copy: Path) -> Path:
    return copy / "src" / "zigp" / f"{room}.py"


def _compiled(copy: Path) -> Path:
    """What was compiled for a copy. Not for all: JAX does not write there in one step."""
    return copy / "compiled"


def _command(room: str, copy: Path) -> str:
    """The tests of a room, on a copy, up to the first that fails."""
    return shlex.join(
        [
            "env", f"JAX_COMPILATION_CACHE_DIR={_compiled(copy)}",
            sys.executable, "-m", "pytest", "-x", "-q", "-n0",
            "-m", "not peers",  # slow ones that are named are meant
            "-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:cov",
            "-c", str(copy / "pyproject.toml"), "--rootdir", str(copy),
            "-o", f"pythonpath={copy / 'src'}",
            *(str(copy / path) for path in ROOMS[room]),
        ]
    )  # fmt: skip
