"""Write docs/calibration.md and its pictures from results/calibration.json: `make study-page`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from page import DOCS, number, table
from run import RESULTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAGE = DOCS / "calibration.md"
IMAGES = DOCS / "images"
TITLES = {
    "gp": "GP regression",
    "zigp": "ZiGP",
    "gated": "ZiGP, gated noise",
    "gprn": "GPRN",
    "sparse_gprn": "sparse GPRN",
}
QUANTITIES = {
    "observation": "a new observation",
    "signal": "the signal behind it",
    "mean": "the mean of all held-out observations",
    "amount": "the amount f behind a gate",
    "gate": "the gate Φ(g)",
}
HOW = {
    "learned": "learned",
    "known": "true, q fitted",
    "exact": "true, Monte Carlo instead of q",
}
GATED = ("zigp", "gated", "sparse_gprn")
# The promised coverage of intervals for new observations, which tests check.
LEAST_COVERED = {"0.5": 0.45, "0.9": 0.85, "0.95": 0.9}
# The largest deviation of the share of observations in one tenth of the distribution.
MOST_OFF = 0.05
BLUE, ORANGE = "#0072B2", "#D55E00"

Result = dict[str, Any]


# -- the page -------------------------------------------------------------------------------------


def page(found: Result) -> str:
    """Return the page."""
    sections = [opening(found), trust(found), simulated(found), parts(found), reasons(found)]
    sections += [rain(found)] if "rain" in found else []
    paragraphs = [p.strip("\n") for section in sections for p in section.split("\n\n")]
    return "\n\n".join(filter(None, paragraphs)) + "\n"


def worlds(found: Result) -> dict[str, Result]:
    """Return the results of each model and each kind of fit, in the order of the page."""
    return {
        name: {way: found["worlds"][name][way] for way in HOW if way in found["worlds"][name]}
        for name in TITLES
    }


def opening(found: Result) -> str:
    return f"""
# Calibration

This study measures how often intervals contain the truth when the truth is known. `make study`
runs the simulations and fits and writes this page.

Functions are drawn from the prior of each model by code that is independent of zigp and observed
with noise at {number(found["train"])} random places. An estimator is fitted to these observations
and predicts {number(found["held_out"])} other places of the same region. This is repeated
{number(found["replications"])} times with new functions. A calibrated interval contains the truth
as often as its level states.
"""


def trust(found: Result) -> str:
    held = {
        quantity: {
            name: ways["learned"][quantity]["coverage"]["0.9"][0]
            for name, ways in worlds(found).items()
            if quantity in ways["learned"]
        }
        for quantity in QUANTITIES
    }
    signal = held["signal"]
    gated = {name: signal[name] for name in GATED}
    plain = {name: signal[name] for name in signal if name not in GATED}
    return f"""
## In short

- **New observations** (`predict_interval`, `predict_quantiles`, `prob_below`): the intervals are
  reliable. {between(held["observation"])} of the 90 % intervals contained the observation.
- **Means over many places** (`aggregate`): the intervals are reliable; {between(held["mean"])}.
- **The signal without noise** (`sample(noise=False)`): {between(plain)} in models without gates,
  but only {between(gated)} in models with gates. Intervals of models with gates are too narrow.
- **The gate or the amount alone** (`predict_interval(of="gate")`, `of="latent"`): the intervals
  do not measure the uncertainty. They contained {between(held["amount"])} of the amounts and
  {between(held["gate"])} of the gates. A larger gate can compensate for a smaller amount, but q
  treats the two as independent.

These numbers hold when the model is correct. If it is not, as for the rain data below, check the
intervals on held-out data of your own with `zigp.diagnostics.coverage` and `plots.pit_histogram`.
"""


def between(shares: dict[str, float]) -> str:
    """Return the range of some shares in whole percent."""
    low, high = (f"{100 * end(shares.values()):.0f}" for end in (min, max))
    return f"{low} %" if low == high else f"{low} to {high} %"


def simulated(found: Result) -> str:
    rows = []
    for name, ways in worlds(found).items():
        judged = ways["learned"]["observation"]
        shares = {f"in {percent(level)}": covered(judged, level) for level in LEAST_COVERED}
        rows.append({"model": TITLES[name]} | shares | {"stretch": number(judged["stretch"])})
    promises = [f"{percent(v)} of {percent(k)} intervals" for k, v in LEAST_COVERED.items()]
    return f"""
## New observations

The table lists the percentage of held-out observations inside the intervals of
`predict_interval`, with standard errors over the simulations. "stretch" is approximately the
factor by which the 90 % intervals would have to be wider to contain 90 %:

{table(rows)}

Tests check for each of these models that at least {", ".join(promises)} contain the observation,
and that each tenth of the predictive distribution contains {percent(0.1 - MOST_OFF)} to
{percent(0.1 + MOST_OFF)} of the observations.

![Positions of the truth in its predictive distribution, for each model](images/calibration.png)

Each panel shows the positions of the truth in its predictive distribution. A calibrated model has
a flat line at 1. Raised ends mean that intervals are too narrow, a raised middle that they are
too wide. The band is two standard errors.
"""


def parts(found: Result) -> str:
    rows = []
    for quantity, title in QUANTITIES.items():
        row = {"inside 90 % intervals": title}
        for name, ways in worlds(found).items():
            judged = ways["learned"].get(quantity)
            row[TITLES[name]] = "" if judged is None else covered(judged, "0.9")
        rows.append(row)
    return f"""
## Quantities that cannot be observed

An interval for a new observation consists mostly of noise, so it can be calibrated while the
intervals of the underlying functions are not. The same fits give:

