"""The code blocks of a page: run in order as one session, with what they print checked or written.

A block fenced as `text` right after one fenced as `python` is what that one prints.

    python docs/tools/blocks.py docs/model.md    run the page, and write what its blocks print
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from math import isclose
from pathlib import Path

__all__ = ["Block", "alike", "blocks", "run", "shell_lines"]

_PYTHON = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n^```text\n(?P<printed>.*?)^```\n)?", re.M | re.S
)
_SHELL = re.compile(r"^```(?:sh|console|bash)\n(.*?)^```\n", re.M | re.S)
_NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:e[+-]?\d+)?")


@dataclass(frozen=True)
class Block:
    """Some Python, and what it prints where the page says so."""

    code: str
    printed: str | None
    line: int


def blocks(page: str) -> list[Block]:
    """The Python blocks of a page, in order."""
    return [
        Block(m["code"], m["printed"], page.count("\n", 0, m.start("code")) + 1)
        for m in _PYTHON.finditer(page)
    ]


def shell_lines(page: str) -> list[str]:
    """The commands in the shell blocks of a page, one to a line."""
    whole = (m[1].replace("\\\n", " ") for m in _SHELL.finditer(page))
    return [line for block in whole for line in block.splitlines() if line[:1] not in ("", "#")]


def run(path: Path, page: str) -> tuple[dict, list[str]]:
    """The names that a page defines, and what each of its blocks prints."""
    names: dict = {"__name__": path.stem}
    printed = []
    for block in blocks(page):
        # Blank lines before the code make the lines of a traceback those of the page.
        code = compile("\n" * (block.line - 1) + block.code, str(path), "exec")
        with redirect_stdout(StringIO()) as out:
            exec(code, names)
        printed.append(out.getvalue())
    return names, printed


def alike(first: str, second: str) -> bool:
    """Whether two texts are the same but for rounding: machines differ in the last digits."""
    words = ["".join(_NUMBER.sub("#", text).split()) for text in (first, second)]
    numbers = [[float(n) for n in _NUMBER.findall(text)] for text in (first, second)]
    return words[0] == words[1] and all(
        isclose(a, b, rel_tol=0.05, abs_tol=0.02) for a, b in zip(*numbers, strict=True)
    )


def written(page: str, printed: list[str]) -> str:
    """The page with what its blocks print in place of what stood there."""
    found = iter(printed)

    def replaced(match: re.Match) -> str:
        now = next(found)
        if match["printed"] is None:
            return match[0]
        return f"```python\n{match['code']}```\n\n```text\n{now.rstrip()}\n```\n"

    return _PYTHON.sub(replaced, page)


def main() -> None:
    os.environ["MPLBACKEND"] = "agg"
    for name in sys.argv[1:]:
        path = Path(name).resolve()
        page = path.read_text()
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            _, printed = run(path, page)
        path.write_text(written(page, printed))


if __name__ == "__main__":
    main()
