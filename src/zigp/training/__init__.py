"""The trainer: steps up the bound, in compiled chunks, for every model.

It depends on the structure of a model only through the paths of its parameters.
"""

from zigp.training.checkpoints import Checkpoints, hold_checkpoints
from zigp.training.feeds import Feed, Resident, Streamed, digest_of
from zigp.training.loop import train, train_restarts
from zigp.training.progress import Fit, InterruptedFitError, Progress
from zigp.training.settings import (
    GROUPS,
    Method,
    Schedule,
    TrainingSettings,
    check_whole,
    parameter_names,
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
    "Streamed",
    "TrainingSettings",
    "check_whole",
    "digest_of",
    "hold_checkpoints",
    "parameter_names",
    "train",
    "train_restarts",
]
