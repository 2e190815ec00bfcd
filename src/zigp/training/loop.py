"""The outer loop of training: chunk after chunk, until it is done, settled, out of time or stopped.

A chunk of steps that ends at a bound which is not finite is run again from its start with ten
times the jitter; if that fails too, training stops at the last good parameters.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from zigp.gp.batch import Batch
from zigp.models.model import Model
from zigp.runtime.interrupts import StopRequest
from zigp.training.checkpoints import Checkpoints, fingerprint
from zigp.training.devices import Devices
from zigp.training.feeds import Feed, Resident
from zigp.training.minibatches import order_of_pass
from zigp.training.progress import Fit, InterruptedFitError, Progress
from zigp.training.settings import Settings, natural_of, rates_of
from zigp.training.steps import Plan, State, advance, first_state
from zigp.training.watching import chosen, failure, finite, gain, highest, with_more_jitter

__all__ = ["train", "train_restarts"]

# A program runs for about this long before it looks up whether somebody wants to stop it.
_SECONDS_AT_ONCE = 1.0
_FIRST_STEPS = 5  # of a time budget, until it is known how long a step takes
_MINIBATCH_RATE = 0.1

Show = Callable[[Progress], None]


def train(
    model: Model,
    data: Batch | Feed,
    settings: Settings,
    progress: Show | None = None,
    *,
    shift: float = 0.0,
    devices: Devices | None = None,
    checkpoints: Checkpoints | None = None,
) -> Fit:
    """Maximise the objective; `shift` is added to every bound that is reported."""
    training = _Training(model, data, settings, None, devices, checkpoints)
    return training.run(progress, shift)[0]


def train_restarts(
    models: Sequence[Model],
    data: Batch | Feed,
    settings: Settings,
    progress: Show | None = None,
    *,
    shift: float = 0.0,
    devices: Devices | None = None,
    checkpoints: Checkpoints | None = None,
) -> list[Fit]:
    """Train models of one structure together, in one compiled program.

    A restart whose bound stops being finite is frozen at its last good parameters and marked as
    failed; the others go on.
    """
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *models)
    training = _Training(stacked, data, settings, len(models), devices, checkpoints)
    return training.run(progress, shift)


@dataclass(frozen=True)
class _Log:
    """What happened so far, of every restart."""

    alive: np.ndarray
    failures: list[str]
    retried: list[list[int]]
    bounds: list[np.ndarray]  # [restarts, steps], by chunk
    clock: list[np.ndarray]
    done: int = 0
    elapsed: float = 0.0


class _Training:
    """One fit, or several restarts of it."""

    def __init__(
        self,
        model: Model,
        data: Batch | Feed,
        settings: Settings,
        restarts: int | None,
        devices: Devices | None,
        checkpoints: Checkpoints | None,
    ):
        self.settings, self.restarts, self.devices = settings, restarts, devices
        self.checkpoints = checkpoints
        feed = Resident(data, settings.batch_size, devices) if isinstance(data, Batch) else data
        self.feed: Feed = feed
        model = jax.tree.map(jnp.asarray, model)
        natural = natural_of(model, settings)
        self.plan = Plan(
            settings.schedule, feed.batch_size, feed.along, restarts is not None, natural, devices
        )
        rate = 1.0 if feed.batch_size is None else _MINIBATCH_RATE
        self.rates = (rates_of(model, settings), jnp.asarray(rate))
        self.key = jax.random.key(settings.seed)
        count = restarts or 1
        self.state = first_state(model, self.plan, settings.chunk, count, feed.places)
        self.log = _Log(np.ones(count, bool), [""] * count, [[] for _ in range(count)], [], [])
        self.compiled = False
        self.pace: float | None = None  # seconds a step takes
        if checkpoints is not None:
            # When to end can be said anew.
            same = replace(settings, max_seconds=None, tol=0.0, patience=1)
            self.mark = fingerprint(self.state, same.described(), feed.digest())
            self._restore(checkpoints)
            self._refuse_different_starts(checkpoints)
        if devices is not None:
            self._spread(devices)

    # -- one chunk ------------------------------------------------------------------------------

    def _chunk(self, state: State, begin: int, count: int) -> State:
        """`count` steps, a second's worth at a time."""
        data, _ = self.feed.block(begin)
        ahead, steps = begin + count, jnp.asarray(self.settings.steps)
        at = begin
        while at < ahead:
            some = 1 if self.pace is None else int(_SECONDS_AT_ONCE / self.pace)
            some = min(max(some, 1), ahead - at)
            start = time.perf_counter()
            first, last, many = (jnp.asarray(step) for step in (begin, ahead, some))
            state = advance(state, data, *self.rates, self.key, first, last, many, steps, self.plan)
            jax.block_until_ready(state.step)
            if self.compiled:
                self.pace = self._agreed(time.perf_counter() - start) / some
            self.compiled = True
            at += some
        return state

    def _next_chunk(self, count: int, start: float) -> None:
        """Move on by a chunk, or by another try at it."""
        log, done = self.log, self.log.done
        failures, retried = [*log.failures], [[*steps] for steps in log.retried]
        after = self._chunk(self.state, done, count)
        good = finite(after, count)
        if not good[log.alive].all():
            again = with_more_jitter(self.state, ~good, self.restarts)
            after = chosen(good, after, self._chunk(again, done, count), self.restarts)
            for i in np.flatnonzero(~good & log.alive).tolist():
                retried[i].append(done)
            good = finite(after, count)
        for i in np.flatnonzero(~good & log.alive).tolist():
            bounds = np.asarray(after.bounds[i, :count])
            failures[i] = failure(done, bounds, self.settings)
        alive = log.alive & good
        state = chosen(alive, after, self.state, self.restarts)
        path = np.where(alive[:, None], np.asarray(after.bounds[:, :count], float), np.nan)
        now = self._agreed(time.perf_counter() - start)
        clock = np.linspace(log.elapsed, now, count, endpoint=False)
        moved = _Log(
            alive, failures, retried, [*log.bounds, path], [*log.clock, clock], done + count, now
        )
        # At once: who interrupts finds both as they were before the chunk, or as they are after it.
        self.log, self.state = moved, state

    # -- all of them ----------------------------------------------------------------------------

    def run(self, progress: Show | None, shift: float) -> list[Fit]:
        """Train to the end."""
        with nullcontext() if self.checkpoints is None else self.checkpoints.alone():
            try:
                return self._fits(self._to_the_end(progress, shift), shift)
            except (KeyboardInterrupt, StopRequest) as stop:
                how, said = "", f"interrupted at step {self.log.done} of {self.settings.steps}"
                if self.checkpoints is not None and self.log.done:
                    try:
                        self._save(self.checkpoints)
                    except OSError as error:  # what was learned is handed over all the same
                        said += f"; {self.checkpoints.not_written(error)}"
                    how = self.checkpoints.how_to_go_on()
                raise InterruptedFitError(said, self._fits(said, shift), how) from stop
            finally:
                if hasattr(self.feed, "close"):
                    self.feed.close()

    def _to_the_end(self, progress: Show | None, shift: float) -> str:
        """Chunk after chunk; why no more of them followed."""
        start = time.perf_counter() - self.log.elapsed
        ended = self._settled()  # by a checkpoint that was written when it had
        while not ended and self.log.done < self.settings.steps and self.log.alive.any():
            self._next_chunk(self._how_many(), start)
            if progress is not None and self.log.alive.any():
                progress(self._progress(shift))
            if self.checkpoints is not None and self.checkpoints.due(self.log.done):
                self._save(self.checkpoints)
            ended = self._settled() or self._out_of_time()
        if self.checkpoints is not None:
            with suppress(OSError):  # what was learned is handed over all the same
                self._save(self.checkpoints)
        return ended or f"all {self.settings.steps} steps done"

    def _how_many(self) -> int:
        """The number of steps in the next chunk."""
        settings, done = self.settings, self.log.done
        _, left_in_block = self.feed.block(done)
        count = min(settings.chunk, settings.steps - done, left_in_block or settings.chunk)
        if settings.max_seconds is None:
            return count
        # The first steps are few, and show how many more there is time for.
        left, pace = settings.max_seconds - self.log.elapsed, self.log.elapsed / max(done, 1)
        return min(count, int(max(min(left / pace, count), 1)) if done else _FIRST_STEPS)

    def _settled(self) -> str | None:
        """Why training ends here, if the bound has stopped rising."""
        settings, log = self.settings, self.log
        if not log.alive.any():
            return None
        recent = log.bounds[-2 * settings.patience :]
        change = gain([path[log.alive] for path in recent], settings.patience)
        if abs(change) / self.feed.rows < settings.tol:
            return f"the bound settled to within {settings.tol:g} per row (step {log.done})"
        return None

    def _out_of_time(self) -> str | None:
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
        trained = jax.tree.map(np.asarray, highest(self.state, self.restarts))
        none = np.zeros((len(log.alive), 0))
        bounds = np.concatenate([none, *log.bounds], axis=1) + shift
        times = np.concatenate([none[0], *log.clock])
        fits = []
        for i, failed in enumerate(log.failures):
            one = trained
            if self.restarts is not None:
                one = jax.tree.map(lambda leaf, i=i: leaf[i], trained)
            good = np.isfinite(bounds[i])
            kept, when = bounds[i][good], times[good]
            seconds, ended = log.elapsed, failed or stopped
            fits.append(Fit(one, kept, when, seconds, ended, bool(failed), log.retried[i]))
        return fits

    # -- checkpoints and devices ----------------------------------------------------------------

    def _save(self, checkpoints: Checkpoints) -> None:
        log, state = self.log, self.state
        if not log.alive.any():  # nobody wants to go on from there
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
        if (found := checkpoints.restore(like, self.mark)) is None:
            return
        (*held, bounds, clock), record = found
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
            number = log.done // (self.feed.places // size)
            order = order_of_pass(self.key, jnp.asarray(number), len(order)).astype(order.dtype)
        model, adam, reached, summit = jax.tree.map(jnp.asarray, held)
        done = jnp.asarray(log.done)
        self.state = State(model, adam, done, state.bounds, reached, order, summit)

    def _refuse_different_starts(self, checkpoints: Checkpoints) -> None:
        if self._agreed(self.log.done) != -self._agreed(-self.log.done):
            raise ValueError(
                f"The processes see different checkpoints in {checkpoints.folder}: this one goes "
                f"on from step {self.log.done}. Keep them where all processes can read them."
            )

    def _agreed(self, seconds: float) -> float:
        """A time by which every process decides the same; their own clocks differ."""
        return seconds if self.devices is None else self.devices.agreed(seconds)

    def _spread(self, devices: Devices) -> None:
        """Put the state where the devices are."""
        state = self.state
        if devices.split == "data" and state.order is not None:
            state = eqx.tree_at(lambda s: s.order, state, jnp.tile(state.order, devices.here))
        self.state = devices.put(state, devices.state_specs(state))
