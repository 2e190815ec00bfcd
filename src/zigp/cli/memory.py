"""Whether it was memory that ran out: Python's own error says so, or one of XLA's."""

from __future__ import annotations

__all__ = ["ADVICE", "ran_out"]

ADVICE = "Out of memory. Give fewer rows, --inducing less, or a --batch-size."


def ran_out(error: BaseException) -> bool:
    """Whether an error is of too little memory, here or on a device.

    XLA has no class for it: it is a RuntimeError like any other of its own, told by its status.

    >>> ran_out(RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes."))
    True
    """
    xla = isinstance(error, RuntimeError) and "RESOURCE_EXHAUSTED" in str(error)
    return xla or isinstance(error, MemoryError)
