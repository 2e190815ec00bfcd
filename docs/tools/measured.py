"""Update the measured numbers of a page, each followed by a comment that names its source.

`0.05<!-- gradient > ratio:.2f -->` is a number in `benchmarks/results`: the file, the keys
separated by >, and the format. The comment is not visible on the page.

    python docs/tools/measured.py docs/reliability.md    update the numbers of a page
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

__all__ = ["updated"]

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"

_NUMBER = re.compile(r"[-\d.,]+<!-- (?P<what>[^:]+?)(?P<form>:\S*)? -->")


def updated(page: str) -> str:
    """Return the page with its numbers replaced by those in the results."""

    def replacement(match: re.Match) -> str:
        number = format(measured(match["what"]), (match["form"] or ":")[1:])
        return f"{number}<!-- {match['what']}{match['form'] or ''} -->"

    return _NUMBER.sub(replacement, page)


def measured(name: str) -> Any:
    """Return a number in `benchmarks/results`."""
    file, *keys = (part.strip() for part in name.split(">"))
    value = json.loads((RESULTS / f"{file}.json").read_text())
    for key in keys:
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        path.write_text(updated(path.read_text()))
