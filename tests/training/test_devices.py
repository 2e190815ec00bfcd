"""Several devices and several processes: the same numbers as one, and no process left hanging."""

from __future__ import annotations

import io
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest

from zigp import GPNetworkRegressor, HurdleGPRegressor, SparseGPRegressor, load, open_stream
from zigp.cli.options import Device, use_device
from zigp.cli.processes import Process, _end, _leave, _why, joined
from zigp.training.devices import available

ZIGP = Path(sys.executable).with_name("zigp")

FOUR_DEVICES = """
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
import sys
sys.path[:0] = {tests!r}
import jax, jax.numpy as jnp, numpy as np
import equinox as eqx
from functools import partial
from jax.sharding import PartitionSpec as Spec
from zigp.training.devices import available
from zigp.training.minibatches import filled_up
from zigp.models.objective import objective
from zigp.runtime.session import session
from zigp.training import Settings, train, train_restarts
from test_network_bound import random_network, random_outputs
from test_objective import masked, random_zigp

def close(a, b, rtol):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=rtol, atol=1e-10)

def same_gradients(model, data):
    # Value and gradient of one device, and those added up over four.
    model = jax.tree.map(jnp.asarray, model)
    whole = filled_up(jax.tree.map(jnp.asarray, data), 4)
    lies = devices.data_specs(whole)

    def shares(model, data):
        return devices.total(jax.value_and_grad(lambda m: objective(m, data, devices.share))(model))

    over = jax.shard_map(
        shares, mesh=devices.mesh, in_specs=(Spec(), lies), out_specs=Spec(), check_vma=False
    )
    one = eqx.filter_jit(jax.value_and_grad(objective))(model, whole)
    close(jax.jit(over)(model, devices.put(whole, lies)), one, 1e-10)

def same_path(model, data, **settings):
    settings = Settings(steps=12, tol=0.0, **settings)
    alone = train(model, data, settings)
    close(train(model, data, settings, devices=devices).bounds, alone.bounds, 1e-9)

def same_bits(model, data):
    for more in ({}, {"method": "natural"}, {"batch_size": 8}):
        settings = Settings(steps=12, tol=0.0, **more)
        one, other = (train(model, data, settings, devices=devices) for _ in range(2))
        once, again = (jax.tree.leaves((fit.model, fit.bounds)) for fit in (one, other))
        for a, b in zip(once, again, strict=True):
            np.testing.assert_array_equal(a, b)

def minibatches(model, data):
    fit = train(model, data, Settings(steps=12, batch_size=8, tol=0.0), devices=devices)
    assert np.isfinite(fit.bounds).all() and fit.bounds[-3:].mean() > fit.bounds[:3].mean()

def restarts(data):
    models, settings = [random_zigp(seed) for seed in range(4)], Settings(steps=12, tol=0.0)
    apart = train_restarts(models, data, settings, devices=available("restarts", 4))
    for a, b in zip(train_restarts(models, data, settings), apart, strict=True):
        close(b.bounds, a.bounds, 1e-9)
    assert available("restarts", 6).count == 3 and available("restarts", 5) is None

with session():
    assert len(jax.devices()) == 4
    devices = available("data")
    lattice, rows = masked(0)
    network = random_network(1), random_outputs(1, missing=0.3)
    {todo}
print("the same")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "todo",
    [
        "same_gradients(random_zigp(0), lattice); same_gradients(random_zigp(0), rows)",
        "same_gradients(*network)",
        "same_path(random_zigp(0), lattice, method='natural')",
        "same_path(random_zigp(0), rows)",
        "same_path(*network, method='natural')",
        "same_bits(random_zigp(0), rows)",
        "minibatches(random_zigp(0), rows)",
        "restarts(rows)",
    ],
)
def test_four_devices_find_what_one_finds(todo):
    script = FOUR_DEVICES.replace(
        "{tests!r}", repr([str(Path(__file__).parents[1] / one) for one in ("", "models")])
    )
    command = [sys.executable, "-c", script.replace("{todo}", todo)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "the same", done.stderr[-3000:]


@pytest.fixture
def rows(tmp_path) -> Path:
    """A dataset of four Parquet files."""
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
    """A process that fits: zigp, or a program around it that is told a word."""
    options = ["--target", "y", "--inducing", "20", "--stream", "--batch-size", "256", "--quiet"]
    program = [sys.executable, "-c", program, word] if program else [str(ZIGP)]
    return subprocess.Popen(
        [*program, "fit", str(rows), "--out", str(out), *options, *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
    )


def free_port() -> int:
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        return any_port.getsockname()[1]


def together(
    rows: Path, out: Path, *more: str, program: str = "", words: tuple[str, str] = ("", "")
) -> list[subprocess.Popen]:
    """Two processes that fit one model."""
    at = ["--coordinator", f"127.0.0.1:{free_port()}", "--num-processes", "2"]
    return [
        fitting(rows, out, *at, "--process-id", str(i), *more, program=program, word=word)
        for i, word in enumerate(words)
    ]


@pytest.mark.slow
def test_two_processes_fit_the_model_of_one_and_write_one_file(rows, tmp_path):
    """A pass in two steps per process, each over the rows of both."""
    out = tmp_path / "both.zigp"
    said = [process.communicate(timeout=300)[0] for process in together(rows, out, "--passes", "3")]
    assert out.exists(), said
    assert "Saved" in said[0]
    assert "Saved" not in said[1]
    assert [path.name for path in tmp_path.glob("both*")] == ["both.zigp"]
    alone = fitting(rows, tmp_path / "one.zigp", "--passes", "3")
    assert "Saved" in alone.communicate(timeout=300)[0]
    both, one = load(out), load(tmp_path / "one.zigp")
    assert both.n_iter_ == one.n_iter_
    # The same start and the same rows in each pass, in another order.
    X = pd.DataFrame({"x": np.linspace(0.5, 9.5, 40), "t": np.linspace(9.5, 0.5, 40)})
    assert np.mean(np.abs(both.predict(X) - one.predict(X))) < 0.15
    np.testing.assert_allclose(both.bounds_[-1], one.bounds_[-1], rtol=0.2)


@pytest.mark.slow
def test_a_step_over_all_rows_is_the_same_for_two_processes_as_for_one(rows, tmp_path):
    """Each holds half of the rows of every step: what they add up is what one finds."""
    whole = ("--batch-size", "2048", "--passes", "20")
    both = together(rows, tmp_path / "both.zigp", *whole)
    said = [process.communicate(timeout=300)[0] for process in both]
    assert (tmp_path / "both.zigp").exists(), said
    alone = fitting(rows, tmp_path / "one.zigp", *whole)
    assert "Saved" in alone.communicate(timeout=300)[0]
    two, one = load(tmp_path / "both.zigp"), load(tmp_path / "one.zigp")
    assert len(one.bounds_) == 20
    np.testing.assert_allclose(two.bounds_, one.bounds_, rtol=1e-6)
    X = pd.DataFrame({"x": np.linspace(0.5, 9.5, 40), "t": np.linspace(9.5, 0.5, 40)})
    np.testing.assert_allclose(two.predict(X), one.predict(X), rtol=1e-6, atol=1e-6)


# One process among others, whose clock goes at a pace of its own.
HURRIED = """
import sys, time
from zigp import cli
begin, pace, right = time.perf_counter(), float(sys.argv.pop(1)), time.perf_counter
time.perf_counter = lambda: begin + pace * (right() - begin)
cli.main()
"""


@pytest.mark.slow
def test_processes_whose_clocks_differ_end_a_budget_at_the_same_step(rows, tmp_path):
    """The second's goes at a third of the pace: by its own it would have gone on for long."""
    budget = ("--steps", "1000000", "--max-seconds", "15")
    out = tmp_path / "both.zigp"
    both = together(rows, out, *budget, program=HURRIED, words=("1", "0.3"))
    said = ended(both, 300)
    assert [process.returncode for process in both] == [0, 0], said
    fit = load(out)
    assert "the time budget of 15 s was spent" in fit.stopped_
    assert 5 <= fit.n_iter_ < 1_000_000


