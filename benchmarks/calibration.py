"""Whether intervals hold what they promise: data of a known kind, fitted and predicted many times.

    .venv/bin/python benchmarks/calibration.py [PART ...]

Functions are drawn from the prior of each model in `WORLDS` (by a Cholesky factor, not by zigp) and
observed with noise at random places. An estimator is fitted to some of them as a user would, and
asked about the others; what is true there should fall anywhere in its predicted distribution alike.
The same is done with hyperparameters held at the truth, where only q is left to learn. Then whole
hours of the rain data are held out. Writes results/calibration.json, docs/calibration.md and its
pictures: `make study`. A part is one of `PARTS`, such as zigp:learned; without any all are done.
Replications have the same shapes, so each part is compiled once.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from exact_posterior import ExactZeroInflated
from run import RESULTS, machine
from scipy.special import ndtr, ndtri

from zigp import GPNetworkRegressor, SparseGPRegressor, ZeroInflatedGPRegressor
from zigp.data.layout import Layout
from zigp.datasets import load_precipitation
from zigp.diagnostics import scores
from zigp.experiments import precipitation
from zigp.gp.kernels import Matern32, SquaredExponential
from zigp.gp.latent import LatentGP, family
from zigp.models.likelihoods import Gated, Gaussian, Likelihood
from zigp.models.model import Model, gp_network, gp_regression, zero_inflated_gp
from zigp.runtime.session import session

PATH = RESULTS / "calibration.json"
REPLICATIONS = 100
WIDTH, TRAIN, HELD_OUT = 10.0, 150, 100  # inputs lie between 0 and the first
DRAWS = 199  # as ranks of the truth among them: 0, …, 199
LEVELS = (0.5, 0.9, 0.95)
BINS = 10
_FIRST_SPREAD = 0.5
HYPERPARAMETERS = ("kernel", "variance", "prior_mean", "noise", "inducing")
KERNELS = {
    "matern32": (lambda r: (1.0 + 3.0**0.5 * r) * np.exp(-(3.0**0.5) * r), Matern32),
    "squared_exponential": (lambda r: np.exp(-0.5 * r**2), SquaredExponential),
}

Values = dict[str, np.ndarray]
Result = dict[str, Any]


# -- worlds ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prior:
    """A Gaussian process over one input, or a family of independent ones."""

    kernel: str
    lengthscale: float
    sd: float = 1.0
    mean: float = 0.0
    shape: tuple[int, ...] = ()

    def covariance(self, X: np.ndarray) -> np.ndarray:
        correlation = KERNELS[self.kernel][0](np.abs(X - X.T) / self.lengthscale)
        return self.sd**2 * (correlation + 1e-9 * np.eye(len(X)))

    def draw(self, rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
        """Functions [*shape, rows]."""
        root = np.linalg.cholesky(self.covariance(X))
        return self.mean + rng.normal(size=(*self.shape, len(X))) @ root.T

    def latent(self, Z: np.ndarray) -> LatentGP:
        """The same in zigp, seen through inducing inputs, with its prior for q."""
        kernel = KERNELS[self.kernel][1](self.lengthscale)
        one = LatentGP.create((kernel,), (Z,), ((0,),), variance=self.sd**2, prior_mean=self.mean)
        return family([one] * int(np.prod(self.shape)), self.shape) if self.shape else one


@dataclass(frozen=True)
class World:
    """Where data come from, and how zigp is asked to find out."""

    title: str
    priors: dict[str, Prior]
    signal: Callable[[Values], np.ndarray]  # [rows] or [outputs, rows]
    noise_sd: Callable[[Values], Any]
    likelihood: Likelihood  # the same noise in zigp
    model: Callable[..., Model]
    estimator: type
    settings: dict[str, Any] = field(default_factory=dict)

    def draw(self, rng: np.random.Generator, rows: int) -> tuple[np.ndarray, Values]:
        """Random places, and everything that is true there: [rows] or [rows, outputs]."""
        X = rng.uniform(0.0, WIDTH, size=(rows, 1))
        h = {name: prior.draw(rng, X) for name, prior in self.priors.items()}
        signal = self.signal(h)
        y = signal + self.noise_sd(h) * rng.normal(size=signal.shape)
        found = {"observation": y.T, "signal": signal.T}
        if self.estimator is ZeroInflatedGPRegressor:
            found |= {"amount": h["f"], "gate": ndtr(h["g"]), "g": h["g"]}
        return X, found

    def known(self) -> Any:
        """An estimator that knows every hyperparameter and has seen no data."""
        inducing = 20 if self.estimator is GPNetworkRegressor else 50  # smooth functions need few
        Z = np.linspace(0.0, WIDTH, inducing)[:, None]
        latents = {name: prior.latent(Z) for name, prior in self.priors.items()}
        knows = self.estimator(**self.settings)
        knows.model_ = self.model(latents, self.likelihood)
        knows.layout_ = Layout(((0,),), ("all",), None, np.zeros(1))
        knows.n_features_in_, knows.y_offset_, knows.y_scale_ = 1, 0.0, 1.0
        if self.estimator is GPNetworkRegressor:
            knows.n_outputs_ = P
            knows._output_names = [str(p) for p in range(P)]
            knows.y_offset_, knows.y_scale_ = np.zeros(P), np.ones(P)
        elif self.estimator is ZeroInflatedGPRegressor:
            knows.likelihood_ = knows.likelihood
        knows._structure = knows._current_structure()
        return knows


Q, P = 2, 2
NOISE, OFF, ON = 0.3, 0.05, 0.5
AMOUNT = Prior("matern32", 1.5, sd=2.0)
GATE = Prior("matern32", 1.5, sd=2.0, mean=-0.5)
LATENTS = Prior("squared_exponential", 1.5, shape=(Q,))
WEIGHTS = Prior("squared_exponential", 4.0, shape=(Q, P))
WEIGHT_GATES = Prior("squared_exponential", 3.0, sd=2.0, shape=(Q, P))


def _zero_inflated(h: Values) -> np.ndarray:
    return ndtr(h["g"]) * h["f"]


def _zero_inflated_model(latents: dict[str, LatentGP], likelihood: Likelihood) -> Model:
    return zero_inflated_gp(latents["f"], latents["g"], likelihood)


def _network_model(latents: dict[str, LatentGP], likelihood: Likelihood) -> Model:
    return gp_network(latents["f"], latents["W"], likelihood, g=latents.get("g"))


WORLDS = {
    "gp": World(
        "GP regression",
        {"f": AMOUNT},
        lambda h: h["f"],
        lambda h: NOISE,
        Gaussian.of_variance(NOISE**2),
        lambda latents, likelihood: gp_regression(latents["f"], likelihood),
        SparseGPRegressor,
        {"n_inducing": 25},
    ),
    "zigp": World(
        "ZiGP",
        {"f": AMOUNT, "g": GATE},
        _zero_inflated,
        lambda h: NOISE,
        Gaussian.of_variance(NOISE**2),
        _zero_inflated_model,
        ZeroInflatedGPRegressor,
        {"likelihood": "gaussian", "n_inducing": 25},
    ),
    "gated": World(
        "ZiGP, gated noise",
        {"f": AMOUNT, "g": GATE},
        _zero_inflated,
        lambda h: np.sqrt(OFF**2 + (ndtr(h["g"]) * ON) ** 2),
        Gated.of_variances(OFF**2, ON**2, 1e-6),
        _zero_inflated_model,
        ZeroInflatedGPRegressor,
        {"likelihood": "gated", "n_inducing": 25},
    ),
    "gprn": World(
        "GPRN",
        {"f": LATENTS, "W": WEIGHTS},
        lambda h: np.einsum("qpn,qn->pn", h["W"], h["f"]),
        lambda h: NOISE,
        Gaussian.of_variance(np.full(P, NOISE**2)),
        _network_model,
        GPNetworkRegressor,
        {"sparse_weights": False, "n_restarts": 1},
    ),
    "sparse_gprn": World(
        "Sparse GPRN",
        {"f": LATENTS, "W": WEIGHTS, "g": WEIGHT_GATES},
        lambda h: np.einsum("qpn,qpn,qn->pn", ndtr(h["g"]), h["W"], h["f"]),
        lambda h: NOISE,
        Gaussian.of_variance(np.full(P, NOISE**2)),
        _network_model,
        GPNetworkRegressor,
        {"n_restarts": 1},
    ),
}


# What the study is made of; each can be done again alone.
PARTS = (
    *(f"{name}:learned" for name in WORLDS),
    *(f"{name}:known" for name in WORLDS),
    "zigp:exact",
    "rain",
)


# -- one replication ------------------------------------------------------------------------------


def learned(world: World, X: np.ndarray, true: Values, seed: int) -> Any:
    """Fitted as a user would, hyperparameters and all."""
    return world.estimator(**world.settings, random_state=seed).fit(X, true["observation"])


def known(world: World, X: np.ndarray, true: Values, seed: int) -> Any:
    """Only q is fitted; every hyperparameter is as the data were made."""
    model = world.known()
    rng = np.random.default_rng(seed)

    def shaken(latent: LatentGP) -> LatentGP:  # two factors that both start at zero stay there
        start = _FIRST_SPREAD * rng.normal(size=np.shape(latent.q_mean))
        return replace(latent, q_mean=start)

    latents = {name: shaken(latent) for name, latent in model.model_.latents.items()}
    model.model_ = replace(model.model_, latents=latents)
    model.set_params(warm_start=True, fixed=HYPERPARAMETERS, method="natural", steps=200)
    return model.fit(X, true["observation"])


def exact(world: World, X: np.ndarray, true: Values, seed: int) -> Any:
    """The posterior itself, with every hyperparameter as the data were made."""
    priors = world.priors["f"], world.priors["g"]
    sampler = ExactZeroInflated(*priors, world.noise_sd, X, true["observation"], true["g"])
    return sampler.fit(seed)


def judged(model: Any, X: np.ndarray, true: Values, seed: int) -> Values:
    """Where what is true lies in its predicted distribution: uniform from 0 to 1 if it is right."""
    rng = np.random.default_rng(seed)
    u = {"observation": model.prob_below(X, true["observation"])}
    signals = model.sample(X, DRAWS, noise=False, random_state=seed)
    u["signal"] = rank(signals, true["signal"], rng)
    means = model.sample(X, DRAWS, random_state=seed + 1).mean(axis=1)
    u["mean"] = np.atleast_1d(rank(means, true["observation"].mean(axis=0), rng))
    steps = np.arange(1, 40) / 40  # the ends of all intervals are among them
    for name, part in (("amount", "latent"), ("gate", "gate")):
        if name in true:
            quantiles = model.predict_quantiles(X, steps.tolist(), of=part).to_numpy()
            u[name] = rank(quantiles.T, true[name], rng)
    return u


def rank(draws: np.ndarray, true: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The share of draws, or of evenly spaced quantiles, below the truth; ties within by chance."""
    below = np.sum(draws < true, axis=0)
    return (below + rng.random(np.shape(true))) / (len(draws) + 1)


