"""Every Python block in the README runs, in order, as one session; its numbers are measured."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
ZIGP = Path(sys.executable).with_name("zigp")
README = (ROOT / "README.md").read_text()
RESULTS = (ROOT / "docs" / "results.md").read_text()


@pytest.mark.slow
def test_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(blocks) == 1
    names: dict = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert names["sd"].shape == names["on"].shape == (400,)
    assert np.corrcoef(names["on"], names["X"][:, 0] > 5)[0, 1] > 0.9
    assert list(names["inside"]) == ["lower", "upper"]


@pytest.mark.slow
def test_the_commands_in_the_readme_run(tmp_path):
    commands = [line.split() for line in README.splitlines() if line.startswith("    zigp ")]
    assert [command[1] for command in commands] == [
        *("simulate", "fit", "predict", "evaluate", "report")
    ]
    shorter = {"simulate": ["--hours", "30"], "fit": ["--steps", "5"], "evaluate": ["--steps", "5"]}
    for command in commands:
        typed = [str(ZIGP), *command[1:], *shorter.get(command[1], [])]
        done = subprocess.run(typed, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert "rain_mm" in (tmp_path / "report.html").read_text()
    assert (tmp_path / "predicted.csv").read_text().startswith("lat,lon,hour,rain_mm,mean,sd,")


def test_the_speed_in_the_readme_is_the_measured_one():
    result = json.loads((ROOT / "benchmarks" / "results" / "gradient.json").read_text())
    assert f"takes {result['ratio']:.2f} of the time" in README


def table_after(text: str, heading: str) -> dict[str, list[str]]:
    """The first table after a heading, as rows by their first cell."""
    lines = text[text.index(heading) :].splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("|"))
    rows = {}
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        rows[name] = cells
    return rows


@pytest.mark.parametrize(
    ("setting", "words", "models"),
    [
        ("paper", "## The paper's experiments", ["Zero", "GPc", "GPr", "GPcr", "GPcr≠0", "Hurdle"]),
        ("own", "With our own setting", ["LightGBM", "scikit-lego"]),
    ],
)
def test_the_readme_shows_what_the_run_found(setting, words, models):
    page = table_after(RESULTS, f"### Setting `{setting}`, split `kfold`")
    readme = table_after(README, words)
    assert readme.pop("---")
    columns = [page["model"].index(name) for name in readme.pop("model")]
    assert list(readme) == [*models, "ZiGP"]
    for model, cells in readme.items():
        assert cells == [page[model][c] for c in columns]
        assert all(re.fullmatch(r"(\d\.\d{3}( \(\d\.\d{3}\))?)?", cell) for cell in cells)


def test_the_bars_of_our_own_setting_are_kept():
    """What the project promises of its own setting, on the page that a run wrote."""
    kfold, hours = (
        table_after(RESULTS, f"### Setting `own`, split `{s}`") for s in ("kfold", "time")
    )

    def found(table: dict[str, list[str]], model: str, column: str) -> float:
        return float(table[model][table["model"].index(column)].split()[0])

    def ours(column: str) -> float:
        return found(kfold, "ZiGP", column)

    assert ours("RMSE") <= 0.520
    assert ours("MAE") <= 0.095
    assert ours("F1") >= 0.66
    assert ours("accuracy") >= 0.929
    assert ours("PIT") <= 0.05
    paper = table_after(RESULTS, "### Setting `paper`, split `kfold`")
    assert ours("−log P") <= found(paper, "ZiGP", "−log P") - 1.0
    for split, table in (("kfold", kfold), ("time", hours)):
        for baselines in (table, table_after(RESULTS, f"### Setting `paper`, split `{split}`")):
            for model in set(baselines) - {"---", "model", "ZiGP", "GPc"}:
                assert found(table, "ZiGP", "RMSE") < found(baselines, model, "RMSE")
                assert found(table, "ZiGP", "MAE") < found(baselines, model, "MAE")
                assert found(table, "ZiGP", "F1") > found(baselines, model, "F1")


def test_the_bars_of_the_experiment_are_kept():
    """What the project promises of the paper's setting, on the page that a run wrote."""
    page = table_after(RESULTS, "### Setting `paper`, split `kfold`")
    heading = page["model"]

    def ours(model: str, column: str) -> float:
        return float(page[model][heading.index(column)].split()[0])

    assert ours("ZiGP", "RMSE") <= 0.540
    assert ours("ZiGP", "MAE") <= 0.106
    assert ours("ZiGP", "F1") >= 0.485
    for baseline, theirs in (("GPr", 0.569), ("GPcr", 0.589), ("GPcr≠0", 0.575)):
        assert ours(baseline, "RMSE") <= theirs
    assert ours("GPc", "F1") >= 0.367
