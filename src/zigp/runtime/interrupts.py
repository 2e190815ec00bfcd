"""Requests to stop, which end training with the current model."""


class StopRequest(SystemExit):
    """A signal that asks the process to end, raised as the exit that it leads to.

    Its code is 128 plus the number of the signal. Half-written files are removed as it propagates.
    """
