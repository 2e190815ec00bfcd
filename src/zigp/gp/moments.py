"""Means and variances of a function at its inputs."""

from __future__ import annotations

import equinox as eqx
from jax import Array


class Moments(eqx.Module):
    """Mean and variance at every input: leading axes of a family, then the shape of the inputs."""

    mean: Array
    var: Array
