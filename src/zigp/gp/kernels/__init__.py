"""Covariance functions, combined with `+`, `*` and `.on(columns)`.

Most kernels are correlations: the prior variance of a function belongs to its latent
(`zigp.gp.latent.LatentGP.variance`). Parameters that are not given are taken from the data when a
model is fitted. Lengths are in the units of the input columns. With `metric="chordal"` the two
columns are latitude and longitude in degrees, and lengths are in km.

Combine kernels with `+` and `*`, weight them with a number (`0.5 * Periodic(24)`), and restrict
them to some columns with `.on(0, 1)`. A product over groups of columns is
`Matern32().on(0, 1) * Matern12().on(2)`.
"""

from zigp.gp.kernels.composed import Kernel, OnColumns, Product, Scaled, Sum
from zigp.gp.kernels.special import Categorical, Linear, Periodic
from zigp.gp.kernels.stationary import (
    Matern12,
    Matern32,
    Matern52,
    SquaredExponential,
    Stationary,
)

__all__ = [
    "Categorical",
    "Kernel",
    "Linear",
    "Matern12",
    "Matern32",
    "Matern52",
    "OnColumns",
    "Periodic",
    "Product",
    "Scaled",
    "SquaredExponential",
    "Stationary",
    "Sum",
]
