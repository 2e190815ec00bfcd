"""The predictive distribution of new observations, in the units of y."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtr
from scipy.stats import norm

from zigp.estimators.families import OutputScale
from zigp.models import predictions
from zigp.models.predictions import Predictions, Question
from zigp.runtime.session import entry_point


class PredictiveDistribution(ABC):
    """The distribution of a new observation at each row.

    It is made by `predict_distribution` from one pass through the model's Gaussian processes, and
    answers any number of questions from that.

    Attributes
    ----------
    point : ndarray of shape (n_rows,) or (n_rows, n_outputs)
        What `predict` returns.
    mean : ndarray of shape (n_rows,) or (n_rows, n_outputs)
        The expected observation.
    sd : ndarray of shape (n_rows,) or (n_rows, n_outputs)
        The standard deviation of an observation, noise included.
    prob_on : ndarray of shape (n_rows,) or None
        The support E[Φ(g)], None if the model has no gate.
    has_atom : bool
        True if an observation is exactly zero with positive probability.
    parts : tuple of str
        What `quantile` can be asked about.

    Examples
    --------
    >>> distribution = model.predict_distribution(new)
    >>> distribution.mean.round(1)
    array([0., 4.])
    """

    parts: ClassVar[tuple[str, ...]] = ("response",)
    has_atom: bool = False
    shape: tuple[int, ...]  # rows, and outputs if there are several
    if_on: "PredictiveDistribution"  # of an observation whose signal is fully on
    point: Any
    mean: Any
    sd: Any
    prob_on: Any = None

    def probability(self, low: float, high: float) -> np.ndarray:
        """Return P(low < y ≤ high) at each row.

        Parameters
        ----------
        low, high : float
            The bounds, the same for all rows.

        Returns
        -------
        ndarray
            Probabilities, shaped as `mean`.
        """
        below = (self.cdf(np.full(self.shape, end)) for end in (high, low))
        return np.subtract(*below)

    @abstractmethod
    def cdf(self, thresholds: np.ndarray) -> np.ndarray:
        """Return P(y ≤ threshold) for thresholds that differ from row to row.

        Parameters
        ----------
        thresholds : ndarray of shape (n_rows, ...)
            An entry, or a line of entries, for each row.

        Returns
        -------
        ndarray
            Probabilities, shaped as `thresholds`.
        """

    @abstractmethod
    def log_between(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return log P(low < y ≤ high) for bounds that differ from row to row.

        Parameters
        ----------
        low, high : ndarray, shaped as `mean`
            The bounds.

        Returns
        -------
        ndarray
            Logarithms of probabilities, shaped as `mean`.
        """

    @abstractmethod
    def quantile(self, p: float, of: str = "response") -> np.ndarray:
        """Return the value that an observation, or a part of the model, stays below.

        Parameters
        ----------
        p : float
            The probability of staying below, between 0 and 1.
        of : str, default="response"
            One of `parts`.

        Returns
        -------
        ndarray
            Quantiles, shaped as `mean`.
        """


