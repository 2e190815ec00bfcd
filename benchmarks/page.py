"""Write docs/performance.md from `results/*.json`: `make performance-page`.

Each section is a function. `SECTIONS` lists them with the result files that they need; a section is
on the page if its files exist. All numbers come from these files.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from check import judged, read, was_busy
from check import main as bars

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "performance.md"
NAMES = {"zigp": "zigp", "gpytorch": "GPyTorch", "gpflow": "GPflow"}
STANDS_ON = {"zigp": "jax", "gpytorch": "torch", "gpflow": "tensorflow"}

FOLD = """These are fits of one fold of the precipitation data with the paper's lattice. Natural
gradients have the rates of the comparison above. "whole fit" excludes compilation. Every fit takes
all of its steps. Rounding decides which of several optima it finds, so the precisions differ:"""

# Headings of the page for the columns of recorded tables.
HEADINGS = {
    "its bound": "Adam's bound",
    "in seconds": "Adam's seconds",
    "natural gradients there, seconds": "natural gradients to that bound, seconds",
    "and steps": "steps",
    "of the time": "ratio of times",
    "their bound in the end": "final bound of natural gradients",
    "compiling": "compilation",
}

Result = dict[str, Any]


def page(results: dict[str, Result]) -> str:
    """Return the page."""
    measured = [
        section(*(results[name] for name in files))
        for section, files in SECTIONS
        if all(name in results for name in files)
    ]
    sections = [opening(results), *measured, advice()]
    paragraphs = [p.strip("\n") for section in sections for p in section.split("\n\n")]
    return "\n\n".join(filter(None, paragraphs)) + "\n"


# -- sections -------------------------------------------------------------------------------------


def opening(results: dict[str, Result]) -> str:
    rows = [
        {
            "quantity": bar.what,
            "measured": "" if value is None else number(value),
            "at most": number(bar.most),
            "aim": "" if bar.aim is None else number(bar.aim),
            "": verdict,
        }
        for bar, value, verdict in judged(results)
    ]
    return f"""
# Performance

`make bench` measures the numbers on this page and writes it; `benchmarks/gpu.py` measures those
of the section on a GPU, on a machine that has one. `make bench-check` fails if a number exceeds
its limit:

{table(rows)}

A ratio below one means that zigp took less time. Machines differ and are noisy, so compare ratios
and orders of magnitude. Times are medians and exclude warm-up and compilation, which are listed
apart. `benchmarks/README.md` describes the rules.
"""


def gradient(found: Result) -> str:
    return f"""
## One gradient of all the data

The setting is the paper's for precipitation: two latents with 10 × 100 inducing points each, in
double precision. The table compares one gradient of the bound over **all**
{number(found["zigp"]["rows"])} cells with one training step of a sparse GP in GPyTorch that has
one latent and 1,000 inducing points, on {number(found["gpytorch"]["rows"])} rows:

{programs(found)}

