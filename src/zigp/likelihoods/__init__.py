"""How observations scatter around a signal, and what that adds to the bound.

A likelihood is given the signal and the latents' marginals, and takes what it needs: the
signal's mean and variance (Gaussian noise), or its factors, gate and latent apart.
"""

from zigp.likelihoods.base import Amounts, Likelihood, LogAmounts
from zigp.likelihoods.bernoulli import Bernoulli
from zigp.likelihoods.counts import ZeroInflatedNegativeBinomial, ZeroInflatedPoisson
from zigp.likelihoods.gated import Gated
from zigp.likelihoods.gaussian import NOISE_FLOOR, Gaussian
from zigp.likelihoods.hurdles import HurdleGamma, HurdleLognormal
from zigp.likelihoods.latent_noise import (
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
