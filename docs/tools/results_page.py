"""Write docs/results.md from the folders of a finished `zigp reproduce all`.

python docs/tools/results_page.py FOLDER [--out docs/results.md]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zigp.experiments import EXPERIMENTS, jura, precipitation
from zigp.experiments.record import Record

if TYPE_CHECKING:
    import pandas as pd

ROOT = Path(__file__).parents[2]
_AMOUNTS = ("rmse", "mae", "f1", "accuracy", "precision", "recall")
_DISTRIBUTIONS = ("nlpd", "crps", "coverage90", "pit_distance", "auprc")
_HEADINGS = {
    "rmse": "RMSE",
    "mae": "MAE",
    "f1": "F1",
    "nlpd": "−log P",
    "crps": "CRPS",
    "coverage90": "in 90 %",
    "pit_distance": "PIT",
    "auprc": "AUPRC",
    "coverage": "coverage",
}
_NAMES = {"GPcr0": "GPcr≠0"}


def _text(words: str) -> str:
    return " ".join(words.split())


_PROTOCOL = _text("""
    Hourly rain at 105 Finnish stations over 1,080 hours; 89.8 % of the readings are zero. The truth
    is y > 0. A prediction counts as rain from 0.1 mm on, after clipping at zero (GPc: from
    probability ½ on). −log P is the negative log probability of the 0.1 mm cell around a
    reading, P(y − 0.05 < Y ≤ y + 0.05). PIT is the Kolmogorov–Smirnov distance from uniform of
    P(Y ≤ y), drawn at random within that cell. CRPS and coverage are those of the distribution
    clipped at zero. AUPRC is the area under the precision-recall curve of `prob_on`. The split
    `kfold` holds out random rows, as in the paper's table; `time` holds out whole hours, as in the
    paper's text.
""")
_MODELS = _text("""
    GPc, GPr, GPcr and GPcr≠0 are the paper's baselines. Hurdle is the usual two-part model
    (regression on the rows with rain, probability times amount). All have the same lattice,
    kernels, steps and initial values. LightGBM is gradient boosting with a Tweedie loss, and
    scikit-lego is its ZeroInflatedRegressor with random forests, both on latitude, longitude and
    hour. Settings:
""")
_WHY = _text("""
    Known differences: the authors' code maximises an approximation of the bound (Owen's T
    replaced, Φ squashed to [0.001, 0.999]) in minibatch steps, ours maximises the bound itself on
    all rows at once. Our length-scales start at 3 hours and at 0.4 and 0.5 degrees, which
    raised the accuracy and lowered the MAE of ZiGP on rows held out from training
    (benchmarks/results/tune_precipitation.json). The paper does not state from which amount on
    a prediction counts as rain. We have not measured the effect of each difference by itself.
""")
_SETTINGS = {
    "paper": _text("""
        10 × 100 inducing points that are learned, squared exponential kernels with length-scales
        for latitude, longitude and hours, Adam on all rows, 1,000 steps at 0.05, Gaussian noise
    """),
    "own": _text("""
        the defaults of `ZeroInflatedGPRegressor().fit(X, y)`: an inducing point at every station
        and hour, Matérn 3/2 kernels, gated noise, 400 steps at 0.05
    """),
}
_CHOICE = _text("""
    One setting serves all folds. It was chosen by the scores of ZiGP on rows held out from the
    training rows of several folds, not fold by fold: the test rows of each fold are training rows
    of others and so had a small influence. A higher learning rate for the noise of `gated` was
    tried after seeing the PIT of test rows with one rate for all; how much higher was then chosen
    on those held-out training rows.
""")
# The project's aims.
_AIMS = {
    "paper": {"rmse": 0.540, "mae": 0.106, "f1": 0.485},
    "own": {"rmse": 0.520, "mae": 0.095, "f1": 0.66, "accuracy": 0.929, "pit_distance": 0.05},
}
_LOWER = ("rmse", "mae", "nlpd", "crps", "pit_distance")
_SITES = _text("""
    Cadmium, nickel and zinc in the soil at 259 training sites and 100 test sites. Networks have two
    latents (unless Q says otherwise), m inducing points for each latent and weight, a dense q,
    squared exponential kernels, and Gamma(3, 1) priors on the gates' length-scales. All restarts
    are trained together with the estimator's default steps. `noise` adds noise to the latents;
    `log` models logarithms.
""")
_JURA = _text("""
    Means over restarts, as in the paper; spread is the standard deviation over restarts. GPr is
    one GP for each metal, Median the training median.
