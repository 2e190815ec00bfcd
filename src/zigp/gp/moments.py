"""The mean and variance of a function at every input."""

from __future__ import annotations

import equinox as eqx
from jax import Array

__all__ = ["Moments"]


class Moments(eqx.Module):
    """Mean and variance at every input: leading axes of the latent, then the inputs' shape."""

    mean: Array
    var: Array
