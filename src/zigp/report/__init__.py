"""Reports on a fitted model and its data, as one HTML page."""

from zigp.report.render import write_report
from zigp.report.roles import Roles
from zigp.report.trial import Trial

__all__ = ["Roles", "Trial", "write_report"]
