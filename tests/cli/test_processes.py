"""Several processes: the same model as from one, and no process is left waiting."""

import io
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import jax
import numpy as np
import pandas as pd
import pytest

from zigp import load
from zigp.cli.processes import _end, joined

ZIGP = Path(sys.executable).with_name("zigp")
NEW = pd.DataFrame({"x": np.linspace(0.5, 9.5, 40), "t": np.linspace(9.5, 0.5, 40)})


@pytest.fixture
def rows(tmp_path) -> Path:
    """Write a dataset of four Parquet files."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "rows"
    folder.mkdir()
    for i in range(4):
        x, t = rng.uniform(0, 10, 512), rng.uniform(0, 10, 512)
        y = np.where(np.sin(x) > 0, 2 + np.cos(t), 0.0) + rng.normal(0, 0.05, 512)
        frame = pd.DataFrame({"x": x, "t": t, "y": y})
        frame.to_parquet(folder / f"{i}.parquet", row_group_size=128)
    return folder


def fitting(rows: Path, out: Path, *more: str, program: str = "", word: str = ""):
    """Start a process that fits: zigp, or a program around it with one argument."""
    options = ["--target", "y", "--inducing", "20", "--stream", "--batch-size", "256", "--quiet"]
    program = [sys.executable, "-c", program, word] if program else [str(ZIGP)]
    return subprocess.Popen(
        [*program, "fit", str(rows), "--out", str(out), *options, *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
    )


def together(
    rows: Path, out: Path, *more: str, program: str = "", words: tuple[str, str] = ("", "")
) -> list[subprocess.Popen]:
    """Start two processes that fit one model."""
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        port = any_port.getsockname()[1]
    at = ["--coordinator", f"127.0.0.1:{port}", "--num-processes", "2"]
    return [
        fitting(rows, out, *at, "--process-id", str(i), *more, program=program, word=word)
        for i, word in enumerate(words)
    ]


def output_of(processes: list[subprocess.Popen], seconds: float = 300) -> list[str]:
    """Wait for the end of processes and return their output; none of them is left running."""
    try:
        return [process.communicate(timeout=seconds)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def newest_checkpoint(processes: list[subprocess.Popen], out: Path) -> int:
    """Wait for a checkpoint, and return the step of the newest."""
    for _ in range(1200):
        if paths := list(Path(f"{out}.checkpoint").glob("step-*.checkpoint")):
            return max(int(path.name[5:14]) for path in paths)
        time.sleep(0.1)
    for process in processes:
        process.kill()
    raise AssertionError(f"no checkpoint was written: {output_of(processes)}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "rtol", "mean_error"),
    [
        # A pass in two steps per process, each over rows of both, in another order than of one.
        pytest.param(["--passes", "3"], 0.2, 0.15, id="minibatches"),
        # Each has half of the rows of every step.
        pytest.param(["--batch-size", "2048", "--passes", "20"], 1e-6, 1e-6, id="all rows"),
    ],
)
def test_two_processes_fit_the_model_of_one_and_write_one_file(
    how, rtol, mean_error, rows, tmp_path
):
    both, one = tmp_path / "both.zigp", tmp_path / "one.zigp"
    output = output_of(together(rows, both, *how))
    assert ["Saved" in text for text in output] == [True, False], output
    assert [path.name for path in tmp_path.glob("both*")] == ["both.zigp"]
    assert "Saved" in output_of([fitting(rows, one, *how)])[0]
    both, one = load(both), load(one)
    assert both.n_iter_ == one.n_iter_
    np.testing.assert_allclose(both.bounds_[-1], one.bounds_[-1], rtol=rtol)
    assert np.mean(np.abs(both.predict(NEW) - one.predict(NEW))) < mean_error


# One of the processes, with a clock of its own pace.
HURRIED = """
import sys, time
from zigp import cli
begin, pace, right = time.perf_counter(), float(sys.argv.pop(1)), time.perf_counter
time.perf_counter = lambda: begin + pace * (right() - begin)
cli.main()
"""


@pytest.mark.slow
def test_processes_whose_clocks_differ_end_a_budget_at_the_same_step(rows, tmp_path):
    """By its own clock, at a third of the pace, the second would go on for long."""
    out = tmp_path / "both.zigp"
    budget = ("--steps", "1000000", "--max-seconds", "15")
    both = together(rows, out, *budget, program=HURRIED, words=("1", "0.3"))
    output = output_of(both)
    assert [process.returncode for process in both] == [0, 0], output
    fit = load(out)
    assert "the time budget of 15 s was spent" in fit.stopped_
    assert 5 <= fit.n_iter_ < 1_000_000


# One of the processes, in which a step may fail.
FAILING = """
import sys
from zigp import cli
from zigp.training.loop import Training
wrong, chunk = int(sys.argv.pop(1)), Training.next_chunk
def next_chunk(self, *args):
    if wrong and self.log.done:
        raise ValueError("A block that cannot be read.")
    chunk(self, *args)
