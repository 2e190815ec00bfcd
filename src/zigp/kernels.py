"""Covariance functions, combined with `+`, `*` and `.on(columns)`."""

from zigp.gp.kernels import *  # noqa: F403
from zigp.gp.kernels import __all__ as __all__
