"""`zigp info`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from zigp.cli.printing import plain

__all__ = ["described"]


def described(path: Path, *, as_json: bool) -> str:
    """What a model file holds, for people or, as JSON, for programs."""
    from zigp import load
    from zigp.estimators.persistence import read_header

    header = read_header(path)
    found: dict[str, Any] = {key: value for key, value in header.items() if key != "content"}
    model = load(path)
    if hasattr(model, "likelihood_"):
        found |= {"likelihood": model.likelihood_, "noise": model.noise_}
    if hasattr(model, "regressor_"):
        parts = {"zero or not": model.classifier_, "amounts": model.regressor_}
        for key in ("trained", "made_with"):
            found[key] = {name: part._summary()[key] for name, part in parts.items()}
    if units := getattr(model, "units_", {}):
        found["target"] = list(units)
    found["looks_wrong"] = model.sanity()
    if as_json:
        return json.dumps(found, indent=2, ensure_ascii=False)
    lines = [f"{path}: {found['estimator']}, written by zigp {found['library']}"]
    if "target" in found:
        lines.append(f"target      {', '.join(found['target'])}")
    if found.get("columns"):
        lines.append(f"columns     {', '.join(found['columns'])}")
    if "likelihood" in found:
        noise = ", ".join(f"{name} {value:.3g}" for name, value in found["noise"].items())
        lines.append(f"likelihood  {found['likelihood']}" + (f" ({noise})" if noise else ""))
    if "trained" in found:
        trained = found["trained"]
        parts = {"": trained} if "steps" in trained else trained
        lines += [f"trained     {_in_words(name, part)}" for name, part in parts.items()]
        made = found.get("made_with", {})
        lines += _made(made.get("amounts", made))
    for said in found["looks_wrong"]:
        lines.append(f"look at     {said}")
    return "\n".join(map(plain, lines))


def _in_words(name: str, trained: dict[str, Any]) -> str:
    said = (
        f"{trained['rows']:,} rows, {trained['steps']} steps in {trained['seconds']:.0f} s: "
        f"{trained['stopped']}; bound {trained['bound']:,.1f}"
    )
    return f"{name}: {said}" if name else said


def _made(made: dict[str, Any]) -> list[str]:
    """What has to be the same to get the same model again, for people."""
    if not made:  # a file of before this was recorded
        return []
    batches = f", {made['batch_size']:,} rows a step" if made["batch_size"] else ""
    budget = "" if made["max_seconds"] is None else ", within a time budget that need not repeat"
    versions = ", ".join(f"{name} {made[name]}" for name in ("zigp", "jax", "jaxlib", "numpy"))
    many = f"{made['devices']} × " if made["devices"] > 1 else ""
    return [
        f"made with   seed {made['seed']}, {made['method']} in {made['dtype']}{batches}{budget}",
        f"made by     {versions}, Python {made['python']} on {many}{made['device']} "
        f"({made['machine']}, {made['cores']} cores)",
    ]
