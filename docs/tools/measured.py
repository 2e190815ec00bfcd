"""The measured numbers of a page, each followed by a comment that says where it was read.

`0.05<!-- gradient > ratio:.2f -->` is a number in `benchmarks/results`: the file, then the keys,
with > between them, and how it is written. The comment is not shown.

    python docs/tools/measured.py docs/reliability.md    write the numbers of a page as they are now
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

__all__ = ["renewed"]

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"

_NUMBER = re.compile(r"[-\d.,]+<!-- (?P<what>[^:]+?)(?P<form>:\S*)? -->")


def renewed(page: str) -> str:
    """The page with its numbers as they are in the results."""

    def written(match: re.Match) -> str:
        number = format(measured(match["what"]), (match["form"] or ":")[1:])
        return f"{number}<!-- {match['what']}{match['form'] or ''} -->"

    return _NUMBER.sub(written, page)


def measured(name: str) -> Any:
    """A number in `benchmarks/results`."""
    file, *keys = (part.strip() for part in name.split(">"))
    found = json.loads((RESULTS / f"{file}.json").read_text())
    for key in keys:
        found = found[int(key)] if isinstance(found, list) else found[key]
    return found


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        path.write_text(renewed(path.read_text()))
