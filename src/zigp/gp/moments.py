"""Means, variances and covariances of functions at their inputs."""

import equinox as eqx
from jax import Array


class Moments(eqx.Module):
    """Mean and variance at every input: leading axes of a family, then the shape of the inputs.

    `cov` holds the covariances at every input with other latents, by their names. Latents without
    an entry are independent; each pair has one entry, in the moments of either latent.
    """

    mean: Array
    var: Array
    cov: dict[str, Array] = eqx.field(default_factory=dict)
