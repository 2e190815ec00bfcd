"""One mean-field SVGP step of GPyTorch: 1,000 rows, 1,000 inducing points, float64.

Runs in the peer's environment; prints one line of JSON.
"""

from __future__ import annotations

import json
import time

import gpytorch
import torch

ROWS, INDUCING, REPETITIONS, WARM_UP = 1_000, 1_000, 20, 3


class SVGP(gpytorch.models.ApproximateGP):
    def __init__(self, points: torch.Tensor):
        q = gpytorch.variational.MeanFieldVariationalDistribution(points.shape[0])
        strategy = gpytorch.variational.VariationalStrategy(
            self, points, q, learn_inducing_locations=True
        )
        super().__init__(strategy)
        self.mean = gpytorch.means.ConstantMean()
        self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=3))

    def forward(self, x: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


def main() -> None:
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    X, y = torch.randn(ROWS, 3), torch.randn(ROWS)
    model, likelihood = SVGP(torch.randn(INDUCING, 3)), gpytorch.likelihoods.GaussianLikelihood()
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=113_400)
    optimiser = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.01)
    seconds = []
    for _ in range(REPETITIONS + WARM_UP):
        start = time.perf_counter()
        optimiser.zero_grad()
        loss = -objective(model(X), y)
        loss.backward()
        optimiser.step()
        loss.item()
        seconds.append(time.perf_counter() - start)
    found = {
        "seconds": seconds[WARM_UP:],
        "compile_seconds": 0.0,
        "rows": ROWS,
        "versions": {"gpytorch": gpytorch.__version__, "torch": torch.__version__},
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