""")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the --out of `zigp reproduce all`")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results.md")
    given = parser.parse_args()
    folders = [given.folder / name for name in EXPERIMENTS]
    records = [Record.read(folder) for folder in folders if (folder / "results.json").exists()]
    given.out.write_text(results_page(records), encoding="utf-8")


def results_page(records: Iterable[Record]) -> str:
    """Return Markdown with a section for each experiment."""
    sections = {"precipitation": _precipitation, "toy": _toy, "jura": _jura}
    records = list(records)
    fast, where = records[0].fast, records[0].environment
    command = "zigp reproduce all" + " --fast" * fast
    packages = ", ".join(f"{name} {v}" for name, v in where["packages"].items())
    parts = [
        "# Results",
        f"Written by `{command}`, not by hand, on {where['cores']} cores ({where['device']}), "
        f"Python {where['python']}, {packages}.",
    ]
    if fast:
        parts.append("**A fast run: few steps, one fold, few restarts. These are not results.**")
    for record in records:
        parts += sections[record.experiment](record)
    return "\n\n".join(parts) + "\n"


# ---------------------------------------------------------------------------------------------
# Precipitation


def _precipitation(record: Record) -> list[str]:
    rows = _frame(record)
    parts = [
        "## Precipitation",
        _PROTOCOL,
        _MODELS,
        "\n".join(f"- `{name}`: {words}" for name, words in _SETTINGS.items()),
        _CHOICE,
    ]
    for (setting, split), table in rows.groupby(["setting", "split"], sort=False):
        parts.append(f"### Setting `{setting}`, split `{split}`")
        parts.append(_scores_table(table, beside_paper=(setting, split) == ("paper", "kfold")))
        parts.append(f"The fits of this table took {_fit_seconds(table):.0f} s together.")
        if split == "kfold" and "ZiGP" in set(table["model"]):
            parts.append(_aims(str(setting), table))
        parts.append(_findings(table))
        parts.append("RMSE of each fold, the lowest in bold:")
        parts.append(_fold_table(table))
        if (setting, split) == ("paper", "kfold"):
            parts += _differences(table)
    own = rows[(rows["setting"] == "own") & (rows["model"] == "ZiGP")]
    if len(own):
        parts.append("### Our own ZiGP against all of the above")
        parts += [_against_all(rows, split) for split in own["split"].unique()]
    return parts


def _against_all(rows: pd.DataFrame, split: str) -> str:
    """Compare the means of our own setting with the best of all other models on a split."""
    here = rows[rows["split"] == split]
    mine = (here["setting"] == "own") & (here["model"] == "ZiGP")
    ours = here[mine].mean(numeric_only=True)
    others = here[~mine].groupby(["model", "setting"]).mean(numeric_only=True)
    words = []
    for column in ("rmse", "mae", "f1", "nlpd"):
        values = others[column].dropna()
        at = int(values.argmin() if column in _LOWER else values.argmax())
        model, setting = values.index[at]
        words.append(
            f"{_HEADINGS[column]} {ours[column]:.3f}, the best other {values.iloc[at]:.3f} "
            f"({_NAMES.get(model, model)}, `{setting}`)"
        )
    nats = others.loc[("ZiGP", "paper"), "nlpd"] - ours["nlpd"]
    gain = f"−log P is {nats:.2f} nats per row below that of the paper's ZiGP"
    return f"`{split}`: {'; '.join(words)}. {gain}."


def _scores_table(table: pd.DataFrame, *, beside_paper: bool) -> str:
    """Return a table of means over folds, with the paper's numbers in brackets."""
    columns = (*_AMOUNTS, *_DISTRIBUTIONS)
    lines = []
    for model, part in table.groupby("model", sort=False):
        cells = [_NAMES.get(str(model), str(model))]
        for column in columns:
            value = part[column].mean() if column in part else np.nan
            cell = "" if np.isnan(value) else f"{value:.3f}"
            paper = precipitation.PAPER.get(str(model), {}).get(column)
            shown = beside_paper and cell
            cells.append(f"{cell} ({paper:.3f})" if shown and paper is not None else cell)
        lines.append([*cells, f"{part['seconds'].sum():.0f}"])
    heading = ["model", *(_HEADINGS.get(c, c) for c in columns), "seconds"]
    note = "Means over folds" + (", the paper's in brackets" if beside_paper else "")
    return _markdown(heading, lines) + f"\n\n{note}; seconds are those of all fits of a model."


def _aims(setting: str, table: pd.DataFrame) -> str:
    """Compare the results of a setting with its aims."""
    means = table[table["model"] == "ZiGP"].mean(numeric_only=True)
    words = []
    for column, aim in _AIMS[setting].items():
        lower = column in _LOWER
        reached = means[column] <= aim if lower else means[column] >= aim
        sign, outcome = "≤" if lower else "≥", "reached" if reached else "missed"
        words.append(
            f"{_HEADINGS.get(column, column)} {sign} {aim:g}: {outcome}, {means[column]:.3f}"
        )
    return f"Aims for ZiGP: {'; '.join(words)}."


