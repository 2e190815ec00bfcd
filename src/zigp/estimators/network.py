"""GP networks: several outputs mixed from a few latents."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, ClassVar

import equinox as eqx
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import check_is_fitted, validate_data

from zigp.data.layout import Inputs, Layout, refuse_too_large
from zigp.estimators.answers import ModelRegressor
from zigp.estimators.initial import KernelSpec, Sizes, Sparsity, initial_latent
from zigp.estimators.persistence import registered
from zigp.gp.latent import LatentGP, family
from zigp.models import predictions
from zigp.models.likelihoods import Gaussian, LatentNoise
from zigp.models.model import Model, gp_network
from zigp.runtime.session import entry_point
from zigp.training import Fit, check_whole

__all__ = ["GPNetworkRegressor", "NetworkParts"]

# Where training starts, in the model's units.
_FIRST_NOISE = 0.3
_FIRST_LATENT_NOISE = 0.3
_FIRST_SPREAD = 0.5  # of q, and of the first guesses of its means
# Length-scales in standard deviations of two inputs: weights vary more slowly than latents.
_FIRST_REACH = {"f": 0.5, "W": 1.5, "g": 2.0, "k": 2.0}


@dataclass(frozen=True)
class NetworkParts:
    """What a network is made of at each row: N rows, Q latents, P outputs.

    Contributions are in the units of the outputs (after `y_transform`); the rest has no unit.

    >>> rows, latents, outputs = model.predict_network(X).weights.shape
    """

    latents: np.ndarray  # [N, Q]  E[f], with its gate where the latents are sparse
    weights: np.ndarray  # [N, Q, P]  E[W]
    support: np.ndarray  # [N, Q, P]  E[Φ(g)]; 1 where the weights have no gates
    effective_weights: np.ndarray  # [N, Q, P]  E[Φ(g) W]
    contributions: np.ndarray  # [N, Q, P]  the terms whose sum an output is, around its mean
    n_effective: np.ndarray  # [N, P]  how many latents an output uses, from 1 to Q


@registered
@dataclass(eq=False, repr=False, kw_only=True)
class GPNetworkRegressor(MultiOutputMixin, ModelRegressor):
    """Several outputs as sums of a few latent functions with weights that vary: y = W(x) f(x) + ε.

    Every weight W_qp and every latent f_q is a Gaussian process. With `sparse_weights` a weight
    can switch off, Φ(g_qp) W_qp, and with `sparse_latents` a latent can, Φ(k_q) f_q. Outputs may be
    missing (NaN) anywhere in Y. Training starts `n_restarts` times from random places, all in one
    compiled program; the best by its objective is kept, and all are in `restarts_`.

    `latent_noise` adds noise to the latents at every site, which its outputs then share. Turn it on
    where some outputs are known at the sites to be predicted (`predict(X, known=Y)`, `impute`): on
    the Jura data it helps there. It is off by default because with nothing known at a new site
    cross-validation found it worse, on Jura's training rows and on simulated data alike
    (`benchmarks/latent_noise.py` and its results).

    `inducing` is `separate` (each latent and each weight has kernels and inducing inputs of its
    own, and a gate uses those inducing inputs of what it gates, as in the paper) or `one` (all
    latents of a kind share theirs, which is cheaper).

    >>> X = np.linspace(0, 10, 50)[:, None]
    >>> Y = np.column_stack([np.sin(X[:, 0]), 1 + 2 * np.sin(X[:, 0])])
    >>> Y[20:25, 1] = np.nan
    >>> model = GPNetworkRegressor(1, n_inducing=8, n_restarts=2, steps=300).fit(X, Y)
    """

    n_latents: int = field(default=2, kw_only=False)
    kernel: KernelSpec = "squared_exponential"
    sparse_weights: bool = True
    sparse_latents: bool = False
    latent_noise: bool = False
    weight_kernel: KernelSpec | None = None
    gate_kernel: KernelSpec | None = None
    lengthscale_prior: tuple[float, float] | None = (3.0, 1.0)
    y_transform: str | None = None
    back_transform: str = "mean"
    n_inducing: Sizes | None = 10
    inducing: str = "separate"
    covariance: str = "dense"
    n_restarts: int = 10
    tol: float = 1e-5

    _always_fixed: ClassVar = ("f.prior_mean", "W.prior_mean")
    _default_method: ClassVar = "natural"
    _training: ClassVar = {"adam": (1500, 0.02), "natural": (300, 0.1)}
    _lattice_training: ClassVar = _training

    # -- fitting --------------------------------------------------------------------------------

    def _as_target(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        Y = np.where(weight > 0, y, np.nan)[:, None]  # the padding of a block can be too low
        self._refuse_too_low(Y)
        return Y

    def _checked_pair(
        self, X: Any, y: Any, *, reset: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        X = self._as_numbers(X, reset=reset)
        rows = validate_data(self, X, dtype=np.float64, reset=reset)
        if y is None:
            raise ValueError(
                "GPNetworkRegressor requires y to be passed, but the target y is None."
            )
        named = [str(c) for c in y.columns] if hasattr(y, "columns") else None
        Y = check_array(
            y, dtype=np.float64, ensure_all_finite="allow-nan", ensure_2d=False, input_name="Y"
        )
        several, Y = Y.ndim > 1, Y.reshape(len(Y), -1)
        check_consistent_length(rows, Y)
        self._refuse_too_low(Y)
        if reset:
            if empty := np.flatnonzero(~np.isfinite(Y).any(axis=0)).tolist():
                raise ValueError(f"Y has no observation at all in column {empty[0]}: leave it out.")
            self.n_outputs_ = Y.shape[1]
            numbered = [str(p) for p in range(self.n_outputs_)]
            self._output_names = (named or numbered) if several else None
        elif Y.shape[1] != self.n_outputs_:
            raise ValueError(
                f"Y has {Y.shape[1]} columns, but the model has {self.n_outputs_} outputs."
            )
        return rows, Y

    def _scaling(
        self, y: np.ndarray, weight: np.ndarray, exposure: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        seen = np.isfinite(y) * weight[:, None]
        if (unseen := np.flatnonzero(~seen.any(axis=0))).size:
            raise ValueError(
                f"Column {unseen[0]} of Y is observed in rows of weight 0 alone: give some of them "
                "a weight, or leave the column out."
            )
        values = np.nan_to_num(y)
        refuse_too_large("Y", values)
        offset = np.sum(seen * values, axis=0) / seen.sum(axis=0)
        scale = np.sqrt(np.sum(seen * (values - offset) ** 2, axis=0) / seen.sum(axis=0))
        return offset, np.where(scale > 0, scale, 1.0)

    def _first_models(self, X: Inputs, layout: Layout, sparsity: Sparsity) -> list[Model]:
        check_whole("n_latents", self.n_latents)
        restarts = check_whole("n_restarts", self.n_restarts)
        if self.inducing not in ("separate", "one"):
            raise ValueError(f"inducing must be 'separate' or 'one', not {self.inducing!r}.")
        seeds = np.random.default_rng(sparsity.seed).integers(2**31, size=restarts)
        each = (dataclasses.replace(sparsity, seed=int(seed)) for seed in seeds)
        return [self._initial(X, layout, sparsity) for sparsity in each]

    def _initial(self, X: Inputs, layout: Layout, sparsity: Sparsity) -> Model:
        Q, P = int(self.n_latents), self.n_outputs_
        rng = np.random.default_rng(sparsity.seed)
        separate = self.inducing == "separate"

        def make(name: str, kernel: KernelSpec | None, shape: tuple[int, ...]) -> LatentGP:
            members = []
            for _ in range(int(np.prod(shape)) if separate else 1):
                own = dataclasses.replace(
                    sparsity, seed=int(rng.integers(2**31)), at_random=separate
                )
                spec = self.kernel if kernel is None else kernel
                columns = self._columns(X.shape[1], self.inputs)
                reach = _FIRST_REACH[name] * _farther(len(columns))
                members.append(
                    initial_latent(X, layout, columns, spec, own, reach=reach, q_sd=_FIRST_SPREAD)
                )
            members *= 1 if separate else int(np.prod(shape))
            whole = family(members, shape, shared=not separate)
            # Where weights or latents start at zero neither can learn from the other.
            spread = _FIRST_SPREAD if name in ("f", "W") else 0.2 * _FIRST_SPREAD
            start = spread * rng.normal(size=np.shape(whole.q_mean))
            return eqx.tree_at(lambda gp: gp.q_mean, whole, start.astype(sparsity.dtype))

        def gate(name: str, on: bool, shape: tuple[int, ...]) -> LatentGP | None:
            if not on:
                return None
            return dataclasses.replace(make(name, self.gate_kernel, shape), inducing=None)

        noise = np.full(P, _FIRST_NOISE)
        if self.latent_noise:
            latent = np.full(Q, _FIRST_LATENT_NOISE)
            likelihood: Gaussian = LatentNoise.of_variances(noise, latent, sparsity.dtype)
        else:
            likelihood = Gaussian.of_variance(noise, sparsity.dtype)
        on = {"g": bool(self.sparse_weights), "k": bool(self.sparse_latents)}
        prior = self.lengthscale_prior
        return gp_network(
            make("f", None, (Q,)),
            make("W", self.weight_kernel, (Q, P)),
            likelihood,
            g=gate("g", on["g"], (Q, P)),
            k=gate("k", on["k"], (Q,)),
            priors=tuple((name, *prior) for name in on if on[name]) if prior else (),
        )

    def _keep(self, fits: list[Fit]) -> None:
        self.restarts_ = fits
        super()._keep(fits)

    # -- transforms -----------------------------------------------------------------------------

    def _transformed(self, y: np.ndarray) -> np.ndarray:
        if self.y_transform is None:
            return y
        if self.y_transform not in ("log", "log1p"):
            raise ValueError(
                f"y_transform must be None, 'log' or 'log1p', not {self.y_transform!r}."
            )
        lowest = self._lowest
        with np.errstate(divide="ignore", invalid="ignore"):
            logged = np.log(np.maximum(y, lowest) - lowest)
        return np.where(np.isnan(y), np.nan, logged)

    @property
    def _lowest(self) -> float:
        """What outputs must lie above."""
        return {"log": 0.0, "log1p": -1.0}.get(str(self.y_transform), -np.inf)

    def _refuse_too_low(self, Y: np.ndarray) -> None:
        too_low = self._lowest >= Y
        if too_low.any():
            row, column = (int(i[0]) for i in np.nonzero(too_low))
            raise ValueError(
                f"y_transform={self.y_transform!r} needs outputs above {self._lowest:g}; "
                f"row {row}, column {column} of Y is {Y[row, column]:g}. Choose another, or none."
            )

    def _in_model_units(
        self, X: np.ndarray, y: np.ndarray, weight: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        X, values, weights, shift = super()._in_model_units(X, y, weight)
        if self.y_transform is not None:
            # p(y) = p(t(y)) t′(y), and the derivative of a logarithm is exp(−t(y)).
            shift -= float(np.sum(weights * np.nan_to_num(self._transformed(y)).T))
        return X, values, weights, shift

    def _in_user_units(self, values: np.ndarray) -> np.ndarray:
        y = super()._in_user_units(values)
        return y if self.y_transform is None else np.exp(y) - (self.y_transform == "log1p")

    # -- a y of one dimension -------------------------------------------------------------------

    def _over_rows(self, *args: Any, **kwargs: Any) -> dict[str, np.ndarray]:
        out = super()._over_rows(*args, **kwargs)
        if self._output_names is None:
            out = {name: np.squeeze(values, axis=-2) for name, values in out.items()}
        return out

    def _draws(self, *args: Any, **kwargs: Any) -> np.ndarray:
        drawn = super()._draws(*args, **kwargs)
        return drawn[..., 0] if self._output_names is None else drawn

    # -- predicting -----------------------------------------------------------------------------

    @entry_point
    def predict(self, X: Any, return_std: bool = False, known: ArrayLike | None = None) -> Any:
        """The expected outputs [rows, P] at each row of X, with standard deviations if asked for.

        They are [rows] where y was so in `fit`. `known` [rows, P] holds outputs that are known
        there, NaN for the others: these are then predicted given those, without fitting again. With
        a transform, `back_transform` chooses whether the mean or the median is returned.

        >>> model.predict(X).shape
        (50, 2)
        >>> model.predict([[2.0]], known=[[0.9, np.nan]]).shape
        (1, 2)
        """
        check_is_fitted(self)
        if known is None:
            return super().predict(X, return_std)
        rows, Y = self._checked_pair(X, known)
        mean, sd = self._given_known(rows, Y, trained=False)
        if self._output_names is None:
            mean, sd = mean[:, 0], sd[:, 0]
        return (mean, sd) if return_std else mean

    def _moments(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        self._check_back_transform()
        if self.y_transform is None:
            return super()._moments(X)
        return self._back_transformed(X, self.back_transform)

    def _mean(self, X: ArrayLike) -> np.ndarray:
        return super()._mean(X) if self.y_transform is None else self._back_transformed(X)[0]

    def _back_transformed(self, X: Any, middle: str = "mean") -> tuple[np.ndarray, np.ndarray]:
        units = (np.reshape(v, (-1, 1)) for v in (self.y_offset_, self.y_scale_))
        out = self._over_rows(X, predictions.back_transformed, *units)
        return out[middle].T - (self.y_transform == "log1p"), out["sd"].T

    def _check_back_transform(self) -> None:
        if self.back_transform not in ("mean", "median"):
            raise ValueError(
                f"back_transform must be 'mean' or 'median', not {self.back_transform!r}."
            )

    @entry_point
    def impute(self, X: ArrayLike, Y: ArrayLike) -> np.ndarray:
        """Y with its missing outputs predicted, at rows that were in training with these outputs.

        With latent noise the outputs known at a row say what its own noise was; the model has
        learned the rest from them already. At new rows use `predict(X, known=Y)`.

        >>> np.isnan(model.impute(X, Y)).any()
        np.False_
        """
        check_is_fitted(self)
        filled = self._given_known(*self._checked_pair(X, Y), trained=True)[0]
        return filled[:, 0] if self._output_names is None else filled

    def _given_known(
        self, rows: np.ndarray, Y: np.ndarray, *, trained: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        self._check_back_transform()
        inputs, values, weights, _ = self._in_model_units(rows, Y, np.ones(len(rows)))
        # Without noise of their own, latents at a row of the training data are as q has them.
        local = trained and not self.latent_noise
        signal = predictions.conditioned(
            self.model_,
            inputs,
            values,
            np.zeros_like(weights) if local else weights,
            trained=trained and not local,
        )
        noise = np.reshape(self.noise_sd_ / self.y_scale_, (-1, 1)) ** 2
        mean = self.y_offset_ + self.y_scale_ * signal.mean.T
        var = self.y_scale_**2 * (signal.var + noise).T
        if self.y_transform is not None:
            average, median = np.exp(mean + 0.5 * var), np.exp(mean)
            sd = average * np.sqrt(np.expm1(var))
            mean = average if self.back_transform == "mean" else median
            mean = mean - (self.y_transform == "log1p")
        else:
            sd = np.sqrt(var)
        unknown = np.isnan(Y)
        return np.where(unknown, mean, Y), np.where(unknown, sd, 0.0)

    @entry_point
    def predict_network(self, X: ArrayLike) -> NetworkParts:
        """Latents, weights, support, and what each latent adds to each output, at each row.

        >>> model.predict_network(X).support.shape
        (50, 1, 2)
        """
        out = super()._over_rows(X, predictions.network)
        parts = {name: np.moveaxis(values, -1, 0) for name, values in out.items()}
        terms = parts["effective"] * parts["latents"][:, :, None] * self.y_scale_
        # The participation ratio (Σ a)²/Σ a² of squared terms: 1 if one does all, Q if all share.
        size = np.maximum(terms**2, np.finfo(float).tiny)
        return NetworkParts(
            latents=parts["latents"],
            weights=parts["weights"],
            support=parts["support"],
            effective_weights=parts["effective"],
            contributions=terms,
            n_effective=size.sum(axis=1) ** 2 / (size**2).sum(axis=1),
        )


def _farther(D: int) -> float:
    """How much farther the nearest of ten points is among D inputs than among two.

    √(D/2), for distances grow so, times 10^(½ − 1/D) from three inputs on: there, neighbours are
    hardly nearer than others. Where no inducing input is in reach of the rows a network can only
    explain them as noise, and stays at that.
    """
    return float(np.sqrt(D / 2.0) * 10.0 ** max(0.5 - 1.0 / D, 0.0))
