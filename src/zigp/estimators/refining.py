"""Posterior sampling of a fitted estimator, and its draws for ArviZ."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from importlib.util import find_spec
from math import prod
from typing import Any, ClassVar, Self

import jax
import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from zigp.data.layout import Inputs, as_batch, listed
from zigp.diagnostics.sanity import chain_findings
from zigp.estimators.preparing import Prepared, row_weights
from zigp.models.draws import Values, from_q
from zigp.models.pointwise import replicated
from zigp.runtime.session import entry_point
from zigp.training import check_whole
from zigp.training.progress import progress_bar
from zigp.training.sampling import Chains, sample

_MOST_WORK = 500_000  # rows times inducing points of all latents
_MOST_DRAWS = 200  # that predictions average over

Data = tuple[np.ndarray, np.ndarray, np.ndarray]  # inputs, and outputs and weights in model units


class Refined(Prepared):
    """Base class of estimators of a single model whose posterior can be sampled.

    Attributes
    ----------
    draws_ : Chains
        Draws from the posterior and their diagnostics. Only defined after `refine`, or with
        `posterior='mcmc'`.
    """

    _several_outputs: ClassVar[bool] = False
    _always_fixed: ClassVar[tuple[str, ...]] = ()
    _data: Data | None = None  # of the last fit in this process, where chains could take it
    draws_: Chains

    @entry_point
    def refine(
        self,
        draws: int = 1000,
        chains: int = 4,
        warmup: int = 500,
        random_state: int | np.random.RandomState | None = None,
        *,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Sample the posterior by Hamiltonian Monte Carlo (NUTS), and return an estimator with it.

        The chains draw the inducing values and all hyperparameters that training learns, but not
        the inducing inputs. They start around the variational fit. All predictions of the returned
        estimator are averages over its draws. It needs `pip install "zigp[mcmc]"`.

        Parameters
        ----------
        draws : int, default=1000
            Number of draws that each chain keeps.
        chains : int, default=4
            Number of chains.
        warmup : int, default=500
            Number of transitions before them, which adapt the sampler.
        random_state : int, RandomState or None, default=None
            Seed of the chains. By default that of the estimator.
        X, y, sample_weight : array-like, optional
            The training data. They are needed for an estimator that was loaded from a file.

        Returns
        -------
        Self
            A copy of the estimator with the attribute `draws_`.

        Examples
        --------
        >>> sampled = model.refine(draws=20, chains=2, warmup=20, random_state=0)
        >>> sampled.predict(new).round(1)
        array([0., 4.])
        """
        check_is_fitted(self)
        self._check_sampling()
        data = self._training_data(X, y, sample_weight)
        counts = {"draws": draws, "chains": chains, "warmup": warmup}
        counts = {name: check_whole(name, count) for name, count in counts.items()}
        refined = copy.copy(self)
        refined.draws_ = self._sampled(data, random_state, **counts)
        return refined

    @entry_point
    def to_arviz(
        self,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        *,
        draws: int = 1000,
        random_state: int | np.random.RandomState | None = 0,
    ) -> Any:
        """Return the fit as a DataTree of ArviZ, for `arviz.loo`, `arviz.compare` and its plots.

        The groups are `posterior`, `posterior_predictive`, `observed_data` and `log_likelihood`. An
        estimator without draws of its own contributes draws from its variational posterior; its
        hyperparameters are fixed. The log likelihood of a row is that given the inducing values,
        in the units of y; new observations are drawn for each row by itself.

        Parameters
        ----------
        X, y : array-like, optional
            The training data. They are needed for an estimator that was loaded from a file.
        draws : int, default=1000
            Largest number of draws, of all chains together.
        random_state : int, RandomState or None, default=0
            Seed of the new observations, and of draws from a variational posterior.

        Returns
        -------
        DataTree
            The groups. It needs `pip install "zigp[mcmc]"`.

        Examples
        --------
        >>> list(model.to_arviz(draws=10).children)
        ['posterior', 'posterior_predictive', 'observed_data', 'log_likelihood']
        """
        check_is_fitted(self)
        _check_installed("arviz_base")
        from arviz_base import from_dict

        self._check_model()
        rows, target, weight = self._training_data(X, y, None)
        on = weight > 0
        key = jax.random.key(int(check_random_state(random_state).randint(2**31)))
        own, again = jax.random.split(key)
        chains = 1
        values: Values = from_q(self.model_, own, check_whole("draws", draws))
        if hasattr(self, "draws_"):
            chains = len(self.draws_.divergent)
            values = self.draws_.by_chain(max(draws // chains, 1))
        scale = self._output_scale
        given = (rows - self.layout_.centre)[on], target[on], weight[on]
        at, seen, counted = (np.asarray(part, self.dtype) for part in given)
        density, outputs = replicated(self.model_, values, at, seen, counted, again)
        per_chain = lambda part: np.asarray(part).reshape(chains, -1, *part.shape[1:])  # noqa: E731
        density = np.asarray(density) - weight[on] * np.log(scale.scale)
        parameters = {_called(place): per_chain(v) for place, v in _readable(values).items()}
        return from_dict(
            {
                "posterior": parameters,
                "posterior_predictive": {"y": scale.to_user(per_chain(outputs))},
                "observed_data": {"y": scale.to_user(target[on])},
                "log_likelihood": {"y": per_chain(density)},
            }
        )

    def _sampled(self, data: Data, random_state: Any, **counts: int) -> Chains:
        seed = self.seed_ if random_state is None else random_state
        number = int(check_random_state(seed).randint(2**31))
        batch = as_batch(Inputs(data[0]), *data[1:], self.layout_, self.dtype)
        fixed = (*map(str, listed(self.fixed)), *self._always_fixed)
        title = f"Sampling of {type(self).__name__}"
        with progress_bar(title) if self.verbose else nullcontext() as show:
            return sample(self.model_, batch, fixed, **counts, seed=number, show=show)

    def _training_data(self, X: Any, y: Any, sample_weight: Any) -> Data:
        if (X is None) != (y is None):
            raise ValueError("Give both X and y, or neither.")
        if X is not None:
            rows, target = self._checked_pair(X, y)
            weight = row_weights(sample_weight, rows)
            _, values, weights, _ = self._in_model_units(rows, target, weight)
            data = rows, values, weights
        elif self._data is None:
            raise ValueError(
                "The estimator does not hold its training data: it was loaded from a file, or they "
                "are too large. Give X and y."
            )
        else:
            data = self._data
        self._check_size(len(data[0]))
        return data

    def _keep_data(self, *data: np.ndarray) -> None:
        """Keep the data of a fit, unless they are too large to be sampled."""
        self._data = data if len(data[0]) * self._points <= _MOST_WORK else None  # type: ignore[assignment]
        if self.posterior == "mcmc":
            self._check_size(len(data[0]))

    def _forget_draws(self) -> None:
        """Drop draws and data of the fit before."""
        self._data = None
        if hasattr(self, "draws_"):
            del self.draws_

    @property
    def _points(self) -> int:
        return sum(prod(np.shape(gp.q_mean)) for gp in self.model_.latents.values())

    def _check_size(self, rows: int) -> None:
        points = self._points
        if rows * points > _MOST_WORK:
            raise ValueError(
                f"Sampling is for at most {_MOST_WORK:,} rows times inducing points, of all "
                f"latents, not {rows:,} × {points:,}. Lower n_inducing, use fewer rows, or keep "
                "the variational posterior."
            )

    def _check_sampling(self) -> None:
        """Raise an error where the posterior of this estimator cannot be sampled."""
        _check_installed("blackjax")
        if {"q", "f.q", "g.q"} & set(map(str, listed(self.fixed))):
            raise ValueError("Sampling draws what q describes: leave 'q' out of fixed.")
        if self.devices != "one":
            raise ValueError("Sampling runs on one device: use devices='one'.")
        self._check_model()

    def _check_model(self) -> None:
        if self._several_outputs:
            raise ValueError(
                "The posterior of a network is not sampled: its latents have no order and no sign, "
                "so chains would not agree. Use posterior='auto'."
            )
        if getattr(self, "coupling", "none") == "prior":
            raise ValueError(
                "The posterior of a coregionalised pair (coupling='prior') is not sampled. Use "
                "coupling='none', or another posterior."
            )
        if hasattr(self, "model_") and self.model_.chained:
            raise ValueError(
                "The posterior of a chain along a lattice (posterior='full') is not sampled. Fit "
                "with posterior='diagonal', or with fewer inducing points."
            )

    @property
    def _averaged_over(self) -> dict[str, np.ndarray] | None:
        """The draws that predictions average over, if there are any."""
        return self.draws_.thinned(_MOST_DRAWS) if hasattr(self, "draws_") else None

    def _chain_findings(self) -> list[str]:
        if not hasattr(self, "draws_"):
            return []
        return chain_findings(
            {_called(place): value for place, value in self.draws_.rhat.items()},
            {_called(place): value for place, value in self.draws_.ess.items()},
            self.draws_.divergent,
        )


def _check_installed(package: str) -> None:
    if find_spec(package) is None:
        raise ImportError(
            f'This needs the package {package.replace("_", "-")}: pip install "zigp[mcmc]".'
        )


def _readable(values: Any) -> dict[str, np.ndarray]:
    """Return parameters themselves in place of their logarithms."""
    logs = ("log_", "excess", "off_excess", "on_excess")
    return {
        place: np.exp(value) if place.rpartition(".")[2].startswith(logs) else np.asarray(value)
        for place, value in values.items()
    }


def _called(place: str) -> str:
    """Return the name of a parameter for people: latents.f.kernels.0.log_lengthscale is short."""
    *path, field = place.split(".")
    field = {
        "q_mean": "inducing",
        "excess": "noise_variance",
        "off_excess": "off_variance",
        "on_excess": "on_variance",
    }.get(field, field.removeprefix("log_"))
    path = [part for part in path if part not in ("latents", "kernels", "likelihood")]
    return "_".join([*path, field])