def checkpoints(processes: list[subprocess.Popen], out: Path) -> int:
    """The step of the newest, once there is one."""
    for _ in range(1200):
        if found := list(Path(f"{out}.checkpoint").glob("step-*.checkpoint")):
            return max(int(path.name[5:14]) for path in found)
        time.sleep(0.1)
    for process in processes:
        process.kill()
    raise AssertionError(f"no checkpoint was written: {ended(processes)}")


# One process among others, in which a step goes wrong, or none.
FAILING = """
import sys
from zigp import cli
from zigp.training.loop import _Training
wrong, chunk = int(sys.argv.pop(1)), _Training._next_chunk
def next_chunk(self, *args):
    if wrong and self.log.done:
        raise ValueError("A block that cannot be read.")
    chunk(self, *args)
_Training._next_chunk = next_chunk
cli.main()
"""


def ended(processes: list[subprocess.Popen], seconds: float = 120) -> list[str]:
    """What they said; an error if one of them goes on."""
    try:
        return [process.communicate(timeout=seconds)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [0, 1])
def test_a_process_with_a_mistake_of_its_own_says_so_and_stops_the_others(wrong, rows, tmp_path):
    """At its end JAX would wait for the others, and they in a sum for what it was to add."""
    out, endless = tmp_path / "both.zigp", ("--steps", "1000000")
    words = ("1", "0") if wrong == 0 else ("0", "1")
    both = together(rows, out, *endless, program=FAILING, words=words)
    said = ended(both)
    assert both[wrong].returncode == 1, said
    assert both[1 - wrong].returncode != 0, said
    assert said[wrong].strip().endswith("A block that cannot be read.")
    assert f"Process {1 - wrong} lost another one" in said[1 - wrong]
    assert "Start all of them again" in said[1 - wrong]
    assert not out.exists()


