"""Distributions of observations around a signal, and their part of the bound.

A likelihood takes the signal and the marginals of the latents, and uses the mean and variance of
the signal (Gaussian noise) or those of its factors, gate and latent.
"""

from zigp.models.likelihoods.base import Amounts, Likelihood, LogAmounts
from zigp.models.likelihoods.bernoulli import Bernoulli
from zigp.models.likelihoods.counts import ZeroInflatedNegativeBinomial, ZeroInflatedPoisson
from zigp.models.likelihoods.gated import Gated
from zigp.models.likelihoods.gaussian import NOISE_FLOOR, Gaussian
from zigp.models.likelihoods.hurdles import Hurdle, HurdleGamma, HurdleLognormal
from zigp.models.likelihoods.latent_noise import (
    LatentNoise,
    network_given,
    network_parts,
    site_posterior,
)

__all__ = [
    "NOISE_FLOOR",
    "Amounts",
    "Bernoulli",
    "Gated",
    "Gaussian",
    "Hurdle",
    "HurdleGamma",
    "HurdleLognormal",
    "LatentNoise",
    "Likelihood",
    "LogAmounts",
    "ZeroInflatedNegativeBinomial",
    "ZeroInflatedPoisson",
    "network_given",
    "network_parts",
    "site_posterior",
]