class ModelDistribution(PredictiveDistribution):
    """The predictive distribution of a single model.

    `outputs` is their number, None where y had one dimension. With `median`, `point` is the median
    where outputs were transformed.
    """

    def __init__(
        self,
        made: Predictions,
        scale: OutputScale,
        outputs: int | None = None,
        *,
        median: bool = False,
    ) -> None:
        self._predictions, self._scale, self._median = made, scale, median
        self.shape = (made.rows,) if outputs is None else (made.rows, outputs)
        self.has_atom = made.likelihood.has_atom

    @cached_property
    def point(self) -> np.ndarray:
        return self._moments["median"] if self._median and self._scale.transform else self.mean

    @cached_property
    def mean(self) -> np.ndarray:
        return self._moments["mean"]

    @cached_property
    def sd(self) -> np.ndarray:
        return self._moments["sd"]

    @cached_property
    def _moments(self) -> dict[str, np.ndarray]:
        """Mean and standard deviation, and the median of outputs that were transformed."""
        scale = self._scale
        if scale.transform is None:
            out = self._ask(predictions.moments)
            return {"mean": scale.to_user(out["mean"]), "sd": scale.scale * out["sd"]}
        units = (np.reshape(v, (-1, 1)) for v in (scale.offset, scale.scale))
        out = self._ask(predictions.back_transformed, *units)
        return {k: v if k == "sd" else v + scale.lowest for k, v in out.items()}

    def cdf(self, thresholds: np.ndarray) -> np.ndarray:
        scaled = self._scale.to_model(thresholds)
        lines = scaled.reshape(len(scaled), -1).T if len(self.shape) == 1 else scaled.T[None]
        return self._ask(predictions.cdf, along=[lines], shape=thresholds.shape)["p"]

    def log_between(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        ends = [self._scale.to_model(end).T for end in (low, high)]
        return self._ask(predictions.log_between, along=ends)["p"]

    def quantile(self, p: float, of: str = "response") -> np.ndarray:
        return self._scale.to_user(self._ask(predictions.quantile, np.asarray(p))["t"])

    @entry_point
    def _ask(
        self,
        question: Question,
        *args: np.ndarray,
        along: Sequence[np.ndarray] = (),
        shape: tuple[int, ...] | None = None,
    ) -> dict[str, np.ndarray]:
        """Return the answers to a question in the model's units, in the shape of `mean`."""
        out = self._predictions.ask(question, *args, along=along)
        return {name: values.T.reshape(shape or self.shape) for name, values in out.items()}


class ZeroInflatedDistribution(ModelDistribution):
    """The predictive distribution of a zero-inflated GP, and of the parts it is made of."""

    parts: ClassVar = ("response", "if_on", "latent", "gate")

    def __init__(self, made: Predictions, scale: OutputScale) -> None:
        super().__init__(made, scale)
        self.if_on = ModelDistribution(made.with_open_gate(), scale)

    @cached_property
    def components(self) -> dict[str, np.ndarray]:
        """Gate, latent and signal at each row, each with its standard deviation."""
        out = self._ask(predictions.components)
        without_unit = ("gate", "gate_sd")
        return {k: v if k in without_unit else v * self._scale.scale for k, v in out.items()}

    @cached_property
    def prob_on(self) -> np.ndarray:
        return self.components["gate"]

    def quantile(self, p: float, of: str = "response") -> np.ndarray:
        if of == "response":
            return super().quantile(p)
        if of == "if_on":
            return self.if_on.quantile(p)
        value = self._ask_latent("f" if of == "latent" else "g", p)
        return self._scale.to_user(value) if of == "latent" else ndtr(value)

    @entry_point
    def _ask_latent(self, name: str, p: float) -> np.ndarray:
        return self._predictions.latent_quantile(name, p)


class HurdleDistribution(PredictiveDistribution):
    """Zero with probability 1 − p, and otherwise N(amount, its variance)."""

    parts: ClassVar = ("response", "if_on")
    has_atom = True

    def __init__(self, p: np.ndarray, amounts: PredictiveDistribution, *, combine: str) -> None:
        # In float64: the moments are squared.
        p, amount, sd = (np.asarray(part, np.float64) for part in (p, amounts.mean, amounts.sd))
        self.prob_on, self._parts = p, (p, amount, sd)
        self.if_on, self.shape = amounts, amounts.shape
        self.mean = p * amount
        self.sd = np.sqrt(p * (sd**2 + (1.0 - p) * amount**2))
        self.point = self.mean if combine == "expectation" else np.where(p >= 0.5, amount, 0.0)

    def cdf(self, thresholds: np.ndarray) -> np.ndarray:
        p, mean, sd = (part.reshape(-1, *(1,) * (thresholds.ndim - 1)) for part in self._parts)
        return (1.0 - p) * (thresholds >= 0) + p * norm.cdf(thresholds, mean, sd)

    def log_between(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        atom = np.where((low < 0) & (high >= 0), 1.0 - self.prob_on, 0.0)
        with np.errstate(divide="ignore"):
            on = np.log(self.prob_on) + self.if_on.log_between(low, high)
            return np.logaddexp(np.log(atom), on)

    def quantile(self, p: float, of: str = "response") -> np.ndarray:
        if of == "if_on":
            return self.if_on.quantile(p)
        # Below the zeros, among them, or above them.
        on, mean, sd = self._parts
        negative = on * norm.cdf(0.0, mean, sd)
        with np.errstate(divide="ignore", invalid="ignore"):
            below = norm.ppf(np.clip(p / on, 0.0, 1.0), mean, sd)
            above = norm.ppf(np.clip((p - (1.0 - on)) / on, 0.0, 1.0), mean, sd)
        return np.select([p < negative, p > negative + 1.0 - on], [below, above], 0.0)
