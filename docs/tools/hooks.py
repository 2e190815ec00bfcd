"""What the site computes while it is built: formulas, and options of the commands.

Formulas are drawn here, so that a page needs no script and nothing from another host. Options come
from the command line itself, so that they cannot go stale.
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
    """Let blocks fenced as `math` be drawn."""
    fences = config.mdx_configs.setdefault("pymdownx.superfences", {})
    fences["custom_fences"] = [{"name": "math", "class": "math", "format": formulas}]
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the commands' help and pages of the root in their places."""
    return filled(markdown)


# -- formulas -----------------------------------------------------------------------------------


def formulas(source: str, *_: Any, **__: Any) -> str:
    """Lines of TeX, as far as matplotlib knows it, each as a drawing in the colour of the text."""
    lines = [line for line in source.splitlines() if line.strip()]
    return f'<div class="math">{"".join(map(formula, lines))}</div>'


@cache
def formula(tex: str) -> str:
    """One formula as SVG; its source is what a screen reader reads."""
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


def filled(markdown: str) -> str:
    """A page with `{{ help fit }}` and `{{ page CHANGELOG.md }}` replaced by what they name."""

    def value(match: re.Match) -> str:
        if match["kind"] == "help":
            return help_of(match["name"])
        # Links of a page of the repository's root begin there.
        return (ROOT / match["name"]).read_text().replace("](docs/", "](")

    return _PLACE.sub(value, markdown)


# -- the command line ---------------------------------------------------------------------------


def help_of(command: str) -> str:
    """What `zigp COMMAND --help` prints, as a block."""
    from typer.testing import CliRunner

    from zigp.cli import app

    typed = [] if command == "zigp" else [command]
    told = CliRunner().invoke(app, [*typed, "--help"], prog_name="zigp")
    if told.exit_code:
        raise ValueError(f"zigp {command} --help failed: {told.output}")
    return f"```text\n{told.output.strip()}\n```"
