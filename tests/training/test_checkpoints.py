"""Checkpoints: what was interrupted goes on to the same bits, and no file is ever half of one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from fuzz.running import in_process
from safetensors import safe_open
from test_objective import masked, random_zigp

from zigp import HurdleGPRegressor, ZeroInflatedGPRegressor, load, open_stream
from zigp.models.objective import objective
from zigp.training import (
    Checkpoints,
    InterruptedFitError,
    Settings,
    checkpoints,
    discard,
    locks,
    loop,
    train,
    train_restarts,
)
from zigp.training.locks import LOCK, locked
from zigp.training.loop import _Training
from zigp.training.steps import State, Summit
from zigp.training.watching import highest

ZIGP = Path(sys.executable).with_name("zigp")


def same(a, b) -> None:
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(one, other)


def stop_at(step: int):
    """A viewer of progress that presses Ctrl-C."""

    def watch(progress):
        if progress.step == step:
            raise KeyboardInterrupt

    return watch


SETTINGS = {
    "adam": Settings(steps=130, tol=0.0),
    "natural": Settings(steps=130, tol=0.0, method="natural"),
    "minibatches": Settings(steps=130, tol=0.0, batch_size=5),
}


@pytest.mark.parametrize(
    "name", ["adam", *(pytest.param(n, marks=pytest.mark.slow) for n in ("natural", "minibatches"))]
)
def test_an_interrupted_fit_goes_on_to_the_same_bits(name, tmp_path):
    settings, data = SETTINGS[name], masked(0)[1]
    whole = train(random_zigp(0), data, settings)
    with pytest.raises(InterruptedFitError, match="step 50 of 130") as stopped:
        train(random_zigp(0), data, settings, stop_at(50), checkpoints=Checkpoints(tmp_path))
    np.testing.assert_array_equal(stopped.value.fits[0].bounds, whole.bounds[:50])
    going_on = Checkpoints(tmp_path, resume=True)
    again = train(random_zigp(0), data, settings, checkpoints=going_on)
    same(again.model, whole.model)
    np.testing.assert_array_equal(again.bounds, whole.bounds)


@pytest.mark.slow
def test_who_interrupts_is_handed_the_highest_point_and_told_how_to_go_on(tmp_path):
    """A step that lowers the bound is taken back by the next one, which never comes."""
    data = masked(0)[1]
    settings = Settings(steps=6, chunk=2, tol=0.0, method="natural", learning_rate=1.0)
    whole = train(random_zigp(0), data, settings)
    with pytest.raises(InterruptedFitError, match=f"resume=True to go on .* {tmp_path}") as stopped:
        train(random_zigp(0), data, settings, stop_at(2), checkpoints=Checkpoints(tmp_path))
    (fit,) = stopped.value.fits
    going_on = Checkpoints(tmp_path, resume=True)
    start = _Training(random_zigp(0), data, settings, None, None, going_on)
    assert objective(start.state.model, data) < fit.bounds.max() - 1.0
    assert objective(fit.model, data) == pytest.approx(fit.bounds.max(), rel=1e-12)
    same(train(random_zigp(0), data, settings, checkpoints=going_on).model, whole.model)


def test_of_each_restart_the_highest_point_is_handed_over():
    two, none = jnp.zeros(2), jnp.asarray(0)
    summit = Summit(jnp.array([1.0, 2.0]), jnp.array([5.0, 5.0]), two, two)
    state = State(jnp.array([3.0, 4.0]), two, none, two, jnp.array([4.9, 5.1]), None, summit)
    assert highest(state, restarts=2).tolist() == [1.0, 4.0]


def test_who_interrupts_without_checkpoints_is_told_no_way_to_go_on():
    with pytest.raises(InterruptedFitError, match=r"^interrupted at step 50 of 130$"):
        train(random_zigp(0), masked(0)[1], SETTINGS["adam"], stop_at(50))


@pytest.mark.slow
def test_restarts_go_on_too(tmp_path):
    models, data, settings = [random_zigp(i) for i in range(2)], masked(1)[0], SETTINGS["adam"]
    whole = train_restarts(models, data, settings)
    with pytest.raises(InterruptedFitError):
        train_restarts(models, data, settings, stop_at(100), checkpoints=Checkpoints(tmp_path))
    again = train_restarts(models, data, settings, checkpoints=Checkpoints(tmp_path, resume=True))
    for one, other in zip(again, whole, strict=True):
        same(one.model, other.model)


@pytest.mark.slow
def test_a_stream_goes_on_where_it_was(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, 2048)
    y = np.where(np.sin(x) > 0, 2.0, 0.0) + rng.normal(0, 0.05, 2048)
    pd.DataFrame({"x": x, "y": y}).to_parquet(tmp_path / "rows.parquet", row_group_size=128)
    stream = open_stream(tmp_path / "rows.parquet", target="y", rows_per_block=512)
    settings = {"n_inducing": 10, "batch_size": 128, "steps": 44}
    whole = ZeroInflatedGPRegressor(**settings).fit_stream(stream)
    stopped = ZeroInflatedGPRegressor(**settings, checkpoint=tmp_path / "kept", verbose=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("zigp.estimators.fitting.progress_bar", _shown(stop_at(24)))
        with pytest.raises(InterruptedFitError):
            stopped.fit_stream(stream)
    assert stopped.n_iter_ == 24  # what was learned so far can be used
    again = stopped.set_params(resume=True, verbose=False).fit_stream(stream)
    same(again.model_, whole.model_)
    assert not (tmp_path / "kept").exists()  # nothing is left once it is done


@pytest.mark.parametrize("outside", [False, True])
def test_a_stream_whose_contents_changed_is_another_fit(outside, tmp_path, monkeypatch):
    """In the sample, or, where that is small, elsewhere: footers tell."""
    if outside:
        monkeypatch.setattr("zigp.estimators.fitting._SAMPLE", 64)
    x, y = np.linspace(0, 10, 512), np.tile([0.0, 2.0], 256)

    def opened(values):
        table = pd.DataFrame({"x": x, "y": values})
        table.to_parquet(tmp_path / "rows.parquet", row_group_size=128)
        return open_stream(tmp_path / "rows.parquet", target="y", rows_per_block=128)

    model = ZeroInflatedGPRegressor(
        n_inducing=5, batch_size=64, steps=8, checkpoint=tmp_path / "kept", verbose=True
    )
    monkeypatch.setattr("zigp.estimators.fitting.progress_bar", _shown(stop_at(4)))
    stream = opened(y)
    with pytest.raises(InterruptedFitError):
        model.fit_stream(stream)
    changed = y[::-1].copy()  # of the same mean and spread
    if outside:
        changed = y.copy()
        changed[np.flatnonzero(~np.isin(x, stream.sample(64, model.seed_)[0]["x"]))[0]] = 3.0
    model.set_params(resume=True)
    with pytest.raises(ValueError, match="of another fit"):
        model.fit_stream(opened(changed))


def _shown(watch):
    from contextlib import contextmanager

    @contextmanager
    def bar(title):
        yield watch

    return bar


def test_two_checkpoints_are_kept_and_the_newest_is_taken(tmp_path):
    kept = Checkpoints(tmp_path, steps=1)
    with pytest.raises(InterruptedFitError):
        train(
            random_zigp(0),
            masked(0)[0],
            Settings(steps=400, tol=0.0),
            stop_at(300),
            checkpoints=kept,
        )
    assert [path.name for path in kept.found()] == [
        "step-000000300.checkpoint",
        "step-000000250.checkpoint",
    ]
    size = sum(path.stat().st_size for path in kept.found())
    parameters = sum(np.size(leaf) for leaf in jax.tree.leaves(random_zigp(0)))
    assert size < 2 * (3 * 8 * parameters + 16 * 400 + 20_000)


class Kept(Checkpoints):
    """Those that remember when they were written."""

    def save(self, step, state, record):
        self.when = [*getattr(self, "when", []), step]
        super().save(step, state, record)


@pytest.mark.parametrize(
    ("how_often", "when"),
    [
        ({"steps": 50}, [50, 100, 150, 200, 250, 300, 300]),
        ({"steps": 120}, [150, 300, 300]),  # at the ends of chunks
        ({"seconds": 20.0}, [100, 200, 300, 300]),  # of a clock that goes on by 10 a chunk
        ({"seconds": 25.0}, [150, 300, 300]),
        ({"seconds": np.inf}, [300]),
        ({"seconds": 1e-9, "steps": 200}, [200, 300]),
    ],
)
def test_checkpoints_are_as_far_apart_as_was_asked_for(how_often, when, tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(checkpoints, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def chunk(self, count, start):
        now[0] += 10.0
        log = self.log
        paths, clock = [*log.bounds, np.zeros((1, count))], [*log.clock, np.zeros(count)]
        self.log = replace(log, done=log.done + count, bounds=paths, clock=clock)

    monkeypatch.setattr(_Training, "_next_chunk", chunk)
    kept = Kept(tmp_path, **how_often)
    train(random_zigp(0), masked(0)[0], Settings(steps=300, tol=0.0), checkpoints=kept)
    assert kept.when == when


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"checkpoint_seconds": np.nan}, "checkpoint_seconds must be a number above 0, not nan"),
        ({"checkpoint_seconds": "5"}, "checkpoint_seconds must be a number above 0, not '5'"),
        ({"checkpoint_seconds": -1}, "checkpoint_seconds must be a number above 0, not -1"),
        ({"checkpoint": None, "resume": True}, "give checkpoint too"),
        ({"random_state": None}, "Checkpoints require an integer random_state"),
        ({"random_state": np.random.RandomState(0)}, "give a number"),
    ],
)
def test_impossible_ways_of_keeping_checkpoints_are_named(settings, message, tmp_path):
    model = HurdleGPRegressor(steps=1, n_inducing=3, checkpoint=tmp_path / "kept")
    with pytest.raises(ValueError, match=message):
        model.set_params(**settings).fit(X, Y)
    assert not (tmp_path / "kept").exists()


def flipped(at):
    """Damage at a byte that is found in the content."""

    def damage(raw: bytes) -> bytes:
        place = at(raw)
        return raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]

    return damage


DAMAGE = {
    "cut short": lambda raw: raw[:-100],
    "zeros at the end": lambda raw: raw[:-300] + bytes(300),
    "zeros at the start": lambda raw: bytes(300) + raw[300:],
    "a bit of the data": flipped(lambda raw: len(raw) - 500),
    "a bit of the header's length": flipped(lambda raw: 2),
    "a bit of the fingerprint": flipped(lambda raw: raw.index(b"fingerprint") + 20),
    "a bit of the number of steps": flipped(lambda raw: raw.index(b"done") + 8),
    "a bit of the name of an entry": flipped(lambda raw: raw.index(b"elapsed") + 1),
    "a bit of the digest": flipped(lambda raw: raw.index(b"digest") + 15),
    "nothing left": lambda raw: b"",
}


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory) -> Path:
    """Two checkpoints of a fit, after 100 and 150 of 200 steps."""
    folder = tmp_path_factory.mktemp("interrupted")
    kept = Checkpoints(folder, steps=1)
    with jax.enable_x64(True), pytest.raises(InterruptedFitError):
        train(random_zigp(0), masked(0)[0], TWO_HUNDRED, stop_at(150), checkpoints=kept)
    return folder


TWO_HUNDRED = Settings(steps=200, tol=0.0)


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(damage, interrupted, tmp_path):
    data, folder = masked(0)[0], tmp_path / "kept"
    shutil.copytree(interrupted, folder)
    kept, steps = Checkpoints(folder, resume=True), []
    newest, before = kept.found()
    newest.write_bytes(DAMAGE[damage](newest.read_bytes()))
    again = train(
        random_zigp(0), data, TWO_HUNDRED, lambda p: steps.append(p.step), checkpoints=kept
    )
    assert steps == [150, 200]
    same(again.model, train(random_zigp(0), data, TWO_HUNDRED).model)
    assert [path.name[5:14] for path in kept.found()] == ["000000200", before.name[5:14]]


@pytest.mark.parametrize("stop", [pytest.param(100, marks=pytest.mark.slow), 200])
def test_where_all_checkpoints_are_damaged_training_starts_anew_and_says_so(
    stop, interrupted, tmp_path
):
    data, folder = masked(0)[0], tmp_path / "kept"
    shutil.copytree(interrupted, folder)
    kept, steps = Checkpoints(folder, resume=True, steps=1), []
    for path in kept.found():
        path.write_bytes(DAMAGE["a bit of the fingerprint"](path.read_bytes()))
    with (
        pytest.warns(UserWarning, match="all are damaged: training starts from its beginning"),
        pytest.raises(InterruptedFitError),
    ):
        train(random_zigp(0), data, TWO_HUNDRED, stop_at(stop), checkpoints=kept)
    again = train(
        random_zigp(0), data, TWO_HUNDRED, lambda p: steps.append(p.step),
        checkpoints=Checkpoints(folder, resume=True),
    )  # fmt: skip
    assert steps == list(range(stop + 50, 250, 50))  # the damaged ones are not in the way
    same(again.model, train(random_zigp(0), data, TWO_HUNDRED).model)


def test_a_checkpoint_that_cannot_be_read_now_is_not_taken_for_damaged(
    interrupted, tmp_path, monkeypatch
):
    """A disk that fails for a moment: nothing starts anew, nothing is removed."""
    folder = tmp_path / "kept"
    shutil.copytree(interrupted, folder)

    def failing(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    kept = Checkpoints(folder, resume=True)
    monkeypatch.setattr(checkpoints, "safe_open", failing)
    with pytest.raises(OSError, match="Input/output error"):
        train(random_zigp(0), masked(0)[0], TWO_HUNDRED, checkpoints=kept)
    assert len(kept.found()) == 2


def test_processes_that_see_different_checkpoints_do_not_go_on(interrupted, tmp_path, monkeypatch):
    shutil.copytree(interrupted, tmp_path / "kept")
    kept = Checkpoints(tmp_path / "kept", resume=True)
    monkeypatch.setattr(_Training, "_agreed", lambda self, value: max(value, 0))  # another has none
    with pytest.raises(ValueError, match=r"different checkpoints .* goes on from step 150"):
        train(random_zigp(0), masked(0)[0], TWO_HUNDRED, checkpoints=kept)


def test_checkpoints_of_another_fit_are_refused(tmp_path):
    with pytest.raises(InterruptedFitError):
        train(
            random_zigp(0),
            masked(0)[0],
            SETTINGS["adam"],
            stop_at(50),
            checkpoints=Checkpoints(tmp_path),
        )
    with pytest.raises(ValueError, match="go on from them with resume"):
        Checkpoints(tmp_path)
    for model, data in ((random_zigp(1), masked(0)[0]), (random_zigp(0), masked(1)[0])):
        with pytest.raises(ValueError, match="of another fit"):
            train(model, data, SETTINGS["adam"], checkpoints=Checkpoints(tmp_path, resume=True))


def test_a_schedule_that_is_a_function_is_known_again_by_what_it_returns():
    """In a new process it lies elsewhere in memory, and its name says nothing of what it does."""

    def slower(start):
        return lambda done: start * (1.0 - done)

    described = [Settings(schedule=slower(start)).described() for start in (1.0, 1.0, 2.0)]
    assert described[0] == described[1] != described[2]
    assert Settings().described() != Settings(schedule="constant").described()


def test_a_full_disk_leaves_the_checkpoint_before_as_it_was(tmp_path, monkeypatch):
    kept = Checkpoints(tmp_path, steps=1)
    written = Path.write_bytes

    def full(path, content):
        if "000000100" in path.name:
            written(path, content[: len(content) // 2])
            raise OSError(28, "No space left on device", str(path))
        return written(path, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        train(random_zigp(0), masked(0)[0], Settings(steps=200, tol=0.0), checkpoints=kept)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000050.checkpoint"]
    monkeypatch.undo()
    data = masked(0)[0]
    again = train(
        random_zigp(0),
        data,
        Settings(steps=200, tol=0.0),
        checkpoints=Checkpoints(tmp_path, resume=True),
    )
    same(again.model, train(random_zigp(0), data, Settings(steps=200, tol=0.0)).model)


@pytest.mark.parametrize(
    ("steps", "before"), [(1, "the one before is step-000000050"), (None, "there is none before")]
)
def test_ctrl_c_with_the_disk_full_hands_over_what_was_learned(
    steps, before, tmp_path, monkeypatch
):
    written = Path.write_bytes

    def full(path, content):
        if "000000100" in path.name:
            raise OSError(28, "No space left on device", str(path))
        return written(path, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    kept = Checkpoints(tmp_path / "kept", steps=steps)
    said = rf"step 100 of 200; its checkpoint could not be written \(No space.*\), {before}"
    with pytest.raises(InterruptedFitError, match=said) as stopped:
        train(random_zigp(0), masked(0)[0], TWO_HUNDRED, stop_at(100), checkpoints=kept)
    assert len(stopped.value.fits[0].bounds) == 100


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adam", "minibatches"])
def test_a_fit_that_was_killed_after_its_last_step_ends_where_it_had_ended(name, tmp_path):
    """The bound has settled in the checkpoint: another chunk would give other bits."""
    settings, data = replace(SETTINGS[name], steps=5000, tol=0.5), masked(0)[1]
    whole = train(random_zigp(0), data, settings, checkpoints=Checkpoints(tmp_path))
    assert "settled" in whole.stopped
    again = train(random_zigp(0), data, settings, checkpoints=Checkpoints(tmp_path, resume=True))
    same(again.model, whole.model)
    assert again.stopped == whole.stopped
    more = replace(settings, tol=0.0, steps=settings.steps)
    watched = pytest.raises(InterruptedFitError, match=f"step {len(whole.bounds) + 50} of")
    with watched:  # who asks for more gets it
        train(
            random_zigp(0),
            data,
            more,
            stop_at(len(whole.bounds) + 50),
            checkpoints=Checkpoints(tmp_path, resume=True),
        )


def lines_of(*functions) -> list[tuple[object, int]]:
    """Every line of some functions, as a tracer sees it."""
    found = {}
    for function in functions:
        code = function.__code__
        for _, _, line in code.co_lines():
            if line is not None and line > code.co_firstlineno:
                found[code, line] = None
    return list(found)


LINES = lines_of(_Training._next_chunk, _Training._to_the_end, _Training._chunk)


@pytest.mark.slow
def test_ctrl_c_at_any_line_of_the_loop_goes_on_to_the_same_bits(tmp_path):
    """The model and what is told of it never part: each line is interrupted at its second visit."""
    settings, data = replace(SETTINGS["minibatches"], steps=150), masked(0)[1]
    whole = train(random_zigp(0), data, settings)
    interrupted = 0
    for number, (code, line) in enumerate(LINES):
        visits = 0

        def trace(frame, event, _, code=code, line=line):
            nonlocal visits
            if frame.f_code is not code:
                return None
            if event == "line" and frame.f_lineno == line:
                visits += 1
                if visits == 2:
                    raise KeyboardInterrupt
            return trace

        folder, before = tmp_path / str(number), sys.gettrace()
        sys.settrace(trace)
        try:
            train(random_zigp(0), data, settings, checkpoints=Checkpoints(folder))
        except InterruptedFitError as stopped:
            interrupted += 1
            bounds = stopped.fits[0].bounds
            np.testing.assert_array_equal(bounds, whole.bounds[: len(bounds)])
        finally:
            sys.settrace(before)
        going_on = Checkpoints(folder, resume=True)
        again = train(random_zigp(0), data, settings, checkpoints=going_on)
        same(again.model, whole.model)
        np.testing.assert_array_equal(again.bounds, whole.bounds)
    assert interrupted > 25


def test_what_a_kill_left_half_written_is_never_read_and_goes(tmp_path):
    settings, data = SETTINGS["adam"], masked(0)[1]
    with pytest.raises(InterruptedFitError):
        train(random_zigp(0), data, settings, stop_at(100), checkpoints=Checkpoints(tmp_path))
    (whole,) = Checkpoints(tmp_path, resume=True).found()
    half = tmp_path / ".step-000000130.checkpoint.123.abcd.part"
    half.write_bytes(whole.read_bytes()[:99])
    (tmp_path / LOCK).touch()  # of a process that is no more
    kept = Checkpoints(tmp_path, resume=True)
    assert kept.found() == [whole]
    again = train(random_zigp(0), data, settings, checkpoints=kept)
    same(again.model, train(random_zigp(0), data, settings).model)
    assert not half.exists()
    kept.clear()
    assert not tmp_path.exists()


def test_two_fits_do_not_share_a_folder(tmp_path):
    folder = tmp_path / "kept"
    with (
        Checkpoints(folder).alone(),
        pytest.raises(ValueError, match="Another fit is running"),
    ):
        train(random_zigp(0), masked(0)[1], SETTINGS["adam"], checkpoints=Checkpoints(folder))
    assert not folder.exists()


def test_who_is_done_leaves_what_another_fit_has_begun_to_use(interrupted, tmp_path):
    """Between the end of one and its saving another can start, with resume."""
    folder = tmp_path / "kept"
    shutil.copytree(interrupted, folder)
    done = Checkpoints(folder, resume=True)
    with Checkpoints(folder, resume=True).alone():
        done.clear()
        assert len(done.found()) == 2
    done.clear()
    assert not folder.exists()
    done.clear()  # of a fit so short that it wrote none
    assert not folder.exists()


def test_a_file_that_is_not_ours_stays_where_it_is(tmp_path):
    for name in ("lock", ".lock", ".step-of-mine.part", "notes"):
        (tmp_path / name).write_text("mine")
    before = sorted(tmp_path.iterdir())
    with Checkpoints(tmp_path).alone():
        assert len(list(tmp_path.iterdir())) == len(before) + 1
    assert sorted(tmp_path.iterdir()) == before


def test_a_lock_that_was_removed_meanwhile_is_none(tmp_path, monkeypatch):
    """Between its opening and its locking the fit that had it ends, and takes it and the folder."""
    folder, taken, opened = tmp_path / "kept", locks._lock, []

    def late(file):
        opened.append(file)
        taken(file)
        if len(opened) == 1:
            (folder / LOCK).unlink()
            folder.rmdir()

    monkeypatch.setattr(locks, "_lock", late)
    with locked(folder):
        assert len(opened) == 2
        with pytest.raises(ValueError, match="Another fit is running"), locked(folder):
            pass
        assert (folder / LOCK).exists()
    assert not folder.exists()


@pytest.mark.parametrize("part", [".", "regressor"])
def test_force_beside_a_running_fit_leaves_it_what_it_has(part, tmp_path):
    """Of a hurdle one part is trained, but the checkpoints of both are needed."""
    pd.DataFrame({"x": X[:, 0], "y": Y}).to_csv(tmp_path / "rain.csv", index=False)
    folder = tmp_path / "rain.zigp.checkpoint"
    (folder / "classifier").mkdir(parents=True)
    left = folder / "classifier" / "step-000000050.checkpoint"
    left.write_text("of the fit that runs")
    words = ["fit", "rain.csv", "--target", "y", "--out", "rain.zigp", "--force"]
    with locked(folder / part):
        answer = in_process(words, tmp_path)
        assert answer.code == 1
        assert "Another fit is running that keeps its checkpoints in" in answer.said
        assert left.exists()
    discard(folder)
    assert not left.exists()


def test_force_loses_nothing_where_the_command_is_wrong(tmp_path):
    pd.DataFrame({"x": X[:, 0], "y": Y}).to_csv(tmp_path / "rain.csv", index=False)
    left = tmp_path / "rain.zigp.checkpoint" / "step-000000050.checkpoint"
    left.parent.mkdir()
    left.write_text("of last night")
    words = ["fit", "rain.csv", "--target", "y", "--out", "rain.zigp", "--force"]
    typed = [[*words, *more] for more in (["--inputs", "z"], ["--gate-inputs", "z"])]
    for wrong in (["fit", "rian.csv", *words[2:]], *typed, [*words, "--likelihood", "zip"]):
        assert in_process(wrong, tmp_path).code != 0
        assert left.exists()


def test_the_model_is_saved_before_anything_is_said_of_it(tmp_path, monkeypatch):
    """Whoever read what it prints may be gone."""
    pd.DataFrame({"x": X[:, 0], "y": Y}).to_csv(tmp_path / "rain.csv", index=False)
    words = ["fit", "rain.csv", "--target", "y", "--inducing", "6", "--steps", "100", "--quiet"]

    def gone(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("zigp.cli.fit._summary", gone)
    in_process([*words, "--out", "rain.zigp"], tmp_path)
    assert load(tmp_path / "rain.zigp").n_iter_ == 100


def test_a_fit_that_fails_late_stays_where_its_checkpoints_are(tmp_path, monkeypatch):
    """What it had learned is kept, with a word of what to try, and can be gone on from."""
    advance, data = loop.advance, masked(0)[1]

    def failing(state, *args):
        state = advance(state, *args)
        late = state.step > 100
        return replace_bounds(state, jnp.where(late, jnp.nan, state.bounds))

    def replace_bounds(state, bounds):
        return State(**{**vars(state), "bounds": bounds})

    monkeypatch.setattr(loop, "advance", failing)
    kept = Checkpoints(tmp_path / "c", steps=1)
    fit = train(random_zigp(0), data, SETTINGS["adam"], checkpoints=kept)
    assert fit.failed
    assert len(fit.bounds) == 100
    assert [path.name[5:14] for path in kept.found()] == ["000000100", "000000050"]
    monkeypatch.undo()
    again = train(
        random_zigp(0), data, SETTINGS["adam"], checkpoints=Checkpoints(tmp_path / "c", resume=True)
    )
    assert not again.failed
    same(again.model, train(random_zigp(0), data, SETTINGS["adam"]).model)


def test_a_fit_that_fails_leaves_nothing_to_go_on_from(tmp_path):
    settings = Settings(steps=100, learning_rate=1e30, tol=0.0)
    fit = train(
        random_zigp(0), masked(0)[1], settings, checkpoints=Checkpoints(tmp_path / "c", steps=1)
    )
    assert fit.failed
    assert not (tmp_path / "c").exists()


X = np.linspace(0, 10, 60)[:, None]
Y = np.where(X[:, 0] > 4, 2.0 + np.sin(X[:, 0]), 0.0)


@pytest.mark.slow
def test_a_hurdle_does_not_train_its_first_part_again(tmp_path):
    """Interrupted in the second part, it keeps both, and goes on with the second alone."""
    folder = tmp_path / "kept"
    settings = {"n_inducing": 6, "steps": 150, "tol": 0.0}
    whole = HurdleGPRegressor(**settings).fit(X, Y)
    shown = []

    def second(progress):
        shown.append(progress.step)
        if len(shown) == 5:
            raise KeyboardInterrupt

    model = HurdleGPRegressor(**settings, checkpoint=folder, verbose=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("zigp.estimators.fitting.progress_bar", _shown(second))
        with pytest.raises(InterruptedFitError, match="step 100 of 150"):
            model.fit(X, Y)
        assert shown == [50, 100, 150, 50, 100]
        assert model.regressor_.n_iter_ == 100
        assert np.isfinite(model.predict(X)).all()
        model.set_params(resume=True).fit(X, Y)
    assert shown == [50, 100, 150, 50, 100, 150]
    same(model.classifier_.model_, whole.classifier_.model_)
    same(model.regressor_.model_, whole.regressor_.model_)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("chunks", "have"),
    [
        pytest.param(2, "There is no model yet", marks=pytest.mark.slow),
        (4, "That is what was learned so far"),
    ],
)
def test_ctrl_c_in_either_part_of_a_hurdle_says_how_to_go_on(chunks, have, tmp_path, monkeypatch):
    pd.DataFrame({"x": X[:, 0], "y": Y}).to_csv(tmp_path / "rain.csv", index=False)
    words = ["fit", "rain.csv", "--target", "y", "--inducing", "6", "--steps", "150"]
    words += ["--model", "hurdle", "--out", "rain.zigp"]
    left = [chunks]

    def press(progress):
        left[0] -= 1
        if not left[0]:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("zigp.estimators.fitting.progress_bar", _shown(press))
    answer = in_process(words, tmp_path)
    assert answer.code == 130
    assert f"{have} (interrupted at step" in answer.said
    assert "--resume goes on from there" in answer.said
    assert (tmp_path / "rain.zigp").exists() == (chunks == 4)
    answer = in_process([*words, "--resume"], tmp_path)
    assert answer.code == 0, answer.said
    assert load(tmp_path / "rain.zigp").regressor_.n_iter_ == 150
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rain.csv", "rain.zigp"]


@pytest.mark.slow
def test_a_model_that_cannot_be_saved_is_not_lost(tmp_path, monkeypatch):
    """With the disk full at the end, the command keeps what it learned until it could be saved."""
    pd.DataFrame({"x": X[:, 0], "y": Y}).to_csv(tmp_path / "rain.csv", index=False)
    words = ["fit", "rain.csv", "--target", "y", "--inducing", "6", "--steps", "100", "--quiet"]
    words += ["--model", "hurdle", "--out", "rain.zigp"]
    written, folder = Path.write_bytes, tmp_path / "rain.zigp.checkpoint"

    def full(path, content):
        if path.name.startswith(".rain.zigp."):
            written(path, content[: len(content) // 2])
            raise OSError(28, "No space left on device")
        return written(path, content)

    (tmp_path / "rain.zigp").write_text("the model of last week")
    monkeypatch.setattr(Path, "write_bytes", full)
    answer = in_process([*words, "--force"], tmp_path)
    assert answer.code == 1
    assert "Cannot save rain.zigp: No space left on device. Make room there" in answer.said
    assert "--resume: what was learned is kept" in answer.said
    assert (tmp_path / "rain.zigp").read_text() == "the model of last week"
    assert sorted(path.name for path in folder.iterdir()) == ["classifier", "regressor"]
    monkeypatch.undo()
    monkeypatch.setattr(loop._Training, "_next_chunk", None)  # nothing is left to be trained
    answer = in_process([*words, "--resume"], tmp_path)
    assert answer.code == 0, answer.said
    assert load(tmp_path / "rain.zigp").regressor_.n_iter_ == 100
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rain.csv", "rain.zigp"]


# ---------------------------------------------------------------------------------------------
# Real processes, really killed

FITTING = """
import sys
from pathlib import Path
import numpy as np
from zigp import ZeroInflatedGPRegressor
kept, out = Path(sys.argv[1]), sys.argv[2]
rng = np.random.default_rng(0)
X = rng.uniform(0, 10, (200, 1))
y = np.where(np.sin(X[:, 0]) > 0, 2.0, 0.0) + rng.normal(0, 0.05, 200)
model = ZeroInflatedGPRegressor(
    n_inducing=12, steps=12000, batch_size=64, tol=0.0, checkpoint=kept, checkpoint_seconds=0.01,
    resume=kept.exists(),
)
model.fit(X, y).save(out)
"""


def start(tmp_path: Path, name: str) -> subprocess.Popen:
    command = [sys.executable, "-c", FITTING, str(tmp_path / f"{name}.kept"), str(tmp_path / name)]
    cache = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "compiled")}
    cache["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    return subprocess.Popen(command, env=os.environ | cache)


def seen(process: subprocess.Popen, folder: Path, pattern: str, known: set[str]) -> None:
    """Wait until a new file of this name is in the folder, or the process has ended."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if {path.name for path in folder.glob(pattern)} - known:
            return
        time.sleep(0.0005)  # a file takes longer to be written


