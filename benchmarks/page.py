"""Write docs/performance.md from `results/*.json`, and from nothing else: `make performance-page`.

A section is a function here, named with the files it is made from in `SECTIONS`; it is on the page
when those files are there. No number is typed.
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

FOLD = """A fold of the precipitation data, with the paper's lattice; natural gradients have the
rates of the comparison above. The whole fit is all but compilation. Each takes all of its steps; of
several optima rounding decides which is found, so that the two precisions can end apart:"""

Result = dict[str, Any]


def page(results: dict[str, Result]) -> str:
    """The whole page."""
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
            "what": bar.what,
            "measured": "" if value is None else number(value),
            "at most": number(bar.most),
            "aim": "" if bar.aim is None else number(bar.aim),
            "": verdict,
        }
        for bar, value, verdict in judged(results)
    ]
    return f"""
# Performance

`make bench` measures and writes this page, but for the section on a GPU, which `benchmarks/gpu.py`
measures where there is one; no number on it is typed. `make bench-check` fails where one is worse
than promised here:

{table(rows)}

A ratio below one means that zigp took less time. Machines differ and are noisy: look at ratios, and
at orders of magnitude. Times are medians, without warm-up and compilation, which stand apart.
`benchmarks/README.md` has the rules.
"""


def gradient(found: Result) -> str:
    return f"""
## One gradient of all the data

The paper's precipitation setting: two latents with 10 × 100 inducing points each, in double
precision. One gradient of the bound over **all** {number(found["zigp"]["rows"])} cells, beside one
training step of a sparse GP with one latent and 1,000 inducing points in GPyTorch, on
{number(found["gpytorch"]["rows"])} rows:

{programs(found)}

That is {number(found["ratio"])} of the time, for all rows instead of a minibatch
({spread_of_rounds(found)}). The speed comes from [the lattice](model.md#on-a-lattice).

Measured on {machine(found)}.
"""


def scattered(found: Result) -> str:
    diagonal, dense = found["diagonal"], found["dense"]
    return f"""
## A step on scattered rows

Without a lattice zigp does what other sparse GPs do. One step of Adam on
{number(diagonal["zigp"]["rows"])} rows with as many inducing points, three input columns, a squared
exponential kernel and Gaussian noise, in double precision. All three programs learn the same:
inducing inputs, length-scales, variance, mean, noise and a whitened q.

With a diagonal q, zigp takes {number(diagonal["ratio"])} of the time of the faster peer
({spread_of_rounds(diagonal)}):

{programs(diagonal)}

With a dense q, {number(dense["ratio"])} ({spread_of_rounds(dense)}):

{programs(dense)}

First bounds are a row's, each on a minibatch of its program's own: they agree as far as those do.
The peers' steps are timed one by one, zigp's in chunks of twenty, so that its quartiles are those
of means.

Measured on {machine(found)}.
"""


def floor(found: Result) -> str:
    whole = found["gradient"]
    rows = [
        {
            "part": name,
            "forwards": seconds(part["forwards"]["median"]),
            "with its derivatives": seconds(part["with derivatives"]["median"]),
        }
        for name, part in (found["parts"] | {"the whole gradient": whole}).items()
    ]
    least = [
        {
            "operation": name,
            "how many": number(kind["operations"]),
            "a second": number(kind["per_second"]),
            "takes": seconds(kind["seconds"]),
        }
        for name, kind in found["floor"].items()
    ]
    return f"""
## Where the time of a gradient goes

Each part of the gradient over {number(found["cells"])} cells, timed on its own in one run:

{table(rows)}

However they are arranged, the model's formulas need these operations, which this machine's cores
together do at the rates beside them:

{table(least)}

They add up to {seconds(found["floor_seconds"])}; the gradient takes
{number(found["ratio_to_floor"])} times that.

Measured on {machine(found)}.
"""


def convergence(found: Result) -> str:
    ratios = [f"{number(ratio)} on {name.capitalize()}" for name, ratio in found["ratios"].items()]
    return f"""
## Time to the same bound

From the same start, natural-gradient steps reach the bound that 3,000 steps of Adam reach, at
the best of four learning rates, in a part of the time: {" and ".join(ratios)}. On Jura they
have their defaults, on the rain data a faster rate for the noise and no schedule, chosen on this
very fold; with default rates there see the table.

{rows_of(found)}

{picture("convergence", "The bound against time, for each way of training")}

Adam's path, and so the bound it ends at, depends on rounding where the rain data have several
optima: another machine finds other numbers.

Measured on {machine(found)}.
"""


def trainers(found: Result) -> str:
    return f"""
## Which way of training is the default

Both ways with their own defaults: seconds of a fit, how much longer the first of its shape takes
because it is compiled, the bound reached, the root mean squared error of held-out rows in standard
deviations, and their mean log density.

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
        "rows a second": number(found["rows_per_second"]),
        "most resident memory": f"{number(found['peak_mb'])} MB",
        "growth of it in the second half": f"{number(found['growth_in_the_second_half_mb'])} MB",
        "bound a row, before and after": f"{number(first)}, {number(last)}",
    }
    return f"""
## Data larger than memory

One pass over Parquet files with a lattice of 10 × 100 inducing points, in double precision, from
disk to a trained model:

{table([{"": name, "measured": value} for name, value in rows.items()])}

At that rate a pass over a billion rows takes
{number(found["hours_for_a_billion_rows"])} hours on such a machine.

{picture("streaming", "Resident memory over the time of the pass: flat")}

Measured on {machine(found)}.
"""


