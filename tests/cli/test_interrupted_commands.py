"""`zigp fit` that is interrupted, that finds a full disk, and that replaces an earlier fit."""

import signal
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fuzz.running import in_process

from zigp import load
from zigp.training import loop
from zigp.training.checkpoints import discard, locked

FIT = ["fit", "rain.csv", "--target", "y", "--out", "rain.zigp", "--inducing", "6"]
HURDLE = [*FIT, "--steps", "150", "--model", "hurdle"]


@pytest.fixture
def folder(tmp_path) -> Path:
    """Return a folder with a table."""
    x = np.linspace(0, 10, 60)
    table = pd.DataFrame({"x": x, "y": np.where(x > 4, 2.0 + np.sin(x), 0.0)})
    table.to_csv(tmp_path / "rain.csv", index=False)
    return tmp_path


@pytest.fixture
def left(folder) -> Path:
    """Return a checkpoint of an earlier fit, of the first part of a hurdle."""
    left = folder / "rain.zigp.checkpoint" / "classifier" / "step-000000050.checkpoint"
    left.parent.mkdir(parents=True)
    left.write_text("of an earlier fit")
    return left


@pytest.mark.parametrize("part", [".", "regressor"])
def test_force_beside_a_running_fit_leaves_it_what_it_has(part, folder, left):
    """While one part of a hurdle is trained, the checkpoints of both are needed."""
    kept = folder / "rain.zigp.checkpoint"
    with locked(kept / part):
        answer = in_process([*FIT, "--force"], folder)
        assert answer.code == 1
        assert "Another fit is running that keeps its checkpoints in" in answer.said
        assert left.exists()
    discard(kept)
    assert not left.exists()


@pytest.mark.parametrize(
    "wrong",
    [["--target", "z"], ["--inputs", "z"], ["--gate-inputs", "z"], ["--likelihood", "zip"]],
    ids=" ".join,
)
def test_force_loses_nothing_where_the_command_is_wrong(wrong, folder, left):
    assert in_process([*FIT, "--force", *wrong], folder).code != 0
    assert left.exists()


def test_the_model_is_saved_before_anything_is_said_of_it(folder, monkeypatch):
    """Nobody may be left to read what the command prints."""

    def gone(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("zigp.cli.fit._summary", gone)
    in_process([*FIT, "--steps", "100", "--quiet"], folder)
    assert load(folder / "rain.zigp").n_iter_ == 100


@pytest.mark.parametrize(
    ("chunks", "have"),
    [
        pytest.param(2, "There is no model yet", marks=pytest.mark.slow),
        (4, "That is what was learned so far"),
    ],
)
def test_ctrl_c_in_either_part_of_a_hurdle_says_how_to_go_on(chunks, have, folder, monkeypatch):
    left = [chunks]

    def press(progress):
        left[0] -= 1
        if not left[0]:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("zigp.estimators.fitting.progress_bar", lambda _: nullcontext(press))
    answer = in_process(HURDLE, folder)
    assert answer.code == 130
    assert f"{have} (interrupted at step" in answer.said
    assert answer.said.endswith("--resume goes on from there.\nInterrupted.\n")
    assert (folder / "rain.zigp").exists() == (chunks == 4)
    assert in_process(HURDLE, folder).code == 1
    answer = in_process([*HURDLE, "--resume"], folder)
    assert answer.code == 0, answer.said
    assert load(folder / "rain.zigp").regressor_.n_iter_ == 150
    assert sorted(path.name for path in folder.iterdir()) == ["rain.csv", "rain.zigp"]


@pytest.mark.slow
def test_a_model_that_cannot_be_saved_is_not_lost(folder, monkeypatch):
    """If the disk is full at the end, the checkpoints are kept until the model could be saved."""
    written = Path.write_bytes

    def full(path, content):
        if not path.name.startswith(".rain.zigp."):
            return written(path, content)
        written(path, content[: len(content) // 2])
        raise OSError(28, "No space left on device")

    (folder / "rain.zigp").write_text("the model of last week")
    monkeypatch.setattr(Path, "write_bytes", full)
    answer = in_process([*HURDLE, "--force"], folder)
    assert answer.code == 1
    assert "Cannot save rain.zigp: No space left on device. Make room there" in answer.said
    assert "--resume: what was learned is kept" in answer.said
    assert (folder / "rain.zigp").read_text() == "the model of last week"
    kept = folder / "rain.zigp.checkpoint"
    assert sorted(path.name for path in kept.iterdir()) == ["classifier", "regressor"]
    monkeypatch.undo()
    monkeypatch.setattr(loop.Training, "next_chunk", None)  # no step is left
    answer = in_process([*HURDLE, "--resume"], folder)
    assert answer.code == 0, answer.said
    assert load(folder / "rain.zigp").regressor_.n_iter_ == 150
    assert sorted(path.name for path in folder.iterdir()) == ["rain.csv", "rain.zigp"]
