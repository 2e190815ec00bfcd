"""The code and the commands of the README run, and its numbers are those of the recorded runs."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from fuzz.running import in_process

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
RESULTS = (ROOT / "docs" / "results.md").read_text()


@pytest.mark.slow
def test_the_python_block_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    names: dict = {}
    exec(compile(block, "README.md", "exec"), names)
    assert names["sd"].shape == names["on"].shape == (400,)
    assert np.corrcoef(names["on"], names["X"][:, 0] > 5)[0, 1] > 0.9
    assert list(names["interval"]) == ["lower", "upper"]


@pytest.mark.slow
def test_the_commands_run(tmp_path):
    commands = [line.split() for line in README.splitlines() if line.startswith("    zigp ")]
    names = [command[1] for command in commands]
    assert names == ["simulate", "fit", "predict", "evaluate", "report"]
    shorter = {"simulate": ["--hours", "30"], "fit": ["--steps", "5"], "evaluate": ["--steps", "5"]}
    for _, name, *arguments in commands:
        words = [name, *arguments, *shorter.get(name, [])]
        answer = in_process(words, tmp_path, seconds=600)
        assert answer.code == 0, answer.said
    assert "rain_mm" in (tmp_path / "report.html").read_text()
    assert (tmp_path / "predicted.csv").read_text().startswith("lat,lon,hour,rain_mm,mean,sd,")


def test_the_picture_and_the_two_commands_come_before_the_code():
    picture, commands = "](docs/images/demo.png)", "    make demo\n    make test\n"
    places = [README.index(text) for text in (picture, commands, "## When to use", "```python")]
    assert places == sorted(places)


def test_the_speed_is_the_measured_one():
    result = json.loads((ROOT / "benchmarks" / "results" / "gradient.json").read_text())
    assert f"about {round(1 / result['ratio'], -1):.0f} times faster" in " ".join(README.split())


def table_after(text: str, heading: str) -> dict[str, list[str]]:
    """Return the first table after a heading, as rows by their first cell."""
    table = re.search(r"(?:^\|.*\n)+", text[text.index(heading) :], re.M)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table[0].splitlines()]
    return {name: cells for name, *cells in rows}


def score(table: dict[str, list[str]], model: str, column: str) -> float:
    return float(table[model][table["model"].index(column)].split()[0])


def test_the_results_are_those_of_the_run():
    run = table_after(RESULTS, "### Setting `own`, split `kfold`")
    shown = table_after(README, "## Results")
    columns = [run["model"].index(name) for name in shown["model"]]
    assert list(shown) == ["model", "---", "LightGBM", "scikit-lego", "ZiGP"]
    for model in ("LightGBM", "scikit-lego", "ZiGP"):
        assert shown[model] == [run[model][column] for column in columns]


@pytest.mark.parametrize(
    ("setting", "column", "promise", "limit"),
    [
        ("paper", "RMSE", "at most", 0.540),
        ("paper", "MAE", "at most", 0.106),
        ("paper", "F1", "at least", 0.485),
        ("own", "RMSE", "at most", 0.520),
        ("own", "MAE", "at most", 0.095),
        ("own", "F1", "at least", 0.66),
        ("own", "accuracy", "at least", 0.929),
        ("own", "PIT", "at most", 0.05),
    ],
)
def test_the_promised_scores_are_reached(setting, column, promise, limit):
    run = table_after(RESULTS, f"### Setting `{setting}`, split `kfold`")
    reached = score(run, "ZiGP", column)
    assert reached <= limit if promise == "at most" else reached >= limit


def test_the_baselines_of_the_paper_are_at_least_as_good_as_in_the_paper():
    run = table_after(RESULTS, "### Setting `paper`, split `kfold`")
    for baseline, published in (("GPr", 0.569), ("GPcr", 0.589), ("GPcr≠0", 0.575)):
        assert score(run, baseline, "RMSE") <= published
    assert score(run, "GPc", "F1") >= 0.367


@pytest.mark.parametrize("split", ["kfold", "time"])
def test_the_default_setting_is_better_than_every_other_model(split):
    own, paper = (
        table_after(RESULTS, f"### Setting `{setting}`, split `{split}`")
        for setting in ("own", "paper")
    )
    assert score(own, "ZiGP", "−log P") <= score(paper, "ZiGP", "−log P") - 1.0
    for table in (own, paper):
        for model in table.keys() - {"---", "model", "ZiGP", "GPc"}:
            assert score(own, "ZiGP", "RMSE") < score(table, model, "RMSE")
            assert score(own, "ZiGP", "MAE") < score(table, model, "MAE")
            assert score(own, "ZiGP", "F1") > score(table, model, "F1")