Way = Callable[[World, np.ndarray, Values, int], Any]
WAYS: dict[str, Way] = {"learned": learned, "known": known, "exact": exact}


def replicated(world: World, way: Way, replications: int = REPLICATIONS, seed: int = 0) -> Result:
    """Data drawn, fitted and judged so many times; a summary of each quantity."""
    found: dict[str, list[np.ndarray]] = {}
    widths = []
    for number in range(replications):
        X, true = world.draw(np.random.default_rng([seed, number]), TRAIN + HELD_OUT)
        seen, held_out = ({k: part(v) for k, v in true.items()} for part in (first, rest))
        model = way(world, first(X), seen, number)
        for name, u in judged(model, rest(X), held_out, number).items():
            found.setdefault(name, []).append(u)
        ends = model.predict_interval(rest(X), level=0.9)
        widths.append(np.mean(ends["upper"] - ends["lower"]))
    result = {name: summary(us) for name, us in found.items()}
    result["observation"]["width90"] = float(np.mean(widths))
    return result


def first(values: np.ndarray) -> np.ndarray:
    return values[:TRAIN]


def rest(values: np.ndarray) -> np.ndarray:
    return values[TRAIN:]


# -- what is made of many -------------------------------------------------------------------------


def summary(us: Sequence[np.ndarray]) -> Result:
    """Coverage and histogram of PIT values, with standard errors over their groups.

    Values of one group (a replication, an hour) depend on each other, groups do not.
    """
    us = [np.ravel(u) for u in us]
    coverage = {str(level): share(us, *interval(level)) for level in LEVELS}
    edges = np.linspace(0.0, 1.0, BINS + 1)
    histogram = [share(us, low, high) for low, high in pairwise(edges)]
    scores_ = np.abs(ndtri(np.clip(np.concatenate(us), 1e-9, 1.0 - 1e-9)))
    # Normal intervals would have to be so many times as wide to hold 90 %.
    stretch = float(np.quantile(scores_, 0.9) / ndtri(0.95))
    return {"coverage": coverage, "pit": histogram, "stretch": stretch}


