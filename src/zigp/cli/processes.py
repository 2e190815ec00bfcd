"""Workers: processes that fit one model together, on one machine or on many."""

import atexit
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import jax

from zigp.cli.messages import ran_out
from zigp.runtime.interrupts import StopRequest

_PATIENCE = 20  # seconds until the others notice that a worker has died


@contextmanager
def joined(
    distributed: bool, coordinator: str | None, count: int | None, index: int | None
) -> Iterator[None]:
    """Join the other workers of a distributed job, if this is one.

    Under SLURM, MPI or Kubernetes JAX finds the other workers by itself.
    """
    if not distributed and coordinator is None and count is None and index is None:
        yield
        return
    # Its handler of SIGTERM would take the place of ours, and stop nothing.
    jax.config.update("jax_enable_preemption_service", False)
    try:
        jax.distributed.initialize(coordinator, count, index, heartbeat_timeout_seconds=_PATIENCE)
    except (RuntimeError, ValueError) as error:
        raise ValueError(
            f"The workers did not find each other: {str(error).splitlines()[0].rstrip('.')}. Start "
            "all of them, with the same --coordinator and --num-processes and with a --process-id "
            "from 0 on, or with --distributed alone under a launcher that JAX knows."
        ) from error
    try:
        yield
        jax.distributed.shutdown()  # waits for the others
    except BaseException as error:
        # At exit JAX would wait for the others, which wait for the share of this one. Without it
        # they stop at once, after the error here has been printed.
        name = "code" if isinstance(error, StopRequest) else "exit_code"
        atexit.register(_end, getattr(error, name, 1))
        alone = jax.process_count() == 1 or not isinstance(error, jax.errors.JaxRuntimeError)
        if alone or ran_out(error):
            raise
        raise ValueError(
            f"Process {jax.process_index()} lost another one: "
            f"{str(error).splitlines()[0][:200].rstrip('.')}. If no model was saved: Start all of "
            "them again, with --resume if there are checkpoints beside --out."
        ) from error


def _end(code: int) -> None:
    """Exit without telling the others, even if stdout or stderr are closed."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)
