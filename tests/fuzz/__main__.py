"""Run generated cases and say how they ended; `--kind` and `--seed` run one of them again."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from types import ModuleType

from . import FIRST, KINDS
from .campaign import outcome_of, run_all, summed

_BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000, help="how many in process")
    parser.add_argument("--commands", type=int, default=200, help="how many by the command")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes at once")
    parser.add_argument("--first", type=int, default=FIRST, help="the first seed")
    parser.add_argument("--kind", choices=KINDS, help="only this kind")
    parser.add_argument("--seed", type=int, help="only this seed")
    parser.add_argument("--keep", type=Path, help="the folder to leave a case in")
    parser.add_argument(
        "--record", action="store_true", help="write the counts to benchmarks/results/fuzz.json"
    )
    asked = parser.parse_args()
    if asked.seed is not None:
        found = outcome_of(asked.kind, asked.seed, keep=asked.keep)
        sys.exit(f"{found.word}: {found.wrong or 'as it should'}")
    records = _records() if asked.record else None
    found = run_all(asked.cases, asked.commands, asked.first, asked.kind, asked.workers)
    if records is not None:
        if asked.kind:  # the other kinds keep what was found last
            before = json.loads((records.RESULTS / "fuzz.json").read_text())
            found = before | summed(before["ended"] | found["ended"])
        records.write("fuzz", found)
    sys.exit(1 if found["wrong"] else 0)


def _records() -> ModuleType:
    """What writes results down; it looks at what else the machine does when it is imported."""
    sys.path.insert(0, str(_BENCHMARKS))
    import run

    return run


if __name__ == "__main__":
    main()
