"""The experiments write what they promise, and every score can be recomputed from predictions."""

import json

import numpy as np
import pandas as pd
import pytest
from results_page import results_page
from sklearn.metrics import average_precision_score
from sklearn.model_selection import KFold

from zigp.datasets import load_precipitation
from zigp.diagnostics import scores
from zigp.experiments import precipitation, reproduce
from zigp.experiments.record import Record

KEYS = ["model", "setting", "split", "fold", "restart"]


@pytest.fixture(scope="session")
def reproduced(data_dir, tmp_path_factory):
    """All three experiments, the fast way."""
    out = tmp_path_factory.mktemp("reproduced")
    reproduce("all", data_dir, out, fast=True)
    return out


def results(out, experiment):
    found = json.loads((out / experiment / "results.json").read_text())
    assert set(found) == {"experiment", "rows", "environment"}
    assert found["experiment"] == experiment
    return found["rows"], pd.read_csv(out / experiment / "predictions.csv.gz")


def predictions_of(row, table):
    """The predictions that belong to a row of scores."""
    mine = np.ones(len(table), bool)
    for key in [*KEYS, *(["output"] if "output" in row else [])]:
        missing = row[key] is None or row[key] == ""
        mine &= table[key].isna() if missing else table[key] == row[key]
    return table[mine]


@pytest.mark.slow
def test_precipitation_scores_follow_from_its_predictions(reproduced, data_dir):
    rows, table = results(reproduced, "precipitation")
    models = ["Zero", "GPc", "GPr", "GPcr", "GPcr0", "Hurdle", "ZiGP", "LightGBM", "scikit-lego"]
    assert [row["model"] for row in rows] == models
    assert list(table)[:11] == [*KEYS, "row", "output", "y", "mean", "sd", "prob_on"]
    rain = load_precipitation(data_dir)["rain_mm"].to_numpy()
    _, test = next(KFold(5, shuffle=True, random_state=1234).split(rain))  # as the paper drew it
    for row in rows:
        mine = predictions_of(row, table).dropna(axis=1, how="all")
        np.testing.assert_array_equal(mine["row"], test)
        y = mine["y"].to_numpy()
        np.testing.assert_allclose(y, rain[test])
        if row["model"] == "GPc":
            again = scores.class_scores(y > 0, mine["prob_on"].to_numpy() >= 0.5)
        else:
            again = scores.amount_scores(y, mine["mean"].to_numpy(), 0.1)
        if "prob_on" in mine:
            again["auprc"] = average_precision_score(y > 0, mine["prob_on"])
        if "pit" in mine:
            means = mine[["nlpd", "crps", "covered90"]].mean()
            again |= means.rename({"covered90": "coverage90"})
            again["pit_distance"] = scores.distance_from_uniform(mine["pit"].to_numpy())
        others = {*KEYS, "elbo", "seconds"}
        assert set(again) == {key for key in row if row[key] is not None} - others
        for key, value in again.items():
            assert value == pytest.approx(row[key], rel=1e-4, abs=2e-5), (row["model"], key)


def test_whole_hours_are_held_out(data_dir):
    rain = load_precipitation(data_dir)
    for seed, train, test in precipitation.splits(rain, "time"):
        hours = np.unique(rain["hour"].to_numpy()[test])
        drawn = np.random.default_rng(seed).permutation(np.arange(4368, 5448))[:216]
        np.testing.assert_array_equal(hours, np.sort(drawn))
        assert not set(hours) & set(rain["hour"].to_numpy()[train])
        assert len(train) + len(test) == len(rain)
    assert seed == 4


