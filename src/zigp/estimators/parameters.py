"""The settings of estimators, each declared in one place.

A field made with `parameter` is an argument of the constructor, an entry in the section
"Parameters" of the class's docstring, an entry in model files unless it belongs to the run, and, if
it has an `Option`, an option of the command line and a key of its configuration files.
"""

from __future__ import annotations

import inspect
import os
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, Literal, Self, dataclass_transform

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from zigp.data.columns import Table
from zigp.data.grids import Cells, as_cells, is_lattice
from zigp.data.layout import ColumnList
from zigp.estimators import persistence
from zigp.estimators.initial import KERNELS, KernelSpec, Sizes
from zigp.training import Schedule

ColumnGroups = Mapping[str, ColumnList] | Sequence[ColumnList]

# Settings of the model decide what is fitted: a warm start refuses to change them. Those of
# training may change from fit to fit. Those of the run belong to this process: no file keeps them.
Scope = Literal["model", "training", "run"]

# Words of docstrings for types that have a name here.
_WORDS = {
    "KernelSpec": "str | Kernel | list | dict",
    "ColumnList": "int | str | list",
    "ColumnGroups": "dict | list",
    "Sizes": "int | list | dict",
    "Schedule": "{'cosine', 'constant'} | callable",
    "Sequence[int | str]": "pair of int or str",
    "Sequence[str]": "list of str",
    "tuple[float, float]": "pair of float",
    "Mapping[str, float]": "dict",
    "os.PathLike[str]": "path",
    "np.random.RandomState": "RandomState",
}


@dataclass(frozen=True)
class Option:
    """An option of the command line for a setting, where it differs from the setting."""

    name: str = ""  # if not that of the setting
    help: str = ""  # if not the description of the setting
    default: Any = ...  # if not that of the setting
    choices: Sequence[str] = ()  # if not those of the setting
    min: int | None = None


def parameter(
    description: str,
    *,
    default: Any,
    scope: Scope = "model",
    choices: Sequence[str | None] = (),
    option: Option | None = None,
    kw_only: bool = True,
) -> Any:
    """Declare a setting: a field of an estimator that is described for its users."""
    declaration = {"description": description, "scope": scope, "choices": choices, "option": option}
    return field(default=default, kw_only=kw_only, metadata=declaration)


def redeclared(base: type, name: str, *, default: Any) -> Any:
    """Declare a setting of a base class again, with another default."""
    return field(default=default, metadata=base.__dataclass_fields__[name].metadata)  # type: ignore[attr-defined]


@dataclass_transform(kw_only_default=True, field_specifiers=(parameter, redeclared))
def estimator[T: type](cls: T) -> T:
    """Make a class of settings a dataclass whose docstring describes them, and which files hold.

    In signature and docstring positional settings come first, then the class's own.
    """
    dataclass(eq=False, repr=False, kw_only=True)(cls)
    own = list(inspect.get_annotations(cls))
    settings = sorted(fields(cls), key=lambda f: (f.kw_only, (*own, f.name).index(f.name)))
    init: Any = cls.__init__  # type: ignore[misc]
    accepted = inspect.signature(init).parameters
    names = ("self", *(one.name for one in settings))
    init.__signature__ = inspect.Signature([accepted[name] for name in names])
    cls.__doc__ = _documented(cls, settings)
    if hasattr(cls, "fit"):
        persistence.ESTIMATORS[cls.__name__] = cls
    return cls


def _documented(cls: type, settings: Sequence[Field]) -> str:
    """Return a class's docstring with all of its parameters, and with inherited attributes."""
    sections = _sections(cls)
    listed = "\n".join(_sections(base).get("Attributes", "") for base in cls.__mro__)
    attributes = dict.fromkeys(re.findall(r"^\S.*(?:\n .*)*", listed, re.M))
    first = {
        "": sections[""],
        "Parameters": "\n".join(map(_entry, settings)),
        "Attributes": "\n".join(attributes),
    }
    return "\n\n".join(
        f"{title}\n{'-' * len(title)}\n{text.strip()}".strip()
        for title, text in {**first, **sections, **first}.items()
        if text.strip()
    )


