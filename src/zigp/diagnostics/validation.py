"""Whether a fitted model can be believed: checks of what it predicts against what was observed.

Everything here asks an estimator only what any user can ask it. Scores, counts and Moran's I leave
out rows whose observation is missing (NaN).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.model_selection import (
    BaseCrossValidator,
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    TimeSeriesSplit,
)
from sklearn.utils import _safe_indexing

from zigp.data.columns import Table
from zigp.data.layout import column_index, listed
from zigp.diagnostics import scores

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "ZeroCount",
    "coverage",
    "cross_check",
    "folds",
    "reliability",
    "score_table",
    "zero_count",
]

_LEVELS = (0.5, 0.8, 0.9, 0.95)


@dataclass(frozen=True)
class ZeroCount:
    """How many zeros were observed, and how many the model would expect to see.

    >>> str(ZeroCount(observed=41, expected=40.2, lower=34.0, upper=46.0, p=0.91))[:21]
    '41 zeros, as expected'
    """

    observed: int
    expected: float
    lower: float
    upper: float
    p: float  # of a number at least as far from what is expected, on either side

    def __str__(self) -> str:
        verdict = "as expected" if self.lower <= self.observed <= self.upper else "not as expected"
        return (
            f"{self.observed} zeros, {verdict}: the model has {self.expected:.1f} on average, and "
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

    `tol` is how far from zero still counts as zero; it must be positive for likelihoods without
    exact zeros, where half the resolution of the data is a good choice.

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
    model: Any, X: ArrayLike, y: ArrayLike, levels: Sequence[float] = _LEVELS
) -> pd.DataFrame:
    """The share of observations inside central intervals, beside the share that should be.

    >>> coverage(model, X, y, levels=[0.5, 0.9]).shape
    (2, 2)
    """
    import pandas as pd

    (X, values), found = _observed(X, y), []
    for level in levels:
        inside = model.predict_interval(X, level)
        within = (inside["lower"].to_numpy() <= values) & (values <= inside["upper"].to_numpy())
        width = (inside["upper"] - inside["lower"]).to_numpy()
        found.append((level, float(np.mean(within)), float(np.mean(width))))
    return pd.DataFrame(found, columns=["level", "covered", "mean_width"]).set_index("level")


def reliability(
    model: Any, X: ArrayLike, y: ArrayLike, tol: float = 0.0, bins: int = 10
) -> pd.DataFrame:
    """How often an observation was not zero, among rows with alike predicted probabilities.

    One line for each of `bins` parts of the range 0 to 1 that has rows in it.

    >>> reliability(model, X, y, tol=0.1)["rows"].sum()
    np.int64(60)
    """
    import pandas as pd

    X, values = _observed(X, y)
    p = 1.0 - model.prob_zero(X, tol)
    on = np.abs(values) > tol
    table = pd.DataFrame({"predicted": p, "observed": on.astype(float)})
    part = np.minimum((p * bins).astype(int), bins - 1)
    grouped = table.groupby(part)
    means = grouped.mean()
    means["rows"] = grouped.size()
    means.index = pd.Index([f"{i / bins:g} to {(i + 1) / bins:g}" for i in means.index], name="bin")
    return means


def score_table(
    model: Any, X: ArrayLike, y: ArrayLike, resolution: float | None = None
) -> dict[str, float]:
    """How good a model's predictions of y are: amounts, zero or not, and whole distributions.

    `resolution` is the step that y is recorded in. With it an observation stands for the cell that
    it was rounded from, which gives −log P (`nlpd`) and the PIT's distance from uniform, and a
    prediction counts as not zero from one step on; without it zero means exactly zero. Where no y
    is negative, predictions and their CRPS are clipped at zero. Brier scores the probability of not
    zero.

    >>> score_table(model, X, y, resolution=0.1)["f1"] > 0.9
    True
    """
    X, values = _observed(X, y)
    mean, sd = model.predict(X, return_std=True)
    positive, far = bool(np.all(values >= 0)), 12.0 * sd
    reach = np.maximum(values, mean) + far
    if getattr(model, "likelihood_", "") in ("zip", "zinb"):
        crps = scores.crps_counts(values, lambda t: model.prob_below(X, t), reach)
    else:
        lowest = 0.0 if positive else np.minimum(values, mean) - far
        crps = scores.crps(values, lambda t: model.prob_below(X, t), reach, lowest)
    amount = np.clip(mean, 0.0, None) if positive else mean
    found = {
        "rmse": float(np.sqrt(np.mean((amount - values) ** 2))),
        "mae": float(np.mean(np.abs(amount - values))),
        "bias": float(np.mean(amount - values)),
        "crps": float(np.mean(crps)),
        "coverage90": float(coverage(model, X, values, (0.9,))["covered"].iloc[0]),
    }
    tol = 0.5 * resolution if resolution else 0.0
    on = np.abs(values) > tol
    if resolution:
        cells = scores.log_score(values, lambda a, b: model.log_prob_between(X, a, b), resolution)
        u = scores.pit(values, lambda t: model.prob_below(X, t), resolution)
        found |= scores.class_scores(on, np.abs(amount) >= resolution)
        found |= {"nlpd": float(np.mean(cells)), "pit_distance": scores.distance_from_uniform(u)}
    with suppress(ValueError):  # without a resolution only an atom has a probability
        found["brier"] = float(np.mean((1.0 - model.prob_zero(X, tol) - on) ** 2))
    return found


def _observed(X: Any, y: ArrayLike) -> tuple[Any, np.ndarray]:
    """The rows that have an observation, and those observations."""
    values = np.asarray(y, float)
    seen = ~np.isnan(values)
    if not seen.any():
        raise ValueError("Every observation is missing: there is nothing to compare with.")
    return (X, values) if seen.all() else (_safe_indexing(X, seen), values[seen])


# ---------------------------------------------------------------------------------------------
# Cross-validation that does not let neighbours tell each other's secrets


def folds(
    X: Any,
    by: str,
    columns: str | int | Sequence[str | int],
    n_splits: int | None = 5,
    random_state: int | None = 0,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows to train and to test on, for scikit-learn's `cv=`.

    - `time`: stretches of consecutive times, each held out in turn; `columns` names the time.
    - `future`: only what comes after is predicted, from all that came before.
    - `space`: regions of neighbouring places (k-means), each held out in turn.
    - `site`: whole places held out; with `n_splits=None` one at a time.

    >>> [len(test) for train, test in folds(X, by="time", columns=0, n_splits=3)]
    [20, 20, 20]
    """
    if by not in ("time", "future", "space", "site"):
        raise ValueError(f"by must be 'time', 'future', 'space' or 'site', not {by!r}.")
    chosen = _columns_of(X, columns)
    rows = np.arange(len(chosen))
    if by == "site":
        label = _labels(chosen)
        if n_splits is None:
            return list(LeaveOneGroupOut().split(rows, groups=label))
        shuffled = GroupKFold(n_splits, shuffle=True, random_state=random_state)
        return list(shuffled.split(rows, groups=label))
    if n_splits is None:
        raise ValueError("n_splits=None, one at a time, is for by='site'.")
    where = _numbers(chosen)
    if by == "future":
        times = np.unique(where[:, 0])
        return [
            (rows[np.isin(where[:, 0], times[before])], rows[np.isin(where[:, 0], times[after])])
            for before, after in TimeSeriesSplit(n_splits).split(times)
        ]
    places, label = np.unique(where, axis=0, return_inverse=True)
    label = label.reshape(-1)
    if len(places) < n_splits:
        raise ValueError(f"There are {len(places)} {by}s, too few for n_splits={n_splits}.")
    if by == "time":
        blocks = np.array_split(np.arange(len(places)), n_splits)
        group = np.repeat(np.arange(n_splits), [len(b) for b in blocks])[label]
    else:
        from sklearn.cluster import KMeans

        unit = places.std(axis=0)
        scaled = places / np.where(unit > 0, unit, 1.0)
        group = KMeans(n_splits, n_init=10, random_state=random_state).fit_predict(scaled)[label]
    return list(LeaveOneGroupOut().split(rows, groups=group))