@pytest.mark.parametrize("end", [lambda: _end(3), lambda: _leave(Process(1, 2), OSError("x"), "")])
def test_a_process_ends_even_if_nobody_reads_what_it_said(end, monkeypatch):
    class Gone(io.StringIO):
        def write(self, text):
            raise OSError(5, "Input/output error")

        def flush(self):
            self.write("")

    monkeypatch.setattr(sys, "stdout", Gone())
    monkeypatch.setattr(sys, "stderr", Gone())
    monkeypatch.setattr("os._exit", sys.exit)
    with pytest.raises(SystemExit) as exit_:
        end()
    assert exit_.value.code in (1, 3)


@pytest.mark.slow
def test_a_process_that_is_asked_to_end_does(rows, tmp_path):
    """By SIGTERM, as schedulers ask; JAX has a handler of its own for it."""
    out = tmp_path / "both.zigp"
    both = together(rows, out, "--steps", "1000000", "--checkpoint-seconds", "1")
    kept = checkpoints(both, out)
    for process in both:
        process.send_signal(signal.SIGTERM)
    said = ended(both)
    codes = {process.returncode for process in both}
    assert 143 in codes <= {1, 143}, said  # one may have lost the other before it was asked
    assert "--resume" in said[0]
    assert checkpoints(both, out) >= kept


def job_of_free_port() -> int:
    """A number of a job from which JAX derives a port that nobody uses."""
    for job in range(os.getpid(), os.getpid() + 100):
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", 65536 - 2**12 + job % 2**12))
            except OSError:
                continue
            return job
    raise OSError("no port is free")


@pytest.mark.slow
def test_processes_that_slurm_starts_find_each_other(rows, tmp_path, monkeypatch):
    out, job = tmp_path / "both.zigp", str(job_of_free_port())
    processes = []
    for number in range(2):
        told = {"JOB_ID": job, "NTASKS": 2, "PROCID": number, "LOCALID": number}
        for name, value in (told | {"STEP_NODELIST": "127.0.0.1", "STEP_NUM_NODES": 1}).items():
            monkeypatch.setenv(f"SLURM_{name}", str(value))
        processes.append(fitting(rows, out, "--distributed", "--passes", "1"))
    said = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    assert ["Saved" in one for one in said] == [True, False]
    assert [path.name for path in tmp_path.glob("both*")] == ["both.zigp"]
    assert load(out).fitted_with_["devices"] == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "victim",
    [
        pytest.param(0, id="the first"),  # which connects the others
        pytest.param(1, id="the second"),
    ],
)
def test_a_process_that_dies_stops_the_others_and_the_run_resumes(rows, tmp_path, victim):
    out = tmp_path / "long.zigp"
    many = ("--steps", "1000000", "--checkpoint-seconds", "1")
    processes = together(rows, out, *many)
    checkpoints(processes, out)
    processes[victim].send_signal(signal.SIGKILL)
    said = ended(processes)[1 - victim]
    assert processes[1 - victim].returncode != 0
    assert "--resume" in said
    assert not out.exists()
    newest = checkpoints(processes, out)
    again = together(rows, out, *many, "--resume", "--max-seconds", "3")
    said_again = [process.communicate(timeout=300)[0] for process in again]
    assert out.exists(), said_again
    assert load(out).n_iter_ > newest