def moment(
    kind: str, process: subprocess.Popen, folder: Path, rng: np.random.Generator, warm_up: float
) -> None:
    """Wait for the moment to kill."""
    known = {path.name for path in folder.glob("*step-*")}
    if kind == "at any time":  # while it starts, compiles, reads its checkpoint or trains
        time.sleep(float(rng.uniform(0, 1.1 * warm_up)))
    elif kind == "in training":
        seen(process, folder, "step-*.checkpoint", known)
        time.sleep(float(rng.uniform(0, 0.1)))
    else:
        seen(process, folder, ".step-*.part", known)


def whole_files(folder: Path) -> int:
    """How many checkpoints there are, each of which can be read to its end."""
    paths = list(folder.glob("step-*.checkpoint"))
    for path in paths:
        with safe_open(path, framework="numpy") as file:
            assert all(np.size(file.get_tensor(name)) for name in file.keys())  # noqa: SIM118
    return len(paths)


@pytest.mark.slow
def test_thirty_kills_end_in_the_same_bits(tmp_path):
    assert start(tmp_path, "whole").wait(timeout=600) == 0
    begun = time.monotonic()
    timed = start(tmp_path, "timed")  # with all that is compiled, until its first checkpoint
    seen(timed, tmp_path / "timed.kept", "step-*.checkpoint", set())
    warm_up = time.monotonic() - begun
    timed.kill()
    timed.wait()
    shutil.rmtree(tmp_path / "timed.kept")
    rng, kept, half = np.random.default_rng(0), tmp_path / "killed.kept", 0
    reached = []
    kinds = ["at any time", "in training", "in writing"] * 10
    for kind in kinds:
        process = start(tmp_path, "killed")
        moment(kind, process, kept, rng, warm_up)
        assert process.poll() is None, "it ended before it could be killed"
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert whole_files(kept) <= 3  # two, and one that is new
        half += bool(list(kept.glob(".step-*.part")))
        reached.append(max([0, *(int(path.name[5:14]) for path in kept.glob("step-*"))]))
    assert start(tmp_path, "killed").wait(timeout=600) == 0
    print(f"{len(kinds)} kills, {half} of them in the middle of a checkpoint, at steps {reached}")
    assert half >= 5
    assert reached == sorted(reached)
    for kind, before, now in zip(kinds, [0, *reached], reached, strict=False):
        assert now > before or kind != "in training"  # where a new checkpoint was waited for
    one, other = load(tmp_path / "whole"), load(tmp_path / "killed")
    same(one.model_, other.model_)
    np.testing.assert_array_equal(one.bounds_, other.bounds_)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["compiled", "killed", "whole"]


