"""Requests to stop, which end training with the current model."""


class StopRequest(BaseException):
    """A signal that asks the process to end, raised as an exception like that of Ctrl-C.

    Half-written files are removed as it propagates.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number  # the exit code of the process
