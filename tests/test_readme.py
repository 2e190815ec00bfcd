"""Every Python block in the README runs, in order, as one session."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_the_readme_runs():
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(blocks) == 3
    names: dict = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert names["sd"].shape == names["on"].shape == (400,)
    assert names["mean"].shape == (400, 2)
    assert names["support"].shape == (400, 1, 2)
    assert list(names["inside"]) == ["lower", "upper"]
    assert len(names["total"]) == 2
    assert set(names["parts"]) >= {"gate", "latent", "signal"}
    assert names["model"].on_lattice_


def test_the_speed_in_the_readme_is_the_measured_one():
    result = json.loads((ROOT / "benchmarks" / "results" / "gradient.json").read_text())
    assert f"takes {result['ratio']:.2f} of the time" in README
