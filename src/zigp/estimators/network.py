"""GP networks: several outputs mixed from a few latents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import equinox as eqx
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted, validate_data

from zigp.data.layout import Inputs, refuse_too_large
from zigp.estimators.distribution import ModelDistribution
from zigp.estimators.families import OutputScale
from zigp.estimators.initial import KernelSpec, Sizes
from zigp.estimators.parameters import estimator, parameter, redeclared
from zigp.estimators.sparse import ModelRegressor
from zigp.gp.batch import Rows
from zigp.gp.latent import LatentGP, family
from zigp.models import predictions
from zigp.models.likelihoods import Gaussian, LatentNoise, Likelihood
from zigp.models.model import Model, gp_network
from zigp.models.predictions import Predictions
from zigp.runtime.session import entry_point
from zigp.training import Fit, check_whole

# Where training starts, in the model's units.
_FIRST_NOISE = 0.3  # of outputs and of latents
_FIRST_SPREAD = 0.5  # of q, and of the first guesses of its means
# Length-scales in standard deviations of two inputs: weights vary more slowly than latents.
_FIRST_REACH = {"f": 0.5, "W": 1.5, "g": 2.0, "k": 2.0}


@dataclass(frozen=True)
class NetworkParts:
    """The parts of a network at each row: N rows, Q latents, P outputs.

    Attributes
    ----------
    latents : ndarray of shape (N, Q)
        E[f], with its gate where the latents are sparse.
    weights : ndarray of shape (N, Q, P)
        E[W].
    support : ndarray of shape (N, Q, P)
        E[Φ(g)]; 1 where the weights have no gates.
    effective_weights : ndarray of shape (N, Q, P)
        E[Φ(g) W].
    contributions : ndarray of shape (N, Q, P)
        The terms whose sum is an output minus its mean, in the units of the outputs (after
        `y_transform`).
    n_effective : ndarray of shape (N, P)
        The number of latents that an output uses, from 1 to Q.

    Examples
    --------
    >>> rows, latents, outputs = model.predict_network(X).weights.shape
    """

    latents: np.ndarray
    weights: np.ndarray
    support: np.ndarray
    effective_weights: np.ndarray
    contributions: np.ndarray
    n_effective: np.ndarray


@estimator
class GPNetworkRegressor(MultiOutputMixin, ModelRegressor):
    """Gaussian process regression network for several outputs: y = W(x) f(x) + ε.

    Each output is a sum of a few latent functions f_q with weights W_qp that vary over the inputs;
    latent functions and weights are Gaussian processes. With `sparse_weights` a weight has a gate,
    Φ(g_qp) W_qp; with `sparse_latents` a latent function has one, Φ(k_q) f_q. Outputs may be
    missing (NaN) anywhere in Y.

    Use `latent_noise` if some outputs are known at the sites to predict (`predict(X, known=Y)` and
    `impute`), as in the Jura data. It is off by default: if nothing is known at a new site,
    cross-validation found it worse, both on Jura's training rows and on simulated data
    (`benchmarks/latent_noise.py`).

    Attributes
    ----------
    n_outputs_ : int
        Number of outputs.
    restarts_ : list of Fit
        Result of each restart. The one with the highest bound is kept.
    noise_sd_ : ndarray of shape (n_outputs_,)
        Standard deviation of the noise of each output, in the units of y.

    Examples
    --------
    >>> X = np.linspace(0, 10, 50)[:, None]
    >>> Y = np.column_stack([np.sin(X[:, 0]), 1 + 2 * np.sin(X[:, 0])])
    >>> Y[20:25, 1] = np.nan
    >>> model = GPNetworkRegressor(1, n_inducing=8, n_restarts=2, steps=300).fit(X, Y)
    """

    n_latents: int = parameter("Number of latent functions.", default=2, kw_only=False)
    kernel: KernelSpec = parameter(
        "Kernel of the latent functions: a name, a kernel object from `zigp.kernels`, or one of "
        "these for each column group, as a list or as a dict by group name.",
        default="squared_exponential",
    )
    sparse_weights: bool = parameter("Whether weights have gates.", default=True)
    sparse_latents: bool = parameter("Whether latent functions have gates.", default=False)
    latent_noise: bool = parameter(
        "Whether latent functions have noise at each site, which all outputs there share.",
        default=False,
    )
    weight_kernel: KernelSpec | None = parameter(
        "Kernel of the weights. By default the same as `kernel`.", default=None
    )
    gate_kernel: KernelSpec | None = parameter(
        "Kernel of the gates. By default the same as `kernel`.", default=None
    )
    lengthscale_prior: tuple[float, float] | None = parameter(
        "Shape and rate of a gamma prior on the length-scales of the gates. If None, there is no "
        "prior.",
        default=(3.0, 1.0),
    )
    y_transform: str | None = parameter(
        "Transform of the outputs before they are modelled, or None.",
        default=None,
        choices=(None, "log", "log1p"),
    )
    back_transform: str = parameter(
        "With `y_transform`, what `predict` returns in the units of y.",
        default="mean",
        scope="training",
        choices=("mean", "median"),
    )
    n_inducing: Sizes | None = parameter(
        "Number of inducing points of each latent function and each weight: one number for all "
        "column groups together, or one for each group, as a list or as a dict by group name.",
        default=10,
    )
    inducing: str = parameter(
        "With 'separate', each latent function and each weight has its own kernels and inducing "
        "points, and a gate has the inducing points of what it gates, as in the paper. With 'one', "
        "all functions of a kind share them, which is cheaper.",
        default="separate",
        choices=("separate", "one"),
    )
    posterior: str = redeclared(ModelRegressor, "posterior", default="full")
    steps: int | None = parameter(
        "Number of training steps. By default 300 ('natural') or 1,500 ('adam').",
        default=None,
        scope="training",
    )
    learning_rate: float | Mapping[str, float] | None = parameter(
        "Learning rate of Adam: one number, or a dict with one each for 'variational', 'kernel', "
        "'inducing' and 'noise'. By default 0.1 ('natural') or 0.02 ('adam').",
        default=None,
        scope="training",
    )
    n_restarts: int = parameter(
        "Number of random starting points of training. The result with the highest bound is kept.",
        default=10,
        scope="training",
    )
    tol: float = redeclared(ModelRegressor, "tol", default=1e-5)

    _several_outputs: ClassVar = True
    _always_fixed: ClassVar = ("f.prior_mean", "W.prior_mean")
    _default_method: ClassVar = "natural"
    _training: ClassVar = {"adam": (1500, 0.02), "natural": (300, 0.1)}
    _lattice_training: ClassVar = _training

    # -- fitting --------------------------------------------------------------------------------

    def _as_target(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        Y = np.where(weight > 0, y.T, np.nan).T.reshape(len(y), -1)  # padding can be too low
        lowest = OutputScale(transform=self.y_transform).lowest
        if (too_low := lowest >= Y).any():
            row, column = (int(i[0]) for i in np.nonzero(too_low))
            raise ValueError(
                f"y_transform={self.y_transform!r} needs outputs above {lowest:g}; "
                f"row {row}, column {column} of Y is {Y[row, column]:g}. Choose another, or none."
            )
        return Y

    def _checked_pair(
        self, X: Any, y: Any, *, reset: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        named = [str(c) for c in y.columns] if hasattr(y, "columns") else None
        of_X: dict[str, Any] = {"dtype": np.float64}
        of_Y = of_X | {"ensure_all_finite": "allow-nan", "ensure_2d": False}
        X = self._as_numbers(X, reset=reset)
        rows, Y = validate_data(self, X, y, reset=reset, validate_separately=(of_X, of_Y))
        several = Y.ndim > 1
        check_consistent_length(rows, Y)
        Y = self._as_target(Y, np.ones(len(Y)))
        if reset:
            self.n_outputs_ = Y.shape[1]
            numbered = [str(p) for p in range(self.n_outputs_)]
            self._output_names = (named or numbered) if several else None
        elif Y.shape[1] != self.n_outputs_:
            raise ValueError(
                f"Y has {Y.shape[1]} columns, but the model has {self.n_outputs_} outputs."
            )
        return rows, Y

    def _first_models(
        self, X: Inputs, y: np.ndarray, weight: np.ndarray, exposure: np.ndarray | None
    ) -> tuple[list[Model], OutputScale]:
        y = OutputScale(transform=self.y_transform).transformed(y)
        seen = np.isfinite(y) * weight[:, None]
        if (unseen := np.flatnonzero(~seen.any(axis=0))).size:
            raise ValueError(
                f"Column {unseen[0]} of Y has no observation in a row with a weight: give some of "
                "them a weight, or leave the column out."
            )
        values = np.nan_to_num(y)
        refuse_too_large("Y", values)
        offset = np.sum(seen * values, axis=0) / seen.sum(axis=0)
        scale = np.sqrt(np.sum(seen * (values - offset) ** 2, axis=0) / seen.sum(axis=0))
        noise = np.full(self.n_outputs_, _FIRST_NOISE)
        likelihood: Gaussian = Gaussian.of_variance(noise, self.dtype)
        if self.latent_noise:
            latent = np.full(check_whole("n_latents", self.n_latents), _FIRST_NOISE)
            likelihood = LatentNoise.of_variances(noise, latent, self.dtype)
        seeds = np.random.default_rng(self.seed_).integers(
            2**31, size=check_whole("n_restarts", self.n_restarts)
        )
        units = OutputScale(offset, np.where(scale > 0, scale, 1.0), self.y_transform)
        return [self._first_model(X, int(seed), likelihood) for seed in seeds], units

    def _first_model(self, X: Inputs, seed: int, likelihood: Likelihood) -> Model:
        Q, P = check_whole("n_latents", self.n_latents), self.n_outputs_
        rng = np.random.default_rng(seed)
        separate = self.inducing == "separate"
        # Among D inputs the nearest of ten points is √(D/2) times as far as among two, since
        # distances grow so, times 10^(½ − 1/D) from three inputs on, where neighbours are hardly
        # nearer than others. If no inducing input is within reach of the rows, a network explains
        # them as noise and stays at that.
        D = len(self._columns())
        farther = float(np.sqrt(D / 2.0) * 10.0 ** max(0.5 - 1.0 / D, 0.0))

        def make(name: str, kernel: KernelSpec | None, shape: tuple[int, ...]) -> LatentGP:
            count = int(np.prod(shape))
            members = [
                self._latent(
                    X,
                    kernel,
                    seed=int(rng.integers(2**31)),
                    at_random=separate,
                    reach=_FIRST_REACH[name] * farther,
                    q_sd=_FIRST_SPREAD,
                )
                for _ in range(count if separate else 1)
            ]
            whole = family(members * (count // len(members)), shape, shared=not separate)
            # Where weights or latents start at zero neither can learn from the other.
            spread = _FIRST_SPREAD if name in ("f", "W") else 0.2 * _FIRST_SPREAD
            q_mean = spread * rng.normal(size=np.shape(whole.q_mean))
            return eqx.tree_at(lambda gp: gp.q_mean, whole, q_mean.astype(self.dtype))

        f, W = make("f", None, (Q,)), make("W", self.weight_kernel, (Q, P))
        shapes: dict[str, tuple[int, ...]] = {"g": (Q, P)} if self.sparse_weights else {}
        if self.sparse_latents:
            shapes["k"] = (Q,)
        gates = {
            name: replace(make(name, self.gate_kernel, shape), inducing=None)
            for name, shape in shapes.items()
        }
        prior = self.lengthscale_prior
        priors = tuple((name, *prior) for name in gates) if prior else ()
        return gp_network(f, W, likelihood, **gates, priors=priors)

    def _keep(self, fits: list[Fit], made: dict[str, Any]) -> None:
        self.restarts_ = fits
        super()._keep(fits, made)

    # -- predicting -----------------------------------------------------------------------------

    @entry_point
    def predict(self, X: Any, return_std: bool = False, known: ArrayLike | None = None) -> Any:
        """Predict the expected outputs at each row of X.

        With a transform, `back_transform` chooses whether the mean or the median is returned.

        Parameters
        ----------
        X : array-like, DataFrame, DataArray or Dataset
            Inputs. The cells of a DataArray or a Dataset are answered as by `predict_lattice`.
        return_std : bool, default=False
            If True, return standard deviations too.
        known : array-like of shape (n_rows, n_outputs), optional
            Outputs that are known at the rows, NaN for the others, which are then predicted given
            those, without fitting again.

        Returns
        -------
        mean : ndarray of shape (n_rows, n_outputs), or (n_rows,) where y had one dimension
            Expected outputs.
        sd : ndarray, shaped as `mean`
            Standard deviations of new observations, if `return_std`.

        Examples
        --------
        >>> model.predict(X).shape
        (50, 2)
        >>> model.predict([[2.0]], known=[[0.9, np.nan]]).shape
        (1, 2)
        """
        if known is None:
            return super().predict(X, return_std)
        mean, sd = self._given_known(X, known, trained=False)
        return (mean, sd) if return_std else mean

    @entry_point
    def predict_distribution(self, X: Any) -> ModelDistribution:
        self._check_choices()
        outputs = None if self._output_names is None else self.n_outputs_
        median = self.back_transform == "median"
        return ModelDistribution(self._predictions(X), self._output_scale, outputs, median=median)

    @entry_point
    def impute(self, X: ArrayLike, Y: ArrayLike) -> np.ndarray:
        """Predict the missing outputs at rows that were in training.

        With latent noise the outputs known at a row say what its own noise was; the model has
        learned the rest from them already. At new rows use `predict(X, known=Y)`.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            Inputs of the training data.
        Y : array-like of shape (n_rows, n_outputs)
            Outputs of the training data, NaN where they are missing.

        Returns
        -------
        ndarray, shaped as Y
            Y with predictions in place of what is missing.

        Examples
        --------
        >>> np.isnan(model.impute(X, Y)).any()
        np.False_
        """
        return self._given_known(X, Y, trained=True)[0]

    def _given_known(
        self, X: ArrayLike, known: ArrayLike, *, trained: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return means and standard deviations given the known outputs, which are as they are."""
        check_is_fitted(self)
        self._check_choices()
        rows, Y = self._checked_pair(X, known)
        inputs, values, weights, _ = self._in_model_units(rows, Y, np.ones(len(rows)))
        # Without noise of their own, latents at a row of the training data are as q has them.
        local = trained and not self.latent_noise
        signal = Predictions(self.model_, Rows(inputs)).ask(
            predictions.given_outputs,
            np.asarray(float(trained and not local)),
            along=[values, np.zeros_like(weights) if local else weights > 0],
        )
        noise = np.reshape(self.noise_sd_ / self.y_scale_, (-1, 1)) ** 2
        mean = self.y_offset_ + self.y_scale_ * signal["mean"].T
        var = self.y_scale_**2 * (signal["var"] + noise).T
        sd = np.sqrt(var)
        if self.y_transform is not None:
            average, median = np.exp(mean + 0.5 * var), np.exp(mean)
            sd = average * np.sqrt(np.expm1(var))
            mean = average if self.back_transform == "mean" else median
            mean = mean - (self.y_transform == "log1p")
        unknown, shape = np.isnan(Y), np.shape(Y)[: 1 if self._output_names is None else 2]
        return (
            np.where(unknown, mean, Y).reshape(shape),
            np.where(unknown, sd, 0.0).reshape(shape),
        )

    @entry_point
    def predict_network(self, X: ArrayLike) -> NetworkParts:
        """Predict latents, weights, support, and what each latent adds to each output.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            Inputs.

        Returns
        -------
        NetworkParts
            Arrays over the rows.

        Examples
        --------
        >>> model.predict_network(X).support.shape
        (50, 1, 2)
        """
        out = self._predictions(X).ask(predictions.network)
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
