"""Draw docs/images/architecture.svg: the rooms of the package in order.

python docs/tools/architecture.py
"""

from __future__ import annotations

from pathlib import Path

PICTURE = Path(__file__).parents[1] / "images" / "architecture.svg"
ROWS = {
    "Mathematics": {
        "runtime": "JAX session, files, signals",
        "math": "special functions, quadrature",
        "gp": "kernels, projections, latents",
        "models": "signals, bound, predictions",
        "training": "steps, loop, checkpoints",
    },
    "Data and users": {
        "data": "tables, grids, streams, layout",
        "diagnostics": "sanity, scores, validation",
        "estimators": "settings, fitting, answers, files",
        "plots": "figures",
    },
    "Applications": {
        "report": "one page about a model",
        "datasets": "the paper's and simulated data",
        "experiments": "the paper's tables and figures",
        "cli": "one file per command",
    },
}
LEFT, WIDTH, HEIGHT, GAP, BETWEEN = 140, 196, 64, 22, 40
STYLE = (
    "rect{fill:#f7fbff;stroke:#2171b5;stroke-width:1.5}text{font-family:sans-serif;fill:#222}"
    ".t{font-size:15px;font-weight:bold}"
    ".n{font-size:17px;font-weight:bold;text-anchor:middle;fill:#08306b}"
    ".d{font-size:12.5px;text-anchor:middle}path{fill:none;stroke:#777;stroke-width:1.5}"
)
ARROW = (
    '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto"><path d="M0 0L8 4L0 8" fill="#777" stroke="none"/></marker></defs>'
)
TITLE = "A room imports only from the rooms before it, in the order of the arrows."


def picture() -> str:
    """Return the SVG."""
    shapes, y = [], 48
    for title, rooms in ROWS.items():
        shapes.append(f'<text x="20" y="{y + HEIGHT / 2 + 5}" class="t">{title}</text>')
        for i, (name, content) in enumerate(rooms.items()):
            x = LEFT + i * (WIDTH + GAP)
            middle = x + WIDTH / 2
            shapes.append(f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="8"/>')
            shapes.append(f'<text x="{middle}" y="{y + 27}" class="n">{name}</text>')
            shapes.append(f'<text x="{middle}" y="{y + 47}" class="d">{content}</text>')
            if i:
                start = f"M{x - GAP + 3} {y + HEIGHT / 2}"
                shapes.append(f'<path d="{start}h{GAP - 8}" marker-end="url(#a)"/>')
        if title != [*ROWS][-1]:
            down = f"M{middle} {y + HEIGHT + 2}v20H{LEFT + WIDTH / 2}v12"
            shapes.append(f'<path d="{down}" marker-end="url(#a)"/>')
        y += HEIGHT + BETWEEN
    width = LEFT + 5 * (WIDTH + GAP)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" role="img" '
        f'aria-label="{TITLE}"><style>{STYLE}</style>{ARROW}'
        f'<rect width="{width}" height="{y}" style="fill:#fff;stroke:none"/>'
        f'<text x="20" y="28" class="d" style="text-anchor:start">{TITLE}</text>'
    )
    return "\n".join([head, *shapes, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(picture())
