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
    "known": "given, q fitted",
    "exact": "given, no q: Monte Carlo",
}
GATED = ("zigp", "gated", "sparse_gprn")
# What is promised of intervals for new observations; tests hold it.
LEAST_COVERED = {"0.5": 0.45, "0.9": 0.85, "0.95": 0.9}
# The five points that intervals may be short by, all of them in one tenth of the distribution.
MOST_OFF = 0.05
BLUE, ORANGE = "#0072B2", "#D55E00"

Result = dict[str, Any]


# -- the page -------------------------------------------------------------------------------------


def page(found: Result) -> str:
    """The whole page."""
    sections = [opening(found), trust(found), simulated(found), parts(found), reasons(found)]
    sections += [rain(found)] if "rain" in found else []
    paragraphs = [p.strip("\n") for section in sections for p in section.split("\n\n")]
    return "\n\n".join(filter(None, paragraphs)) + "\n"


def worlds(found: Result) -> dict[str, Result]:
    """What was found of each model and each way of fitting it, in the order they are shown in."""
    return {
        name: {way: found["worlds"][name][way] for way in HOW if way in found["worlds"][name]}
        for name in TITLES
    }


def opening(found: Result) -> str:
    return f"""
# Calibration

How far intervals can be trusted: where the truth is known, how often it lay inside. `make study`
simulates, fits and writes this page; no number on it is typed.

Functions are drawn from the prior of each model, by other code than zigp's, and observed with noise
at {number(found["train"])} random places. An estimator is fitted to these and asked about
{number(found["held_out"])} other places of the same region,
{number(found["replications"])} times over with new functions. Of intervals that are honest, as many
hold the truth as their level says.
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

- **New observations** (`predict_interval`, `predict_quantiles`, `prob_below`): believe the
  intervals. {between(held["observation"])} of the 90 % intervals held the observation.
- **Means over many places** (`aggregate`): believe them too; {between(held["mean"])}.
- **The signal without its noise** (`sample(noise=False)`): {between(plain)} in models without
  gates, but only {between(gated)} in models with gates. Take their intervals as too narrow.
- **A gate or an amount by itself** (`predict_interval(of="gate")`, `of="latent"`): do not take
  these intervals for uncertainty. {between(held["amount"])} of the amounts and
  {between(held["gate"])} of the gates were inside: the two can stand in for each other, which q,
  under which they are independent, cannot say.

This is where the model is right. Where it is not, as with rain below, look at held-out data of your
own: `zigp.diagnostics.coverage`, `plots.pit_histogram`.
"""


def between(shares: dict[str, float]) -> str:
    """The least and the most of some shares, in whole percent."""
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

What `predict_interval` is about. Shares of held-out observations inside, in percent, with standard
errors over the simulations; stretch is about how many times as wide the 90 % intervals would have
had to be to hold 90 %:

{table(rows)}

Tests hold, for each of these models, that at least {", ".join(promises)} contain the observation,
and that each tenth of what was predicted holds {percent(0.1 - MOST_OFF)} to
{percent(0.1 + MOST_OFF)} of the observations.

![Where the truth fell in what was predicted, for each model](images/calibration.png)

Each panel shows where the truth fell in its predicted distribution. An honest model has a flat line
at 1. Ends that rise mean intervals that are too narrow, a hump in the middle too wide; the band is
two standard errors.
"""


def parts(found: Result) -> str:
    rows = []
    for quantity, title in QUANTITIES.items():
        row = {"in 90 % intervals": title}
        for name, ways in worlds(found).items():
            judged = ways["learned"].get(quantity)
            row[TITLES[name]] = "" if judged is None else covered(judged, "0.9")
        rows.append(row)
    return f"""
## What cannot be observed

Noise hides errors of the signal: an interval for a new observation is mostly noise, and can be
right while those of the functions behind it are not. The same fits, asked about these:

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
## Where it comes from

