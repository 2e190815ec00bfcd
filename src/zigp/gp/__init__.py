"""Gaussian processes seen through inducing variables."""
