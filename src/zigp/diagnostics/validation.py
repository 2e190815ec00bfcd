"""Checks of what a fitted model predicts against what was observed.

Everything here asks an estimator only what any user can ask it. Rows whose observation is missing
(NaN) are left out.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.model_selection import (
    BaseCrossValidator,
    KFold,
    PredefinedSplit,
    TimeSeriesSplit,
    check_cv,
)
from sklearn.preprocessing import scale
from sklearn.utils import _safe_indexing

from zigp.data.layout import column_index, listed
from zigp.diagnostics import scores


@dataclass(frozen=True)
class ZeroCount:
    """The number of zeros that were observed, and that the model expects.

    Attributes
    ----------
    observed : int
        Number of zeros in y.
    expected : float
        Expected number of zeros.
    lower, upper : float
        Bounds that hold the number in nine of ten simulations.
    p : float
        Probability of a number at least as far from what is expected, on either side.

    Examples
    --------
    >>> str(ZeroCount(observed=41, expected=40.2, lower=34.0, upper=46.0, p=0.91))[:21]
    '41 zeros, as expected'
    """

    observed: int
    expected: float
    lower: float
    upper: float
    p: float

    def __str__(self) -> str:
        verdict = "as expected" if self.lower <= self.observed <= self.upper else "not as expected"
        return (
            f"{self.observed} zeros, {verdict}: the model expects {self.expected:.1f}, and "
            f"{self.lower:.0f} to {self.upper:.0f} in nine of ten simulations (p = {self.p:.2f})."
        )


def zero_count(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    tol: float = 0.0,
    n_samples: int = 200,
    random_state: int | np.random.RandomState | None = 0,
) -> ZeroCount:
    """Compare the number of zeros in y with that in data simulated from the model.

    Parameters
    ----------
    model : estimator
        A fitted regressor.
    X : array-like or DataFrame of shape (n_rows, n_features)
        Inputs.
    y : array-like of shape (n_rows,)
        Observations.
    tol : float, default=0.0
        Largest size that counts as zero. It must be positive for likelihoods without exact zeros,
        where half the resolution of the data is a good choice.
    n_samples : int, default=200
        Number of simulations.
    random_state : int, RandomState or None, default=0
        Seed of the simulations.

    Returns
    -------
    ZeroCount
        Both numbers, and what simulations say about their difference.

    Examples
    --------
    >>> zero_count(model, X, y, tol=0.1).observed
    31
    """
    X, values = _observed(X, y)
    observed = int(np.sum(np.abs(values) <= tol))
    expected = float(np.sum(model.prob_zero(X, tol)))
    draws = model.sample(X, n_samples, random_state=random_state)
    counts = np.sum(np.abs(draws) <= tol, axis=tuple(range(1, draws.ndim)))
    lower, upper = np.quantile(counts, [0.05, 0.95])
    tail = (1 + min(np.sum(counts <= observed), np.sum(counts >= observed))) / (1 + n_samples)
    return ZeroCount(observed, expected, float(lower), float(upper), float(min(1.0, 2.0 * tail)))


def coverage(
    model: Any, X: ArrayLike, y: ArrayLike, levels: Sequence[float] = (0.5, 0.8, 0.9, 0.95)
) -> pd.DataFrame:
    """Return the share of observations inside central intervals.

    Parameters
    ----------
    model : estimator
        A fitted regressor.
    X : array-like or DataFrame of shape (n_rows, n_features)
        Inputs.
    y : array-like of shape (n_rows,)
        Observations.
    levels : sequence of float, default=(0.5, 0.8, 0.9, 0.95)
        Probabilities of the intervals.

    Returns
    -------
    DataFrame
        For each level the share of observations `covered`, which it should equal, and the
        `mean_width` of the intervals.

    Examples
    --------
    >>> coverage(model, X, y, levels=[0.5, 0.9]).shape
    (2, 2)
    """
    X, values = _observed(X, y)
    table = {}
    for level in levels:
        lower, upper = model.predict_interval(X, level)[["lower", "upper"]].to_numpy().T
        within = (lower <= values) & (values <= upper)
        table[level] = {"covered": np.mean(within), "mean_width": np.mean(upper - lower)}
    return pd.DataFrame.from_dict(table, orient="index").rename_axis("level")


def reliability(
    model: Any, X: ArrayLike, y: ArrayLike, tol: float = 0.0, bins: int = 10
) -> pd.DataFrame:
    """Compare predicted probabilities of non-zero observations with how often they occurred.

    Parameters
    ----------
    model : estimator
        A fitted regressor.
    X : array-like or DataFrame of shape (n_rows, n_features)
        Inputs.
    y : array-like of shape (n_rows,)
        Observations.
    tol : float, default=0.0
        Largest size that counts as zero, as in `zero_count`.
    bins : int, default=10
        Number of equal parts of the range 0 to 1.

    Returns
    -------
    DataFrame
        For each part that has rows: the mean `predicted` probability, the `observed` frequency,
        and the number of `rows`.

    Examples
    --------
    >>> reliability(model, X, y, tol=0.1)["rows"].sum()
    np.int64(60)
    """
    X, values = _observed(X, y)
    p = 1.0 - model.prob_zero(X, tol)
    part = np.minimum((p * bins).astype(int), bins - 1)
    grouped = pd.DataFrame({"predicted": p, "observed": np.abs(values) > tol}).groupby(part)
    means = grouped.mean().assign(rows=grouped.size())
    means.index = pd.Index([f"{i / bins:g} to {(i + 1) / bins:g}" for i in means.index], name="bin")
    return means


def score_table(
    model: Any, X: ArrayLike, y: ArrayLike, resolution: float | None = None
) -> dict[str, float]:
    """Score a model's predictions of y: amounts, zero or not, and whole distributions.

    Parameters
    ----------
    model : estimator
        A fitted regressor.
    X : array-like or DataFrame of shape (n_rows, n_features)
        Inputs.
    y : array-like of shape (n_rows,)
        Observations. If none is negative, predictions and their CRPS are clipped at zero.
    resolution : float, optional
        The step that y is recorded in. An observation then stands for the cell that it was rounded
        from, which gives −log P (`nlpd`) and the distance of the PIT from uniform, and a prediction
        counts as non-zero from one step on. Without it zero means exactly zero.

    Returns
    -------
    dict
        Scores by name. `brier` scores the probability of a non-zero observation.

    Examples
    --------
    >>> score_table(model, X, y, resolution=0.1)["f1"] > 0.9
    True
    """
    X, values = _observed(X, y)
    rows = row_scores(model, X, values, resolution)
    amount = np.clip(rows["mean"], 0.0, None) if np.all(values >= 0) else rows["mean"]
    tol = 0.5 * resolution if resolution else 0.0
    on = np.abs(values) > tol
    table = scores.errors(values, amount) | {
        "bias": float(np.mean(amount - values)),
        "crps": float(np.mean(rows["crps"])),
        "coverage90": float(coverage(model, X, values, (0.9,))["covered"].iloc[0]),
    }
    if resolution:
        table |= scores.class_scores(on, np.abs(amount) >= resolution)
        table["nlpd"] = float(np.mean(rows["nlpd"]))
        table["pit_distance"] = scores.distance_from_uniform(rows["pit"])
    with suppress(ValueError):  # without a resolution only an atom has a probability
        table["brier"] = float(np.mean((1.0 - model.prob_zero(X, tol) - on) ** 2))
    return table


def row_scores(
    model: Any, X: Any, y: np.ndarray, resolution: float | None = None
) -> dict[str, np.ndarray]:
    """Return mean, standard deviation and CRPS of each row; with a resolution also −log P and PIT.

    If no observation is negative, the CRPS is that of the distribution clipped at zero.
    """
    mean, sd = model.predict(X, return_std=True)
    below, far = partial(model.prob_below, X), 12.0 * sd
    reach = np.maximum(y, mean) + far
    if getattr(model, "likelihood_", "") in ("zip", "zinb"):
        crps = scores.crps_counts(y, below, reach)
    else:
        lowest = 0.0 if np.all(y >= 0) else np.minimum(y, mean) - far
        crps = scores.crps(y, below, reach, lowest)
    rows = {"mean": mean, "sd": sd, "crps": crps}
    if resolution:
        rows["nlpd"] = scores.log_score(y, partial(model.log_prob_between, X), resolution)
        rows["pit"] = scores.pit(y, below, resolution)
    return rows


def _observed(X: Any, y: ArrayLike) -> tuple[Any, np.ndarray]:
    """Return the rows that have an observation, and those observations."""
    values = np.asarray(y, float)
    seen = ~np.isnan(values)
    if not seen.any():
        raise ValueError("Every observation is missing: there is nothing to compare with.")
    return (X, values) if seen.all() else (_safe_indexing(X, seen), values[seen])


# -- cross-validation that keeps neighbours together ----------------------------------------------


def folds(
    X: Any,
    by: str,
    columns: str | int | Sequence[str | int],
    n_splits: int = 5,
    random_state: int | None = 0,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Split rows into training and test rows, for scikit-learn's `cv=`.

    Parameters
    ----------
    X : array-like or DataFrame of shape (n_rows, n_features)
        Inputs.
    by : {"time", "future", "space", "site"}
        `time` holds out stretches of consecutive times, each in turn; `future` predicts what comes
        after from all that came before; `space` holds out regions of neighbouring places (k-means);
        `site` holds out whole places.
    columns : str, int, or a sequence of these
        The columns of the time, or of the place.
    n_splits : int, default=5
        Number of folds.
    random_state : int or None, default=0
        Seed of regions and of shuffled sites.

    Returns
    -------
    list of (ndarray, ndarray)
        Training and test rows of each fold.

    Examples
    --------
    >>> [len(test) for train, test in folds(X, by="time", columns=0, n_splits=3)]
    [20, 20, 20]
    """
    places, label = np.unique(_coordinates(X, columns), axis=0, return_inverse=True)
    if len(places) < n_splits:
        what = "times" if by in ("time", "future") else "places"
        raise ValueError(f"There are {len(places)} {what}, too few for n_splits={n_splits}.")
    splitter: Any
    match by:
        case "time":
            splitter = KFold(n_splits)
        case "future":
            splitter = TimeSeriesSplit(n_splits)
        case "space":
            from sklearn.cluster import KMeans

            regions = KMeans(n_splits, n_init=10, random_state=random_state)
            splitter = PredefinedSplit(regions.fit_predict(scale(places)))
        case "site":
            splitter = KFold(n_splits, shuffle=True, random_state=random_state)
        case _:
            raise ValueError(f"by must be 'time', 'future', 'space' or 'site', not {by!r}.")
    return [
        (np.flatnonzero(np.isin(label, train)), np.flatnonzero(np.isin(label, test)))
        for train, test in splitter.split(places)
    ]


