"""One page that says what the data are, what was fitted, and whether to believe it."""

from zigp.report.page import write_report
from zigp.report.roles import Roles
from zigp.report.trial import Trial

__all__ = ["Roles", "Trial", "write_report"]
