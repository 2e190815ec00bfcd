"""Make mutants and try them: which of them do no tests notice?"""

from __future__ import annotations

import argparse
import os
import sys
import time

from . import ROOMS, SHARES
from .making import Mutant, mutants_of, sampled
from .recording import (
    LEAST_CAUGHT,
    PAGE,
    caught,
    keep,
    page,
    read_reasons,
    read_results,
    result_of,
    survivors_in,
    totals,
    tried,
    unexplained,
)
from .running import tried as ends_of


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--room", choices=ROOMS, action="append", help="only this room's")
    parser.add_argument("--share", type=float, help="try this share of each room; 1: all")
    parser.add_argument("--only", help="try those with this in their key; keep nothing")
    parser.add_argument("--survivors", action="store_true", help="try those again; keep nothing")
    parser.add_argument("--page", action="store_true", help="try none, write the page again")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="how many at once")
    asked = parser.parse_args()
    for room in [] if asked.page else asked.room or ROOMS:
        made = mutants_of(room)
        if asked.only is not None or asked.survivors:
            last = survivors_in(read_results())
            _told([m for m in made if (m.key in last if asked.survivors else asked.only in m.key)])
        else:
            share = SHARES.get(room, 1.0) if asked.share is None else asked.share
            keep(room, result_of(len(made), _told(sampled(made, share), asked.workers)))
    sys.exit(_judged() if asked.only is None and not asked.survivors else 0)


def _told(chosen: list[Mutant], workers: int = 1) -> list[tuple[str, str]]:
    """Try them, and print the survivors and the counts."""
    start, ended = time.monotonic(), []
    for i, (mutant, how) in enumerate(ends_of(chosen, workers), 1):
        ended.append((mutant.key, how))
        if how != "caught":
            print(f"{how}: line {mutant.start[0]}, {mutant.key}", flush=True)
        if i % 25 == 0:
            print(f"{i} of {len(chosen)} after {time.monotonic() - start:.0f} s", flush=True)
    survived = sum(how == "survived" for _, how in ended)
    print(f"{len(ended)} mutants in {time.monotonic() - start:.0f} s, {survived} survived")
    return ended


def _judged() -> int:
    """Write the page, say what is wrong with the results, and count it."""
    results, reasons = read_results(), read_reasons()
    PAGE.write_text(page(results, reasons))
    without, stale = unexplained(results, reasons)
    wrong = [f"survives, with no reason in survivors.toml: {key}" for key in without]
    wrong += [f"has a reason in survivors.toml, but did not survive: {key}" for key in stale]
    wrong += [
        f"{room}: fewer than {100 * LEAST_CAUGHT:.0f} % are caught"
        for room, counts in results.items()
        if caught(counts) < LEAST_CAUGHT
    ]
    print(*wrong, sep="\n")
    print(f"{tried(totals(results))} tried, {100 * caught(totals(results)):.1f} % caught")
    return 1 if wrong else 0


if __name__ == "__main__":
    main()
