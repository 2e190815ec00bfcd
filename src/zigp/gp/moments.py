"""Means and variances of a function at its inputs."""

import equinox as eqx
from jax import Array


class Moments(eqx.Module):
    """Mean and variance at every input: leading axes of a family, then the shape of the inputs."""

    mean: Array
    var: Array
