"""A request to stop, which ends training with what was learned so far."""

from __future__ import annotations

__all__ = ["StopRequest"]


class StopRequest(BaseException):
    """A signal asks us to end; like Ctrl-C, but for whoever handles signals on their own.

    What is on its way to a file is cleared away as it passes.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    @property
    def code(self) -> int:
        """With which a process ends that was asked to."""
        return 128 + self.number
