"""The outer loop of training: chunks of steps, until all are done or a reason to stop is found.

A chunk whose bound is not finite is repeated from its start with ten times the jitter. If that
fails too, training stops at the last good parameters.
"""

import time
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from zigp.gp.batch import Batch
from zigp.models.model import Model
from zigp.runtime.interrupts import StopRequest
from zigp.training.checkpoints import Checkpoints, fingerprint
from zigp.training.devices import Devices
from zigp.training.feeds import Feed, Resident
from zigp.training.progress import Fit, InterruptedFitError, Progress, Show
from zigp.training.settings import TrainingSettings, latents_with_natural_steps, learning_rates
from zigp.training.steps import (
    Plan,
    State,
    advance,
    chosen,
    finite,
    first_state,
    highest,
    with_more_jitter,
)

_SECONDS_AT_ONCE = 1.0  # that a compiled program runs before Ctrl-C is checked
_FIRST_STEPS = 5  # of a time budget, before the time of a step is known
_MINIBATCH_RATE = 0.1  # of natural-gradient steps
_RECORDED = ("failures", "retried", "done", "elapsed")


def train(
    model: Model,
    data: Batch | Feed,
    settings: TrainingSettings,
    show: Show | None = None,
    **more: Any,
) -> Fit:
    """Train one model; see `train_restarts`."""
    return train_restarts([model], data, settings, show, **more)[0]


def train_restarts(
    models: Sequence[Model],
    data: Batch | Feed,
    settings: TrainingSettings,
    show: Show | None = None,
    *,
    shift: float = 0.0,
    devices: Devices | None = None,
    checkpoints: Checkpoints | None = None,
) -> list[Fit]:
    """Maximise the objective of models of one structure together, in one compiled program.

    `shift` is added to every bound that is reported. A restart whose bound stops being finite is
    frozen at its last good parameters and marked as failed; the others continue.
    """
    return Training(models, data, settings, devices, checkpoints).run(show, shift)


@dataclass(frozen=True)
class _Log:
    """The history of every restart."""

    bounds: list[np.ndarray]  # [restarts, steps], by chunk
    clock: list[np.ndarray]
    failures: list[str]  # empty while a restart continues
    retried: list[list[int]]
    done: int = 0
    elapsed: float = 0.0

    @property
    def alive(self) -> np.ndarray:
        """The restarts that have not failed."""
        return np.array([not failure for failure in self.failures])


