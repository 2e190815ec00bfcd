"""The outer loop of training: chunks of steps, until all are done or a reason to stop is found.

A chunk whose bound is not finite is repeated from its start with ten times the jitter. If that
fails too, training stops at the last good parameters.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
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
from zigp.training.feeds import Feed, Resident, Streamed
from zigp.training.minibatches import order_of_pass
from zigp.training.progress import Fit, InterruptedFitError, Progress
from zigp.training.settings import TrainingSettings, latents_with_natural_steps, learning_rates
from zigp.training.steps import Plan, State, advance, first_state
from zigp.training.watching import chosen, failure, finite, gain, highest, with_more_jitter

_SECONDS_AT_ONCE = 1.0  # that a compiled program runs before Ctrl-C is checked
_FIRST_STEPS = 5  # of a time budget, before the time of a step is known
_MINIBATCH_RATE = 0.1  # of natural-gradient steps

Show = Callable[[Progress], None]


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

    alive: np.ndarray
    failures: list[str]
    retried: list[list[int]]
    bounds: list[np.ndarray]  # [restarts, steps], by chunk
    clock: list[np.ndarray]
    done: int = 0
    elapsed: float = 0.0


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
        count = len(models)
        self.state = first_state(model, self.plan, settings.chunk, count, feed.places)
        self.log = _Log(np.ones(count, bool), [""] * count, [[] for _ in models], [], [])
        self.compiled = False
        self.pace: float | None = None  # seconds per step
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
                    advice = self.checkpoints.how_to_resume()
                raise InterruptedFitError(reason, self._fits(reason, shift), advice) from stop
            finally:
                if isinstance(self.feed, Streamed):
                    self.feed.close()

    def _to_the_end(self, show: Show | None, shift: float) -> str:
        """Train chunk after chunk, and return the reason for the end."""
        start = time.perf_counter() - self.log.elapsed
        ended = self._settled()  # a checkpoint can be that of a fit that has settled
        while not ended and self.log.done < self.settings.steps and self.log.alive.any():
            self.next_chunk(self._steps_in_chunk(), start)
            if show is not None and self.log.alive.any():
                show(self._progress(shift))
            if self.checkpoints is not None and self.checkpoints.due():
                self._save(self.checkpoints)
            ended = self._settled() or self._out_of_time()
        if self.checkpoints is not None:
            with suppress(OSError):  # the model is returned all the same
                self._save(self.checkpoints)
        return ended or f"all {self.settings.steps} steps done"

    # -- one chunk ------------------------------------------------------------------------------

    def next_chunk(self, count: int, start: float) -> None:
        """Advance by a chunk, if need be at the second attempt."""
        log, done = self.log, self.log.done
        failures, retried = [*log.failures], [[*steps] for steps in log.retried]
        after = self._chunk(self.state, done, count)
        good = finite(after, count)
        if not good[log.alive].all():
            again = with_more_jitter(self.state, ~good)
            after = chosen(good, after, self._chunk(again, done, count))
            for i in np.flatnonzero(~good & log.alive).tolist():
                retried[i].append(done)
            good = finite(after, count)
        for i in np.flatnonzero(~good & log.alive).tolist():
            failures[i] = failure(done, np.asarray(after.bounds[i, :count]), self.settings)
        alive = log.alive & good
        state = chosen(alive, after, self.state)
        path = np.where(alive[:, None], np.asarray(after.bounds[:, :count], float), np.nan)
        now = self._agreed(time.perf_counter() - start)
        clock = np.linspace(log.elapsed, now, count, endpoint=False)
        moved = _Log(
            alive, failures, retried, [*log.bounds, path], [*log.clock, clock], done + count, now
        )
        # In one statement: an interrupt finds both as before the chunk or both as after it.
        self.log, self.state = moved, state

    def _chunk(self, state: State, begin: int, count: int) -> State:
        """Take `count` steps, for about a second at a time."""
        data, _ = self.feed.block(begin)
        end, steps = begin + count, jnp.asarray(self.settings.steps)
        at = begin
        while at < end:
            some = 1 if self.pace is None else int(_SECONDS_AT_ONCE / self.pace)
            some = min(max(some, 1), end - at)
            start = time.perf_counter()
            first, last, many = (jnp.asarray(step) for step in (begin, end, some))
            state = advance(state, data, *self.rates, self.key, first, last, many, steps, self.plan)
            jax.block_until_ready(state.step)
            if self.compiled:
                self.pace = self._agreed(time.perf_counter() - start) / some
            self.compiled = True
            at += some
        return state

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

    def _settled(self) -> str | None:
        """Return why training ends, if the bound has stopped rising."""
        settings, log = self.settings, self.log
        if not log.alive.any():
            return None
        recent = log.bounds[-2 * settings.patience :]
        change = gain([path[log.alive] for path in recent], settings.patience)
        if abs(change) / self.feed.rows < settings.tol:
            return f"the bound settled to within {settings.tol:g} per row (step {log.done})"
        return None

    def _out_of_time(self) -> str | None:
        """Return why training ends, if its time is over."""
        budget, log = self.settings.max_seconds, self.log
        if budget is None or log.elapsed < budget or not log.alive.any():
            return None
        return f"the time budget of {budget:g} s was spent (step {log.done})"

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
        log, state = self.log, self.state
        if not log.alive.any():  # there is nothing to continue
            return
        record: dict[str, Any] = {
            "fingerprint": self.mark,
            "done": log.done,
            "elapsed": log.elapsed,
            "alive": log.alive.tolist(),
            "failures": log.failures,
            "retried": log.retried,
            "chunks": [chunk.shape[1] for chunk in log.bounds],
        }
        history = (np.concatenate(log.bounds, axis=1), np.concatenate(log.clock))
        kept = (state.model, state.adam, state.reached, state.summit)
        checkpoints.save(log.done, (*kept, *history), record)

    def _restore(self, checkpoints: Checkpoints) -> None:
        state = self.state
        like = (state.model, state.adam, state.reached, state.summit, 0.0, 0.0)
        if (checkpoint := checkpoints.restore(like, self.mark)) is not None:
            (*kept, bounds, clock), record = checkpoint
            cuts = np.cumsum(record["chunks"])[:-1]
            self.log = log = _Log(
                np.asarray(record["alive"], bool),
                record["failures"],
                record["retried"],
                np.split(bounds, cuts, axis=1),
                np.split(clock, cuts),
                int(record["done"]),
                float(record["elapsed"]),
            )
            order, size = state.order, self.feed.batch_size
            if order is not None and size is not None:
                number = jnp.asarray(log.done // (self.feed.places // size))
                order = order_of_pass(self.key, number, len(order)).astype(order.dtype)
            model, adam, reached, summit = jax.tree.map(jnp.asarray, kept)
            done = jnp.asarray(log.done)
            self.state = State(model, adam, done, state.bounds, reached, order, summit)
        if self._agreed(self.log.done) != -self._agreed(-self.log.done):
            raise ValueError(
                f"The processes see different checkpoints in {checkpoints.folder}: this one "
                f"resumes at step {self.log.done}. Keep them where all processes can read them."
            )