def cross_check(
    model: Any,
    X: Any,
    y: ArrayLike,
    cv: int | BaseCrossValidator | Sequence[tuple[np.ndarray, np.ndarray]] = 5,
    groups: ArrayLike | None = None,
    resolution: float | None = None,
) -> pd.DataFrame:
    """Fit and score a model on every fold.

    Parameters
    ----------
    model : estimator
        A regressor, which is cloned for each fold.
    X : array-like or DataFrame of shape (n_rows, n_features)
        Inputs.
    y : array-like of shape (n_rows,)
        Observations.
    cv : int, splitter, or sequence of (train, test), default=5
        A number of random folds, any splitter of scikit-learn's, or what `folds` returns.
    groups : array-like of shape (n_rows,), optional
        Groups for splitters that need them.
    resolution : float, optional
        The step that y is recorded in, as in `score_table`.

    Returns
    -------
    DataFrame
        The scores of `score_table`, a row for each fold.

    Examples
    --------
    >>> short = ZeroInflatedGPRegressor(n_inducing=12, steps=20)
    >>> len(cross_check(short, X, y, cv=2))
    2
    """
    values = np.asarray(y, float)
    if isinstance(cv, int):
        cv = KFold(cv, shuffle=True, random_state=0)
    table = []
    for train, test in check_cv(cv).split(X, values, groups):
        fitted = clone(model).fit(_safe_indexing(X, train), values[train])
        row = score_table(fitted, _safe_indexing(X, test), values[test], resolution)
        table.append({"train_rows": len(train), "test_rows": len(test)} | row)
    return pd.DataFrame(table).rename_axis("fold")


def _coordinates(X: Any, columns: str | int | Sequence[str | int]) -> np.ndarray:
    """Return some columns as numbers: times and names by their order."""
    table = pd.DataFrame(X if hasattr(X, "columns") else np.asarray(X))
    names = getattr(X, "columns", None)
    chosen = table.iloc[:, [column_index(c, table.shape[1], names) for c in listed(columns)]]
    return chosen.apply(_ranks).to_numpy(float)


def _ranks(values: pd.Series) -> pd.Series:
    if pd.api.types.is_numeric_dtype(values):
        return values
    return pd.Series(pd.factorize(values, sort=True)[0], index=values.index)
