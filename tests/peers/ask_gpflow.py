"""Print GPflow's numbers for the cases on standard input, as JSON, in GPflow's environment."""

import json
import os
import sys

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_USE_LEGACY_KERAS": "1"}

import gpflow
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

STANDARD_NORMAL = tfp.distributions.Normal(np.float64(0.0), np.float64(1.0))
SQUASHED = 1e-3  # GPflow keeps probabilities this far from 0 and 1


def exact_probit(g: tf.Tensor) -> tf.Tensor:
    return 0.5 * tf.math.erfc(-g / np.sqrt(2.0))


class Probit(gpflow.likelihoods.Bernoulli):
    """The probit likelihood with log Φ itself: GPflow's log(1 − Φ(g)) is −∞ from g = 8.3 on."""

    def _scalar_log_prob(self, X: tf.Tensor, F: tf.Tensor, Y: tf.Tensor) -> tf.Tensor:
        return STANDARD_NORMAL.log_cdf((2.0 * Y - 1.0) * F)


class Nodes(gpflow.quadrature.GaussianQuadrature):
    """A rule with given nodes and weights."""

    def __init__(self, nodes: list[float], weights: list[float]):
        self.nodes = np.reshape(nodes, (-1, 1, 1))
        self.weights = np.reshape(weights, (-1, 1, 1))

    def _build_X_W(self, mean: tf.Tensor, var: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return mean + tf.sqrt(var) * self.nodes, tf.constant(self.weights)


def svgp(case: dict, likelihood: gpflow.likelihoods.Likelihood) -> gpflow.models.SVGP:
    kernel = getattr(gpflow.kernels, case["kernel"])
    root = np.array(case["q_root"])
    # zigp's jitter is a part of the kernel's variance, GPflow's is a number.
    gpflow.config.set_default_jitter(case["jitter"] * case["variance"])
    return gpflow.models.SVGP(
        kernel(variance=case["variance"], lengthscales=case["lengthscale"]),
        likelihood,
        np.array(case["Z"]),
        mean_function=gpflow.functions.Constant([case["prior_mean"]]),
        q_diag=case["diagonal"],
        q_mu=np.array(case["q_mean"])[:, None],  # of u less the prior mean
        q_sqrt=root[:, None] if case["diagonal"] else root[None],
        whiten=case["whitened"],
        num_data=case["rows_in_all"],
    )


def regression(case: dict, X: np.ndarray, y: np.ndarray) -> dict[str, tf.Tensor]:
    model = svgp(case, gpflow.likelihoods.Gaussian(variance=case["noise"]))
    mean, variance = model.predict_y(X)
    return latent(model, X, y) | {"mean of y": mean, "variance of y": variance}


def classification(case: dict, X: np.ndarray, y: np.ndarray) -> dict[str, tf.Tensor]:
    bernoulli = gpflow.likelihoods.Bernoulli
    squashed, _ = svgp(case, bernoulli()).predict_y(X)
    probability = (squashed - SQUASHED) / (1.0 - 2.0 * SQUASHED)
    if "nodes" not in case:
        return latent(svgp(case, bernoulli(exact_probit)), X, y) | {"mean of y": probability}
    rule = Nodes(case["nodes"], case["weights"])
    own = svgp(case, Probit()).elbo((X, y))
    found = latent(svgp(case, Probit(quadrature=rule)), X, y)
    return found | {"bound by its own rule": own, "mean of y": probability}


def latent(model: gpflow.models.SVGP, X: np.ndarray, y: np.ndarray) -> dict[str, tf.Tensor]:
    mean, variance = model.predict_f(X)
    bound, kl = model.elbo((X, y)), model.prior_kl()
    return {"bound": bound, "KL": kl, "mean": mean, "variance": variance}


def numbers(case: dict) -> dict[str, list[float]]:
    X, y = np.array(case["X"]), np.array(case["y"])[:, None]
    found = (regression if "noise" in case else classification)(case, X, y)
    return {name: np.ravel(values.numpy()).tolist() for name, values in found.items()}


if __name__ == "__main__":
    print(json.dumps([numbers(case) for case in json.load(sys.stdin)]))