def interval(level: float) -> tuple[float, float]:
    """The probabilities that end the central interval of a level."""
    return 0.5 * (1.0 - level), 0.5 * (1.0 + level)


def share(us: Sequence[np.ndarray], low: float, high: float) -> list[float]:
    """The share of values between two, and its standard error over groups."""
    sizes = np.array([len(u) for u in us])
    inside = np.array([np.sum((low <= u) & (u < high)) for u in us])
    whole = inside.sum() / sizes.sum()
    spread = np.sqrt(np.sum((inside - whole * sizes) ** 2)) / sizes.sum()
    return [float(whole), float(spread)]


# -- rain -----------------------------------------------------------------------------------------


def rain() -> Result:
    """Whole hours of the rain data held out, with the paper's settings and with none given."""
    table = load_precipitation()
    _, train, test = next(precipitation.splits(table, "time", folds=1))
    held_out = table.iloc[test]
    X, y = held_out[precipitation.INPUTS], held_out["rain_mm"].to_numpy()
    hours = held_out["hour"].to_numpy()
    found: Result = {"rows": len(test), "hours": len(np.unique(hours)), "zeros": np.mean(y == 0)}
    for setting, more in (("paper", {"likelihood": "gaussian"}), ("own", {})):
        model = ZeroInflatedGPRegressor(**precipitation.SETTINGS[setting], **more)
        rows = table.iloc[train]
        model.fit(rows[precipitation.INPUTS], rows["rain_mm"])
        found[setting] = rain_judged(model, X, y, hours)
    return found


