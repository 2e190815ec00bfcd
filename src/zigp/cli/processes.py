"""Several processes that fit one model together, on one machine or on many."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn

from zigp.cli.errors import ADVICE, ran_out
from zigp.runtime.interrupts import StopRequest

__all__ = ["ALONE", "Process", "joined"]

# Until the others notice that a process has died without a word.
_PATIENCE = 20
_AGAIN = "Start all of them again, with --resume if there are checkpoints beside --out."


@dataclass(frozen=True)
class Process:
    """Which of how many processes this is."""

    number: int = 0
    of: int = 1

    @property
    def first(self) -> bool:
        return self.number == 0


ALONE = Process()


@contextmanager
def joined(
    distributed: bool, coordinator: str | None, count: int | None, index: int | None
) -> Iterator[Process]:
    """Be one of several processes while this lasts, if that is asked for.

    Under SLURM, MPI or Kubernetes JAX finds out by itself who the others are.
    """
    given = [value is not None for value in (coordinator, count, index)]
    if not distributed and not any(given):
        yield ALONE
        return
    if any(given) and not all(given):
        raise ValueError(
            "--coordinator, --num-processes and --process-id belong together: give all three, or "
            "--distributed alone under a launcher that JAX knows."
        )
    if count is not None and index is not None and index >= count:
        raise ValueError(f"--process-id counts from 0 to {count - 1}, not to {index}.")
    import jax

    # Its handler of SIGTERM would take the place of ours, and stop nothing.
    jax.config.update("jax_enable_preemption_service", False)
    try:
        jax.distributed.initialize(coordinator, count, index, heartbeat_timeout_seconds=_PATIENCE)
    except (RuntimeError, ValueError) as error:
        raise ValueError(
            f"The processes did not find each other: {str(error).splitlines()[0]}. Start all of "
            "them, with the same --coordinator and --num-processes."
        ) from error
    process = Process(jax.process_index(), jax.process_count())
    try:
        yield process
    except jax.errors.JaxRuntimeError as error:
        if process.of == 1:
            raise
        _leave(process, error, _AGAIN)
    except BaseException as error:
        # At its end JAX would wait for the others, and these for what this one was to add: with it
        # gone they are told at once, and what went wrong here is said before.
        code = error.code if isinstance(error, StopRequest) else getattr(error, "exit_code", 1)
        atexit.register(_end, code)
        raise
    try:
        jax.distributed.shutdown()  # waits for the others
    except jax.errors.JaxRuntimeError as error:
        _leave(process, error, f"If no model was saved: {_AGAIN}")


def _leave(process: Process, error: Exception, advice: str) -> NoReturn:
    """End without the others: with one lost, taking leave of them does not work either."""
    try:
        print(_why(process, error, advice), file=sys.stderr)
    finally:
        _end(1)


def _end(code: int) -> NoReturn:
    """End without a word to the others, even if nobody reads what was said."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _why(process: Process, error: Exception, advice: str) -> str:
    """What ended a process while others were waiting for it, and what to do."""
    if ran_out(error):
        return f"Process {process.number} gives up. {ADVICE}"
    said = str(error).splitlines()[0][:200].rstrip(".")
    return f"Process {process.number} lost another one: {said}. {advice}"
