"""Training steps of a sparse GP on scattered rows, in GPyTorch: `scattered_gpytorch.py dense`.

Runs in the peer's environment; prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time

import gpytorch
import torch
from problem import BATCH, COLUMNS, INDUCING, ROWS, WARM_UP, batches, rows

Q = {
    "diagonal": gpytorch.variational.MeanFieldVariationalDistribution,
    "dense": gpytorch.variational.CholeskyVariationalDistribution,
}


class SVGP(gpytorch.models.ApproximateGP):
    def __init__(self, Z: torch.Tensor, covariance: str):
        q = Q[covariance](len(Z))
        whitened = gpytorch.variational.VariationalStrategy(self, Z, q)  # Z is learned
        super().__init__(whitened)
        self.mean = gpytorch.means.ConstantMean()
        self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=COLUMNS))

    def forward(self, x: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


def main(covariance: str) -> None:
    torch.set_default_dtype(torch.float64)
    X, y, Z = map(torch.as_tensor, rows())
    model, likelihood = SVGP(Z, covariance), gpytorch.likelihoods.GaussianLikelihood()
    model.initialize(**{"kernel.base_kernel.lengthscale": 1.0, "kernel.outputscale": 1.0})
    likelihood.noise = 0.1
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=ROWS)
    optimiser = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.01)
    seconds, bounds = [], []
    for order in map(torch.as_tensor, batches()):
        start = time.perf_counter()
        optimiser.zero_grad()
        loss = -objective(model(X[order]), y[order])
        loss.backward()
        optimiser.step()
        bounds.append(-loss.item())
        seconds.append(time.perf_counter() - start)
    found = {
        "seconds": seconds[WARM_UP:],
        "compile_seconds": 0.0,
        "rows": BATCH,
        "inducing": INDUCING,
        "bound": [bounds[0], bounds[-1]],
        "versions": {"gpytorch": gpytorch.__version__, "torch": torch.__version__},
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
