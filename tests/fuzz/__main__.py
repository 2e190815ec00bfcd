"""Run generated cases and count how they ended; `--kind` and `--seed` run one of them again."""

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path

from rich.progress import track

from . import FIRST, SHARES, outcome_of

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "fuzz.json"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000, help="cases in this process")
    parser.add_argument("--commands", type=int, default=200, help="cases in processes of their own")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes at once")
    parser.add_argument("--first", type=int, default=FIRST, help="the first seed")
    parser.add_argument("--kind", choices=SHARES, help="run one case of this kind")
    parser.add_argument("--seed", type=int, help="run the case with this seed")
    parser.add_argument("--keep", type=Path, help="the folder to leave that case in")
    parser.add_argument("--record", action="store_true", help=f"write the counts to {RESULTS.name}")
    given = parser.parse_args()
    if given.seed is not None:
        found = outcome_of(given.kind, given.seed, keep=given.keep)
        sys.exit(f"{found.word}: {found.wrong or 'as it should'}")
    with tempfile.TemporaryDirectory() as compiled:
        counts = _run_all(_cases(given, Path(compiled)), given.workers, compiled)
    if given.record:
        RESULTS.write_text(json.dumps(counts, indent=2) + "\n")
    sys.exit(1 if counts["wrong"] else 0)


def _cases(given: argparse.Namespace, compiled: Path) -> list[tuple]:
    """Return the cases in this process in their shares, then those in processes of their own."""
    chosen = [given.kind] if given.kind else SHARES
    here = [
        (kind, given.first + i, None)
        for kind in chosen
        for i in range(round(given.cases * SHARES[kind] / 100))
    ]
    kinds = [kind for kind in chosen if kind != "settings"]
    new = given.first + given.cases  # seeds that no case above has
    apart = product(range(new, new + given.commands // max(len(kinds), 1)), kinds)
    return here + [(kind, seed, compiled) for seed, kind in apart]


def _run_all(cases: list[tuple], workers: int, compiled: str) -> dict[str, object]:
    """Run the cases, print what went wrong, and count how they ended.

    Workers share what they compile, which is most of their work. They are spawned, since a process
    forked beside JAX's threads can hang.
    """
    os.environ |= {
        "JAX_COMPILATION_CACHE_DIR": compiled,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    }
    ended: dict[str, Counter[str]] = {}
    start = time.monotonic()
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        outcomes = pool.map(outcome_of, *zip(*cases, strict=True), chunksize=10)
        shown = track(outcomes, total=len(cases))
        for (kind, seed, cache), found in zip(cases, shown, strict=True):
            how = ", by the command" if cache else ""
            ended.setdefault(kind + how, Counter())["WRONG" if found.wrong else found.word] += 1
            if found.wrong:
                print(f"--kind {kind} --seed {seed}{how}: {found.wrong}\n", flush=True)
    for kind, words in ended.items():
        print(f"{kind:24}", dict(words))
    by_the_command = sum(cache is not None for *_, cache in cases)
    return {
        "total": len(cases),
        "in_process": len(cases) - by_the_command,
        "by_the_command": by_the_command,
        "wrong": sum(words["WRONG"] for words in ended.values()),
        "ended": {kind: dict(words) for kind, words in ended.items()},
        "seconds": round(time.monotonic() - start),
    }


if __name__ == "__main__":
    main()