def cross_check(
    model: Any,
    X: Any,
    y: ArrayLike,
    cv: int | BaseCrossValidator | Sequence[tuple[np.ndarray, np.ndarray]] = 5,
    groups: ArrayLike | None = None,
    resolution: float | None = None,
) -> pd.DataFrame:
    """Fit and score a model on every fold: one line each, and the scores of `score_table`.

    `cv` is a number of random folds, any splitter of scikit-learn's, or what `folds` returns.

    >>> short = ZeroInflatedGPRegressor(n_inducing=12, steps=20)
    >>> len(cross_check(short, X, y, cv=2))
    2
    """
    import pandas as pd

    values = np.asarray(y, float)
    table = []
    for train, test in _splits(cv, X, values, groups):
        fitted = clone(model).fit(_safe_indexing(X, train), values[train])
        found = score_table(fitted, _safe_indexing(X, test), values[test], resolution)
        table.append({"train_rows": len(train), "test_rows": len(test)} | found)
    return pd.DataFrame(table).rename_axis("fold")


def _splits(
    cv: Any, X: Any, y: np.ndarray, groups: ArrayLike | None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    if isinstance(cv, int):
        cv = KFold(cv, shuffle=True, random_state=0)
    yield from (cv.split(X, y, groups) if hasattr(cv, "split") else cv)


def _columns_of(X: Any, columns: str | int | Sequence[str | int]) -> Any:
    """Some columns, by name or by number."""
    if hasattr(X, "columns"):
        chosen = [column_index(c, X.shape[1], list(X.columns)) for c in listed(columns)]
        return X.iloc[:, chosen]
    array = np.asarray(X)
    return array[:, [column_index(c, array.shape[1], None) for c in listed(columns)]]


def _numbers(table: Any) -> np.ndarray:
    """A table as numbers, times in hours."""
    if hasattr(table, "columns"):
        return Table.of(table).numbers(table).to_numpy(float)
    return np.asarray(table, float)


def _labels(table: Any) -> np.ndarray:
    """A number for every distinct row."""
    import pandas as pd

    rows = pd.DataFrame(table)
    return rows.groupby(list(rows.columns)).ngroup().to_numpy()
