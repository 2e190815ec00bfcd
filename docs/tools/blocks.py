"""The code blocks of a page: run in order as one session, with what they print and draw.

A block fenced as `text` right after one fenced as `python` is what that one prints, and a picture
after it is what it draws.

    python docs/tools/blocks.py docs/model.md    run the page; write what it prints and draws
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

__all__ = ["Block", "Outcome", "alike", "blocks", "run", "shell_lines"]

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
    """Some Python, and what it prints and the picture it draws where the page shows them."""

    code: str
    printed: str | None
    picture: str | None
    line: int


@dataclass(frozen=True)
class Outcome:
    """What a block has printed, and the figures that it has left open."""

    printed: str
    figures: list[Figure]


def blocks(page: str) -> list[Block]:
    """The Python blocks of a page, in order."""
    return [
        Block(m["code"], m["printed"], m["picture"], page.count("\n", 0, m.start("code")) + 1)
        for m in _PYTHON.finditer(page)
    ]


def shell_lines(page: str) -> list[str]:
    """The commands in the shell blocks of a page, one to a line."""
    whole = (m[1].replace("\\\n", " ") for m in _SHELL.finditer(page))
    return [line for block in whole for line in block.splitlines() if line[:1] not in ("", "#")]


def run(path: Path) -> tuple[dict, list[Outcome]]:
    """The names that a page defines, and what came of each of its blocks."""
    import matplotlib.pyplot as plt

    names: dict = {"__name__": path.stem}
    outcomes = []
    for block in blocks(path.read_text()):
        # Blank lines before the code make the lines of a traceback those of the page.
        code = compile("\n" * (block.line - 1) + block.code, str(path), "exec")
        with redirect_stdout(StringIO()) as out:
            exec(code, names)
        figures = [plt.figure(number) for number in plt.get_fignums()]
        outcomes.append(Outcome(out.getvalue(), figures))
        plt.close("all")
    return names, outcomes


def alike(first: str, second: str) -> bool:
    """Whether two texts are the same but for rounding: machines differ in the last digits."""
    words = ["".join(_NUMBER.sub("#", text).split()) for text in (first, second)]
    numbers = [[float(n) for n in _NUMBER.findall(text)] for text in (first, second)]
    return words[0] == words[1] and all(
        isclose(a, b, rel_tol=0.05, abs_tol=0.02) for a, b in zip(*numbers, strict=True)
    )


def written(page: str, outcomes: list[Outcome]) -> str:
    """The page with what its blocks print in place of what stood there."""
    found = iter(outcomes)

    def replaced(match: re.Match) -> str:
        now = next(found)
        if match["printed"] is None:
            return match[0]
        return match[0].replace(
            f"```text\n{match['printed']}", f"```text\n{now.printed.rstrip()}\n"
        )

    return _PYTHON.sub(replaced, page)


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
        path.write_text(written(page, outcomes))


if __name__ == "__main__":
    main()