def _sections(cls: type) -> dict[str, str]:
    """Split a class's docstring at its headings; the text before the first has none."""
    text, *rest = re.split(r"^(\w+)\n-+\n", inspect.cleandoc(cls.__doc__ or ""), flags=re.M)
    return {"": text} | dict(zip(rest[::2], rest[1::2], strict=True))


def _entry(setting: Field) -> str:
    """Return the lines of a docstring that describe a setting."""
    kind, choices = str(setting.type), setting.metadata["choices"]
    for name, words in _WORDS.items():
        kind = kind.replace(name, words)
    if choices:
        kind = f"{{{', '.join(repr(choice) for choice in choices)}}}"
    *others, last = kind.split(" | ")
    kind = f"{', '.join(others)} or {last}" if others else last
    about = textwrap.indent(textwrap.fill(setting.metadata["description"], 92), "    ")
    return f"{setting.name} : {kind}, default={setting.default!r}\n{about}"


@estimator
class GPSettings(BaseEstimator):
    """Base class of all estimators: their common settings.

    Settings are keyword arguments, except for the kernel and a network's number of latents, which
    may also be given by position.

    Attributes
    ----------
    n_features_in_ : int
        Number of input columns.
    feature_names_in_ : ndarray of str
        Names of the input columns. Only defined if the inputs have names that are all strings.
    table_ : Table or None
        Type of each input column: number, time or category. None if the inputs have no names.
    units_ : dict
        Unit of each output by name, as far as the data tell.
    origin_ : dict
        Command and columns that the fit came from, as `set_origin` records them.

    Examples
    --------
    >>> ZeroInflatedGPRegressor(steps=200).set_params(kernel="matern12").steps
    200
    """

    kernel: KernelSpec = parameter(
        "Kernel: a name, a kernel object from `zigp.kernels`, or one of these for each column "
        "group, as a list or as a dict by group name. The names are 'matern12', "
        "'matern32', 'matern52', 'squared_exponential' (from the roughest to the smoothest) and "
        "'linear'.",
        default="matern32",
        option=Option(
            help="Kernel; matern12 is the roughest, squared_exponential the smoothest.",
            choices=tuple(KERNELS),
        ),
        kw_only=False,
    )
    inputs: ColumnList | None = parameter(
        "Input columns, by name or position. By default all columns.", default=None
    )
    column_groups: ColumnGroups | None = parameter(
        "Columns that share a kernel and a set of inducing points, by group name, such as "
        "{'space': ['lat', 'lon'], 'time': ['hour']}. By default all columns are one group; if "
        "neither `n_inducing` nor kernel objects are given, a column that varies independently of "
        "the others, such as time, becomes a group of its own.",
        default=None,
    )
    latlon: Sequence[int | str] | None = parameter(
        "Columns of latitude and longitude in degrees, in this order. Distances between places "
        "are then measured in km.",
        default=None,
    )
    n_inducing: Sizes | None = parameter(
        "Number of inducing points: one number for all column groups together, or one for each "
        "group, as a list or as a dict by group name. With several groups, inducing points form a "
        "lattice. By default up to 100 points for a single group, and a point at nearly every "
        "coordinate for several groups.",
        default=None,
        option=Option(
            name="inducing",
            help="Number of inducing points: 200 in total, or lat,lon=50,hour=200 by column group.",
        ),
    )
    learn_inducing: bool | None = parameter(
        "Whether training moves the inducing points. By default only if there is a single column "
        "group.",
        default=None,
        scope="training",
    )
    posterior: str = parameter(
        "Posterior distribution of the inducing values. 'full' is a Gaussian with any covariance, "
        "for up to 2,000 inducing points, or for a lattice with one at every coordinate of a "
        "column with a 'matern12' or 'matern32' kernel, such as time. 'diagonal' has independent "
        "values in a whitened space. 'auto' is 'full' for up to 400 points. 'mcmc' samples.",
        default="auto",
        choices=("auto", "diagonal", "full", "mcmc"),
        option=Option(
            help="Posterior of the inducing values: full (any Gaussian), diagonal (cheaper), or "
            "mcmc (samples, of hyperparameters too)."
        ),
    )
    steps: int | None = parameter(
        "Number of training steps. By default 1,000 ('adam') or 300 ('natural') with a single "
        "column group, and 400 or 200 with several.",
        default=None,
        scope="training",
        option=Option(min=1, help="Number of training steps."),
    )
    method: str = parameter(
        "Training method. 'adam' is the paper's; 'natural' takes natural-gradient steps for "
        "variational distributions and steps of Adam for all else. 'auto' is the one that was "
        "measured to be better: 'natural' for networks, 'adam' for all other models.",
        default="auto",
        scope="training",
        choices=("auto", "adam", "natural"),
        option=Option(
            help="Training method: adam (the paper's) or natural (natural gradients); auto chooses "
            "the better one for the model."
        ),
    )
    learning_rate: float | Mapping[str, float] | None = parameter(
        "Learning rate of Adam: one number, or a dict with one each for 'variational', 'kernel', "
        "'inducing' and 'noise'. By default 0.05 ('adam') or 0.1 ('natural').",
        default=None,
        scope="training",
    )
    schedule: Schedule = parameter(
        "Schedule of the learning rate: 'cosine' lowers it to a hundredth; a function maps the "
        "finished fraction of the steps to a factor.",
        default="cosine",
        scope="training",
    )
    batch_size: int | None = parameter(
        "Number of rows in each training step. By default all rows; 250,000 cells of a lattice "
        "with more than a million; 16,384 rows of a stream.",
        default=None,
        scope="training",
        option=Option(
            min=1, help="Number of rows in each training step (default: all; 16,384 of a stream)."
        ),
    )
    fixed: Sequence[str] = parameter(
        "Parameters that are not learned: 'noise', 'kernel', 'variance', 'prior_mean', 'inducing' "
        "or 'q', each also for a single latent function, such as 'g.prior_mean'.",
        default=(),
        scope="training",
    )
    tol: float = parameter(
        "Training stops once the bound changes by less than this per row.",
        default=1e-4,
        scope="training",
    )
    max_seconds: float | None = parameter(
        "Time limit of training, in seconds.",
        default=None,
        scope="training",
        option=Option(),
    )
    checkpoint: str | os.PathLike[str] | None = parameter(
        "Folder for checkpoints, from which an interrupted fit can resume.",
        default=None,
        scope="run",
    )
    checkpoint_seconds: float = parameter(
        "Time between checkpoints, in seconds.",
        default=300.0,
        scope="run",
        option=Option(),
    )
    resume: bool = parameter(
        "Whether to resume from the checkpoint of an interrupted fit. Without a checkpoint, "
        "training starts from the beginning, so that a script can be the same at every start.",
        default=False,
        scope="run",
        option=Option(help="Resume this fit after an interruption."),
    )
    devices: str = parameter(
        "'data' divides the data among all devices of JAX; 'one' uses a single device.",
        default="one",
        scope="training",
        choices=("one", "data"),
        option=Option(
            name="divide", help="Divide the data among all devices of JAX, or use one device."
        ),
    )
    dtype: str = parameter(
        "Floating-point type. 'float32' needs half the memory.",
        default="float64",
        choices=("float32", "float64"),
        option=Option(),
    )
    warm_start: bool = parameter(
        "Whether `fit` continues to train the fitted model.",
        default=False,
        scope="training",
    )
    random_state: int | np.random.RandomState | None = parameter(
        "Seed of everything random. Checkpoints require an integer.",
        default=0,
        scope="training",
        option=Option(name="seed", min=0, help="Seed of everything random."),
    )
    verbose: bool = parameter("Whether to show training progress.", default=False, scope="run")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the fitted estimator to a file, which `zigp.load` reads.

        Settings of the run (`checkpoint`, `checkpoint_seconds`, `resume`, `verbose`) and settings
        that are functions or random generators are not saved.

        Parameters
        ----------
        path : str or path
            File to write. An existing file is replaced once the new one is complete.

        Examples
        --------
        >>> model.save("model.zigp")
        """
        check_is_fitted(self)
        persistence.save(self, path)

    def set_origin(
        self,
        target: str,
        *,
        command: Sequence[str] = (),
        space: Sequence[str] = (),
        time: str | None = None,
    ) -> Self:
        """Record the origin of a fit, which reports and `zigp info` show.

        Parameters
        ----------
        target : str
            Name of the output, unless the data had one.
        command : sequence of str, default=()
            Words of the command that fitted the model.
        space : sequence of str, default=()
            Columns of places.
        time : str, default=None
            Column of times.

        Returns
        -------
        self : object
            The estimator.

        Examples
        --------
        >>> model.set_origin("rain_mm", time="hour").units_
        {'rain_mm': ''}
        """
        self.units_ = getattr(self, "units_", {}) or {target: ""}
        self.origin_ = {"command": list(command), "space": list(space), "time": time}
        return self

    @property
    def parts_(self) -> dict[str, Any]:
        """Fitted models by name: the estimator itself, or the two parts of a hurdle.

        Examples
        --------
        >>> list(model.parts_)
        ['']
        """
        return {"": self}

    @classmethod
    def _names(cls, scope: Scope) -> list[str]:
        """Return the names of all settings of a scope."""
        return [one.name for one in fields(cls) if one.metadata["scope"] == scope]

    def _check_choices(self) -> None:
        """Raise an error if a setting is none of its choices."""
        for setting in fields(self):
            value, choices = getattr(self, setting.name), setting.metadata["choices"]
            if choices and value not in choices:
                *others, last = map(repr, choices)
                known = f"{', '.join(others)} or {last}"
                raise ValueError(f"{setting.name} must be {known}, not {value!r}.")

    def _summary(self) -> dict[str, Any]:
        """Return the part of a model file's header that is for people and tools to read."""
        names = getattr(self, "feature_names_in_", None)
        parts = {name: part._summary() for name, part in self.parts_.items() if part is not self}
        return {
            "estimator": type(self).__name__,
            "columns": None if names is None else [str(name) for name in names],
        } | {
            key: {name: summary[key] for name, summary in parts.items()}
            for key in ("trained", "made_with")
            if parts
        }

    def _may_split(self) -> bool:
        """Return whether columns may be put into groups: not with sizes or kernels for all."""
        given = [getattr(self, f"{of}kernel", None) for of in ("", "gate_", "weight_")]
        plain = all(kernel is None or isinstance(kernel, str) for kernel in given)
        chained = self.posterior != "full" or set(given) <= {None, "matern12", "matern32"}
        return plain and self.n_inducing is None and chained

    def _checked(self, X: Any) -> np.ndarray:
        """Return X as an array of finite numbers."""
        if is_lattice(X):
            raise ValueError("This takes rows; use predict_lattice for a lattice.")
        return validate_data(self, self._as_numbers(X), dtype=np.float64, reset=False)

    def _checked_pair(
        self, X: Any, y: Any, *, reset: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return inputs and outputs as numbers, or raise an error that says what is wrong."""
        X = self._as_numbers(X, reset=reset)
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, reset=reset)
        return X, y.astype(float)  # the smallest whole number has no absolute value

    def _as_table(self, X: Any, y: Any, weight: Any, groups: Any = None) -> Cells:
        """Return the rows of a table or grid, with the column groups of the settings if any."""
        self._check_choices()
        cells = Cells(X, y, weight, groups, {}, {})
        if is_lattice(X):
            cells = as_cells(X, y, weight, getattr(self, "exposure", None))
        self.units_, self.origin_ = cells.units, {}
        groups = cells.groups if self.column_groups is None else self.column_groups
        return replace(cells, groups=groups)

    def _as_numbers(self, X: Any, *, reset: bool = False) -> Any:
        """Return a frame with times and levels as numbers, and anything else unchanged."""
        if reset:
            self.table_ = Table.of(X) if isinstance(X, pd.DataFrame) else None
        if isinstance(X, pd.DataFrame) and self.table_ is not None:
            return self.table_.numbers(X)
        return X
