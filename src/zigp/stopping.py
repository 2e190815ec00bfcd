"""A request to stop, which ends training with what was learned so far."""

from __future__ import annotations

__all__ = ["StopRequest"]


class StopRequest(BaseException):
    """Somebody asks us to end; like Ctrl-C, but for whoever handles signals on their own."""
