"""Estimators with one model: the fit to rows or to a stream, and the record of its training."""

import warnings
from collections.abc import Generator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from itertools import count
from math import prod
from numbers import Integral
from typing import Any, ClassVar, Self, cast

import jax
import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from zigp.data.layout import as_batch, listed
from zigp.data.streams import Block, Stream, prefetched
from zigp.diagnostics.sanity import findings
from zigp.estimators.refining import Refined
from zigp.gp.batch import Batch, Lattice, Rows
from zigp.models.likelihoods import LogAmounts
from zigp.models.model import Model
from zigp.runtime.session import entry_point, make_room, surroundings
from zigp.training import (
    Checkpoints,
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

Training = Mapping[str, tuple[int, float]]
_CHAIN_TRAINING = (80, 0.08)  # steps and learning rate where q is a chain of blocks

# Larger lattices are looked at in slabs.
_MOST_CELLS, _CELLS_IN_A_STEP = 1_000_000, 250_000
# What a stream is begun with, and goes on by.
_SAMPLE, _ROWS_IN_A_STEP = 50_000, 2**14


class SparseGP(Refined):
    """Base class of estimators of a single model, which is trained on its bound.

    Attributes
    ----------
    bounds_ : ndarray of shape (n_iter_,)
        Bound before each training step; an unbiased estimate if steps look at some of the rows.
    times_ : ndarray of shape (n_iter_,)
        Seconds from the start of training to each step.
    seconds_ : float
        Duration of training in seconds.
    n_iter_ : int
        Number of training steps.
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
    """

    # Latents and weights have mean zero, as in the paper; only a gate's mean is learned.
    _always_fixed: ClassVar[tuple[str, ...]] = ("f.prior_mean",)
    _default_method: ClassVar[Method] = "adam"
    # Steps and learning rate of each method. A lattice with an inducing point at every coordinate
    # overfits when trained to the end.
    _training: ClassVar[Training] = {"adam": (1000, 0.05), "natural": (300, 0.1)}
    _lattice_training: ClassVar[Training] = {"adam": (400, 0.05), "natural": (200, 0.1)}

    def _title(self) -> str:
        """Return the title of the progress bar."""
        return type(self).__name__

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
        self._forget_draws()
        if self.posterior == "mcmc":
            self._check_sampling()
        if jax.process_count() > 1:
            raise ValueError(
                "fit takes all rows, so several processes would count each of them several times. "
                "Divide the rows: fit_stream(open_stream(…, part=(jax.process_index(), "
                "jax.process_count())))."
            )
        first, inputs, values, weights, shift = self._prepare(X, y, sample_weight)
        data = as_batch(inputs, values, weights, self.layout_, self.dtype)
        self.on_lattice_ = isinstance(data.at, Lattice)
        cells = prod(data.at.shape) if self.on_lattice_ else 0
        first = [model.extended(data.at).placed(data.at) for model in first]
        settings = self._settings(cells, first[0])
        shape = f" on a lattice of {' × '.join(map(str, data.at.shape))}" * self.on_lattice_
        self._train(first, data, settings, shift, self._title() + shape)
        self._keep_data(inputs.X, values, weights)
        if self.posterior == "mcmc":
            self.draws_ = self.refine().draws_
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
        self._forget_draws()
        if self.posterior == "mcmc":
            raise ValueError("Sampling needs all rows in memory: use fit, or another posterior.")
        if jax.process_count() > 1 and self.random_state is None:
            raise ValueError(
                "random_state=None draws another seed in every process, but all must start from "
                "the same values: give a number."
            )
        seed = int(check_random_state(self.random_state).randint(2**31))
        X, y = stream.sample(_SAMPLE, seed, gaps=True)
        observed = ~np.isnan(y)
        X, y = X[observed].reset_index(drop=True), y[observed]
        first, inputs, values, _, shift = self._prepare(X, y, groups=stream.groups)
        self.n_rows_ = round(stream.rows * float(np.mean(observed)))
        feed = self._feed(stream, stream.digest(inputs.X, values))
        self.on_lattice_ = False
        settings = self._settings(0, first[0])
        steps = self.steps or max(round(passes * feed.steps_per_pass), 1)
        settings = replace(settings, steps=steps, chunk=feed.steps, tol=0.0, batch_size=None)
        shift *= self.n_rows_ / len(y)
        self._train(first, feed, settings, shift, f"{self._title()} on {stream.rows:,} rows")
        return self

    def _feed(self, stream: Stream, contents: str) -> Streamed:
        """Return a stream as data for training, in the model's units, divided among devices."""
        stream = stream if self.table_ is None else stream.read_as(self.table_)
        devices = self._devices()
        every, here = (1, 1) if devices is None else (devices.count, devices.here)
        batch = check_whole("batch_size", self.batch_size or _ROWS_IN_A_STEP)
        places, size = block_and_step(stream.rows_per_block, batch, every, here)
        stream = stream.in_blocks_of(places * here)
        blocks = stream.blocks_per_pass

        def batches(first: int) -> Generator[Batch]:
            skip = first % blocks
            for pass_number in count(first // blocks):
                for block in stream.blocks(self.seed_, pass_number, skip):
                    X, y, weight = (part.astype(self.dtype) for part in self._of_block(block))
                    yield Batch(Rows(X), y, weight * blocks)  # a block stands for all rows
                skip = 0

        return Streamed(
            lambda first: prefetched(batches(first)),
            stream.rows,
            blocks,
            places,
            size,
            ",".join(stream.names),
            contents,
            devices,
        )

    def _of_block(self, block: Block) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return a stream's block in the model's units."""
        try:
            y = self._as_target(block.y, block.weight)
            return self._in_model_units(block.X, y, block.weight)[:3]
        except ValueError as error:
            raise ValueError(f"In a block of the stream, of shuffled rows: {error}") from error

    def _train(
        self,
        first: list[Model],
        data: Batch | Streamed,
        settings: TrainingSettings,
        shift: float,
        title: str,
    ) -> None:
        """Train and keep the best model, also of a fit that is interrupted."""
        devices, checkpoints = self._devices(), self._checkpoints()
        made = self._way_of_training(data, settings, devices)
        with progress_bar(title) if self.verbose else nullcontext() as show:
            try:
                fits = train_restarts(
                    first,
                    data,
                    settings,
                    show,
                    shift=shift,
                    devices=devices,
                    checkpoints=checkpoints,
                )
            except InterruptedFitError as stop:
                if any(len(fit.bounds) for fit in stop.fits):
                    self._keep(stop.fits, made)
                raise
        self._keep(fits, made)
        if checkpoints is not None:
            checkpoints.clear()

    def _refuse_for_chains(self, learn_inducing: bool, *, stream: bool) -> None:
        """Raise an error for settings that a full posterior on a lattice rules out."""
        wrong = {
            "fit_stream": stream,
            "method='adam'": self.method == "adam",
            "batch_size": self.batch_size is not None,
            "learn_inducing=True": learn_inducing,
            "devices='data'": self._devices() is not None,
        }
        if named := [name for name, given in wrong.items() if given]:
            raise ValueError(
                "posterior='full' on a lattice takes natural-gradient steps on all data at once, "
                f"with fixed inducing points, on one device: leave out {' and '.join(named)}, or "
                "use posterior='diagonal'."
            )

    def _settings(self, cells: int, first: Model) -> TrainingSettings:
        """Return the settings of training, with the defaults for the data and the method."""
        one_group = len(self.layout_.groups) == 1
        learn = one_group if self.learn_inducing is None else self.learn_inducing
        fixed = [*listed(self.fixed), *self._always_fixed, *([] if learn else ["inducing"])]
        method = cast("Method", self._default_method if self.method == "auto" else self.method)
        steps, rate = (self._training if one_group else self._lattice_training)[method]
        if first.chained:
            method, (steps, rate) = "natural", _CHAIN_TRAINING
            self._refuse_for_chains(learn, stream=not cells)
        in_slabs = self.batch_size is None and cells > _MOST_CELLS
        return TrainingSettings(
            steps=steps if self.steps is None else self.steps,
            method=method,
            learning_rate=rate if self.learning_rate is None else self.learning_rate,
            noise_pace=1.0 if one_group else first.likelihood.early_pace,
            schedule=self.schedule,
            batch_size=_CELLS_IN_A_STEP if in_slabs else self.batch_size,
            fixed=tuple(map(str, fixed)),
            tol=self.tol,
            max_seconds=self.max_seconds,
            seed=self.seed_,
        )

    def _devices(self) -> Devices | None:
        """Return the devices that the data are divided among, unless there is only one."""
        divided = self.devices == "data" or jax.process_count() > 1
        return available() if divided else None

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

    def _way_of_training(
        self, data: Batch | Streamed, settings: TrainingSettings, devices: Devices | None
    ) -> dict[str, Any]:
        """Return all that must be the same for a fit to give the same bits again."""
        made = {
            "seed": self.seed_,
            "method": settings.method,
            "dtype": self.dtype,
            "steps": settings.steps,
            "batch_size": data.batch_size if isinstance(data, Streamed) else settings.batch_size,
            "schedule": "a function" if callable(settings.schedule) else settings.schedule,
            "max_seconds": settings.max_seconds,
            "warm_start": hasattr(self, "model_"),
            "data": digest_of(data) if isinstance(data, Batch) else data.digest(),
            "devices": 1 if devices is None else devices.count,
            **surroundings(),
        }
        return {k: v.item() if isinstance(v, np.generic) else v for k, v in made.items()}

    def _keep(self, fits: list[Fit], made: dict[str, Any]) -> None:
        """Keep the best fit, by the bound it reached, and the way it was made."""
        reached = [fit.bounds[-1] if len(fit.bounds) else -np.inf for fit in fits]
        best = fits[int(np.argmax(reached))]
        if not len(best.bounds):
            raise FloatingPointError(best.stopped)
        if best.failed:
            warnings.warn(best.stopped, ConvergenceWarning, stacklevel=4)
        self.model_, self.bounds_, self.times_ = best.model.refreshed(), best.bounds, best.times
        self.seconds_, self.stopped_, self.retried_ = best.seconds, best.stopped, best.retried
        self.failed_ = best.failed
        self.n_iter_, self.fitted_with_ = len(best.bounds), made
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
        reach = (
            1.0
            if isinstance(self.model_.likelihood, LogAmounts)
            else getattr(self, "y_reach_", 1.0)
        )
        return [
            *findings(self.model_, called, bounds, failure, self.retried_, reach),
            *self._chain_findings(),
        ]

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


def block_and_step(rows: int, batch: int, every: int, here: int) -> tuple[int, int]:
    """Return the rows of a block and of a step on one device of all, of which some are here.

    A step has `batch` rows on all devices, or a whole block if that has fewer. Blocks are enlarged
    to whole steps.

    >>> block_and_step(2**18, 2**14, 3, 3)
    (92837, 5461)
    """
    block = -(-rows // here)
    size = min(max(batch // every, 1), block)
    return -(-block // size) * size, size
