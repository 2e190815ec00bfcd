"""How good a model is on rows that it has not seen, beside Zero and plain regression."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from zigp.diagnostics import scores
from zigp.diagnostics.validation import reliability, score_table
from zigp.estimators.families import resolution_of

__all__ = ["Trial", "Verdict", "judged"]

_FEWEST_ROWS = 20
_MOST_ROWS = 20_000  # enough to judge by
_SHARE = 0.2
_WORST = 10


@dataclass(frozen=True)
class Trial:
    """Rows to judge by and the models that are judged there, by what readers call them.

    `ours` names the one that the report is about; `told` says where the rows are from.

    >>> Trial(X, y, {"Mine": model}, ours="Mine", told="The rows of last year.").y.shape
    (60,)
    """

    X: Any
    y: np.ndarray
    models: dict[str, Any]
    ours: str
    told: str

    @classmethod
    def of(
        cls,
        model: Any,
        X: pd.DataFrame,
        y: np.ndarray,
        *,
        seen: bool = False,
        verbose: bool = False,
        say: Callable[[str], object] = lambda _: None,
    ) -> Trial:
        """Fit again without a fifth of the rows, the model and a plain one, to judge them there.

        With `seen` nothing is fitted: the model is judged on rows that it knows.
        """
        rng, ours = np.random.default_rng(0), _name(model)
        learned = getattr(model, "regressor_", model).n_rows_
        if seen or len(y) < _FEWEST_ROWS:
            some = np.sort(rng.permutation(len(y))[:_MOST_ROWS])
            told = (
                "These are rows that the model has learned from, so all of this looks better than "
                "it is."
            )
            if not hasattr(model, "regressor_") and learned != len(y):
                told = (
                    f"These are {len(y):,} rows; the model has learned from {learned:,}. If they "
                    "are among those, all of this looks better than it is."
                )
            return cls(X.iloc[some], y[some], {ours: model}, ours, told)
        hidden = rng.random(len(y)) < _SHARE
        some = np.flatnonzero(hidden)
        some = np.sort(rng.permutation(some)[:_MOST_ROWS])
        fitted: dict[str, Any] = {}
        for name, one in _rivals(model, verbose).items():
            say(f"{name}: fitting four fifths of the rows, to judge by the others.")
            # Efforts are inputs of a model that has a use for them alone.
            effort = (
                getattr(model, "exposure", None) if "exposure" not in one.get_params() else None
            )
            columns = [name for name in X.columns if name != effort]
            fitted[name] = one.fit(X.loc[~hidden, columns], y[~hidden])
        told = (
            f"A fifth of the rows ({hidden.sum():,}), picked at random, was hidden from the models "
            "while they were fitted again; they are judged by what they predict there. Rows far "
            "from any that was seen, such as a coming week or another region, are harder: "
            "zigp evaluate holds out stretches of time and regions."
        )
        return cls(X.iloc[some], y[some], fitted, ours, told)


@dataclass(frozen=True)
class Verdict:
    """What a trial found."""

    resolution: float
    scores: dict[str, dict[str, float]]
    reliability: pd.DataFrame
    pit: np.ndarray  # where observations fell in their predicted distributions, 0 to 1
    mean: np.ndarray  # of our model at the trial's rows
    worst: tuple[pd.DataFrame, pd.DataFrame]  # inputs, and what was thought of them


def judged(trial: Trial, target: str) -> Verdict:
    """Scores of all models, and a closer look at ours."""
    model, X, y = trial.models[trial.ours], trial.X, trial.y
    resolution = resolution_of(y)
    zeros = scores.amount_scores(y, np.zeros_like(y), resolution)
    found = {"Always zero": {k: zeros[k] for k in ("rmse", "mae", "f1", "accuracy")}}
    for name, one in trial.models.items():
        found[name] = score_table(one, _for(one, X), y, resolution)
    mean = np.asarray(model.predict(X))
    mean = np.clip(mean, 0.0, None) if np.all(y >= 0) else mean
    return Verdict(
        resolution,
        found,
        reliability(model, X, y, tol=0.5 * resolution),
        scores.pit(y, lambda t: model.prob_below(X, t), resolution),
        mean,
        _worst(model, X, y, mean, target),
    )


def _worst(
    model: Any, X: Any, y: np.ndarray, mean: np.ndarray, target: str
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows with the largest errors, and what was thought of them."""
    pick = np.argsort(-np.abs(y - mean), kind="stable")[:_WORST]
    rows = X.iloc[pick]
    inside, lowest = model.predict_interval(rows, 0.9), 0.0 if np.all(y >= 0) else -np.inf
    found = {
        f"{target} observed": y[pick],
        "predicted": mean[pick],
        "90 % from": np.maximum(inside["lower"].to_numpy(), lowest),
        "to": np.maximum(inside["upper"].to_numpy(), lowest),
    }
    if hasattr(model, "prob_on"):
        found["support"] = model.prob_on(rows)
    return rows, pd.DataFrame(found, index=rows.index)


def _name(model: Any) -> str:
    if hasattr(model, "regressor_"):
        return "Hurdle"
    return "Zero-inflated GP" if hasattr(model, "prob_on") else "Plain GP"


def _rivals(model: Any, verbose: bool) -> dict[str, Any]:
    """The model as it was before it was fitted, after plain regression with the same settings."""
    from zigp import SparseGPRegressor

    fresh = clone(model).set_params(warm_start=False, verbose=verbose)
    part = getattr(model, "regressor_", model)
    if model.column_groups is None and len(part.layout_.groups) > 1:
        names = [str(name) for name in model.feature_names_in_]
        groups = zip(part.layout_.names, part.layout_.groups, strict=True)
        fresh.set_params(column_groups={k: [names[c] for c in group] for k, group in groups})
    if getattr(model, "likelihood", None) == "auto":
        fresh.set_params(likelihood=model.likelihood_)
    name = _name(model)
    if name == "Plain GP":
        return {name: fresh}
    known = SparseGPRegressor().get_params()
    plain = SparseGPRegressor(**{k: v for k, v in fresh.get_params().items() if k in known})
    return {"Plain GP": plain, name: fresh}


def _for(model: Any, X: pd.DataFrame) -> pd.DataFrame:
    """The columns that a model was fitted with."""
    return X[list(model.feature_names_in_)]
