"""Evaluation of a model on held-out rows, next to plain regression and to zero everywhere."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import clone

from zigp.diagnostics import scores
from zigp.diagnostics.validation import reliability, score_table
from zigp.estimators import SparseGPRegressor
from zigp.estimators.families import resolution_of
from zigp.report.roles import Roles

_FEWEST_ROWS = 20
_MOST_ROWS = 20_000
_SHARE = 0.2
_WORST = 10
_NAMES = {
    "HurdleGPRegressor": "Hurdle",
    "SparseGPRegressor": "Plain GP",
    "ZeroInflatedGPRegressor": "Zero-inflated GP",
}


@dataclass(frozen=True)
class Trial:
    """Rows to evaluate models on, and the fitted models.

    Parameters
    ----------
    X : DataFrame
        Inputs.
    y : ndarray of shape (n_rows,)
        Observations.
    models : dict of str to estimator
        The fitted models by the names that readers see.
    ours : str
        Name of the model that the report is about.
    note : str
        Where the rows come from, in a sentence.

    Examples
    --------
    >>> Trial(X, y, {"Mine": model}, ours="Mine", note="The rows of last year.").y.shape
    (60,)
    """

    X: Any
    y: np.ndarray
    models: dict[str, Any]
    ours: str
    note: str

    @classmethod
    def of(
        cls,
        model: Any,
        X: pd.DataFrame,
        y: np.ndarray,
        *,
        refit: bool = True,
        verbose: bool = False,
        say: Callable[[str], object] = lambda _: None,
    ) -> Self:
        """Hold a random fifth of the rows out and refit the model and a plain one without them.

        Parameters
        ----------
        model : estimator
            A fitted model.
        X : DataFrame
            Inputs.
        y : ndarray of shape (n_rows,)
            Observations.
        refit : bool, default=True
            Whether to refit; otherwise, and with fewer than 20 rows, the model itself is evaluated
            on the rows given.
        verbose : bool, default=False
            Whether to print training progress.
        say : callable, default=None
            Function that is given a line before each fit.

        Returns
        -------
        Trial
            The rows and the models.
        """
        rng, ours = np.random.default_rng(0), _name(model)
        if not refit or len(y) < _FEWEST_ROWS:
            some = np.sort(rng.permutation(len(y))[:_MOST_ROWS])
            trained = next(iter(model.parts_.values())).n_rows_
            note = (
                "The model was trained on these rows, so the scores are better than on new data."
                if trained == len(y)
                else f"These are {len(y):,} rows; the model was trained on {trained:,}. If they "
                "are among those, the scores are better than on new data."
            )
            return cls(X.iloc[some], y[some], {ours: model}, ours, note)
        held_out = rng.random(len(y)) < _SHARE
        some = np.sort(rng.permutation(np.flatnonzero(held_out))[:_MOST_ROWS])
        models: dict[str, Any] = {}
        for name, one in _rivals(model, verbose).items():
            say(f"{name}: fitting four fifths of the rows, to evaluate it on the others.")
            # An effort is not an input of a model without exposure.
            effort = [] if hasattr(one, "exposure") else [getattr(model, "exposure", None)]
            inputs = X.columns.difference(effort, sort=False)
            models[name] = one.fit(X.loc[~held_out, inputs], y[~held_out])
        note = (
            f"A random fifth of the rows ({held_out.sum():,}) was held out; the models were fitted "
            "again without them and are evaluated on them. Predictions far from the data, such as "
            "a week ahead or another region, are harder: zigp evaluate holds out stretches of time "
            "and regions."
        )
        return cls(X.iloc[some], y[some], models, ours, note)


@dataclass(frozen=True)
class Evaluation:
    """Scores of the models of a trial, and the calibration and the largest errors of ours."""

    scores: pd.DataFrame  # a row for each model
    reliability: pd.DataFrame
    pit: np.ndarray
    mean: np.ndarray  # predicted by our model at the trial's rows
    worst: tuple[pd.DataFrame, pd.DataFrame]  # rows with the largest errors, and their predictions


def evaluate(trial: Trial, roles: Roles) -> Evaluation:
    """Return the scores of all models of a trial, and more about ours."""
    model, X, y = trial.models[trial.ours], trial.X, trial.y
    resolution, lowest = resolution_of(y), 0.0 if np.all(y >= 0) else -np.inf
    table = {"Always zero": scores.amount_scores(y, np.zeros_like(y), resolution)}
    for name, one in trial.models.items():
        table[name] = score_table(one, X[list(one.feature_names_in_)], y, resolution)
    mean = np.maximum(model.predict(X), lowest)
    pick = np.argsort(-np.abs(y - mean), kind="stable")[:_WORST]
    rows = X.iloc[pick]
    inside = model.predict_interval(rows, 0.9).clip(lower=lowest)
    worst = pd.DataFrame(
        {
            f"{roles.target} observed": y[pick],
            "predicted": mean[pick],
            "90% interval from": inside["lower"].to_numpy(),
            "to": inside["upper"].to_numpy(),
        }
    )
    if hasattr(model, "prob_on"):
        worst["support"] = model.prob_on(rows)
    return Evaluation(
        pd.DataFrame(table).T,
        reliability(model, X, y, tol=0.5 * resolution),
        scores.pit(y, lambda t: model.prob_below(X, t), resolution),
        mean,
        (rows, worst),
    )


def _name(model: Any) -> str:
    """Return the name of a model for readers."""
    return _NAMES.get(type(model).__name__, type(model).__name__)


def _rivals(model: Any, verbose: bool) -> dict[str, Any]:
    """Return an unfitted copy of the model, after plain regression with the same settings."""
    fresh = clone(model).set_params(warm_start=False, verbose=verbose)
    layout = [*model.parts_.values()][-1].layout_
    if model.column_groups is None and len(layout.groups) > 1:
        names = [str(name) for name in model.feature_names_in_]
        groups = zip(layout.names, layout.groups, strict=True)
        fresh.set_params(column_groups={k: [names[c] for c in group] for k, group in groups})
    if getattr(model, "likelihood", None) == "auto":
        fresh.set_params(likelihood=model.likelihood_)
    shared = SparseGPRegressor().get_params()
    plain = {name: value for name, value in fresh.get_params().items() if name in shared}
    return {"Plain GP": SparseGPRegressor(**plain), _name(model): fresh}
