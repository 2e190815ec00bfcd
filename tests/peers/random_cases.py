"""Random sparse GPs as plain numbers that any program can read, and zigp's own numbers for them.

A case holds inputs, inducing inputs, hyperparameters and q as a peer takes them: q either of the
whitened variables w or of u = β + √v L w itself. zigp's q is always that of w, so an unwhitened one
is carried over:

    m = L⁻¹ (m_u − β) / √v          R = L⁻¹ R_u / √v          with L Lᵀ = K(Z, Z) + jitter
"""

from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import solve_triangular

from zigp import kernels
from zigp.gp.batch import Batch, Rows
from zigp.gp.covariances import Dense, Diagonal
from zigp.gp.latent import LatentGP
from zigp.gp.projection import default_jitter, with_jitter
from zigp.math.quadrature import trapezoid
from zigp.models.likelihoods import Gaussian
from zigp.models.model import Model, gp_classification, gp_regression
from zigp.models.objective import bound

# One column for Matérn 1/2: GPflow takes distances from squares, and what rounding leaves of the
# distance of a point to itself, some 1e-8, would show in this kernel. With one column it is zero.
COLUMNS = {"SquaredExponential": 3, "Matern12": 1, "Matern32": 2, "Matern52": 2}
Q = [(whitened, diagonal) for whitened in (True, False) for diagonal in (True, False)]
ROWS, INDUCING, REPEATS = 20, 7, 6  # a case of every kernel and q, this many times over


def regression(peer: str) -> list[dict]:
    """A Gaussian likelihood; prior variances from 0.1 to 10."""
    return [
        case | {"y": rng.normal(2.0, 2.0, ROWS), "noise": 10 ** rng.uniform(-2, 0.5)}
        for rng, case in _latents(peer, seed=1, variance=(-1, 1))
    ]


def classification(peer: str) -> list[dict]:
    """Any labels, prior variances from 0.05 to 0.5, and zigp's own nodes for E[log Φ(g)]."""
    nodes, weights = trapezoid(19, 5.5)
    return [
        case | {"y": rng.integers(0, 2, ROWS).astype(float), "nodes": nodes, "weights": weights}
        for rng, case in _latents(peer, seed=2, variance=(-1.3, -0.3))
    ]


def certain_classification(peer: str) -> list[dict]:
    """Likely labels and prior variances to 0.005, where rules of any nodes agree."""
    cases = [case for _, case in _latents(peer, seed=3, variance=(-4, -2.3))]
    return [
        case | {"y": (np.asarray(_latent(case).marginal(Rows(case["X"])).mean) > 0).astype(float)}
        for case in cases
    ]


def _latents(
    peer: str, seed: int, variance: tuple[float, float]
) -> list[tuple[np.random.Generator, dict]]:
    rng = np.random.default_rng(seed)
    found = []
    for kernel, (whitened, diagonal), _ in product(COLUMNS, Q, range(REPEATS)):
        columns, v = COLUMNS[kernel], 10 ** rng.uniform(*variance)
        jitter = rng.choice([default_jitter("float64"), 10 ** rng.uniform(-7, -3)])
        case = {
            "kernel": kernel,
            "lengthscale": rng.uniform(0.4, 1.2, columns),
            "variance": v,
            "prior_mean": rng.normal(),
            "X": rng.uniform(-2, 2, (ROWS, columns)),
            "Z": _apart(rng, columns),
            "rows_in_all": int(rng.integers(ROWS, 10 * ROWS)),
            # GPyTorch adds its jitter to what it predicts as well, so there it is zero.
            "jitter": 0.0 if peer == "gpytorch" else float(jitter),
            "whitened": whitened,
            "diagonal": diagonal,
        }
        found.append((rng, case | _q(rng, diagonal, 1.0 if whitened else np.sqrt(v))))
    return found


def _apart(rng: np.random.Generator, columns: int) -> np.ndarray:
    """Return inducing inputs of which no two are close, so that K needs no jitter."""
    sites = np.stack(np.meshgrid(*[np.linspace(-2, 2, INDUCING)] * columns), -1)
    chosen = rng.choice(sites.reshape(-1, columns), INDUCING, replace=False)
    return chosen + rng.uniform(-0.2, 0.2, chosen.shape)


def _q(rng: np.random.Generator, diagonal: bool, scale: float) -> dict:
    sd = scale * rng.uniform(0.2, 1.0, INDUCING)
    root = np.tril(0.2 * scale * rng.normal(size=(INDUCING, INDUCING)), -1) + np.diag(sd)
    return {"q_mean": scale * rng.normal(size=INDUCING), "q_root": sd if diagonal else root}


# -- zigp's numbers -------------------------------------------------------------------------------


def numbers(case: dict) -> dict[str, np.ndarray]:
    """Return what zigp computes of a case, each of which a peer computes too."""
    latent = _latent(case)
    model = (
        gp_regression(latent, Gaussian.of_variance(case["noise"]))
        if "noise" in case
        else gp_classification(latent)
    )
    weight = np.full(ROWS, case["rows_in_all"] / ROWS)
    found = _numbers(model, Batch(Rows(case["X"]), case["y"], weight))
    return {name: np.ravel(values) for name, values in found.items()}


@eqx.filter_jit
def _numbers(model: Model, batch: Batch) -> dict[str, jax.Array]:
    (latent,) = model.latents.values()
    of_latent = latent.marginal(batch.at)
    of_y = model.likelihood.moments(model.signal, model.marginals(batch.at))
    return {
        "bound": bound(model, batch),
        "KL": latent.kl(),
        "mean": of_latent.mean,
        "variance": of_latent.var,
        "mean of y": of_y.mean,
        "variance of y": of_y.var,
    }


def _latent(case: dict) -> LatentGP:
    kernel = getattr(kernels, case["kernel"])(case["lengthscale"])
    latent = LatentGP.create(
        (kernel,),
        (case["Z"],),
        (tuple(range(case["Z"].shape[1])),),
        variance=case["variance"],
        prior_mean=case["prior_mean"],
    )
    mean, root = case["q_mean"], case["q_root"]
    if not case["whitened"]:
        Z = jnp.asarray(case["Z"])
        L = np.linalg.cholesky(case["variance"] * with_jitter(kernel(Z, Z), case["jitter"]))
        root = np.diag(root) if case["diagonal"] else root
        mean, root = (solve_triangular(L, values, lower=True) for values in (mean, root))
    if root.ndim == 1:
        cov = Diagonal(np.log(root))
    else:
        cov = Dense(np.tril(root, -1) + np.diag(np.log(np.diag(root))), (INDUCING,))
    return eqx.tree_at(
        lambda gp: (gp.q_mean, gp.q_cov, gp.jitter), latent, (mean, cov, np.asarray(case["jitter"]))
    )
