"""Run the code blocks of a page in order as one session.

A block fenced as `text` directly after one fenced as `python` is its output, and a picture after
that is its figure.

    python docs/tools/blocks.py docs/model.md    run the page and update its output and pictures
"""

from __future__ import annotations

import re
import sys
import tempfile
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from math import isclose
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Block", "Outcome", "blocks", "equal_up_to_rounding", "run", "shell_lines"]

_PYTHON = re.compile(
    r"^```python\n(?P<code>.*?)^```\n"
    r"(?:\n```text\n(?P<printed>.*?)^```\n)?"
    r"(?:\n!\[[^\]]*\]\((?P<picture>[^)]*)\)\n)?",
    re.M | re.S,
)
_SHELL = re.compile(r"^```(?:sh|console|bash)\n(.*?)^```\n", re.M | re.S)
_NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:e[+-]?\d+)?")


@dataclass(frozen=True)
class Block:
    """A block of Python, with the output and the picture that the page shows after it."""

    code: str
    printed: str | None
    picture: str | None
    line: int


@dataclass(frozen=True)
class Outcome:
    """The output of a block and the figures that it opened."""

    printed: str
    figures: list[Figure]


def blocks(page: str) -> list[Block]:
    """Return the Python blocks of a page in order."""
    return [
        Block(m["code"], m["printed"], m["picture"], page.count("\n", 0, m.start("code")) + 1)
        for m in _PYTHON.finditer(page)
    ]


def shell_lines(page: str) -> list[str]:
    """Return the commands in the shell blocks of a page."""
    joined = (match[1].replace("\\\n", " ") for match in _SHELL.finditer(page))
    return [line for block in joined for line in block.splitlines() if line[:1] not in ("", "#")]


def run(path: Path) -> tuple[dict, list[Outcome]]:
    """Run a page, and return the names that it defines and the outcome of each block."""
    import matplotlib.pyplot as plt

    names: dict = {"__name__": path.stem}
    outcomes = []
    for block in blocks(path.read_text()):
        # Blank lines before the code give tracebacks the line numbers of the page.
        code = compile("\n" * (block.line - 1) + block.code, str(path), "exec")
        with redirect_stdout(StringIO()) as out:
            exec(code, names)
        figures = [plt.figure(number) for number in plt.get_fignums()]
        outcomes.append(Outcome(out.getvalue(), figures))
        plt.close("all")
    return names, outcomes


def equal_up_to_rounding(first: str, second: str) -> bool:
    """Return whether two texts have the same words, and numbers that differ by rounding at most."""
    words = ["".join(_NUMBER.sub("#", text).split()) for text in (first, second)]
    numbers = [[float(n) for n in _NUMBER.findall(text)] for text in (first, second)]
    return words[0] == words[1] and all(
        isclose(a, b, rel_tol=0.05, abs_tol=0.02) for a, b in zip(*numbers, strict=True)
    )


def updated(page: str, outcomes: list[Outcome]) -> str:
    """Return the page with the output of its blocks replaced by that of a run."""
    remaining = iter(outcomes)

    def replacement(match: re.Match) -> str:
        outcome = next(remaining)
        if match["printed"] is None:
            return match[0]
        return match[0].replace(
            f"```text\n{match['printed']}", f"```text\n{outcome.printed.rstrip()}\n"
        )

    return _PYTHON.sub(replacement, page)


def main() -> None:
    import matplotlib

    matplotlib.use("agg")
    for path in (Path(name).resolve() for name in sys.argv[1:]):
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            _, outcomes = run(path)
        page = path.read_text()
        for block, outcome in zip(blocks(page), outcomes, strict=True):
            if block.picture:
                outcome.figures[-1].savefig(path.parent / block.picture, dpi=110)
        path.write_text(updated(page, outcomes))


if __name__ == "__main__":
    main()
