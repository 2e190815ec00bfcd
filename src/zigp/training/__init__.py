"""The trainer: steps up the bound, in compiled chunks, for every model alike.

Nothing of a model's structure is known here but its parameters' paths.
"""

from zigp.training.checkpoints import (
    Checkpoints,
    discard,
    in_place_of,
    kept_until_done,
    when_done,
)
from zigp.training.feeds import Feed, Resident, Streamed, digest_of
from zigp.training.locks import remove_empty
from zigp.training.loop import train, train_restarts
from zigp.training.progress import Fit, InterruptedFitError, Progress
from zigp.training.settings import (
    GROUPS,
    Method,
    Schedule,
    Settings,
    check_whole,
    parameters,
)

__all__ = [
    "GROUPS",
    "Checkpoints",
    "Feed",
    "Fit",
    "InterruptedFitError",
    "Method",
    "Progress",
    "Resident",
    "Schedule",
    "Settings",
    "Streamed",
    "check_whole",
    "digest_of",
    "discard",
    "in_place_of",
    "kept_until_done",
    "parameters",
    "remove_empty",
    "train",
    "train_restarts",
    "when_done",
]