def _findings(table: pd.DataFrame) -> str:
    """List the columns in which another model is better than ZiGP on average."""
    if "ZiGP" not in set(table["model"]):
        return "ZiGP was not fitted."
    means = table.groupby("model", sort=False).mean(numeric_only=True)
    found = []
    for column in (*_AMOUNTS, *_DISTRIBUTIONS):
        if column in means and column != "coverage90" and means[column].notna().sum() > 1:
            values = means[column]
            best = str(values.idxmin() if column in _LOWER else values.idxmax())
            if best != "ZiGP":
                name = _NAMES.get(best, best)
                pair = f"{name} {values[best]:.3f}, ZiGP {values['ZiGP']:.3f}"
                found.append(f"{_HEADINGS.get(column, column)} ({pair})")
    if not found:
        return "ZiGP has the best value of every column."
    return f"Another model has the best value of: {'; '.join(found)}."


def _fit_seconds(table: pd.DataFrame) -> float:
    """Add up the seconds of all fits, each once: hurdles share the classifier."""
    seconds = table.groupby("model")["seconds"].sum()
    hurdles = seconds.index.isin(["GPcr", "GPcr0", "Hurdle"]).sum()
    return seconds.sum() - hurdles * seconds.get("GPc", 0.0)


def _fold_table(table: pd.DataFrame) -> str:
    wide = table[table["model"] != "GPc"].pivot_table(
        index="model", columns="fold", values="rmse", sort=False
    )
    best = wide.to_numpy() == wide.to_numpy().min(axis=0)
    lines = [
        [_NAMES.get(name, name)]
        + [f"**{v:.3f}**" if b else f"{v:.3f}" for v, b in zip(values, bold, strict=True)]
        for name, values, bold in zip(wide.index, wide.to_numpy(), best, strict=True)
    ]
    return _markdown(["model", *(f"fold {int(f)}" for f in wide.columns)], lines)


def _differences(table: pd.DataFrame) -> list[str]:
    """List the numbers that differ from the paper's table by more than a tenth."""
    found = []
    for model, paper in precipitation.PAPER.items():
        part = table[table["model"] == model]
        for column, theirs in paper.items():
            ours = part[column].mean() if column in part else np.nan
            if theirs and abs(ours / theirs - 1.0) > 0.1:
                name = _NAMES.get(model, model)
                found.append(f"{name} {_HEADINGS.get(column, column)} {ours / theirs - 1.0:+.0%}")
    if not found:
        return ["No number differs from the paper's by more than a tenth."]
    return [f"Differs from the paper by more than a tenth: {', '.join(found)}.", _WHY]


# ---------------------------------------------------------------------------------------------
# Toy


def _toy(record: Record) -> list[str]:
    rows = _frame(record)
    lines = [
        [
            r["model"],
            f"{r['rmse']:.4f}",
            f"{r['mae']:.4f}",
            _optional(r.get("f1")),
            f"{r['elbo']:.1f}",
            f"{r['seconds']:.0f}",
        ]
        for r in rows.to_dict("records")
    ]
    return [
        "## Toy",
        "450 noisy points of a signal with stretches of exact zeros. Fitted to the noisy y, scored "
        "against the true f; F1 is that of `prob_on` ≥ ½ against f ≠ 0.",
        _markdown(["model", "RMSE", "MAE", "F1", "bound", "seconds"], lines),
    ]


# ---------------------------------------------------------------------------------------------
# Jura


def _jura(record: Record) -> list[str]:
    rows = _frame(record)
    return [
        "## Jura",
        _SITES,
        "### No metal known at the test sites",
        *_isotopic(rows[rows["split"] == "isotopic"]),
        "### Cadmium, nickel and zinc being known",
        *_heterotopic(rows[rows["split"] == "heterotopic"], record.predictions()),
    ]


def _isotopic(rows: pd.DataFrame) -> list[str]:
    lines, reached, compared = [], 0, 0
    for (model, setting), part in rows.groupby(["model", "setting"], sort=False, dropna=False):
        best = part["elbo"].fillna(-np.inf).max()
        means, bests, spreads = [], [], []
        for output in jura.METALS:
            here = part[part["output"] == output]
            kept = here[here["elbo"].fillna(-np.inf) == best].iloc[0]
            for metric in ("rmse", "mae"):
                means.append(here[metric].mean())
                spreads.append(here[metric].std(ddof=0))
                bests.append(kept[metric])
        name = f"{model} {setting}".strip()
        paper = jura.PAPER.get((str(model), str(setting)))
        if paper is not None:
            reached += int(np.sum(np.asarray(means) <= np.asarray(paper)))
            compared += len(paper)
            lines.append([f"{name}, paper", *(f"{v:.3g}" for v in paper), ""])
            lines.append([f"{name}, mean of {part['restart'].nunique()}", *map(_short, means), ""])
            lines.append([f"{name}, spread", *map(_short, spreads), ""])
        last = f"{name}, best by bound" if paper is not None else name
        lines.append([last, *map(_short, bests), _seconds(part)])
    metals = (f"{m} {s}" for m in ("Cd", "Ni", "Zn") for s in ("RMSE", "MAE"))
    heading = ["", *metals, "seconds"]
    return [
        _markdown(heading, lines),
        f"{_JURA} {reached} of {compared} numbers are at or below the paper's. {_cheaper(rows)}",
    ]


