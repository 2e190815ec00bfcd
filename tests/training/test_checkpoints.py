"""Checkpoints: interrupted training resumes to the same bits, and no file is ever half of one."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models_by_hand import assert_same, masked, random_zigp

from zigp.models.objective import objective
from zigp.runtime.session import session
from zigp.training import (
    Checkpoints,
    InterruptedFitError,
    TrainingSettings,
    checkpoints,
    hold_checkpoints,
    loop,
    train,
    train_restarts,
)
from zigp.training.checkpoints import LOCK, locked
from zigp.training.loop import Training
from zigp.training.steps import State, Summit, highest

with session():
    MODEL, ROWS = random_zigp(0), masked(0)[1]
SHORT = TrainingSettings(steps=130, tol=0.0)
ALWAYS = 1e-9  # seconds between checkpoints: one after every chunk


def stop_at(step: int):
    """Return a callback for progress that presses Ctrl-C."""

    def watch(progress):
        if progress.step == step:
            raise KeyboardInterrupt

    return watch


def interrupted(
    folder: Path, step: int, settings=SHORT, models=(MODEL,), data=ROWS, **options
) -> InterruptedFitError:
    """Train with checkpoints until Ctrl-C at a step."""
    kept = Checkpoints(folder, **options)
    with pytest.raises(InterruptedFitError) as stopped:
        train_restarts(models, data, settings, stop_at(step), checkpoints=kept)
    return stopped.value


def resumed(folder: Path, settings=SHORT, models=(MODEL,), data=ROWS, show=None):
    """Train to the end from the checkpoints in a folder."""
    kept = Checkpoints(folder, resume=True)
    return train_restarts(models, data, settings, show, checkpoints=kept)


def steps_of(folder: Path) -> list[int]:
    """Return the steps of the checkpoints in a folder, the newest first."""
    return [int(path.name[5:14]) for path in Checkpoints(folder, resume=True).paths()]


@pytest.mark.parametrize(
    ("settings", "seeds", "step"),
    [
        pytest.param(SHORT, [0], 50, id="adam"),
        *(
            pytest.param(settings, seeds, step, id=name, marks=pytest.mark.slow)
            for name, settings, seeds, step in (
                ("natural", replace(SHORT, method="natural"), [0], 50),
                ("minibatches", replace(SHORT, batch_size=5), [0], 50),
                ("restarts", SHORT, [0, 1], 100),
            )
        ),
    ],
)
def test_an_interrupted_fit_resumes_to_the_same_bits(settings, seeds, step, tmp_path):
    models = [random_zigp(seed) for seed in seeds]
    whole = train_restarts(models, ROWS, settings)
    stopped = interrupted(tmp_path, step, settings, models)
    assert f"at step {step} of 130. Fit again with resume=True to go on from" in str(stopped)
    again = resumed(tmp_path, settings, models)
    for before, one, other in zip(stopped.fits, again, whole, strict=True):
        np.testing.assert_array_equal(before.bounds, other.bounds[:step])
        assert_same((one.model, one.bounds), (other.model, other.bounds))


@pytest.mark.slow
def test_an_interrupted_fit_returns_the_highest_point(tmp_path):
    """The next step, which is never taken, would undo a step that lowered the bound."""
    settings = TrainingSettings(steps=6, chunk=2, tol=0.0, method="natural", learning_rate=1.0)
    (fit,) = interrupted(tmp_path, 2, settings).fits
    kept = Checkpoints(tmp_path, resume=True)
    last = Training([MODEL], ROWS, settings, None, kept).state.model
    assert objective(jax.tree.map(lambda leaf: leaf[0], last), ROWS) < fit.bounds.max() - 1.0
    assert objective(fit.model, ROWS) == pytest.approx(fit.bounds.max(), rel=1e-12)
    assert_same(resumed(tmp_path, settings)[0].model, train(MODEL, ROWS, settings).model)


def test_each_restart_returns_its_highest_point():
    two, none = jnp.zeros(2), jnp.asarray(0)
    summit = Summit(jnp.array([1.0, 2.0]), jnp.array([5.0, 5.0]), two, two)
    state = State(jnp.array([3.0, 4.0]), two, none, two, jnp.array([4.9, 5.1]), None, summit)
    assert highest(state).tolist() == [1.0, 4.0]


def test_an_interruption_without_checkpoints_advises_nothing():
    with pytest.raises(InterruptedFitError, match=r"^interrupted at step 50 of 130$"):
        train(MODEL, ROWS, SHORT, stop_at(50))


def test_two_checkpoints_are_kept_and_the_newest_is_taken(tmp_path):
    settings = TrainingSettings(steps=400, tol=0.0)
    interrupted(tmp_path, 300, settings, seconds=ALWAYS)
    assert steps_of(tmp_path) == [300, 250]
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    parameters = sum(np.size(leaf) for leaf in jax.tree.leaves(MODEL))
    assert size < 2 * (3 * 8 * parameters + 16 * 400 + 20_000)


def test_checkpoints_are_as_far_apart_as_the_setting_says(tmp_path, monkeypatch):
    clock = SimpleNamespace(monotonic=lambda: clock.now, now=0.0)
    monkeypatch.setattr(checkpoints, "time", clock)
    kept, never = Checkpoints(tmp_path, seconds=20.0), Checkpoints(tmp_path, seconds=np.inf)
    written = []
    for step in range(50, 350, 50):
        clock.now += 10.0
        if kept.due():
            kept.save(step, MODEL, {})
            written.append(step)
    assert written == [100, 200, 300]
    assert not never.due()


# -- damage and disks ----------------------------------------------------------------------------


def flipped(at):
    """Return damage to the byte that is found in the content."""

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
LONGER = TrainingSettings(steps=200, tol=0.0)


@pytest.fixture(scope="module")
def at_150(tmp_path_factory) -> Path:
    """Return a folder with the checkpoints of a fit after 100 and 150 of 200 steps."""
    folder = tmp_path_factory.mktemp("interrupted")
    with jax.enable_x64(True):
        interrupted(folder, 150, LONGER, seconds=ALWAYS)
    return folder


@pytest.fixture
def kept(at_150, tmp_path) -> Path:
    """Return a copy of that folder."""
    return shutil.copytree(at_150, tmp_path / "kept")


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(damage, kept):
    newest, steps = max(kept.iterdir()), []
    newest.write_bytes(DAMAGE[damage](newest.read_bytes()))
    (again,) = resumed(kept, LONGER, show=lambda progress: steps.append(progress.step))
    assert steps == [150, 200]
    assert_same(again.model, train(MODEL, ROWS, LONGER).model)
    assert steps_of(kept) == [200, 100]


@pytest.mark.parametrize("stop", [pytest.param(100, marks=pytest.mark.slow), 200])
def test_where_all_checkpoints_are_damaged_training_starts_anew_and_says_so(stop, kept):
    for path in kept.iterdir():
        path.write_bytes(DAMAGE["a bit of the fingerprint"](path.read_bytes()))
    with pytest.warns(UserWarning, match="all are damaged: training starts from its beginning"):
        interrupted(kept, stop, LONGER, resume=True, seconds=ALWAYS)
    assert steps_of(kept) == [stop, stop - 50]  # the damaged ones are not in the way
    assert_same(resumed(kept, LONGER)[0].model, train(MODEL, ROWS, LONGER).model)


def test_a_checkpoint_that_cannot_be_read_now_is_not_taken_for_damaged(kept, monkeypatch):
    """If a disk fails for a moment, nothing starts anew and nothing is removed."""

    def failing(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(checkpoints, "safe_open", failing)
    with pytest.raises(OSError, match="Input/output error"):
        resumed(kept, LONGER)
    assert steps_of(kept) == [150, 100]


@pytest.fixture
def full_disk(monkeypatch):
    """Have no room for the second half of the checkpoint of step 100."""
    written = Path.write_bytes

    def full(path, content):
        if "000000100" not in path.name:
            return written(path, content)
        written(path, content[: len(content) // 2])
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_bytes", full)


def test_a_full_disk_leaves_the_checkpoint_before_as_it_was(tmp_path, full_disk, monkeypatch):
    with pytest.raises(OSError, match="No space left"):
        train(MODEL, ROWS, LONGER, checkpoints=Checkpoints(tmp_path, seconds=ALWAYS))
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000050.checkpoint"]
    monkeypatch.undo()
    assert_same(resumed(tmp_path, LONGER)[0].model, train(MODEL, ROWS, LONGER).model)


@pytest.mark.parametrize(
    ("seconds", "before"),
    [(ALWAYS, "the one before is step-000000050"), (300.0, "there is none before")],
)
def test_ctrl_c_with_the_disk_full_hands_over_what_was_learned(
    seconds, before, tmp_path, full_disk
):
    stopped = interrupted(tmp_path / "kept", 100, LONGER, seconds=seconds)
    reason = "step 100 of 200; its checkpoint could not be written (No space left on device), "
    assert reason + before in str(stopped)
    assert len(stopped.fits[0].bounds) == 100


def test_half_written_files_of_a_killed_fit_are_never_read_and_are_removed(kept):
    half = kept / ".step-000000160.checkpoint.123.abcd.part"
    half.write_bytes(max(kept.iterdir()).read_bytes()[:99])
    (kept / LOCK).touch()  # of a process that no longer exists
    assert steps_of(kept) == [150, 100]
    assert_same(resumed(kept, LONGER)[0].model, train(MODEL, ROWS, LONGER).model)
    assert not half.exists()
    Checkpoints(kept, resume=True).clear()
    assert not kept.exists()


# -- fits that differ, and fits at the same time ---------------------------------------------------


def test_processes_that_see_different_checkpoints_do_not_go_on(kept, monkeypatch):
    monkeypatch.setattr(Training, "_agreed", lambda self, value: max(value, 0))  # another has none
    with pytest.raises(ValueError, match=r"different checkpoints .* resumes at step 150"):
        resumed(kept, LONGER)


def test_checkpoints_of_another_fit_are_refused(kept):
    with pytest.raises(ValueError, match="go on from them with resume"):
        Checkpoints(kept)
    for model, data in ((random_zigp(1), ROWS), (MODEL, masked(1)[1])):
        with pytest.raises(ValueError, match="of another fit"):
            resumed(kept, LONGER, [model], data)


def test_a_schedule_that_is_a_function_is_identified_by_its_values():
    """In another process it has another address, and its name does not say what it does."""

    def slower(start):
        return lambda done: start * (1.0 - done)

    first, same, other = (
        TrainingSettings(schedule=slower(start)).described() for start in (1.0, 1.0, 2.0)
    )
    assert first == same != other
    assert TrainingSettings().described() != TrainingSettings(schedule="constant").described()


def test_two_fits_do_not_share_a_folder(tmp_path):
    folder = tmp_path / "kept"
    with (
        Checkpoints(folder).alone(),
        pytest.raises(ValueError, match="Another fit is running"),
    ):
        train(MODEL, ROWS, SHORT, checkpoints=Checkpoints(folder))
    assert not folder.exists()


def test_a_finished_fit_leaves_what_another_fit_has_begun_to_use(kept):
    """After the end of a fit and before its model is saved another can start, with resume."""
    finished = Checkpoints(kept, resume=True)
    with Checkpoints(kept, resume=True).alone():
        finished.clear()
        assert steps_of(kept) == [150, 100]
    for _ in range(2):  # the second time as after a fit so short that it wrote none
        finished.clear()
        assert not kept.exists()


@pytest.mark.parametrize("replace", [False, True])
def test_held_checkpoints_are_removed_once_the_block_has_succeeded(replace, at_150, tmp_path):
    kept = tmp_path / "kept"
    parts = [shutil.copytree(at_150, kept / name) for name in ("first", "second")]
    for error in (OSError, None):
        try:
            with hold_checkpoints(kept, replace=replace), hold_checkpoints(kept):
                finished = [Checkpoints(part, resume=True) for part in parts]
                assert any(steps_of(part) for part in parts) != replace
                finished[0].save(200, MODEL, {})
                finished[0].clear()
                if error is not None:
                    raise error
        except OSError:
            assert 200 in steps_of(parts[0])
    assert steps_of(parts[0]) == []
    assert kept.exists() != replace  # those of the second are not finished


def test_a_file_that_is_not_ours_stays_where_it_is(tmp_path):
    for name in ("lock", ".lock", ".step-of-mine.part", "notes"):
        (tmp_path / name).write_text("mine")
    before = sorted(tmp_path.iterdir())
    with Checkpoints(tmp_path).alone():
        assert len(list(tmp_path.iterdir())) == len(before) + 1
    assert sorted(tmp_path.iterdir()) == before


def test_a_lock_that_was_removed_meanwhile_is_none(tmp_path, monkeypatch):
    """After it is opened and before it is locked, the fit that had it ends and removes it."""
    folder, lock, opened = tmp_path / "kept", checkpoints._lock, []

    def late(file):
        opened.append(file)
        lock(file)
        if len(opened) == 1:
            (folder / LOCK).unlink()
            folder.rmdir()

    monkeypatch.setattr(checkpoints, "_lock", late)
    with locked(folder):
        assert len(opened) == 2
        with pytest.raises(ValueError, match="Another fit is running"), locked(folder):
            pass
        assert (folder / LOCK).exists()
    assert not folder.exists()


# -- the end of training ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [None, 5], ids=["adam", "minibatches"])
def test_a_fit_that_was_killed_after_its_last_step_ends_where_it_had_ended(batch_size, tmp_path):
    """The bound has settled in the checkpoint: another chunk would give other bits."""
    settings = replace(SHORT, steps=5000, tol=0.5, batch_size=batch_size)
    whole = train(MODEL, ROWS, settings, checkpoints=Checkpoints(tmp_path))
    assert "settled" in whole.stopped
    (again,) = resumed(tmp_path, settings)
    assert_same((again.model, again.bounds), (whole.model, whole.bounds))
    assert again.stopped == whole.stopped
    more = len(whole.bounds) + 50  # with a smaller tolerance
    stopped = interrupted(tmp_path, more, replace(settings, tol=0.0), resume=True)
    assert f"step {more} of" in str(stopped)


def test_a_resumed_fit_whose_time_was_spent_takes_some_steps(kept):
    (again,) = resumed(kept, replace(LONGER, max_seconds=1e-9))
    assert len(again.bounds) == 151
    assert "time budget" in again.stopped


def lines_of(*functions) -> list[tuple[object, int]]:
    """Return every line of some functions, as a tracer sees it."""
    codes = [function.__code__ for function in functions]
    every = ((code, line) for code in codes for _, _, line in code.co_lines())
    return [
        (code, line) for code, line in dict.fromkeys(every) if (line or 0) > code.co_firstlineno
    ]


@pytest.mark.slow
def test_ctrl_c_at_any_line_of_the_loop_goes_on_to_the_same_bits(tmp_path):
    """The model and its history never differ: each line is interrupted at its second visit."""
    settings = replace(SHORT, steps=150, batch_size=5)
    whole, count = train(MODEL, ROWS, settings), 0
    lines = lines_of(Training.next_chunk, Training._to_the_end, Training._chunk)
    for number, (code, line) in enumerate(lines):
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
            train(MODEL, ROWS, settings, checkpoints=Checkpoints(folder))
        except InterruptedFitError as stopped:
            count += 1
            bounds = stopped.fits[0].bounds
            np.testing.assert_array_equal(bounds, whole.bounds[: len(bounds)])
        finally:
            sys.settrace(before)
        (again,) = resumed(folder, settings)
        assert_same((again.model, again.bounds), (whole.model, whole.bounds))
    assert count > 25


def test_a_fit_that_fails_late_keeps_its_checkpoints(tmp_path, monkeypatch):
    """A fit can resume from the steps before the failure, with other data or settings."""
    advance = loop.advance

    def failing(state, *args):
        state = advance(state, *args)
        bounds = jnp.where(state.step > 100, jnp.nan, state.bounds)
        return State(**{**vars(state), "bounds": bounds})

    monkeypatch.setattr(loop, "advance", failing)
    fit = train(MODEL, ROWS, SHORT, checkpoints=Checkpoints(tmp_path, seconds=ALWAYS))
    assert (fit.failed, len(fit.bounds)) == (True, 100)
    assert steps_of(tmp_path) == [100, 50]
    monkeypatch.undo()
    (again,) = resumed(tmp_path)
    assert not again.failed
    assert_same(again.model, train(MODEL, ROWS, SHORT).model)


def test_a_fit_that_fails_at_once_writes_no_checkpoint(tmp_path):
    settings = TrainingSettings(steps=100, learning_rate=1e30, tol=0.0)
    kept = Checkpoints(tmp_path / "kept", seconds=ALWAYS)
    assert train(MODEL, ROWS, settings, checkpoints=kept).failed
    assert not (tmp_path / "kept").exists()
