"""Hooks that run while the site is built: formulas and the help of the commands.

Formulas are drawn at build time, so that a page needs no script and nothing from other hosts. The
help comes from the command line itself, so that it cannot become outdated.
"""

from __future__ import annotations

import html
import re
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

_PLACE = re.compile(r"\{\{ *(?P<kind>help|page) +(?P<name>[^{} ]+) *\}\}")


def on_config(config: Any) -> Any:
    """Draw blocks fenced as `math`."""
    fences = config.mdx_configs.setdefault("pymdownx.superfences", {})
    fences["custom_fences"] = [{"name": "math", "class": "math", "format": formulas}]
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Insert the help of commands and pages of the repository's root."""
    return expanded(markdown)


# -- formulas -----------------------------------------------------------------------------------


def formulas(source: str, *_: Any, **__: Any) -> str:
    """Draw each line of TeX, as far as matplotlib supports it, in the colour of the text."""
    lines = [line for line in source.splitlines() if line.strip()]
    return f'<div class="math">{"".join(map(formula, lines))}</div>'


@cache
def formula(tex: str) -> str:
    """Return a formula as SVG, with its source as the text for screen readers."""
    from matplotlib import rc_context
    from matplotlib.font_manager import FontProperties
    from matplotlib.path import Path as Curve
    from matplotlib.textpath import TextPath

    size = 100.0
    with rc_context({"mathtext.fontset": "stix"}):
        text = TextPath((0, 0), f"${tex}$", size=size, prop=FontProperties(family="STIXGeneral"))
    box = text.get_extents()
    letters = {Curve.MOVETO: "M", Curve.LINETO: "L", Curve.CURVE3: "Q", Curve.CURVE4: "C"}
    steps = []
    for points, code in text.iter_segments(curves=True):
        if code == Curve.CLOSEPOLY:
            steps.append("Z")
        else:
            pairs = points.reshape(-1, 2)
            steps.append(letters[code] + " ".join(f"{x:.1f} {-y:.1f}" for x, y in pairs))
    pad = 0.05 * size
    width, height = box.width + 2 * pad, box.height + 2 * pad
    return (
        f'<svg role="img" aria-label="{html.escape(tex, quote=True)}" '
        f'style="width:{width / size:.3f}em" '
        f'viewBox="{box.x0 - pad:.1f} {-box.y1 - pad:.1f} {width:.1f} {height:.1f}">'
        f'<path fill="currentColor" d="{"".join(steps)}"/></svg>'
    )


# -- other pages --------------------------------------------------------------------------------


def expanded(markdown: str) -> str:
    """Return a page with `{{ help fit }}` and `{{ page CHANGELOG.md }}` expanded."""

    def replacement(match: re.Match) -> str:
        if match["kind"] == "help":
            return help_of(match["name"])
        # Links in a page of the repository's root are relative to the root.
        return (ROOT / match["name"]).read_text().replace("](docs/", "](")

    return _PLACE.sub(replacement, markdown)


# -- the command line ---------------------------------------------------------------------------


def help_of(command: str) -> str:
    """Return the output of `zigp COMMAND --help` as a block."""
    from typer.testing import CliRunner

    from zigp.cli import app

    arguments = [] if command == "zigp" else [command]
    result = CliRunner().invoke(app, [*arguments, "--help"], prog_name="zigp")
    if result.exit_code:
        raise ValueError(f"zigp {command} --help failed: {result.output}")
    return f"```text\n{result.output.strip()}\n```"
