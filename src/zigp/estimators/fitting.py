"""Estimators with one model: from checked inputs to a trained model, and its bound.

Users' outputs are [rows] or [rows, P]; in the model rows run along the last axis, [rows] or
[P, rows].
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from math import prod
from numbers import Integral
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import jax
import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from zigp.data.layout import (
    ColumnList,
    Inputs,
    Layout,
    as_batch,
    column_index,
    listed,
    refuse_too_large,
)
from zigp.diagnostics.sanity import findings
from zigp.estimators.families import Start
from zigp.estimators.initial import KernelSpec, Sparsity, initial_latent
from zigp.estimators.outputs import OutputScale
from zigp.estimators.parameters import GPSettings
from zigp.estimators.streams import feed_of
from zigp.gp.batch import Batch, Lattice, Rows
from zigp.gp.latent import LatentGP
from zigp.models import predictions
from zigp.models.model import Model
from zigp.models.predictions import Predictions
from zigp.runtime.session import entry_point, make_room, surroundings
from zigp.training import (
    Checkpoints,
    Feed,
    Fit,
    InterruptedFitError,
    Method,
    Streamed,
    TrainingSettings,
    check_whole,
    digest_of,
    train_restarts,
)
from zigp.training.devices import Devices, available
from zigp.training.progress import progress_bar

if TYPE_CHECKING:
    from zigp.data.streams import Block, Stream

Training = Mapping[str, tuple[int, float]]

# Larger lattices are looked at in slabs.
_MOST_CELLS, _CELLS_IN_A_STEP = 1_000_000, 250_000
# What a stream is begun with, and goes on by.
_SAMPLE, _ROWS_IN_A_STEP = 50_000, 2**14
# Where training starts, in the model's units. A wide gate can open and close between neighbours.
FIRST_GATE_VARIANCE = 4.0


class SparseGP(GPSettings):
    """Base class of estimators of a single model, which is trained on its bound.

    Attributes
    ----------
    model_ : Model
        Trained model of centred inputs and scaled outputs.
    layout_ : Layout
        Column groups, and the point at which inputs are centred.
    bounds_ : ndarray of shape (n_iter_,)
        Bound before each training step; an unbiased estimate if steps look at some of the rows.
    times_ : ndarray of shape (n_iter_,)
        Seconds from the start of training to each step.
    seconds_ : float
        Duration of training in seconds.
    n_iter_ : int
        Number of training steps.
    n_rows_ : int
        Number of rows with a weight, estimated from a sample for a stream.
    stopped_ : str
        Reason why training stopped.
    failed_ : bool
        Whether training stopped because the bound was no longer finite.
    retried_ : list of int
        Steps at which a larger jitter was needed.
    on_lattice_ : bool
        Whether the rows fill a lattice and were fitted as one.
    fitted_with_ : dict
        Method, versions and devices: what must be the same for a fit to give the same numbers.
    seed_ : int
        Seed drawn from `random_state`.
    y_offset_, y_scale_ : float or ndarray
        Units of the model: it describes (y − y_offset_) / y_scale_.
    y_reach_ : float
        Largest absolute output divided by the median of those that are not zero.
    """

    # Latents and weights have mean zero, as in the paper; only a gate's mean is learned.
    _always_fixed: ClassVar[tuple[str, ...]] = ("f.prior_mean",)
    _default_method: ClassVar[Method] = "adam"
    # Steps and learning rate of each method. A lattice with an inducing point at every coordinate
    # overfits when trained to the end.
    _training: ClassVar[Training] = {"adam": (1000, 0.05), "natural": (300, 0.1)}
    _lattice_training: ClassVar[Training] = {"adam": (400, 0.05), "natural": (200, 0.1)}

    # -- what a subclass provides ---------------------------------------------------------------

    @abstractmethod
    def _first_guess(self, y: np.ndarray, weight: np.ndarray, exposure: np.ndarray | None) -> Start:
        """Return the initial likelihood, and the offset and scale of the outputs."""

    @abstractmethod
    def _initial(self, X: Inputs, layout: Layout, sparsity: Sparsity, start: Start) -> Model:
        """Return the model before training, for inputs and scaled outputs."""

    def _title(self) -> str:
        """Return the title of the progress bar."""
        return type(self).__name__

    # -- fitting --------------------------------------------------------------------------------

    @entry_point
    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit the model to observations y at inputs X.

        Parameters
        ----------
        X : array-like, DataFrame, DataArray or Dataset
            Inputs, in any units. A DataArray holds the observations itself, and each of its
            dimensions is an axis of a lattice; so does a Dataset.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs), or str, optional
            Observations, in any unit; of a Dataset the name of the variable that holds them.
        sample_weight : array-like of shape (n_rows,), optional
            Weight of each row.

        Returns
        -------
        Self
            The fitted estimator.

        Examples
        --------
        >>> model.fit(X, y, sample_weight=np.ones(60)).n_rows_
        60
        """
        make_room()
        if jax.process_count() > 1:
            raise ValueError(
                "fit takes all rows, so several processes would count each of them several times. "
                "Divide the rows: fit_stream(open_stream(…, part=(jax.process_index(), "
                "jax.process_count())))."
            )
        X, y, sample_weight, column_groups, places = self._as_table(X, y, sample_weight)
        first, inputs, target, weight = self._prepare(X, y, sample_weight, column_groups, places)
        _, values, weights, shift = self._in_model_units(inputs.X, target, weight)
        data = as_batch(inputs, values, weights, self.layout_, self._dtype())
        self.n_rows_ = int(np.count_nonzero(weight))
        self.on_lattice_ = isinstance(data.at, Lattice)
        cells = prod(data.at.shape) if self.on_lattice_ else 0
        settings = self._settings(cells, first[0].likelihood.early_pace)
        shape = f" on a lattice of {' × '.join(map(str, data.at.shape))}" * self.on_lattice_
        self._train(first, data, settings, shift, self._title() + shape)
        return self

    @entry_point
    def fit_stream(self, stream: Stream, passes: float = 1.0) -> Self:
        """Fit the model to data of any size, block by block.

        Units, length-scales and inducing points are set from a sample of 50,000 rows. Training then
        uses every row once in each pass, in steps of `batch_size` rows (16,384 by default), a whole
        number of which makes a block. Memory does not grow with the number of rows. The number of
        rows with a target (`n_rows_`) is estimated from the sample. Where `jax.distributed`
        connects several processes, each reads its own part.

        Parameters
        ----------
        stream : Stream
            The data, as `zigp.open_stream` opens them.
        passes : float, default=1.0
            Number of passes over the stream. If `steps` is set, it counts instead.

        Returns
        -------
        Self
            The fitted estimator.

        Examples
        --------
        >>> frame = pd.DataFrame({"x": X[:, 0], "y": y})
        >>> frame.to_parquet("data.parquet")
        >>> stream = zigp.open_stream("data.parquet", target="y", rows_per_block=60)
        >>> ZeroInflatedGPRegressor(n_inducing=12).fit_stream(stream, passes=5).n_rows_
        60
        """
        make_room()
        if jax.process_count() > 1 and self.random_state is None:
            raise ValueError(
                "random_state=None draws another seed in every process, but all must start from "
                "the same values: give a number."
            )
        self.units_, self.origin_ = {}, {}
        seed = int(check_random_state(self.random_state).randint(2**31))
        X, y = stream.sample(_SAMPLE, seed, gaps=True)
        observed = ~np.isnan(y)
        self.n_rows_ = round(stream.rows * float(np.mean(observed)))
        X, y = X[observed].reset_index(drop=True), y[observed]
        groups = stream.groups if self.column_groups is None else self.column_groups
        first, inputs, target, weight = self._prepare(X, y, None, groups)
        rows = inputs.X
        shift = self._in_model_units(rows, target, weight)[3] * self.n_rows_ / len(rows)
        devices = self._devices()
        read = stream if self.table_ is None else stream.read_as(self.table_)
        size = check_whole("batch_size", self.batch_size or _ROWS_IN_A_STEP)
        contents = stream.digest(rows, target)
        feed = feed_of(read, contents, size, self.seed_, self._dtype(), self._of_block, devices)
        self.on_lattice_ = False
        settings = self._settings(0, first[0].likelihood.early_pace)
        steps = self.steps or max(round(passes * feed.steps_per_pass), 1)
        settings = replace(settings, steps=steps, chunk=feed.steps, tol=0.0, batch_size=None)
        self._train(first, feed, settings, shift, f"{self._title()} on {stream.rows:,} rows")
        return self

    def _of_block(self, block: Block) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return a stream's block in the model's units."""
        try:
            y = self._as_target(block.y, block.weight)
            return self._in_model_units(block.X, y, block.weight)[:3]
        except ValueError as error:
            raise ValueError(f"In a block of the stream, of shuffled rows: {error}") from error

    def _prepare(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        column_groups: Any,
        places: Mapping[tuple[int, ...], np.ndarray] = MappingProxyType({}),
    ) -> tuple[list[Model], Inputs, np.ndarray, np.ndarray]:
        """Return the models that training starts from, and the checked rows with their weights."""
        again = self.warm_start and hasattr(self, "model_")
        if again:
            self._refuse_another_structure()
        elif hasattr(self, "model_"):
            del self.model_  # so that nothing is left of it if this fit fails
        rows, target = self._checked_pair(X, y, reset=not again)
        weight = row_weights(sample_weight, rows)
        self.seed_ = seed = int(check_random_state(self.random_state).randint(2**31))
        inputs = Inputs(rows, places.get)
        if again:
            return [self.model_], inputs, target, weight
        self.layout_ = Layout.of(
            inputs.only(weight > 0),
            column_groups,
            self.latlon,
            getattr(self, "feature_names_in_", None),
            exposure=getattr(self, "exposure", None),
            categorical=() if self.table_ is None else self.table_.categories,
            split=self._may_split(),
        )
        refuse_too_large("X", rows[weight > 0], self._dtype())
        transformed = self._transformed(target)
        start = self._first_guess(transformed, weight, self._exposure_of(rows))
        self.y_offset_, self.y_scale_ = start.offset, start.scale
        weights = self._in_model_units(rows, target, weight)[2]
        counted = weights.reshape(-1, len(rows)).any(axis=0)
        self.y_reach_ = self._reach(transformed[counted])
        sparsity = Sparsity(self.n_inducing, self.covariance, seed, self._dtype())
        first = self._first_models(inputs.only(counted), self.layout_, sparsity, start)
        return first, inputs, target, weight

    def _reach(self, y: np.ndarray) -> float:
        """Return the largest output divided by the median of the non-zero ones."""
        return max((_reach_of(column) for column in np.reshape(y, (len(y), -1)).T), default=1.0)

    def _train(
        self,
        first: list[Model],
        data: Batch | Feed,
        settings: TrainingSettings,
        shift: float,
        title: str,
    ) -> None:
        """Train and keep the best model, also of a fit that is interrupted."""
        more: dict[str, Any] = {
            "shift": shift,
            "devices": data.devices if isinstance(data, Streamed) else self._devices(),
            "checkpoints": self._checkpoints(),
        }
        made = self._way_of_training(data, settings, more["devices"])
        with progress_bar(title) if self.verbose else nullcontext() as show:
            try:
                fits = train_restarts(first, data, settings, show, **more)
            except InterruptedFitError as stop:
                if any(len(fit.bounds) for fit in stop.fits):
                    self._keep(stop.fits)
                    self.fitted_with_ = made
                raise
        self._keep(fits)
        self.fitted_with_ = made
        if more["checkpoints"] is not None:
            more["checkpoints"].clear()

    def _way_of_training(
        self, data: Batch | Feed, settings: TrainingSettings, devices: Devices | None
    ) -> dict[str, Any]:
        """Return all that must be the same for a fit to give the same bits again."""
        schedule = settings.schedule if isinstance(settings.schedule, str) else "a function"
        made = {
            "seed": self.seed_,
            "method": settings.method,
            "dtype": self._dtype(),
            "steps": settings.steps,
            "batch_size": data.batch_size if isinstance(data, Streamed) else settings.batch_size,
            "schedule": schedule,
            "max_seconds": settings.max_seconds,
            "warm_start": hasattr(self, "model_"),
            "data": digest_of(data) if isinstance(data, Batch) else data.digest(),
            "devices": 1 if devices is None else devices.count,
            **surroundings(),
        }
        return {k: v.item() if isinstance(v, np.generic) else v for k, v in made.items()}

    def _checkpoints(self) -> Checkpoints | None:
        if self.checkpoint is None:
            if self.resume:
                raise ValueError("resume=True requires a folder: give checkpoint too.")
            return None
        if not isinstance(self.random_state, Integral):
            raise ValueError(
                f"Checkpoints require an integer random_state, not {self.random_state!r}: give a "
                "number, so that a fit can resume where it was interrupted."
            )
        return Checkpoints(
            self.checkpoint,
            seconds=self.checkpoint_seconds,
            resume=self.resume,
            writes=jax.process_index() == 0,
        )

    def _devices(self) -> Devices | None:
        """Return the devices that the data are divided among, unless there is only one."""
        divided = self._chosen("devices") == "data" or jax.process_count() > 1
        return available() if divided else None

    def _first_models(
        self, X: Inputs, layout: Layout, sparsity: Sparsity, start: Start
    ) -> list[Model]:
        """Return the models that training starts from: one, or one for each restart."""
        return [self._initial(X, layout, sparsity, start)]

    def _keep(self, fits: list[Fit]) -> None:
        """Keep the best fit, by the bound it reached."""
        reached = [fit.bounds[-1] if len(fit.bounds) else -np.inf for fit in fits]
        best = fits[int(np.argmax(reached))]
        if not len(best.bounds):
            raise FloatingPointError(best.stopped)
        if best.failed:
            warnings.warn(best.stopped, ConvergenceWarning, stacklevel=4)
        self.model_, self.bounds_, self.times_ = best.model, best.bounds, best.times
        self.seconds_, self.stopped_, self.retried_ = best.seconds, best.stopped, best.retried
        self.failed_ = best.failed
        self.n_iter_ = len(best.bounds)
        self._structure = self._current_structure()

    @entry_point
    def sanity(self) -> list[str]:
        """List what looks wrong with the fit.

        It reports training that failed, that needed more jitter or that has not converged,
        length-scales much larger than the data or smaller than their spacing, gates that are always
        open or always shut, collapsed inducing points, and noise at its floor. `zigp.diagnostics`
        checks predictions.

        Returns
        -------
        list of str
            A sentence for each finding; empty if there is none.

        Examples
        --------
        >>> ZeroInflatedGPRegressor(n_inducing=12, steps=20).fit(X, y).sanity()
        ['Not converged: 20 steps are too few to tell. Raise steps.']
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", range(self.n_features_in_))
        called = [name if isinstance(name, str) else f"column {name}" for name in names]
        # On a lattice training stops early on purpose, unless the steps were given.
        early = self.steps is None and len(self.layout_.groups) > 1
        bounds = None if early and not self.failed_ else self.bounds_ / max(self.n_rows_, 1)
        failure = self.stopped_ if self.failed_ else ""
        reach = getattr(self, "y_reach_", 1.0)
        return findings(self.model_, called, bounds, failure, self.retried_, reach)

    def _summary(self) -> dict[str, Any]:
        trained = {
            "rows": self.n_rows_,
            "steps": self.n_iter_,
            "seconds": round(float(self.seconds_), 3),
            "bound": float(self.bounds_[-1]),
            "stopped": self.stopped_,
            "seed": self.seed_,
            "jitter_raised_at": self.retried_,
        }
        return super()._summary() | {
            "trained": trained,
            "made_with": getattr(self, "fitted_with_", {}),
        }

    def _current_structure(self) -> dict[str, str]:
        """Return the settings that decide what is fitted, as text."""
        settings = {name: getattr(self, name) for name in sorted(self._names("model"))}
        return {k: repr(v.item() if isinstance(v, np.generic) else v) for k, v in settings.items()}

    def _refuse_another_structure(self) -> None:
        now = self._current_structure()
        if changed := [name for name in now if now[name] != self._structure[name]]:
            raise ValueError(
                f"warm_start continues to train the fitted model, but {', '.join(changed)} differ "
                "from its settings. Set them back, or fit with warm_start=False."
            )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def _settings(self, cells: int, early_pace: float) -> TrainingSettings:
        """Return the settings of training, with the defaults for the data and the method."""
        one_group = len(self.layout_.groups) == 1
        learn = one_group if self.learn_inducing is None else self.learn_inducing
        given = [self.fixed] if isinstance(self.fixed, str) else self.fixed
        fixed = (*given, *self._always_fixed, *(() if learn else ("inducing",)))
        chosen = self._chosen("method")
        method = cast("Method", self._default_method if chosen == "auto" else chosen)
        steps, rate = (self._training if one_group else self._lattice_training)[method]
        in_slabs = self.batch_size is None and cells > _MOST_CELLS
        return TrainingSettings(
            steps=steps if self.steps is None else self.steps,
            method=method,
            learning_rate=rate if self.learning_rate is None else self.learning_rate,
            noise_pace=1.0 if one_group else early_pace,
            schedule=self.schedule,
            batch_size=_CELLS_IN_A_STEP if in_slabs else self.batch_size,
            fixed=fixed,
            tol=self.tol,
            max_seconds=self.max_seconds,
            seed=self.seed_,
        )

    def _latent(
        self,
        X: Inputs,
        layout: Layout,
        sparsity: Sparsity,
        kernel: KernelSpec,
        inputs: ColumnList | None,
        *,
        variance: float = 1.0,
    ) -> LatentGP:
        columns = self._columns(X.shape[1], inputs)
        return initial_latent(X, layout, columns, kernel, sparsity, variance=variance)

    def _exposure_of(self, rows: np.ndarray) -> np.ndarray | None:
        """Return the column of exposures, if there is one; it must be positive."""
        if (column := self.layout_.exposure) is None:
            return None
        if np.any(rows[:, column] <= 0):
            row = int(np.flatnonzero(rows[:, column] <= 0)[0])
            raise ValueError(
                f"Exposures must be positive; in row {row} it is {rows[row, column]:g}. Leave out "
                "rows without any effort."
            )
        return rows[:, column]

    def _columns(self, D: int, inputs: ColumnList | None) -> Sequence[int]:
        """Return the positions of a latent's input columns: all, unless some are named."""
        names = getattr(self, "feature_names_in_", None)
        chosen = range(D) if inputs is None else [column_index(c, D, names) for c in listed(inputs)]
        return [c for c in chosen if c != self.layout_.exposure]

    @entry_point
    def elbo(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the lower bound on log p(y), in the units of y.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            Inputs.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
            Observations.
        sample_weight : array-like of shape (n_rows,), optional
            Weight of each row.

        Returns
        -------
        float
            The bound, without priors on hyperparameters.

        Examples
        --------
        >>> model.elbo(X, y) > model.elbo(X, y + 1)
        True
        """
        check_is_fitted(self)
        rows, target = self._checked_pair(X, y)
        weight = row_weights(sample_weight, rows)
        rows, values, weights, shift = self._in_model_units(rows, target, weight)
        return predictions.elbo(self.model_, rows, values, weights) + shift

    # -- shared ---------------------------------------------------------------------------------

    def _as_target(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """The outputs of a stream's block, as `_checked_pair` would have them."""
        return y

    def _refuse_unsuited(self, X: np.ndarray, y: np.ndarray, weight: np.ndarray) -> None:
        """An error where the likelihood has no place for what was observed.

        It is asked about all that the bound is evaluated on: when a fit starts or goes on, by
        `elbo`, and about every block of a stream.
        """
        self._exposure_of(X)

    def _transformed(self, y: np.ndarray) -> np.ndarray:
        """Return the outputs on the scale that they are shifted and divided on."""
        return OutputScale(0.0, 1.0, getattr(self, "y_transform", None)).transformed(y)

    @property
    def _output_scale(self) -> OutputScale:
        """The map between outputs in the user's units and the model's."""
        return OutputScale(self.y_offset_, self.y_scale_, getattr(self, "y_transform", None))

    def _in_model_units(
        self, X: np.ndarray, y: np.ndarray, weight: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """Return inputs, outputs and weights for the model, and what takes its bound to y's units.

        Missing outputs get weight 0.
        """
        self._refuse_unsuited(X, y, weight)
        scale = self._output_scale
        values = scale.to_model(y).T
        weights = np.where(np.isfinite(values), weight, 0.0)
        shift = scale.log_jacobian(y, weights)
        return X - self.layout_.centre, np.nan_to_num(values), weights, shift

    def _predictions(self, X: Any) -> Predictions:
        """Evaluate the model's Gaussian processes at rows, or at the cells of a lattice."""
        check_is_fitted(self)
        centre = self.layout_.centre
        if isinstance(X, Lattice):
            axes = (a - centre[list(c)] for a, c in zip(X.axes, X.columns, strict=True))
            inputs = Lattice(tuple(axes), X.columns, X.exposure, X.exposure_column)
            return Predictions(self.model_, inputs)
        rows = self._checked(X) - centre
        self._exposure_of(rows)
        return Predictions(self.model_, Rows(rows))


def _reach_of(values: np.ndarray) -> float:
    sizes = np.abs(values[np.isfinite(values) & (values != 0)])
    with np.errstate(over="ignore"):
        return float(sizes.max() / np.median(sizes)) if len(sizes) else 1.0


def row_weights(sample_weight: ArrayLike | None, X: np.ndarray) -> np.ndarray:
    return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
