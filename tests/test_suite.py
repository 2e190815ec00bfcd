"""The suite itself: warnings are errors, and the order of the tests is random on every worker."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_warnings_are_errors():
    for kind in (UserWarning, DeprecationWarning, RuntimeWarning, FutureWarning):
        with pytest.raises(kind):
            warnings.warn("a warning", kind, stacklevel=1)


def test_every_process_knows_the_same_tests_by_the_same_names():
    """Also those that are not run this time: where names differ, none of them can be run."""
    kept = Path(os.environ["ZIGP_TESTS_RUN"]).glob("names-*")
    found = {file.name: file.read_text("utf-8") for file in kept}
    assert f"names-{os.getpid()}" in found
    assert len(set(found.values())) == 1


def order(folder: Path, seed: int) -> list[list[str]]:
    """The names of tests as each of two workers ran them, with the project's own settings."""
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-v", "-n2", f"--randomly-seed={seed}",
            "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder), str(folder),
        ],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    ran = re.findall(r"^\[(gw\d)\] .*PASSED \S+::(test_\w+)", done.stdout, re.M)
    assert len(ran) == 20, done.stdout
    workers = [[name for worker, name in ran if worker == wanted] for wanted in ("gw0", "gw1")]
    return sorted(workers, key=lambda names: "one" in names[0])


@pytest.mark.slow
def test_the_order_is_random_on_workers_and_repeats_with_its_seed(tmp_path):
    for file in ("one", "two"):
        tests = "\n".join(f"def test_{file}_{i}():\n    pass\n" for i in range(10))
        (tmp_path / f"test_{file}.py").write_text(tests)
    first, again, other = (order(tmp_path, seed) for seed in (1, 1, 2))
    assert first == again
    assert all(a != b and sorted(a) == sorted(b) for a, b in zip(first, other, strict=True))
