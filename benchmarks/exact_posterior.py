"""The zero-inflated GP's posterior without q: Markov chain Monte Carlo, hyperparameters known.

Given the gate the amount is Gaussian and integrated out; the gate moves by elliptical slices. The
chain starts where the data came from, so it has no way to go to the posterior, only through it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.linalg import cho_solve, solve_triangular
from scipy.special import ndtr

if TYPE_CHECKING:
    from calibration import Prior

STEPS, KEPT = 800, 199


class ExactZeroInflated:
    """Answers as an estimator does, from draws of amount and gate at the training rows."""

    def __init__(
        self,
        f: Prior,
        g: Prior,
        noise_sd: Callable,
        X: np.ndarray,
        y: np.ndarray,
        start: np.ndarray,
    ):
        self.f, self.g, self.noise_sd = f, g, noise_sd
        self.X, self.y, self.start = X, y, start
        self.K = f.covariance(X)

    def fit(self, seed: int, steps: int = STEPS, kept: int = KEPT) -> ExactZeroInflated:
        rng = np.random.default_rng(seed)
        root = np.linalg.cholesky(self.g.covariance(self.X))
        state, gates = self.start, []
        density = self.log_density(state)
        for _ in range(steps):
            state, density = self._slice(state, density, root @ rng.normal(size=len(root)), rng)
            gates.append(state)
        self.gates = [gates[i] for i in np.linspace(0, steps - 1, kept).astype(int)]
        self.amounts = [self._amount(g, rng) for g in self.gates]
        return self

    def _noisy(self, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Φ(g), and a Cholesky factor of Cov(y | g) = Φ(g) K Φ(g) + noise."""
        on = ndtr(g)
        noise = np.broadcast_to(self.noise_sd({"g": g}), on.shape) ** 2
        return on, np.linalg.cholesky(on[:, None] * self.K * on + np.diag(noise))

    def log_density(self, g: np.ndarray) -> float:
        """log p(y | g)."""
        _, root = self._noisy(g)
        white = solve_triangular(root, self.y, lower=True)
        return float(-np.log(np.diag(root)).sum() - 0.5 * white @ white)

    def _slice(
        self, g: np.ndarray, density: float, other: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, float]:
        """The next state on the ellipse through this one and a draw from the prior."""
        level = density + np.log(rng.random())
        angle = rng.uniform(0.0, 2.0 * np.pi)
        low, high = angle - 2.0 * np.pi, angle
        while True:
            centred = (g - self.g.mean) * np.cos(angle) + other * np.sin(angle)
            moved = self.g.mean + centred
            if (reached := self.log_density(moved)) > level:
                return moved, reached
            low, high = (angle, high) if angle < 0 else (low, angle)
            angle = rng.uniform(low, high)

    def _amount(self, g: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """f given y and g: a draw from the prior, moved by what it misses (Matheron's rule)."""
        on, root = self._noisy(g)
        first = np.linalg.cholesky(self.K) @ rng.normal(size=len(g))
        missed = self.y - on * first - self.noise_sd({"g": g}) * rng.normal(size=len(g))
        return first + self.K @ (on * cho_solve((root, True), missed))

    # -- answers ----------------------------------------------------------------------------------

    def _at(self, X: np.ndarray) -> dict[str, np.ndarray]:
        """Draws [draws, rows] of both functions at other places."""
        rng = np.random.default_rng(0)
        found = {}
        for name, prior, draws in (("f", self.f, self.amounts), ("g", self.g, self.gates)):
            both = prior.covariance(np.concatenate([self.X, X]))
            N = len(self.X)
            A = np.linalg.solve(both[:N, :N], both[:N, N:])
            root = np.linalg.cholesky(both[N:, N:] - both[N:, :N] @ A + 1e-8 * np.eye(len(X)))
            here = (np.array(draws) - prior.mean) @ A
            found[name] = prior.mean + here + rng.normal(size=here.shape) @ root.T
        return found

    def sample(
        self, X: np.ndarray, n_samples: int, *, noise: bool = True, random_state: int = 0
    ) -> np.ndarray:
        h = self._at(X)
        signal = ndtr(h["g"]) * h["f"]
        if not noise:
            return signal
        spread = np.random.default_rng(random_state).normal(size=signal.shape)
        return signal + self.noise_sd(h) * spread

    def prob_below(self, X: np.ndarray, threshold: np.ndarray) -> np.ndarray:
        h = self._at(X)
        return ndtr((threshold - ndtr(h["g"]) * h["f"]) / self.noise_sd(h)).mean(axis=0)

    def predict_quantiles(self, X: np.ndarray, quantiles: list[float], *, of: str) -> pd.DataFrame:
        h = self._at(X)
        draws = {"latent": h["f"], "gate": ndtr(h["g"])}[of]
        return pd.DataFrame(
            dict(zip(quantiles, np.quantile(draws, quantiles, axis=0), strict=True))
        )

    def predict_interval(self, X: np.ndarray, level: float) -> pd.DataFrame:
        draws = self.sample(X, KEPT)
        low, high = np.quantile(draws, [0.5 * (1.0 - level), 0.5 * (1.0 + level)], axis=0)
        return pd.DataFrame({"lower": low, "upper": high})
