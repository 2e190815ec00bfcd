"""How observations scatter around a signal, and what that adds to the bound.

A likelihood is given the signal and the latents' marginals, and takes what it needs: the
signal's mean and variance (Gaussian noise), or its factors, gate and latent apart.
"""

from zigp.models.likelihoods.base import Amounts, Likelihood, LogAmounts
from zigp.models.likelihoods.bernoulli import Bernoulli
from zigp.models.likelihoods.counts import ZeroInflatedNegativeBinomial, ZeroInflatedPoisson
from zigp.models.likelihoods.gated import Gated
from zigp.models.likelihoods.gaussian import NOISE_FLOOR, Gaussian
from zigp.models.likelihoods.hurdles import HurdleGamma, HurdleLognormal
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
