"""Workers: processes that fit one model together, on one machine or on many."""

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

_PATIENCE = 20  # seconds until the others notice that a worker has died
_AGAIN = "Start all of them again, with --resume if there are checkpoints beside --out."


@dataclass(frozen=True)
class Process:
    """One of several workers."""

    number: int = 0
    of: int = 1

    @property
    def first(self) -> bool:
        return self.number == 0


@contextmanager
def joined(
    distributed: bool, coordinator: str | None, count: int | None, index: int | None
) -> Iterator[Process]:
    """Join the other workers of a distributed job, if this is one.

    Under SLURM, MPI or Kubernetes JAX finds the other workers by itself.
    """
    given = [value is not None for value in (coordinator, count, index)]
    if not distributed and not any(given):
        yield Process()
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
            f"The workers did not find each other: {str(error).splitlines()[0]}. Start all of "
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
        # At exit JAX would wait for the others, which wait for the share of this one. Without it
        # they stop at once, after the error here has been printed.
        code = error.code if isinstance(error, StopRequest) else getattr(error, "exit_code", 1)
        atexit.register(_end, code)
        raise
    try:
        jax.distributed.shutdown()  # waits for the others
    except jax.errors.JaxRuntimeError as error:
        _leave(process, error, f"If no model was saved: {_AGAIN}")


def _leave(process: Process, error: Exception, advice: str) -> NoReturn:
    """Exit without waiting for the others: with one lost, JAX cannot disconnect from them."""
    try:
        print(_why(process, error, advice), file=sys.stderr)
    finally:
        _end(1)


def _end(code: int) -> NoReturn:
    """Exit without telling the others, even if stdout or stderr are closed."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _why(process: Process, error: Exception, advice: str) -> str:
    """Return the reason why a worker stopped while others were waiting for it, and a remedy."""
    if ran_out(error):
        return f"Process {process.number} gives up. {ADVICE}"
    said = str(error).splitlines()[0][:200].rstrip(".")
    return f"Process {process.number} lost another one: {said}. {advice}"
