"""Run generated cases and count how they ended; `--kind` and `--seed` run one of them again."""

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
from typing import Annotated

import typer
from rich.progress import track
from typer import Option

from . import FIRST, SHARES, outcome_of

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "fuzz.json"


def main(
    cases: Annotated[int, Option(help="Cases in this process.")] = 10_000,
    commands: Annotated[int, Option(help="Cases in processes of their own.")] = 200,
    workers: Annotated[int | None, Option(help="Processes at once.")] = os.cpu_count(),
    first: Annotated[int, Option(help="The first seed.")] = FIRST,
    kind: Annotated[str | None, Option(help="Run cases of this kind only.")] = None,
    seed: Annotated[int | None, Option(help="Run the case with this seed only.")] = None,
    keep: Annotated[Path | None, Option(help="The folder to leave that case in.")] = None,
    record: Annotated[bool, Option(help=f"Write the counts to {RESULTS.name}.")] = False,
) -> None:
    """Run generated cases and count how they ended."""
    if seed is not None:
        found = outcome_of(kind, seed, keep=keep)
        sys.exit(f"{found.word}: {found.wrong or 'as it should'}")
    kinds = [kind] if kind else [*SHARES]
    some = [
        (one, first + i, None) for one in kinds for i in range(round(cases * SHARES[one] / 100))
    ]
    with tempfile.TemporaryDirectory() as compiled:
        typed = [one for one in kinds if one != "settings"]
        new = first + cases  # seeds that no case above has
        apart = product(range(new, new + commands // max(len(typed), 1)), typed)
        some += [(one, number, Path(compiled)) for number, one in apart]
        counts = _run_all(some, workers, compiled)
    if record:
        RESULTS.write_text(json.dumps(counts, indent=2) + "\n")
    sys.exit(1 if counts["wrong"] else 0)


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
    typer.run(main)
