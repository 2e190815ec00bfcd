"""The probit link under a Gaussian: moments of Φ(g) and of log Φ(g)."""

from zigp.math.special import *  # noqa: F403
from zigp.math.special import __all__ as __all__