def _cheaper(rows: pd.DataFrame) -> str:
    """List where a cheap baseline is better than every network's mean over restarts."""
    found = []
    for output in jura.METALS:
        here = rows[rows["output"] == output]
        for metric in ("rmse", "mae"):
            mean = here.groupby(["model", "setting"])[metric].mean()
            model = str(mean.index[int(np.argmin(mean.to_numpy()))][0])
            if "GPRN" not in model:
                found.append(f"{output.title()} {_HEADINGS[metric]} ({model})")
    return f"Better than every network's mean: {', '.join(found) or 'nothing'}."


def _heterotopic(rows: pd.DataFrame, predictions: pd.DataFrame) -> list[str]:
    table = predictions[predictions["split"] == "heterotopic"].fillna({"setting": ""})
    lines, errors = [], {}
    for (model, setting), part in rows.fillna({"setting": ""}).groupby(
        ["model", "setting"], sort=False
    ):
        here = table[(table["model"] == model) & (table["setting"] == setting)]
        wide = here.assign(restart=here["restart"].fillna(0)).pivot(
            index="row", columns="restart", values="mean"
        )
        y = here.drop_duplicates("row").set_index("row")["y"]
        name = f"{model} {setting}".strip()
        errors[name] = np.abs((wide.median(axis=1) - y).to_numpy(float))
        each = part["mae"].to_numpy(float)
        best = int(np.argmax(part["elbo"].astype(float).fillna(-np.inf).to_numpy()))
        kept = each[best]
        several = len(part) > 1
        lines.append(
            [
                name,
                f"{errors[name].mean():.4f}",
                f"{np.median(each):.4f}" if several else "",
                f"{kept:.4f}" if several else "",
                f"{each.min():.3f} to {each.max():.3f}" if several else "",
                _seconds(part),
            ]
        )
    published = ", ".join(f"{name} {value:.4f}" for name, value in jura.PUBLISHED.items())
    return [
        _markdown(
            ["", "median prediction", "median restart", "best by bound", "each restart", "seconds"],
            lines,
        ),
        "MAE of cadmium in ppm after a median back-transform: of the median over restarts of the "
        "predictions, the median over restarts of the MAE, and that of the restart with the "
        f"highest bound. Published: {published}. {_goal(errors)}",
        "Differences in MAE over the 100 sites, with 95 % intervals of a paired bootstrap:",
        _bootstrap_table(errors),
    ]


def _goal(errors: dict[str, np.ndarray]) -> str:
    name = min((n for n in errors if "GPRN" in n), key=lambda n: float(errors[n].mean()))
    reached = errors[name].mean() < 0.404
    return (
        f"The goal, below 0.404, was {'reached' if reached else 'missed'}: {name} has "
        f"{errors[name].mean():.4f}. Differences under 0.01 mean little."
    )


def _bootstrap_table(errors: dict[str, np.ndarray]) -> str:
    """Compare each model with the log-linear regression."""
    rng = np.random.default_rng(0)
    base = errors["LogLinear log"]
    picks = rng.integers(len(base), size=(10_000, len(base)))
    lines = []
    for name, values in errors.items():
        if name != "LogLinear log":
            drawn = (values - base)[picks].mean(axis=1)
            low, high = np.quantile(drawn, [0.025, 0.975])
            lines.append([name, f"{np.mean(values - base):+.4f}", f"{low:+.4f} to {high:+.4f}"])
    return _markdown(["against LogLinear", "difference", "95 %"], lines)


# ---------------------------------------------------------------------------------------------


def _frame(record: Record) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(record.rows)


def _seconds(part: pd.DataFrame) -> str:
    """Return the seconds of the fit that the rows share."""
    seconds = part["seconds"].max()
    return "" if np.isnan(seconds) else f"{seconds:.0f}"


def _short(value: float) -> str:
    return f"{value:.3g}"


def _optional(value: Any) -> str:
    return "" if value is None or np.isnan(value) else f"{value:.4f}"


def _markdown(heading: list[str], lines: list[list[str]]) -> str:
    rule = ["---", *["---:"] * (len(heading) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in [heading, rule, *lines])


if __name__ == "__main__":
    main()