def test_restarts_are_not_divided_among_processes(monkeypatch, tmp_path):
    monkeypatch.setattr("jax.process_count", lambda: 2)
    X = np.linspace(0, 1, 12)[:, None]
    pd.DataFrame({"x": X[:, 0], "y": X[:, 0]}).to_parquet(tmp_path / "rows.parquet")
    stream = open_stream(tmp_path / "rows.parquet", target="y", rows_per_block=8)
    network = GPNetworkRegressor(1, n_restarts=2, n_inducing=3, devices="restarts")
    with pytest.raises(ValueError, match="processes divide the data: use devices='data'"):
        network.fit_stream(stream)


def test_processes_divide_rows_and_start_at_one_place(monkeypatch):
    """All rows, handed in by each, would count twice."""
    monkeypatch.setattr("jax.process_count", lambda: 2)
    X = np.linspace(0, 1, 12)[:, None]
    for model in (SparseGPRegressor(), HurdleGPRegressor()):
        with pytest.raises(ValueError, match="divide them with fit_stream"):
            model.fit(X, X[:, 0])
    with pytest.raises(ValueError, match="another seed in every process"):
        SparseGPRegressor(random_state=None).fit_stream(None)


def test_who_ran_out_of_memory_does_not_blame_the_others():
    process, status = Process(1, 2), "UNAVAILABLE: a socket was closed"
    assert "lost another one: UNAVAILABLE" in _why(process, RuntimeError(status), "Start.")
    full = RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 64 bytes.")
    assert _why(process, full, "Start.").startswith(
        "Process 1 gives up. Out of memory. Give fewer rows"
    )


def test_what_belongs_together_is_asked_for():
    with (
        pytest.raises(ValueError, match="belong together"),
        joined(False, "127.0.0.1:1", None, None),
    ):
        pass
    with pytest.raises(ValueError, match="from 0 to 1"), joined(False, "127.0.0.1:1", 2, 2):
        pass


def test_a_process_that_dies_while_the_others_take_leave_is_told_of(monkeypatch, capsys):
    def gone(*_: object, **__: object) -> None:
        raise jax.errors.JaxRuntimeError("DEADLINE_EXCEEDED: the barrier\nof all")

    monkeypatch.setattr("jax.distributed.initialize", lambda *_, **__: None)
    monkeypatch.setattr("jax.distributed.shutdown", gone)
    monkeypatch.setattr("os._exit", sys.exit)
    with pytest.raises(SystemExit) as end, joined(True, None, None, None):
        pass
    assert end.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith(
        "Process 0 lost another one: DEADLINE_EXCEEDED: the barrier. If no model"
    )


def test_devices_are_of_the_kind_that_was_chosen(monkeypatch):
    every, asked = jax.devices, []
    monkeypatch.setattr("jax.devices", lambda kind=None: asked.append(kind) or every("cpu"))
    available("data")
    with jax.default_device(every("cpu")[0]):
        available("data")
    assert asked == [None, "cpu"]


def test_a_device_is_one_of_this_process(monkeypatch):
    chosen = []
    monkeypatch.setattr("jax.local_devices", lambda backend: [f"the second's {backend}"])
    monkeypatch.setattr("jax.config.update", lambda name, value: chosen.append(value))
    use_device(Device.gpu)
    assert chosen == ["the second's gpu"]


@pytest.mark.parametrize(
    "model",
    [
        SparseGPRegressor(n_inducing=3, devices="restarts"),
        GPNetworkRegressor(1, n_restarts=1, n_inducing=3, devices="restarts"),
    ],
)
def test_restarts_that_there_are_none_of_are_not_divided(model):
    X = np.linspace(0, 1, 12)[:, None]
    with pytest.raises(ValueError, match="here are none to divide: use devices='data' or 'one'"):
        model.fit(X, X[:, 0])