def rain_judged(model: Any, X: Any, y: np.ndarray, hours: np.ndarray) -> Result:
    """PIT within the cells that readings were rounded from: of all, and where rain is expected."""
    u = scores.pit(y, lambda t: model.prob_below(X, t), precipitation.RESOLUTION)
    wet = model.predict(X) >= precipitation.RESOLUTION
    table = {"all": np.ones(len(y), bool), "rain expected": wet}
    return {
        name: {"rows": int(rows.sum())}
        | summary([u[rows & (hours == h)] for h in np.unique(hours)])
        for name, rows in table.items()
    }


def main(*chosen: str) -> None:
    from calibration_page import write_page

    for part in chosen or PARTS:
        start = time.perf_counter()
        name, _, way = part.partition(":")
        with session():
            done = rain() if part == "rain" else replicated(WORLDS[name], WAYS[way])
        keep(part, done)
        print(f"{part}: {time.perf_counter() - start:.0f} s", flush=True)
    write_page(json.loads(PATH.read_text()))


def keep(part: str, done: Result) -> None:
    """Put one part in the file of results, beside the others."""
    found: Result = json.loads(PATH.read_text()) if PATH.exists() else {"worlds": {}}
    found |= {"replications": REPLICATIONS, "train": TRAIN, "held_out": HELD_OUT, "on": machine()}
    if part == "rain":
        found["rain"] = done
    else:
        name, _, way = part.partition(":")
        found["worlds"].setdefault(name, {})[way] = done
    PATH.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