Training.next_chunk = next_chunk
cli.main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [0, 1])
def test_a_process_with_a_mistake_of_its_own_says_so_and_stops_the_others(wrong, rows, tmp_path):
    """At its end JAX would wait for the others, and they for its part of a sum."""
    out, endless = tmp_path / "both.zigp", ("--steps", "1000000")
    words = ("1", "0") if wrong == 0 else ("0", "1")
    both = together(rows, out, *endless, program=FAILING, words=words)
    output = output_of(both, 120)
    assert both[wrong].returncode == 1, output
    assert both[1 - wrong].returncode != 0, output
    assert output[wrong].strip().endswith("A block that cannot be read.")
    assert f"Process {1 - wrong} lost another one" in output[1 - wrong]
    assert "Start all of them again" in output[1 - wrong]
    assert not out.exists()


@pytest.mark.slow
def test_a_process_that_is_asked_to_end_does(rows, tmp_path):
    """Schedulers ask by SIGTERM, for which JAX has a handler of its own."""
    out = tmp_path / "both.zigp"
    both = together(rows, out, "--steps", "1000000", "--checkpoint-seconds", "1")
    step = newest_checkpoint(both, out)
    for process in both:
        process.send_signal(signal.SIGTERM)
    output = output_of(both, 120)
    codes = {process.returncode for process in both}
    assert 143 in codes <= {1, 143}, output  # one may lose the other before it is asked
    assert "--resume" in output[0]
    assert newest_checkpoint(both, out) >= step


@pytest.mark.slow
def test_processes_that_slurm_starts_find_each_other(rows, tmp_path, monkeypatch):
    out, job = tmp_path / "both.zigp", os.getpid()  # from which JAX derives a port
    processes = []
    for number in range(2):
        place = {"NTASKS": 2, "PROCID": number, "LOCALID": number, "STEP_NUM_NODES": 1}
        for name, value in (place | {"JOB_ID": job, "STEP_NODELIST": "127.0.0.1"}).items():
            monkeypatch.setenv(f"SLURM_{name}", str(value))
        processes.append(fitting(rows, out, "--distributed", "--passes", "1"))
    output = output_of(processes)
    assert [process.returncode for process in processes] == [0, 0], output
    assert ["Saved" in text for text in output] == [True, False]
    assert [path.name for path in tmp_path.glob("both*")] == ["both.zigp"]
    assert load(out).fitted_with_["devices"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1], ids=["the coordinator", "the second"])
def test_a_process_that_dies_stops_the_others_and_the_run_resumes(rows, tmp_path, victim):
    out = tmp_path / "long.zigp"
    many = ("--steps", "1000000", "--checkpoint-seconds", "1")
    processes = together(rows, out, *many)
    newest_checkpoint(processes, out)
    processes[victim].send_signal(signal.SIGKILL)
    output = output_of(processes, 120)
    assert processes[1 - victim].returncode != 0
    assert "--resume" in output[1 - victim]
    assert not out.exists()
    step = newest_checkpoint(processes, out)
    output = output_of(together(rows, out, *many, "--resume", "--max-seconds", "3"))
    assert out.exists(), output
    assert load(out).n_iter_ > step


def test_a_process_ends_even_if_nobody_reads_its_output(monkeypatch):
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stdout", closed)
    monkeypatch.setattr("os._exit", sys.exit)
    with pytest.raises(SystemExit) as exit_:
        _end(3)
    assert exit_.value.code == 3


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("DEADLINE_EXCEEDED: the barrier\nof all", "Process 0 lost another one: DEADLINE_EXCEEDED"),
        ("RESOURCE_EXHAUSTED: Out of memory allocating 64 bytes.", "RESOURCE_EXHAUSTED"),
    ],
)
def test_a_process_says_what_stopped_it_and_does_not_wait_for_others(monkeypatch, error, message):
    """Others may be gone, even at the end; that its own memory ran out is not blamed on them."""
    gone = Mock(side_effect=jax.errors.JaxRuntimeError(error))
    at_exit = Mock()
    monkeypatch.setattr("jax.process_count", lambda: 2)
    monkeypatch.setattr("jax.distributed.initialize", Mock())
    monkeypatch.setattr("jax.distributed.shutdown", gone)
    monkeypatch.setattr("atexit.register", at_exit)
    with pytest.raises((ValueError, RuntimeError)) as raised, joined(True, None, None, None):
        pass
    assert str(raised.value).startswith(message)
    at_exit.assert_called_once_with(_end, 1)


@pytest.mark.parametrize(
    ("options", "reason"),
    [("--coordinator 127.0.0.1:1", "Number of processes must be"), ("--process-id 0", "address")],
)
def test_options_that_belong_together_are_asked_for(options, reason, tmp_path):
    (said,) = output_of([fitting(tmp_path, tmp_path / "m.zigp", *options.split())])
    assert f"The workers did not find each other: {reason}" in said.replace("coordinator_", "")
    assert "with a --process-id from 0 on" in said