Two things make intervals too narrow. q approximates the posterior by one in which factors are
independent, and a bound of this kind prefers a q that is too narrow to one that is too wide. And
hyperparameters are taken as if they were known, though they were learned from the same data. With
the true ones given only q is to blame; for the zero-inflated GP there is also the exact posterior,
by Monte Carlo, to compare with. In 90 % intervals, and the mean width of those for a new
observation:

{table(rows)}
"""


def rain(found: Result) -> str:
    held_out = found["rain"]
    rows = []
    for setting, title in (("paper", "the paper's"), ("own", "none given")):
        for name, judged in held_out[setting].items():
            shares = {f"in {percent(level)}": covered(judged, level) for level in LEAST_COVERED}
            readings = f"{name}, {number(judged['rows'])}"
            rows.append({"settings": title, "readings": readings} | shares)
    return f"""
## Rain

{number(held_out["hours"])} whole hours of [the rain data](results.md#precipitation) held out:
{number(held_out["rows"])} readings, {percent(held_out["zeros"])} of them zero. Here no model
is true. A reading stands for the 0.1 mm that it was rounded from, with a place within drawn at
random, so that exact zeros can be covered at the nominal rate too; standard errors are over hours.
Rain is expected where the model predicts 0.1 mm or more.

{table(rows)}

Tests hold that with no settings given as many readings are inside as is promised above.

![Where readings of held-out hours fell in what was predicted](images/calibration-rain.png)
"""


# -- pictures -------------------------------------------------------------------------------------


def draw_simulated(found: Result) -> None:
    """A histogram for each model, of observations above and of the signal below."""
    import matplotlib.pyplot as plt

    shown, simulations = ("observation", "signal"), worlds(found)
    size = (2.1 * len(simulations), 4.6)
    figure, axes = plt.subplots(
        2, len(simulations), figsize=size, sharex=True, sharey=True, layout="constrained"
    )
    for row, quantity in zip(axes, shown, strict=True):
        for ax, (name, ways) in zip(row, simulations.items(), strict=True):
            histogram(ax, ways["learned"][quantity], BLUE, "-", "fitted as by a user", band=True)
            histogram(ax, ways["known"][quantity], ORANGE, "--", "true hyperparameters given")
            if quantity == shown[0]:
                ax.set_title(TITLES[name], fontsize="medium")
        row[0].set_ylabel(f"{QUANTITIES[quantity]}:\nshare, of that expected")
    axes[0, 0].set_ylim(bottom=0)  # once all is drawn: it ends the search for a top
    figure.supxlabel("predicted probability of less than what was true", fontsize="medium")
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", ncols=3, frameon=False)
    save(figure, "calibration")


def draw_rain(found: Result) -> None:
    """The same of held-out hours of rain."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(7.5, 3.2), sharey=True, layout="constrained")
    titles = {"paper": "the paper's settings", "own": "nothing set (gated noise)"}
    for ax, (setting, title) in zip(axes, titles.items(), strict=True):
        histogram(ax, found["rain"][setting]["all"], BLUE, "-", "all readings", band=True)
        histogram(
            ax, found["rain"][setting]["rain expected"], ORANGE, "--", "where rain is expected"
        )
        ax.set_title(title, fontsize="medium")
        ax.set_xlabel("predicted probability of less rain")
    axes[0].set_ylim(bottom=0)
    axes[0].set_ylabel("share of readings, of that expected")
    handles = axes[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", ncols=3, frameon=False)
    save(figure, "calibration-rain")


def histogram(
    ax: Axes, judged: Result, colour: str, dashes: str, label: str, *, band: bool = False
) -> None:
    """Shares in each bin of those that an honest model has, and two standard errors of them."""
    shares, errors = len(judged["pit"]) * np.transpose(judged["pit"])
    edges = np.linspace(0.0, 1.0, len(shares) + 1)
    if band:
        ax.axhline(1.0, color="0.4", linewidth=0.8, label="if intervals are honest")
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
    """A share with its standard error, in percent."""
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
