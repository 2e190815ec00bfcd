"""From rows and observations to the models that training starts from, in the model's units.

Users' outputs are [rows] or [rows, P]; in the model rows run along the last axis, [rows] or
[P, rows].
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from zigp.data.layout import ColumnList, Inputs, Layout, column_index, listed, refuse_too_large
from zigp.estimators.families import OutputScale
from zigp.estimators.initial import KernelSpec, initial_latent
from zigp.estimators.parameters import GPSettings
from zigp.gp.batch import Lattice, Rows
from zigp.gp.latent import LatentGP
from zigp.models import predictions
from zigp.models.model import Model
from zigp.models.predictions import Predictions
from zigp.runtime.session import entry_point

FIRST_GATE_VARIANCE = 4.0  # in the model's units: a wide gate opens and closes between neighbours


class Prepared(GPSettings):
    """Base class of estimators of a single model: its data in its units, and its initial values.

    Attributes
    ----------
    model_ : Model
        Trained model of centred inputs and scaled outputs.
    layout_ : Layout
        Column groups, and the point at which inputs are centred.
    n_rows_ : int
        Number of rows with a weight, estimated from a sample for a stream.
    seed_ : int
        Seed drawn from `random_state`.
    y_offset_, y_scale_ : float or ndarray
        Units of the model: it describes (y − y_offset_) / y_scale_.
    y_reach_ : float
        Largest absolute output divided by the median of those that are not zero.
    """

    model_: Model

    @property
    def _averaged_over(self) -> dict[str, np.ndarray] | None:
        """The draws that predictions average over, if there are any."""
        return None

    # -- what a subclass provides ---------------------------------------------------------------

    @abstractmethod
    def _first_models(
        self, X: Inputs, y: np.ndarray, weight: np.ndarray, exposure: np.ndarray | None
    ) -> tuple[list[Model], OutputScale]:
        """Return the models that training starts from, one for each restart, and their units.

        X has only rows that count; y, weight and exposure have all.
        """

    def _as_target(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Return the outputs of a stream's block as `_checked_pair` would."""
        return y

    def _refuse_unsuited(self, X: np.ndarray, y: np.ndarray, weight: np.ndarray) -> None:
        """Raise an error where the likelihood has no place for an observation.

        It sees all that the bound is evaluated on: rows of fits, of `elbo`, and of every block.
        """
        self._exposure_of(X)

    # -- the start of a fit ---------------------------------------------------------------------

    def _prepare(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
    ) -> tuple[list[Model], Inputs, np.ndarray, np.ndarray, float]:
        """Return the models that training starts from, and the data in their units.

        These are checked inputs as they are, outputs and weights, and the difference between bounds
        in units of y and of the model. `groups` are the column groups of a stream.
        """
        table = self._as_table(X, y, sample_weight, groups)
        again = self.warm_start and hasattr(self, "model_")
        if again:
            self._refuse_another_structure()
        elif hasattr(self, "model_"):
            del self.model_  # so that nothing is left of it if this fit fails
        rows, target = self._checked_pair(table.X, table.y, reset=not again)
        weight = row_weights(table.weight, rows)
        self.n_rows_ = int(np.count_nonzero(weight))
        self.seed_ = int(check_random_state(self.random_state).randint(2**31))
        inputs = Inputs(rows, table.places.get)
        if again:
            return [self.model_], inputs, *self._in_model_units(rows, target, weight)[1:]
        self.layout_ = Layout.of(
            inputs.only(weight > 0),
            table.groups,
            self.latlon,
            getattr(self, "feature_names_in_", None),
            exposure=getattr(self, "exposure", None),
            categorical=() if self.table_ is None else self.table_.categories,
            split=self._may_split(),
        )
        refuse_too_large("X", rows[weight > 0], self.dtype)
        counted = (weight > 0) & np.isfinite(target.reshape(len(rows), -1)).any(axis=1)
        first, units = self._first_models(
            inputs.only(counted), target, weight, self._exposure_of(rows)
        )
        self.y_offset_, self.y_scale_ = units.offset, units.scale
        _, values, weights, shift = self._in_model_units(rows, target, weight)
        sizes = pd.DataFrame(np.abs(units.transformed(target)[counted])).replace(
            [0.0, np.inf], np.nan
        )
        self.y_reach_ = float(np.fmax((sizes.max() / sizes.median()).max(), 1.0))
        return first, inputs, values, weights, shift

    def _refuse_another_structure(self) -> None:
        now = self._current_structure()
        if changed := [name for name in now if now[name] != self._structure[name]]:
            raise ValueError(
                f"warm_start continues to train the fitted model, but {', '.join(changed)} differ "
                "from its settings. Set them back, or fit with warm_start=False."
            )

    def _current_structure(self) -> dict[str, str]:
        """Return the settings that decide what is fitted, as text."""
        settings = {name: getattr(self, name) for name in sorted(self._names("model"))}
        return {k: repr(v.item() if isinstance(v, np.generic) else v) for k, v in settings.items()}

    def _latent(
        self,
        X: Inputs,
        kernel: KernelSpec | None = None,
        inputs: ColumnList | None = None,
        *,
        seed: int | None = None,
        **more: Any,
    ) -> LatentGP:
        """Return a latent before training; kernel, inputs and seed are those of the settings."""
        return initial_latent(
            X,
            self.layout_,
            self._columns(inputs),
            self.kernel if kernel is None else kernel,
            n_inducing=self.n_inducing,
            posterior=self.posterior,
            seed=self.seed_ if seed is None else seed,
            dtype=self.dtype,
            **more,
        )

    def _columns(self, inputs: ColumnList | None = None) -> Sequence[int]:
        """Return the positions of a latent's input columns, by default those of `inputs`."""
        D, names = self.n_features_in_, getattr(self, "feature_names_in_", None)
        given = self.inputs if inputs is None else inputs
        chosen = range(D) if given is None else [column_index(c, D, names) for c in listed(given)]
        return [c for c in chosen if c != self.layout_.exposure]

    # -- units ----------------------------------------------------------------------------------

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

    def _predictions(self, X: Any) -> Predictions:
        """Evaluate the model's Gaussian processes at rows, or at the cells of a lattice."""
        check_is_fitted(self)
        centre = self.layout_.centre
        if isinstance(X, Lattice):
            axes = (a - centre[list(c)] for a, c in zip(X.axes, X.columns, strict=True))
            inputs = Lattice(tuple(axes), X.columns, X.exposure, X.exposure_column)
            return Predictions(self.model_, inputs, self._averaged_over)
        rows = self._checked(X)
        self._exposure_of(rows)
        return Predictions(self.model_, Rows(rows - centre), self._averaged_over)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")


def row_weights(sample_weight: ArrayLike | None, X: np.ndarray) -> np.ndarray:
    return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