class Training:
    """The training of one or several restarts."""

    def __init__(
        self,
        models: Sequence[Model],
        data: Batch | Feed,
        settings: TrainingSettings,
        devices: Devices | None = None,
        checkpoints: Checkpoints | None = None,
    ):
        self.settings, self.devices, self.checkpoints = settings, devices, checkpoints
        feed = Resident(data, settings.batch_size, devices) if isinstance(data, Batch) else data
        self.feed: Feed = feed
        model = jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *models)
        natural = latents_with_natural_steps(model, settings)
        self.plan = Plan(settings.schedule, feed.batch_size, feed.along, natural, devices)
        rate = 1.0 if feed.batch_size is None else _MINIBATCH_RATE
        self.rates = (learning_rates(model, settings), jnp.asarray(rate))
        self.key = jax.random.key(settings.seed)
        self.state = first_state(model, self.plan, settings.chunk, len(models), feed.places)
        self.log = _Log([], [], ["" for _ in models], [[] for _ in models])
        self.pace = np.inf  # seconds per step
        if checkpoints is not None:
            # A fit may continue with other reasons to stop.
            same = replace(settings, max_seconds=None, tol=0.0, patience=1)
            self.mark = fingerprint(self.state, same.described(), feed.digest())
            self._restore(checkpoints)

    def run(self, show: Show | None, shift: float) -> list[Fit]:
        """Train to the end."""
        with nullcontext() if self.checkpoints is None else self.checkpoints.alone():
            try:
                return self._fits(self._to_the_end(show, shift), shift)
            except (KeyboardInterrupt, StopRequest) as stop:
                advice, reason = "", f"interrupted at step {self.log.done} of {self.settings.steps}"
                if self.checkpoints is not None and self.log.done:
                    try:
                        self._save(self.checkpoints)
                    except OSError as error:  # the model is returned all the same
                        reason += f"; {self.checkpoints.not_written(error)}"
                    if self.checkpoints.paths():
                        advice = (
                            "Fit again with resume=True to go on from what is kept in "
                            f"{self.checkpoints.folder}."
                        )
                raise InterruptedFitError(reason, self._fits(reason, shift), advice) from stop
            finally:
                self.feed.close()

    def _to_the_end(self, show: Show | None, shift: float) -> str:
        """Train chunk after chunk, and return the reason for the end."""
        start = time.perf_counter() - self.log.elapsed
        while not (ended := self._reason_to_end()):  # a checkpoint can be that of a finished fit
            self.next_chunk(self._steps_in_chunk(), start)
            if show is not None and self.log.alive.any():
                show(self._progress(shift))
            if self.checkpoints is not None and self.checkpoints.due():
                self._save(self.checkpoints)
        if self.checkpoints is not None:
            with suppress(OSError):  # the model is returned all the same
                self._save(self.checkpoints)
        return ended

    # -- one chunk ------------------------------------------------------------------------------

    def next_chunk(self, count: int, start: float) -> None:
        """Advance by a chunk, if need be at the second attempt."""
        log, done, alive = self.log, self.log.done, self.log.alive
        failures, retried = [*log.failures], [[*steps] for steps in log.retried]
        after = self._chunk(self.state, done, count)
        good = finite(after, count)
        if not good[alive].all():
            again = with_more_jitter(self.state, ~good)
            after = chosen(good, after, self._chunk(again, done, count))
            for i in np.flatnonzero(~good & alive).tolist():
                retried[i].append(done)
            good = finite(after, count)
        bounds = np.asarray(after.bounds[:, :count], float)
        for i in np.flatnonzero(~good & alive).tolist():
            failures[i] = self._failure(bounds[i])
        good &= alive
        state = chosen(good, after, self.state)
        path = np.where(good[:, None], bounds, np.nan)
        now = self._agreed(time.perf_counter() - start)
        clock = np.linspace(log.elapsed, now, count, endpoint=False)
        moved = _Log([*log.bounds, path], [*log.clock, clock], failures, retried, done + count, now)
        # In one statement: an interrupt finds both as before the chunk or both as after it.
        self.log, self.state = moved, state

    def _chunk(self, state: State, begin: int, count: int) -> State:
        """Take `count` steps, for about a second at a time."""
        data, _ = self.feed.block(begin)
        end, steps = begin + count, jnp.asarray(self.settings.steps)
        at = begin
        while at < end:
            some = min(max(int(_SECONDS_AT_ONCE / self.pace), 1), end - at)
            start = time.perf_counter()
            first, last, many = (jnp.asarray(step) for step in (begin, end, some))
            state = advance(state, data, *self.rates, self.key, first, last, many, steps, self.plan)
            jax.block_until_ready(state.step)
            # Compilation counts too, so that the first steps are taken to be slow.
            self.pace = self._agreed(time.perf_counter() - start) / some
            at += some
        return state

    def _failure(self, bounds: np.ndarray) -> str:
        """Return why training failed at the bounds of a chunk, and what to do about it."""
        done, bad = self.log.done, np.flatnonzero(~np.isfinite(bounds))
        step = done + int(bad[0] if bad.size else len(bounds))
        return (
            f"The bound stopped being finite at step {step} of {self.settings.steps}, also with "
            f"ten times the jitter; the parameters of step {done} are kept. Try a smaller "
            "learning_rate, look for outliers in y and for columns of X in extreme units, and use "
            "dtype='float64'."
        )

    def _steps_in_chunk(self) -> int:
        settings, done = self.settings, self.log.done
        _, left_in_block = self.feed.block(done)
        count = min(settings.chunk, settings.steps - done, left_in_block or settings.chunk)
        if settings.max_seconds is None:
            return count
        if not done:
            return min(count, _FIRST_STEPS)
        left, pace = settings.max_seconds - self.log.elapsed, self.log.elapsed / done
        return int(max(min(left / pace, count), 1))

    def _agreed(self, seconds: float) -> float:
        """Return a time that is the same for every process, so that all decide the same."""
        return seconds if self.devices is None else self.devices.agreed(seconds)

    # -- the end --------------------------------------------------------------------------------

    def _reason_to_end(self) -> str:
        """Return why training ends, or nothing while it continues."""
        settings, log = self.settings, self.log
        if not log.alive.any():
            return "every restart failed"
        if abs(self._gain()) / self.feed.rows < settings.tol:
            return f"the bound settled to within {settings.tol:g} per row (step {log.done})"
        # A resumed fit whose time was spent before takes some steps all the same.
        budget = settings.max_seconds if self.pace < np.inf else None
        if budget is not None and log.elapsed >= budget:
            return f"the time budget of {budget:g} s was spent (step {log.done})"
        return f"all {settings.steps} steps done" if log.done >= settings.steps else ""

    def _gain(self) -> float:
        """Return the rise of the bound between the last chunks and the same number before them.

        With several restarts it is that of the one that changed most.
        """
        patience, alive = self.settings.patience, self.log.alive
        recent = [path[alive].mean(axis=1) for path in self.log.bounds[-2 * patience :]]
        if len(recent) < 2 * patience:
            return np.inf
        gains = np.mean(recent[patience:], axis=0) - np.mean(recent[:patience], axis=0)
        return float(gains[np.argmax(np.abs(gains))])

    def _progress(self, shift: float) -> Progress:
        log, settings = self.log, self.settings
        best = [float(h[log.alive].mean(axis=1).max()) + shift for h in log.bounds[-2:]]
        budget = np.inf if settings.max_seconds is None else settings.max_seconds
        rise = best[-1] - best[0]
        return Progress(log.done, settings.steps, best[-1], rise, log.elapsed, budget)

    def _fits(self, stopped: str, shift: float) -> list[Fit]:
        log = self.log
        trained = jax.tree.map(np.asarray, highest(self.state))
        none = np.zeros((len(log.alive), 0))
        bounds = np.concatenate([none, *log.bounds], axis=1) + shift
        times = np.concatenate([none[0], *log.clock])
        fits = []
        for i, failed in enumerate(log.failures):
            model = jax.tree.map(lambda leaf, i=i: np.asarray(leaf[i]), trained)
            good, ended = np.isfinite(bounds[i]), failed or stopped
            path = bounds[i][good], times[good]
            fits.append(Fit(model, *path, log.elapsed, ended, bool(failed), log.retried[i]))
        return fits

    # -- checkpoints ----------------------------------------------------------------------------

    def _save(self, checkpoints: Checkpoints) -> None:
        log = self.log
        if not log.alive.any():  # there is nothing to continue
            return
        record = {name: getattr(log, name) for name in _RECORDED}
        record |= {"fingerprint": self.mark, "chunks": [len(chunk) for chunk in log.clock]}
        history = np.concatenate(log.bounds, axis=1), np.concatenate(log.clock)
        checkpoints.save(log.done, (self.state, *history), record)

    def _restore(self, checkpoints: Checkpoints) -> None:
        checkpoint = checkpoints.restore((self.state, 0.0, 0.0), self.mark)
        if checkpoint is not None:
            (state, bounds, clock), record = checkpoint
            cuts = np.cumsum(record["chunks"])[:-1]
            history: tuple[Any, Any] = np.split(bounds, cuts, axis=1), np.split(clock, cuts)
            self.log = _Log(*history, **{name: record[name] for name in _RECORDED})
            self.state = jax.tree.map(jnp.asarray, state)
        if self._agreed(self.log.done) != -self._agreed(-self.log.done):
            raise ValueError(
                f"The processes see different checkpoints in {checkpoints.folder}: this one "
                f"resumes at step {self.log.done}. Keep them where all processes can read them."
            )
