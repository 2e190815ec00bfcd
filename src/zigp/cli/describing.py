"""`zigp info`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["described"]


def described(path: Path, *, as_json: bool) -> str:
    """What a model file holds, for people or, as JSON, for programs."""
    from zigp import load
    from zigp.storage import read_header

    header = read_header(path)
    found: dict[str, Any] = {key: value for key, value in header.items() if key != "content"}
    model = load(path)
    if hasattr(model, "likelihood_"):
        found |= {"likelihood": model.likelihood_, "noise": model.noise_}
    found["looks_wrong"] = model.sanity()
    if as_json:
        return json.dumps(found, indent=2, ensure_ascii=False)
    lines = [f"{path}: {found['estimator']}, written by zigp {found['library']}"]
    if found.get("columns"):
        lines.append(f"columns     {', '.join(found['columns'])}")
    if "likelihood" in found:
        noise = ", ".join(f"{name} {value:.3g}" for name, value in found["noise"].items())
        lines.append(f"likelihood  {found['likelihood']}" + (f" ({noise})" if noise else ""))
    if trained := found.get("trained"):
        lines.append(
            f"trained     {trained['rows']:,} rows, {trained['steps']} steps in "
            f"{trained['seconds']:.0f} s: {trained['stopped']}; bound {trained['bound']:,.1f}"
        )
    for said in found["looks_wrong"]:
        lines.append(f"look at     {said}")
    return "\n".join(lines)