@pytest.mark.slow
def test_a_checkpoint_that_finds_no_room_ends_the_fit_and_the_one_before_is_whole(tmp_path):
    """A real write that the system cuts short: files may not grow beyond a size, as they do."""
    pd.DataFrame({"x": X[:, 0], "y": Y}).to_csv(tmp_path / "rain.csv", index=False)
    command = [str(ZIGP), "fit", "rain.csv", "--target", "y", "--out", "rain.zigp", "--quiet"]
    command += ["--inducing", "6", "--steps", "1000000", "--checkpoint-seconds", "0.01"]
    limited = ["bash", "-c", 'ulimit -f 64; exec "$@"', "bash", *command]  # KiB
    uncached = os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "false"}
    full = subprocess.run(limited, cwd=tmp_path, capture_output=True, text=True, env=uncached)
    assert full.returncode == 1, full.stderr
    assert "rain.zigp.checkpoint/step-" in full.stderr
    assert "File too large. Make room and go on with resume" in full.stderr
    assert "Traceback" not in full.stderr
    kept = tmp_path / "rain.zigp.checkpoint"
    assert whole_files(kept) == 2
    assert len(list(kept.iterdir())) == 2
    newest = max(int(path.name[5:14]) for path in kept.iterdir())
    more = [*command, "--resume", "--max-seconds", "1"]
    again = subprocess.run(more, cwd=tmp_path, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert load(tmp_path / "rain.zigp").n_iter_ > newest


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_learned_and_says_how_to_go_on(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, 300)
    table = pd.DataFrame({"x": X, "y": np.where(np.sin(X) > 0, 2.0, 0.0)})
    table.to_csv(tmp_path / "rain.csv", index=False)
    command = [str(ZIGP), "fit", "rain.csv", "--target", "y", "--out", "rain.zigp", "--quiet"]
    command += ["--inducing", "12", "--steps", "1000000", "--checkpoint-seconds", "0.2"]
    # In the background Ctrl-C is ignored, and whoever is started there inherits that.
    heeding = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "
    heeding += "os.execv(sys.argv[1], sys.argv[1:])"
    process = subprocess.Popen(
        [sys.executable, "-c", heeding, *command],
        cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    kept = tmp_path / "rain.zigp.checkpoint"
    for _ in range(1200):
        if list(kept.glob("step-*")) or process.poll() is not None:
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130, said
    assert "--resume goes on from there" in said
    steps = load(tmp_path / "rain.zigp").n_iter_
    assert steps > 0
    refused = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "rain.zigp" in refused.stderr
    assert refused.returncode != 0
    more = [*command, "--resume", "--max-seconds", "1"]
    again = subprocess.run(more, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert load(tmp_path / "rain.zigp").n_iter_ > steps
    assert not kept.exists()