{table(rows)}
"""


def reasons(found: Result) -> str:
    rows = []
    for name, ways in worlds(found).items():
        for way, judged in ways.items():
            row = {"model": TITLES[name], "hyperparameters": HOW[way]}
            for quantity, title in QUANTITIES.items():
                row[title] = covered(judged[quantity], "0.9") if quantity in judged else ""
            rows.append(row | {"width": number(judged["observation"]["width90"])})
    return f"""
## Causes

Intervals are too narrow for two reasons. First, q treats the factors as independent, and this
kind of bound prefers a q that is too narrow to one that is too wide. Second, hyperparameters are
treated as known although they are learned from the same data. With the true hyperparameters, only
the first cause remains. For the zero-inflated GP, the table also has the exact posterior by Monte
Carlo. It lists coverage of 90 % intervals, and the mean width of those for a new observation:

{table(rows)}
"""


def rain(found: Result) -> str:
    held_out = found["rain"]
    rows = []
    for setting, title in (("paper", "the paper's"), ("own", "default")):
        for name, judged in held_out[setting].items():
            shares = {f"in {percent(level)}": covered(judged, level) for level in LEAST_COVERED}
            readings = f"{name}, {number(judged['rows'])}"
            rows.append({"settings": title, "readings": readings} | shares)
    return f"""
## Rain

{number(held_out["hours"])} whole hours of [the rain data](results.md#precipitation) are held out:
{number(held_out["rows"])} readings, {percent(held_out["zeros"])} of them zero. Here no model is
correct. A reading represents the 0.1 mm interval from which it was rounded, and its position inside
is drawn at random, so that exact zeros can be covered at the nominal rate too. Standard errors are
over hours. "rain expected" means that the model predicts 0.1 mm or more.

{table(rows)}

Tests check that with default settings the coverage is as promised above.

![Positions of held-out readings in their predictive distributions](images/calibration-rain.png)
"""


# -- pictures -------------------------------------------------------------------------------------


def draw_simulated(found: Result) -> None:
    """Draw PIT histograms of each model, for observations above and for the signal below."""
    import matplotlib.pyplot as plt

    shown, simulations = ("observation", "signal"), worlds(found)
    size = (2.1 * len(simulations), 4.6)
    figure, axes = plt.subplots(
        2, len(simulations), figsize=size, sharex=True, sharey=True, layout="constrained"
    )
    for row, quantity in zip(axes, shown, strict=True):
        for ax, (name, ways) in zip(row, simulations.items(), strict=True):
            histogram(
                ax, ways["learned"][quantity], BLUE, "-", "hyperparameters learned", band=True
            )
            histogram(ax, ways["known"][quantity], ORANGE, "--", "true hyperparameters")
            if quantity == shown[0]:
                ax.set_title(TITLES[name], fontsize="medium")
        row[0].set_ylabel(f"{QUANTITIES[quantity]}:\nshare / expected share")
    axes[0, 0].set_ylim(bottom=0)  # after drawing: this fixes the upper limit too
    figure.supxlabel("predicted probability of less than the truth", fontsize="medium")
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", ncols=3, frameon=False)
    save(figure, "calibration")


def draw_rain(found: Result) -> None:
    """Draw PIT histograms for held-out hours of rain."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(7.5, 3.2), sharey=True, layout="constrained")
    titles = {"paper": "the paper's settings", "own": "default settings (gated noise)"}
    for ax, (setting, title) in zip(axes, titles.items(), strict=True):
        histogram(ax, found["rain"][setting]["all"], BLUE, "-", "all readings", band=True)
        histogram(
            ax, found["rain"][setting]["rain expected"], ORANGE, "--", "where rain is expected"
        )
        ax.set_title(title, fontsize="medium")
        ax.set_xlabel("predicted probability of less rain")
    axes[0].set_ylim(bottom=0)
    axes[0].set_ylabel("share / expected share")
    handles = axes[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", ncols=3, frameon=False)
    save(figure, "calibration-rain")


def histogram(
    ax: Axes, judged: Result, colour: str, dashes: str, label: str, *, band: bool = False
) -> None:
    """Draw the share in each bin over the expected share, with two standard errors."""
    shares, errors = len(judged["pit"]) * np.transpose(judged["pit"])
    edges = np.linspace(0.0, 1.0, len(shares) + 1)
    if band:
        ax.axhline(1.0, color="0.4", linewidth=0.8, label="calibrated")
        low, high = (np.append(shares + side * errors, 0.0) for side in (-2.0, 2.0))
        low[-1], high[-1] = low[-2], high[-2]
        ax.fill_between(edges, low, high, step="post", color=colour, alpha=0.2, linewidth=0)
    ax.stairs(shares, edges, color=colour, linestyle=dashes, linewidth=1.5, label=label)
    ax.set(xlim=(0, 1), xticks=[0, 0.5, 1])


def save(figure: Any, name: str) -> None:
    import matplotlib.pyplot as plt

    figure.savefig(IMAGES / f"{name}.png", dpi=110)
    plt.close(figure)


def covered(judged: Result, level: str) -> str:
    """Return a share with its standard error in percent."""
    share, error = judged["coverage"][level]
    return f"{100 * share:.1f} ± {100 * error:.1f}"


def percent(share: float | str) -> str:
    return f"{100 * float(share):.3g} %"


def main() -> None:
    write_page(json.loads((RESULTS / "calibration.json").read_text()))


def write_page(found: Result) -> None:
    import matplotlib

    matplotlib.use("agg")
    draw_simulated(found)
    if "rain" in found:
        draw_rain(found)
    PAGE.write_text(page(found))
    print(f"Written: {PAGE.relative_to(PAGE.parents[1])}")


if __name__ == "__main__":
    main()