@pytest.mark.parametrize("experiment", ["toy", "jura"])
@pytest.mark.slow
def test_errors_follow_from_predictions(reproduced, experiment):
    rows, table = results(reproduced, experiment)
    for row in rows:
        mine = predictions_of(row, table)
        error = mine["mean"] - mine["y"]
        assert row["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-4)
        assert row["mae"] == pytest.approx(np.mean(np.abs(error)), rel=1e-4)
    sizes = {"toy": 2, "jura": 3 * 3 + 3 + 3 + 1 + 1 + 3}
    assert len(rows) == sizes[experiment]


@pytest.mark.slow
def test_finished_experiments_are_read_and_not_run_again(reproduced):
    before = {path: path.stat().st_mtime_ns for path in reproduced.glob("*/results.json")}
    records = reproduce("all", None, reproduced, fast=True, resume=True)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert [record.experiment for record in records] == ["toy", "precipitation", "jura"]
    means = records[1].means()
    assert means.loc[("kfold", "paper", "Zero"), "rmse"] > means["rmse"].min()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("experiment", "folder", "fast"), [("all", "", False), ("jura", "toy", True)]
)
def test_what_is_resumed_must_be_of_the_same_kind(reproduced, experiment, folder, fast):
    with pytest.raises(ValueError, match="holds a fast run of toy: resuming needs the same"):
        reproduce(experiment, None, reproduced / folder, fast=fast, resume=True)


def test_half_written_results_are_told_so(tmp_path):
    (tmp_path / "results.json").write_text('{"experiment": "toy"')
    with pytest.raises(ValueError, match="does not hold the results of a finished run"):
        reproduce("toy", None, tmp_path, resume=True)


@pytest.mark.slow
def test_figures_and_a_page_are_written(reproduced):
    figures = sorted(path.name for path in reproduced.glob("*/*.png"))
    assert [name.split("-")[0] for name in figures] == [f"figure{i}" for i in (1, 2, 3, 4, 5)]
    names = ("precipitation", "toy", "jura")
    page = results_page([Record.read(reproduced / name) for name in names])
    assert "These are not results" in page
    rows, _ = results(reproduced, "precipitation")
    zigp = next(row for row in rows if row["model"] == "ZiGP")
    assert f"| ZiGP | {zigp['rmse']:.3f} (0.561) |" in page


def page_of(split, found):
    """Return the page of an experiment with scores by model and setting."""
    record, predicted = Record("precipitation"), {"row": [0], "output": "rain_mm", "y": [0.0]}
    for (model, setting), row in found.items():
        keys = {"model": model, "setting": setting, "split": split, "fold": 0}
        record.add(row, predicted, seconds=1.0, **keys)
    return results_page([record])


def test_what_differs_from_the_paper_by_a_tenth_is_said():
    found = {(model, "paper"): dict(paper) for model, paper in precipitation.PAPER.items()}
    found["GPr", "paper"]["rmse"] *= 1.2
    found["GPr", "paper"]["f1"] *= 1.05
    page = page_of("kfold", found)
    assert "more than a tenth: GPr RMSE +20%." in page
    assert "These are not results" not in page


def test_our_own_setting_is_compared_with_all_others_of_its_split():
    same = {"accuracy": 0.9, "pit_distance": 0.1, "precision": 0.5, "recall": 0.5}
    found = {
        ("GPr", "paper"): same | {"rmse": 0.5, "mae": 0.2, "f1": 0.4, "nlpd": 1.4},
        ("ZiGP", "paper"): same | {"rmse": 0.6, "mae": 0.1, "f1": 0.5, "nlpd": 1.9},
        ("scikit-lego", "own"): same | {"rmse": 0.7, "mae": 0.15, "f1": 0.6, "nlpd": np.nan},
        ("ZiGP", "own"): same | {"rmse": 0.4, "mae": 0.09, "f1": 0.7, "nlpd": 0.6},
    }
    page = page_of("time", found)
    assert "`time`: RMSE 0.400, the best other 0.500 (GPr, `paper`); MAE 0.090" in page
    assert "F1 0.700, the best other 0.600 (scikit-lego, `own`)" in page
    assert "1.30 nats per row below that of the paper's ZiGP" in page


def test_peers_that_are_not_installed_are_left_out(monkeypatch):
    missing = {"sklego": None}
    monkeypatch.setattr(precipitation, "find_spec", lambda name: missing.get(name, "found"))
    assert list(precipitation.installed_peers()) == ["LightGBM"]
