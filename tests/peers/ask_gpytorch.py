"""Print GPyTorch's numbers for the cases on standard input, as JSON, in GPyTorch's environment."""

import json
import math
import sys

import gpytorch
import torch
from gpytorch import variational

KERNELS = {
    "SquaredExponential": lambda columns: gpytorch.kernels.RBFKernel(ard_num_dims=columns),
    "Matern12": lambda columns: gpytorch.kernels.MaternKernel(0.5, ard_num_dims=columns),
    "Matern32": lambda columns: gpytorch.kernels.MaternKernel(1.5, ard_num_dims=columns),
    "Matern52": lambda columns: gpytorch.kernels.MaternKernel(2.5, ard_num_dims=columns),
}


class SVGP(gpytorch.models.ApproximateGP):
    def __init__(self, case: dict):
        Z = torch.tensor(case["Z"])
        kind = (
            variational.VariationalStrategy
            if case["whitened"]
            else variational.UnwhitenedVariationalStrategy
        )
        super().__init__(kind(self, Z, posterior(case), jitter_val=case["jitter"]))
        # Otherwise the first call would set q to the prior.
        self.variational_strategy.variational_params_initialized.fill_(1)
        self.mean = gpytorch.means.ConstantMean()
        self.kernel = gpytorch.kernels.ScaleKernel(KERNELS[case["kernel"]](Z.shape[1]))
        self.mean.constant.fill_(case["prior_mean"])
        self.kernel.outputscale = case["variance"]
        self.kernel.base_kernel.lengthscale = torch.tensor(case["lengthscale"])

    def forward(self, x: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


def posterior(case: dict):
    mean, root = torch.tensor(case["q_mean"]), torch.tensor(case["q_root"])
    if case["diagonal"]:
        q = variational.MeanFieldVariationalDistribution(len(mean))
        q._variational_stddev.copy_(root)
    else:
        q = variational.CholeskyVariationalDistribution(len(mean))
        q.chol_variational_covar.copy_(root)
    # The unwhitened strategy means u itself, prior mean included.
    q.variational_mean.copy_(mean if case["whitened"] else mean + case["prior_mean"])
    return q


class Probit(gpytorch.likelihoods.BernoulliLikelihood):
    """The probit likelihood with torch's log Φ: GPyTorch's is off by up to 2e-3 from −5 to −1."""

    def expected_log_prob(
        self, observations: torch.Tensor, function_dist: gpytorch.distributions.MultivariateNormal
    ) -> torch.Tensor:
        sign = 2.0 * observations - 1.0
        return self.quadrature(lambda g: torch.special.log_ndtr(sign * g), function_dist)


def likelihood_of(case: dict) -> gpytorch.likelihoods.Likelihood:
    if "noise" in case:
        likelihood = gpytorch.likelihoods.GaussianLikelihood()
        likelihood.noise = case["noise"]
    elif "nodes" in case:
        likelihood = Probit()
        likelihood.quadrature.locations = torch.tensor(case["nodes"]) / math.sqrt(2.0)
        likelihood.quadrature.weights = torch.tensor(case["weights"]) * math.sqrt(math.pi)
    else:
        likelihood = gpytorch.likelihoods.BernoulliLikelihood()
    return likelihood


def bound(model: SVGP, likelihood: gpytorch.likelihoods.Likelihood, case: dict) -> torch.Tensor:
    rows = case["rows_in_all"]
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=rows)
    return rows * objective(model(torch.tensor(case["X"])), torch.tensor(case["y"]))


def numbers(case: dict) -> dict[str, list[float]]:
    model, likelihood = SVGP(case), likelihood_of(case)
    # Both while training: else the unwhitened prior of u would have a jitter of 1e-3.
    found = {"bound": bound(model, likelihood, case)}
    found["KL"] = model.variational_strategy.kl_divergence()
    if "nodes" in case:
        found["bound by its own rule"] = bound(model, Probit(), case)
    model.eval()
    f = model(torch.tensor(case["X"]))
    of_y = likelihood(f)
    found |= {"mean": f.mean, "variance": f.variance}
    found |= {"mean of y": of_y.mean, "variance of y": of_y.variance}
    return {name: values.reshape(-1).tolist() for name, values in found.items()}


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    with torch.no_grad():
        print(json.dumps([numbers(case) for case in json.load(sys.stdin)]))