The ratio is {number(found["ratio"])} ({spread_of_rounds(found)}), for all rows instead of a
minibatch. The speed comes from [the lattice](model.md#lattices).

Measured on {machine(found)}.
"""


def scattered(found: Result) -> str:
    diagonal, dense = found["diagonal"], found["dense"]
    return f"""
## A step on scattered rows

Without a lattice, zigp works like other sparse GPs. The tables compare one step of Adam on
{number(diagonal["zigp"]["rows"])} rows with the same number of inducing points, three input
columns, a squared exponential kernel and Gaussian noise, in double precision. All three programs
learn the same parameters: inducing inputs, length-scales, variance, mean, noise and a whitened q.

With a diagonal q, the ratio to the faster peer is {number(diagonal["ratio"])}
({spread_of_rounds(diagonal)}):

{programs(diagonal)}

With a dense q, it is {number(dense["ratio"])} ({spread_of_rounds(dense)}):

{programs(dense)}

"first bound" is the bound per row on the first minibatch. Each program draws its own minibatch,
so the bounds agree only approximately. The steps of the peers are timed one by one. zigp's steps
are timed in chunks of twenty, so its quartiles are quartiles of means.

Measured on {machine(found)}.
"""


def floor(found: Result) -> str:
    whole = found["gradient"]
    rows = [
        {
            "part": name,
            "forward": seconds(part["forwards"]["median"]),
            "with derivatives": seconds(part["with derivatives"]["median"]),
        }
        for name, part in (found["parts"] | {"the whole gradient": whole}).items()
    ]
    least = [
        {
            "operation": name,
            "count": number(kind["operations"]),
            "per second": number(kind["per_second"]),
            "time": seconds(kind["seconds"]),
        }
        for name, kind in found["floor"].items()
    ]
    return f"""
## Where the time of a gradient goes

The table lists the parts of the gradient over {number(found["cells"])} cells, each timed
separately:

{table(rows)}

The formulas of the model need at least these operations, however they are arranged. The rates are
those of all cores of this machine:

{table(least)}

They add up to {seconds(found["floor_seconds"])}. The gradient takes
{number(found["ratio_to_floor"])} times as long.

Measured on {machine(found)}.
"""


def convergence(found: Result) -> str:
    ratios = [f"{number(ratio)} on {name.capitalize()}" for name, ratio in found["ratios"].items()]
    return f"""
## Time to the same bound

Both methods start from the same parameters. Adam takes 3,000 steps at the best of four learning
rates. Natural-gradient steps reach the same bound in a fraction of the time:
{" and ".join(ratios)}. On Jura they use their defaults. On the rain data they use a faster rate
for the noise and no schedule, which were chosen on this fold; the table also lists the default
rates.

{rows_of(found)}

{picture("convergence", "The bound against time, for each method of training")}

On the rain data there are several optima. Rounding decides which one Adam reaches, so other
machines find other numbers.

Measured on {machine(found)}.
"""


def trainers(found: Result) -> str:
    return f"""
## Default training method

Both methods with their own defaults: seconds per fit, additional seconds to compile the first fit
of its shape, the bound, the root mean squared error on held-out rows in standard deviations, and
their mean log density.

{rows_of(found)}

Measured on {machine(found)}.
"""


def streaming(found: Result) -> str:
    first, last = found["bound_a_row"]
    rows = {
        "rows": number(found["rows"]),
        "reading and decoding alone": seconds(found["reading_seconds"]),
        "computing alone, on a block in memory": seconds(found["computing_seconds"]),
        "the streamed pass": seconds(found["seconds"]),
        "ratio to the sum of the two": number(found["ratio"]),
        "rows per second": number(found["rows_per_second"]),
        "peak resident memory": f"{number(found['peak_mb'])} MB",
        "growth in the second half": f"{number(found['growth_in_the_second_half_mb'])} MB",
        "bound per row, before and after": f"{number(first)}, {number(last)}",
    }
    return f"""
## Data larger than memory

One pass over Parquet files trains a model with a lattice of 10 × 100 inducing points in double
precision:

{table([{"": name, "measured": value} for name, value in rows.items()])}

At this rate, a pass over a billion rows takes {number(found["hours_for_a_billion_rows"])} hours
on such a machine.

{picture("streaming", "Resident memory during the pass stays constant")}

Measured on {machine(found)}.
"""


def gpu(found: Result) -> str:
    gradients = [
        {
            "one gradient": name,
            "": dtype,
            "cells": number(one["cells"]),
            "time": seconds(one["seconds"]),
            **({"quartiles": quartiles(one)} if "lower_quartile" in one else {}),
            "cells per second": number(one["cells_per_second"]),
            "moving bytes": seconds(one["bytes"]),
            "matrix products": seconds(one["operations"]),
            "exponentials": seconds(one["exponentials"]),
            "sequential": seconds(one["in_a_row"]),
            "ratio to bytes or operations": number(one["seconds"] / _arithmetic(one)),
            "ratio to the largest": number(one["ratio"]),
        }
        for dtype in ("float32", "float64")
        for name, one in found[dtype]["gradients"].items()
    ]
    fits = [
        {
            "fit": name,
            "steps": number(one["steps"]),
            "training": seconds(one["seconds"]),
            "whole fit": seconds(one["whole_fit"]),
            "with compilation": seconds(one["with_compilation"]),
            "bound": number(one["bound"]),
            "test RMSE": number(one["rmse"]),
        }
        for name, one in found.get("fold", {}).items()
    ]
    all_of_them = found["billion"]
    return f"""
## On a GPU

The same code on {machine(found)}. The table compares each time with four lower limits, measured
on the card in the same run: moving the necessary bytes, matrix products, the exponentials in the
moments of the gates, and the sequential part, factorisations and solves that depend on each
other. The last is not a strict limit: it is zigp's own projection with its derivatives, run
alone. Small problems are limited by it and stay far from the other limits.

{table(gradients)}

In the first case, the relative difference between the bounds in float32 and float64 is
{number(found["float32_error"])}.

{FOLD if fits else ""}

{table(fits)}

One pass over {number(all_of_them["cells"])} cells in the card's memory, in
{number(all_of_them["steps"])} steps of one slab each, takes {seconds(all_of_them["seconds"])};
further passes take {seconds(all_of_them["seconds_of_another"])}.
"""


def _arithmetic(one: Result) -> float:
    """Return the largest of the limits by bytes and operations."""
    return max(one[kind] for kind in ("bytes", "operations", "exponentials"))


def jobs(cube: Result, stranger: Result, imports: Result, memory: Result) -> str:
    rows = {
        "fit the rain data with default settings, from pandas": seconds(
            stranger["pandas"]["fit_seconds"]
        ),
        "the same on the command line": seconds(stranger["command line"]["fit_seconds"]),
        f"fit a simulated cube of {number(cube['cells'])} cells (time, lat, lon) with "
        f"{cube['zeros']:.0%} zeros": seconds(cube["fit_seconds"]),
        f"predict it with dask on a grid twice as fine, {number(cube['predicted_cells'])} "
        "cells": seconds(cube["predict_seconds"]),
        "peak memory of the two": f"{number(cube['peak_megabytes'])} MB",
        "peak memory of the gradient above": f"{number(memory['peak_mb'])} MB, "
        f"of which {number(memory['peak_above_idle_mb'])} MB for data and computation",
        "import an estimator": f"{seconds(imports['zigp']['median'])}, of which jax and "
        f"scikit-learn take {seconds(imports['jax and scikit-learn']['median'])}",
    }
    return f"""
## Whole jobs

{table([{"job": job, "measured": value} for job, value in rows.items()])}

Measured on {machine(cube)}.
"""


def compilation(network: Result, start: Result) -> str:
    first, second = (seconds(start[key]["median"]) for key in ("first", "second"))
    small, large = (seconds(network[key]["compile"]) for key in ("Q=2, P=3", "Q=6, P=20"))
    return f"""
## Compilation

JAX compiles a model when it is first trained or used. A network of two latents and three outputs
takes {small} to compile for its whole fit, one of six latents and twenty outputs {large}: latents
and weights are computed in batches. Fits of the same shapes share compiled programs within a
process, and the command line caches them between runs: a `zigp fit` of five steps takes {first}
the first time and {second} after that.

Measured on {machine(network)}.
"""


def advice() -> str:
    return """
## Making it faster

- Name the axes of your lattice (`column_groups`, or `--space` and `--time`) if they are not
  detected.
- Use fewer inducing points: work grows with the square of their number in each group of columns.
- Set `max_seconds` to limit training time and `batch_size` to limit memory.
- Set `dtype="float32"` to halve memory.
"""


SECTIONS: list[tuple[Callable[..., str], tuple[str, ...]]] = [
    (gradient, ("gradient",)),
    (scattered, ("scattered",)),
    (floor, ("floor",)),
    (convergence, ("convergence",)),
    (trainers, ("trainers",)),
    (streaming, ("streaming",)),
    (gpu, ("gpu",)),
    (jobs, ("cube", "stranger", "imports", "memory")),
    (compilation, ("compile_network", "second_start")),
]


# -- pieces of a section --------------------------------------------------------------------------


def programs(found: Result) -> str:
    """Return a table with one row per program."""
    return table(
        [
            {
                "": f"{NAMES[name]}, {STANDS_ON[name]} {found['versions'][STANDS_ON[name]]}",
                "rows": number(found[name]["rows"]),
                "median": seconds(found[name]["median"]),
                "quartiles": quartiles(found[name]),
                "compilation": seconds(found[name]["compile"])
                if found[name]["compile"]
                else "none",
            }
            | ({"first bound": number(found[name]["bound"])} if "bound" in found[name] else {})
            for name in NAMES
            if name in found
        ]
    )


def quartiles(times: Result) -> str:
    return f"{seconds(times['lower_quartile'])} to {seconds(times['upper_quartile'])}"


def spread_of_rounds(found: Result) -> str:
    ratios = found["ratio_of_rounds"]
    return f"{number(min(ratios))} to {number(max(ratios))} over {len(ratios)} rounds"


def machine(found: Result) -> str:
    on = found.get("on", {})
    forms = {"device": "{}", "cpu": "{}", "cores": "{} cores", "python": "Python {}"}
    words = [form.format(on[key]) for key, form in forms.items() if key in on]
    words += [f"{name} {is_}" for name, is_ in on.get("versions", {}).items() if name != "zigp"]
    if was_busy(found):
        words.append(f"also busy with other work (load {number(on['load_before'])})")
    return ", ".join(words) or "an unrecorded machine"


def rows_of(found: Result) -> str:
    """Return the `table` of a result file, or its numbers by name if it has none."""
    given = found.get("table")
    if given is None:
        plain = {key: value for key, value in found.items() if isinstance(value, int | float)}
        given = [{"quantity": key, "measured": value} for key, value in plain.items()]
    return table(
        [{HEADINGS.get(key, key): shown(value) for key, value in row.items()} for row in given]
    )


def picture(name: str, says: str) -> str:
    """Return a picture of docs/images, or nothing if it does not exist."""
    for kind in ("svg", "png"):
        if (DOCS / "images" / f"{name}.{kind}").exists():
            return f"![{says}](images/{name}.{kind})"
    return ""


def table(rows: list[dict[str, str]]) -> str:
    """Return rows with the same columns as a Markdown table."""
    if not rows:
        return ""
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def shown(value: Any) -> str:
    return number(value) if isinstance(value, int | float) else str(value)


def number(value: float) -> str:
    """Format integers in full and other numbers to three digits."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if 100 <= value < 1e7 else f"{value:.3g}"


def seconds(value: float) -> str:
    if value < 1e-3:
        return f"{1e6 * value:.0f} µs"
    return f"{number(1e3 * value)} ms" if value < 1 else f"{number(value)} s"


def main() -> None:
    PAGE.write_text(page(read()))
    bars()
    print(f"Written: {PAGE.relative_to(PAGE.parents[1])}")


if __name__ == "__main__":
    main()
