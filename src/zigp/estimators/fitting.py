"""What estimators of one model share: checking, units and training.

Users' outputs are [rows] or [rows, P]; inside, rows run along the last axis, [rows] or [P, rows].
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from math import prod
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import jax
import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from zigp.data.layout import ColumnList, Layout, as_batch, column_index, listed, refuse_too_large
from zigp.diagnostics.sanity import findings
from zigp.estimators.initial import KernelSpec, Sparsity, initial_latent
from zigp.estimators.parameters import GPSettings
from zigp.estimators.streams import feed_of
from zigp.gp.batch import Batch, Lattice
from zigp.gp.latent import LatentGP
from zigp.models import predictions
from zigp.models.model import Model
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

__all__ = ["FIRST_GATE_VARIANCE", "SparseGP", "row_weights"]

Training = Mapping[str, tuple[int, float]]

# Larger lattices are looked at in slabs.
_MOST_CELLS, _CELLS_IN_A_STEP = 1_000_000, 250_000
# What a stream is begun with, and goes on by.
_SAMPLE, _ROWS_IN_A_STEP = 50_000, 2**14
# Where training starts, in the model's units. A wide gate can open and close between neighbours.
FIRST_GATE_VARIANCE = 4.0


class SparseGP(GPSettings):
    """An estimator with one model, trained on its bound; a subclass says which."""

    # Latents and weights have mean zero, as in the paper; only a gate's mean is learned.
    _always_fixed: ClassVar[tuple[str, ...]] = ("f.prior_mean",)
    _default_method: ClassVar[Method] = "adam"
    # Steps and learning rate of each method. A lattice with an inducing point at every coordinate
    # overfits when trained to the end.
    _training: ClassVar[Training] = {"adam": (1000, 0.05), "natural": (300, 0.1)}
    _lattice_training: ClassVar[Training] = {"adam": (400, 0.05), "natural": (200, 0.1)}

    # -- what a subclass provides ---------------------------------------------------------------

    @abstractmethod
    def _scaling(
        self, y: np.ndarray, weight: np.ndarray, exposure: np.ndarray | None
    ) -> tuple[Any, Any]:
        """Offset and scale that take y to the model's units: (y − offset) / scale."""

    @abstractmethod
    def _initial(self, X: np.ndarray, layout: Layout, sparsity: Sparsity) -> Model:
        """The model before training, for centred inputs and scaled outputs."""

    def _title(self) -> str:
        """What is being fitted, for those who watch."""
        return type(self).__name__

    # -- fitting --------------------------------------------------------------------------------

    @entry_point
    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit the model to observations y at inputs X, both in your own units.

        X may also be an xarray DataArray that holds the observations, or a Dataset of which y names
        one: then each dimension is an axis of a lattice.

        >>> model.fit(X, y, sample_weight=np.ones(60)).n_rows_
        60
        """
        make_room()
        if jax.process_count() > 1:
            raise ValueError(
                "fit takes all rows, and several processes would count them once each: divide "
                "them with fit_stream(open_stream(…, part=(jax.process_index(), "
                "jax.process_count())))."
            )
        X, y, sample_weight, column_groups = self._as_table(X, y, sample_weight)
        again = self.warm_start and hasattr(self, "model_")
        if again:
            self._refuse_another_structure()
        first, rows, target, weight = self._begun(X, y, sample_weight, column_groups, again)
        rows, values, weights, shift = self._in_model_units(rows, target, weight)
        layout = self.layout_
        data = as_batch(rows, values, weights, layout.groups, self._dtype(), layout.exposure)
        self.n_rows_ = int(np.count_nonzero(weight))
        self.on_lattice_ = isinstance(data.at, Lattice)
        cells = prod(data.at.shape) if self.on_lattice_ else 0
        settings = self._settings(cells, first[0].likelihood.early_pace)
        shape = f" on a lattice of {' × '.join(map(str, data.at.shape))}" * self.on_lattice_
        self._train(first, data, settings, shift, self._title() + shape)
        return self

    @entry_point
    def fit_stream(self, stream: Stream, passes: float = 1.0) -> Self:
        """Fit the model to data of any size, which pass by block after block.

        The stream is made by `zigp.open_stream`, from Parquet files or a Zarr lattice. Units,
        length-scales and inducing points are set from a sample of 50,000 rows; then every row is
        looked at once in each pass, in steps of `batch_size` rows (16,384 if left open), a whole
        number of which is taken from a block, enlarged if need be. If `steps` is given, it counts
        instead of passes. Memory does not grow with the number of rows. How many of them have a
        target (`n_rows_`) is told from the sample. Where `jax.distributed` connects several
        processes, each reads its own part.

        >>> frame = pd.DataFrame({"x": X[:, 0], "y": y})
        >>> frame.to_parquet("data.parquet")
        >>> stream = zigp.open_stream("data.parquet", target="y", rows_per_block=60)
        >>> ZeroInflatedGPRegressor(n_inducing=12).fit_stream(stream, passes=5).n_rows_
        60
        """
        make_room()
        if jax.process_count() > 1 and self.random_state is None:
            raise ValueError(
                "random_state=None draws another seed in every process, but all must start at the "
                "same place: give a number."
            )
        self.units_ = {}
        seed = int(check_random_state(self.random_state).randint(2**31))
        X, y = stream.sample(_SAMPLE, seed, gaps=True)
        seen = ~np.isnan(y)
        self.n_rows_ = round(stream.rows * float(np.mean(seen)))  # as far as the sample can tell
        X, y = X[seen].reset_index(drop=True), y[seen]
        groups = stream.groups if self.column_groups is None else self.column_groups
        again = self.warm_start and hasattr(self, "model_")
        if again:
            self._refuse_another_structure()
        first, rows, target, weight = self._begun(X, y, None, groups, again)
        shift = self._in_model_units(rows, target, weight)[3] * self.n_rows_ / len(rows)
        devices = self._devices()
        read = stream if self.table_ is None else stream.read_as(self.table_)
        feed = self._feed(read, stream.digest(rows, target), devices)
        self.on_lattice_ = False
        settings = self._settings(0, first[0].likelihood.early_pace)
        steps = self.steps or max(round(passes * feed.steps_per_pass), 1)
        settings = replace(settings, steps=steps, chunk=feed.steps, tol=0.0, batch_size=None)
        self._train(first, feed, settings, shift, f"{self._title()} on {stream.rows:,} rows")
        return self

    def _feed(self, stream: Stream, contents: str, devices: Devices | None) -> Streamed:
        """What a stream has, in the model's units and ready for its steps."""
        batch = check_whole("batch_size", self.batch_size or _ROWS_IN_A_STEP)
        return feed_of(stream, contents, batch, self.seed_, self._dtype(), self._of_block, devices)

    def _of_block(self, found: Block) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A stream's block in the model's units."""
        try:
            y = self._as_target(found.y, found.weight)
            return self._in_model_units(found.X, y, found.weight)[:3]
        except ValueError as error:
            raise ValueError(f"In a block of the stream, of shuffled rows: {error}") from error

    def _begun(
        self, X: Any, y: Any, sample_weight: Any, column_groups: Any, again: bool
    ) -> tuple[list[Model], np.ndarray, np.ndarray, np.ndarray]:
        """Where training starts, and the rows that this was decided by, with their weights."""
        if not again and hasattr(self, "model_"):
            del self.model_  # nothing is left of it if this fit fails
        rows, target = self._checked_pair(X, y, reset=not again)
        weight = row_weights(sample_weight, rows)
        self.seed_ = seed = int(check_random_state(self.random_state).randint(2**31))
        if again:
            return [self.model_], rows, target, weight
        self.layout_ = Layout.of(
            rows[weight > 0],
            column_groups,
            self.latlon,
            getattr(self, "feature_names_in_", None),
            exposure=getattr(self, "exposure", None),
            categorical=() if self.table_ is None else self.table_.categories,
            split=self._may_split(),
        )
        refuse_too_large("X", rows[weight > 0], self._dtype())
        self.y_offset_, self.y_scale_ = self._scaling(
            self._transformed(target), weight, self._exposure_of(rows)
        )
        inputs, _, weights, _ = self._in_model_units(rows, target, weight)
        counted = weights.reshape(-1, len(rows)).any(axis=0)
        self.y_reach_ = self._reach(self._transformed(target[counted]))
        sparsity = Sparsity(self.n_inducing, self.covariance, seed, self._dtype())
        return self._first_models(inputs[counted], self.layout_, sparsity), rows, target, weight

    def _reach(self, y: np.ndarray) -> float:
        """How far the largest output lies above the median of those that are not zero."""
        return max((_reach_of(column) for column in np.reshape(y, (len(y), -1)).T), default=1.0)

    def _train(
        self,
        first: list[Model],
        data: Batch | Feed,
        settings: TrainingSettings,
        shift: float,
        title: str,
    ) -> None:
        """Train, and keep the best; also what there is if somebody stops it."""
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
        """All that must be the same for a fit to give the same bits again."""
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
                raise ValueError("resume=True needs the folder to go on from: give checkpoint too.")
            return None
        if not isinstance(self.random_state, Integral):
            raise ValueError(
                f"random_state={self.random_state!r} starts elsewhere at every fit, so none could "
                "go on from a checkpoint: give a number."
            )
        return Checkpoints(
            self.checkpoint,
            seconds=self.checkpoint_seconds,
            resume=self.resume,
            writes=jax.process_index() == 0,
        )

    def _devices(self) -> Devices | None:
        if self.devices not in ("one", "data"):
            raise ValueError(f"devices must be 'one' or 'data', not {self.devices!r}.")
        return available() if self.devices == "data" or jax.process_count() > 1 else None

    def _first_models(self, X: np.ndarray, layout: Layout, sparsity: Sparsity) -> list[Model]:
        """Where training starts: one model, or one for each restart."""
        return [self._initial(X, layout, sparsity)]

    def _keep(self, fits: list[Fit]) -> None:
        """Remember the best fit, by the bound it reached."""
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
        """What looks wrong with the fit, a sentence each; empty if nothing does.

        Training that failed, that more jitter had to help or that has not converged, length-scales
        beyond the data or below its spacing, gates that are always open or always shut, inducing
        points that have collapsed, noise at its floor. It does not look at predictions; see
        `zigp.diagnostics` for that.

        >>> ZeroInflatedGPRegressor(n_inducing=12, steps=20).fit(X, y).sanity()
        ['Not converged: 20 steps are too few to tell. Raise steps.']
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", range(self.n_features_in_))
        called = [name if isinstance(name, str) else f"column {name}" for name in names]
        # On a lattice training is stopped early on purpose, unless somebody gave the steps.
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
        """The settings that a model's shape follows from."""
        training = {
            *TrainingSettings.__dataclass_fields__,
            "max_seconds",
            "learn_inducing",
            "n_restarts",
        }
        own = {"warm_start", "random_state", "verbose", "back_transform", "checkpoint", "resume"}
        own |= {"devices", "checkpoint_seconds"}
        given = {k: v for k, v in self.get_params().items() if k not in training | own}
        return {k: repr(v.item() if isinstance(v, np.generic) else v) for k, v in given.items()}

    def _refuse_another_structure(self) -> None:
        now = self._current_structure()
        if changed := [name for name in now if now[name] != self._structure[name]]:
            raise ValueError(
                f"warm_start goes on from the fitted model, but {', '.join(changed)} differ from "
                "what it was fitted with. Set them back, or fit with warm_start=False."
            )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def _settings(self, cells: int, early_pace: float) -> TrainingSettings:
        fixed = (
            *([self.fixed] if isinstance(self.fixed, str) else self.fixed),
            *self._always_fixed,
        )
        one_group = len(self.layout_.groups) == 1
        learn = one_group if self.learn_inducing is None else self.learn_inducing
        fixed += () if learn else ("inducing",)
        if self.method not in ("auto", "adam", "natural"):
            raise ValueError(f"method must be 'auto', 'adam' or 'natural', not {self.method!r}.")
        method = cast("Method", self._default_method if self.method == "auto" else self.method)
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
        X: np.ndarray,
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
        """The column of exposures, which must be positive, if there is one."""
        if (column := self.layout_.exposure) is None:
            return None
        if np.any(rows[:, column] <= 0):
            row = int(np.flatnonzero(rows[:, column] <= 0)[0])
            raise ValueError(
                f"Exposures must be positive; in row {row} it is {rows[row, column]:g}. Leave out "
                "rows without any effort: they say nothing."
            )
        return rows[:, column]

    def _columns(self, D: int, inputs: ColumnList | None) -> Sequence[int]:
        """The positions of the columns that a latent looks at: all, unless some are named."""
        names = getattr(self, "feature_names_in_", None)
        chosen = range(D) if inputs is None else [column_index(c, D, names) for c in listed(inputs)]
        return [c for c in chosen if c != self.layout_.exposure]

    @entry_point
    def elbo(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """The lower bound on log p(y), in the units of y.

        >>> model.elbo(X, y) > model.elbo(X, y + 1)
        True
        """
        check_is_fitted(self)
        rows, target = self._checked_pair(X, y)
        weight = row_weights(sample_weight, rows)
        rows, values, weights, shift = self._in_model_units(rows, target, weight)
        return predictions.elbo(self.model_, rows, values, weights) + shift

    # -- shared ---------------------------------------------------------------------------------

    def _checked_pair(
        self, X: Any, y: Any, *, reset: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        X = self._as_numbers(X, reset=reset)
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, reset=reset)
        return X, y.astype(float)  # the smallest whole number has no absolute value

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
        """The outputs on the scale that the model works on, before shifting and dividing."""
        return y

    def _in_model_units(
        self, X: np.ndarray, y: np.ndarray, weight: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """Inputs, outputs and weights for the model, and what takes its bound to the user's units.

        p(y) = p(y/scale) / scale for each observation. Missing outputs get weight 0.
        """
        self._refuse_unsuited(X, y, weight)
        values = ((self._transformed(y) - self.y_offset_) / self.y_scale_).T
        weights = np.where(np.isfinite(values), weight, 0.0)
        shift = -float(np.sum(weights * np.log(np.reshape(self.y_scale_, (-1, 1)))))
        return X - self.layout_.centre, np.nan_to_num(values), weights, shift

    def _in_user_units(self, values: np.ndarray) -> np.ndarray:
        """[P, rows] from the model, or [rows], as the user's [rows, P] or [rows]."""
        return self.y_offset_ + self.y_scale_ * values.T

    def _over_rows(
        self, X: ArrayLike, function: Callable, *args: np.ndarray, along: np.ndarray | None = None
    ) -> dict[str, np.ndarray]:
        check_is_fitted(self)
        layout = self.layout_
        if isinstance(X, Lattice):
            axes = (a - layout.centre[list(c)] for a, c in zip(X.axes, X.columns, strict=True))
            centred = Lattice(tuple(axes), X.columns, X.exposure, X.exposure_column)
            return predictions.over_cells(self.model_, centred, function, *args)
        rows = self._checked(X) - layout.centre
        self._exposure_of(rows)
        return predictions.over_rows(self.model_, rows, function, *args, along=along)


def _reach_of(values: np.ndarray) -> float:
    sizes = np.abs(values[np.isfinite(values) & (values != 0)])
    with np.errstate(over="ignore"):
        return float(sizes.max() / np.median(sizes)) if len(sizes) else 1.0


def row_weights(sample_weight: ArrayLike | None, X: np.ndarray) -> np.ndarray:
    return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
