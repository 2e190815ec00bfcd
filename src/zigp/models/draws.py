"""Draws of a model's inducing variables and hyperparameters, and the density they are drawn from.

Hensman et al. (2015), "MCMC for variationally sparse Gaussian processes": of the whitened inducing
variables w and hyperparameters θ,

    log p(w, θ | y) = E[log p(y | f)] + log N(w; 0, I) + log p(θ) + constant

where the expectation is over the latents at the data given w. That is the bound of a q without
spread, at w, plus the priors on hyperparameters. All are on a scale without limits: logarithms of
length-scales, variances and noise. Inducing inputs are not drawn.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.tree_util import keystr, tree_flatten_with_path

from zigp.gp.batch import Batch
from zigp.gp.covariances import Zero
from zigp.gp.projection import Projection
from zigp.models.model import Model
from zigp.models.objective import log_prior

Values = Mapping[str, Any]  # arrays of what is drawn, by its place in the model


class Prior(NamedTuple):
    """A normal prior on a parameter as the model holds it, mostly a logarithm."""

    mean: float | None  # None: where the variational fit left it
    sd: float


# By the name of the field. Length-scales are in standard deviations of the inputs, outputs are
# scaled to about 1: the prior is as wide in any units of the data.
PRIORS = {
    "log_lengthscale": Prior(np.log(0.5), 1.5),
    "log_scale": Prior(None, 1.5),  # of a linear kernel, in the units of its columns
    "logit_similarity": Prior(0.0, 1.5),
    "log_variance": Prior(0.0, 1.0),
    "prior_mean": Prior(0.0, 2.0),
    "excess": Prior(np.log(0.1), 2.0),
    "off_excess": Prior(np.log(0.01), 2.0),
    "on_excess": Prior(np.log(0.1), 2.0),
    "log_shape": Prior(np.log(1.5), 1.0),
    "log_dispersion": Prior(np.log(2.0), 1.5),
    "log_latent": Prior(np.log(0.3), 1.5),
}
_GATE_VARIANCE = Prior(np.log(4.0), 1.0)
_GATES = ("g", "k")


def places(model: Model) -> dict[str, Array]:
    """Return the inducing variables and all hyperparameters that have a prior, by their places."""
    leaves = {_name(path): leaf for path, leaf in tree_flatten_with_path(model)[0]}
    fields = {*PRIORS, "q_mean"}
    return {place: leaf for place, leaf in leaves.items() if _field(place) in fields}


def prior_of(place: str) -> Prior:
    """Return the prior of a hyperparameter."""
    kind, name, *inner = place.split(".")
    gate = kind == "latents" and name in _GATES and inner == ["log_variance"]
    return _GATE_VARIANCE if gate else PRIORS[_field(place)]


def with_values(model: Model, values: Values) -> Model:
    """Return the model with parameters of these values at their places."""
    leaves, structure = tree_flatten_with_path(model)
    moved = [values.get(_name(path), leaf) for path, leaf in leaves]
    return jax.tree.unflatten(structure, moved)


def drawn(model: Model, values: Values) -> Model:
    """Return the model at one draw, with q without spread."""
    moved = with_values(model, values)
    latents = {name: dataclasses.replace(gp, q_cov=Zero()) for name, gp in moved.latents.items()}
    return dataclasses.replace(moved, latents=latents, couplings={})


@eqx.filter_jit
def from_q(model: Model, key: Array, n: int) -> dict[str, Array]:
    """Return draws of the inducing variables from q."""

    def one(key: Array) -> dict[str, Array]:
        values: dict[str, Array] = {}
        for joint in model.joints():
            for name, gp in joint.latents.items():
                key, own = jax.random.split(key)
                values[name] = jax.random.normal(
                    own, jnp.shape(gp.q_mean), jnp.result_type(gp.q_mean)
                )
            values |= joint.at_noise(values)
        return {f"latents.{name}.q_mean": value for name, value in values.items()}

    return jax.vmap(one)(jax.random.split(key, n))


def some(draws: Values, key: Array, n: int) -> dict[str, Array]:
    """Return n of the draws in random order, each as often as every other."""
    count = len(next(iter(draws.values())))
    chosen = jax.random.permutation(key, count)[np.arange(n) % count]
    return {name: jnp.asarray(values)[chosen] for name, values in draws.items()}


def log_density(
    model: Model, values: Values, batch: Batch, projections: dict[str, Projection] | None = None
) -> Array:
    """Return log p(w, θ, y) up to a constant; `projections` are those of the batch at θ."""
    here = drawn(model, values)
    seen = here.project(batch.at) if projections is None else projections
    marginals = here.predictors(here.through(seen), batch.at)
    fit = here.likelihood.expected(here.signal, marginals, batch) - here.kl()
    return fit + log_prior(here) + _log_priors(model, values)


def _log_priors(model: Model, values: Values) -> Array:
    """Return the log density of the normal priors, and of the change to logarithms of others.

    Length-scales with a Gamma prior of the model's own have no other: log ℓ has the density of ℓ
    times ℓ.
    """
    own = {name for name, *_ in model.priors}
    fitted = places(model)
    total = jnp.zeros(())
    for place, value in values.items():
        kind, name, *_ = place.split(".")
        if _field(place) == "q_mean":
            continue
        if kind == "latents" and name in own and _field(place) == "log_lengthscale":
            total = total + jnp.sum(value)
            continue
        prior = prior_of(place)
        mean = fitted[place] if prior.mean is None else prior.mean
        total = total - 0.5 * jnp.sum(((value - mean) / prior.sd) ** 2)
    return total


def _name(path: Any) -> str:
    return keystr(path, simple=True, separator=".")


def _field(place: str) -> str:
    """Return the name of the field at a place."""
    return place.rpartition(".")[2]
