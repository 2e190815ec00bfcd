"""`zigp info`."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from zigp import load
from zigp.cli.messages import plain, using
from zigp.cli.options import Debug
from zigp.estimators.persistence import read_header


def info(
    model: Annotated[Path, typer.Argument(help="Model file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    debug: Debug = False,
) -> None:
    """Describe a model file.

    Shows the columns, training, noise, and what looks wrong.

    Example: zigp info rain.zigp
    """
    with using(model):
        found = {key: value for key, value in read_header(model).items() if key != "content"}
        fitted = load(model)
        if hasattr(fitted, "likelihood_"):
            found |= {"likelihood": fitted.likelihood_, "noise": fitted.noise_}
        if units := getattr(fitted, "units_", {}):
            found["target"] = list(units)
        found["looks_wrong"] = fitted.sanity()
        lines = [*map(plain, _lines(str(model), found))]
    typer.echo(json.dumps(found, indent=2, ensure_ascii=False) if as_json else "\n".join(lines))


def _lines(path: str, found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the description for people."""
    yield f"{path}: {found['estimator']}, written by zigp {found['library']}"
    for key in ("target", "columns"):
        if names := found.get(key):
            yield f"{key:12}{', '.join(names)}"
    if "likelihood" in found:
        noise = ", ".join(f"{name} {value:.3g}" for name, value in found["noise"].items())
        yield f"likelihood  {found['likelihood']}" + (f" ({noise})" if noise else "")
    trained, made = found["trained"], found["made_with"]
    for name, part in ({"": trained} if "steps" in trained else trained).items():
        yield (
            f"trained     {name}{': ' if name else ''}{part['rows']:,} rows, {part['steps']} steps "
            f"in {part['seconds']:.0f} s: {part['stopped']}; bound {part['bound']:,.1f}"
        )
    made = made.get("amounts", made)
    rows = f", {made['batch_size']:,} rows a step" if made["batch_size"] else ""
    limit = "" if made["max_seconds"] is None else ", within a time limit that need not repeat"
    yield f"made with   seed {made['seed']}, {made['method']} in {made['dtype']}{rows}{limit}"
    versions = ", ".join(f"{name} {made[name]}" for name in ("zigp", "jax", "jaxlib", "numpy"))
    devices = f"{made['devices']} × " if made["devices"] > 1 else ""
    yield (
        f"made by     {versions}, Python {made['python']} on {devices}{made['device']} "
        f"({made['machine']}, {made['cores']} cores)"
    )
    for finding in found["looks_wrong"]:
        yield f"look at     {finding}"