def gpu(found: Result) -> str:
    gradients = [
        {
            "one gradient": name,
            "": dtype,
            "cells": number(one["cells"]),
            "takes": seconds(one["seconds"]),
            **({"quartiles": quartiles(one)} if "lower_quartile" in one else {}),
            "cells a second": number(one["cells_per_second"]),
            "moving bytes": seconds(one["bytes"]),
            "multiplying": seconds(one["operations"]),
            "exponentials": seconds(one["exponentials"]),
            "in a row": seconds(one["in_a_row"]),
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

The same code, on {machine(found)}. Beside each time stand
four floors that were measured on the card in the same run: moving the bytes that must move, the
products of matrices, the exponentials of the gates' moments, and the factorisations and solves that
wait for each other. The last is no law of nature: it is zigp's own projection and its derivatives,
run alone. What is small is bound by it, and far from what bytes or operations take.

{table(gradients)}

In float32 the bound of the first of them differs from float64's by
{number(found["float32_error"])} of its value.

{FOLD if fits else ""}

{table(fits)}

One pass over {number(all_of_them["cells"])} cells in the card's memory, in
{number(all_of_them["steps"])} steps of a slab each, takes {seconds(all_of_them["seconds"])}, and
each further pass {seconds(all_of_them["seconds_of_another"])}.
"""


def _arithmetic(one: Result) -> float:
    """The largest floor of those that are arithmetic alone."""
    return max(one[kind] for kind in ("bytes", "operations", "exponentials"))


def jobs(cube: Result, stranger: Result, imports: Result, memory: Result) -> str:
    rows = {
        "fit the rain data with nothing set, from pandas": seconds(
            stranger["pandas"]["fit_seconds"]
        ),
        "the same on the command line": seconds(stranger["command line"]["fit_seconds"]),
        f"fit a simulated cube of {number(cube['cells'])} cells (time, lat, lon), "
        f"{cube['zeros']:.0%} zeros": seconds(cube["fit_seconds"]),
        f"predict it on a grid twice as fine, {number(cube['predicted_cells'])} cells, through "
        "dask": seconds(cube["predict_seconds"]),
        "peak memory of the two": f"{number(cube['peak_megabytes'])} MB",
        "peak memory of the gradient above": f"{number(memory['peak_mb'])} MB, "
        f"{number(memory['peak_above_idle_mb'])} MB of it for data and computation",
        "import an estimator": f"{seconds(imports['zigp']['median'])}, of which jax and "
        f"scikit-learn are {seconds(imports['jax and scikit-learn']['median'])}",
    }
    return f"""
## Whole jobs

{table([{"job": job, "takes": took} for job, took in rows.items()])}

Measured on {machine(cube)}.
"""


def compilation(network: Result, start: Result) -> str:
    first, second = (seconds(start[key]["median"]) for key in ("first", "second"))
    small, large = (seconds(network[key]["compile"]) for key in ("Q=2, P=3", "Q=6, P=20"))
    return f"""
## Compilation

JAX compiles a model when it is first trained or asked. A network of two latents and three outputs
takes {small} to compile with all that its fit needs, one of six and twenty {large}: latents and
weights are computed as families, in loops. Fits of the same shapes share compiled programs within a
process, and the command line keeps them between runs: a `zigp fit` of five steps takes {first} when
typed for the first time, and {second} after that.

Measured on {machine(network)}.
"""


def advice() -> str:
    return """
## Making it faster

- Name the axes of your lattice (`column_groups`, or `--space` and `--time`), if they are not found.
- Fewer inducing points: work grows with their square in a group of columns.
- `max_seconds` bounds training; `batch_size` bounds memory.
- `dtype="float32"` halves memory.
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
    """A row for each program that a case was run with."""
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
        words.append(f"busy with other work too (load {number(on['load_before'])})")
    return ", ".join(words) or "a machine that was not written down"


def rows_of(found: Result) -> str:
    """The file's own `table`, a list of rows; without one, its numbers by name."""
    given = found.get("table")
    if given is None:
        plain = {key: value for key, value in found.items() if isinstance(value, int | float)}
        given = [{"what": key, "measured": value} for key, value in plain.items()]
    return table([{key: shown(value) for key, value in row.items()} for row in given])


def picture(name: str, says: str) -> str:
    """A picture of docs/images, where somebody has drawn it."""
    for kind in ("svg", "png"):
        if (DOCS / "images" / f"{name}.{kind}").exists():
            return f"![{says}](images/{name}.{kind})"
    return ""


def table(rows: list[dict[str, str]]) -> str:
    """Rows with the same columns, in Markdown."""
    if not rows:
        return ""
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def shown(value: Any) -> str:
    return number(value) if isinstance(value, int | float) else str(value)


def number(value: float) -> str:
    """Whole numbers in full, others to three digits."""
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
