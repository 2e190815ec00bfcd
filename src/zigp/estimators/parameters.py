"""The settings that all estimators have."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from zigp.data.columns import Table
from zigp.data.grids import as_cells, is_lattice
from zigp.data.layout import ColumnList
from zigp.estimators import persistence
from zigp.estimators.initial import KernelSpec, Sizes
from zigp.training import Schedule

__all__ = ["ColumnGroups", "GPSettings"]

ColumnGroups = Mapping[str, ColumnList] | Sequence[ColumnList]


@dataclass(eq=False, repr=False, kw_only=True)
class GPSettings(BaseEstimator):
    """The settings that every estimator has.

    With several column groups inducing points form a lattice, by default with one at nearly every
    coordinate. Where `column_groups`, `n_inducing` and kernel objects are not given, a column that
    varies independently of the others, such as time, is found and becomes a group of its own. On a
    lattice, if `learn_inducing` and `steps` are left open, training leaves them where they
    are and takes 400 steps, in which noise can learn faster; otherwise it moves them too, in 1,000
    steps. `batch_size` is how many rows a step looks at; if left open it is all, or slabs of
    250,000 cells of a lattice of more than a million.

    `method` is `adam`, the paper's choice, or `natural`, which takes natural-gradient steps for
    every q; `auto` is the one that was measured to be better for the model at hand. Each has its
    own number of steps and learning rate, if those are left open. With a folder for `checkpoint`,
    where training stands is written there every `checkpoint_seconds`, at the end of one of the
    chunks of steps that are trained at once. `resume` goes on from it, or starts anew where nothing
    was written yet, so that a script that can be killed at any time is the same at every start.
    `devices` is `one`, or `data`: the data are divided among all devices that JAX has.

    They are declared as fields, so that each stands in one place; scikit-learn reads them from the
    constructor that the dataclass generates.

    >>> ZeroInflatedGPRegressor(steps=200).set_params(kernel="matern12").steps
    200
    """

    kernel: KernelSpec = field(default="matern32", kw_only=False)
    inputs: ColumnList | None = None
    column_groups: ColumnGroups | None = None
    latlon: Sequence[int | str] | None = None
    n_inducing: Sizes | None = None
    learn_inducing: bool | None = None
    covariance: str = "auto"
    steps: int | None = None
    method: str = "auto"
    learning_rate: float | Mapping[str, float] | None = None
    schedule: Schedule = "cosine"
    batch_size: int | None = None
    fixed: Sequence[str] = ()
    tol: float = 1e-4
    max_seconds: float | None = None
    checkpoint: str | os.PathLike[str] | None = None
    checkpoint_seconds: float = 300.0
    resume: bool = False
    devices: str = "one"
    dtype: str = "float64"
    warm_start: bool = False
    random_state: int | np.random.RandomState | None = 0
    verbose: bool = False

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to a file, which `zigp.load` reads.

        >>> model.save("model.zigp")
        """
        check_is_fitted(self)
        persistence.save(self, path)

    def _summary(self) -> dict[str, Any]:
        """What a file says about the estimator in it, for people and tools to read."""
        names = getattr(self, "feature_names_in_", None)
        return {
            "estimator": type(self).__name__,
            "columns": None if names is None else [str(name) for name in names],
        }

    def _dtype(self) -> str:
        if str(self.dtype) not in ("float32", "float64"):
            raise ValueError(f"dtype must be 'float32' or 'float64', not {self.dtype!r}.")
        return str(self.dtype)

    def _may_split(self) -> bool:
        """Whether columns may be put into groups: not if sizes or kernels were given for all."""
        given = [getattr(self, f"{of}kernel", None) for of in ("", "gate_", "weight_")]
        plain = all(kernel is None or isinstance(kernel, str) for kernel in given)
        return plain and self.n_inducing is None and self.covariance != "dense"

    def _checked(self, X: Any) -> np.ndarray:
        """X as numbers, or an error that says what is wrong with it."""
        if is_lattice(X):
            raise ValueError("This takes rows; ask predict_lattice about a lattice.")
        return validate_data(self, self._as_numbers(X), dtype=np.float64, reset=False)

    def _as_table(self, X: Any, y: Any, weight: Any) -> tuple[Any, Any, Any, Any]:
        """What is observed as rows, and the groups of their columns; a lattice has its own."""
        self.units_ = {}
        if not is_lattice(X):
            return X, y, weight, self.column_groups
        cells = as_cells(X, y, weight, getattr(self, "exposure", None))
        self.units_ = cells.units
        groups = cells.groups if self.column_groups is None else self.column_groups
        return cells.X, cells.y, cells.weight, groups

    def _as_numbers(self, X: Any, *, reset: bool = False) -> Any:
        """A frame's times and levels as numbers; anything else as it is."""
        import pandas as pd

        if reset:
            self.table_ = Table.of(X) if isinstance(X, pd.DataFrame) else None
        if isinstance(X, pd.DataFrame) and self.table_ is not None:
            return self.table_.numbers(X)
        return X
