"""Run generated cases and say how they ended; `--kind` and `--seed` run one of them again."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from . import COMMANDS, FIRST, KINDS, SHARES, call, generated
from .running import Outcome, called, in_process, judged, own_folder, typed

_TOGETHER = 10  # cases that a process is given at once
_TOLD_EVERY = 500
Case = tuple[str, int, Path | None]  # kind, seed, and where a command keeps what it compiles


def cases(count: int) -> Iterator[tuple[str, int]]:
    """So many cases, as kind and seed, in their shares."""
    return ((kind, seed) for kind in KINDS for seed in range(round(count * SHARES[kind] / 100)))


def outcome_of(
    kind: str, seed: int, *, command: Path | None = None, keep: Path | None = None
) -> Outcome:
    """How a case ends, here or (with a folder for what JAX compiles) by the command itself."""
    if kind == "settings":
        return called(call(seed))
    run = in_process if command is None else partial(typed, cache=command)
    with own_folder(keep) as folder:
        words = generated(kind, seed, folder)
        if keep is not None:
            print("zigp", shlex.join(words))
        return judged(words, folder, run, forged=kind == "forged")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000, help="how many in process")
    parser.add_argument("--commands", type=int, default=200, help="how many by the command")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes at once")
    parser.add_argument("--first", type=int, default=FIRST, help="the first seed")
    parser.add_argument("--kind", choices=KINDS, help="only this kind")
    parser.add_argument("--seed", type=int, help="only this seed")
    parser.add_argument("--keep", type=Path, help="the folder to leave a case in")
    asked = parser.parse_args()
    if asked.seed is not None:
        found = outcome_of(asked.kind, asked.seed, keep=asked.keep)
        sys.exit(f"{found.word}: {found.wrong or 'as it should'}")
    wrong = run_all(asked.cases, asked.commands, asked.first, asked.kind, asked.workers)
    sys.exit(1 if wrong else 0)


def run_all(here: int, commands: int, first: int, only: str | None, workers: int) -> int:
    """Run cases as calls and by the command, print how they ended, and count the wrong."""
    ended: Counter[tuple[str, str]] = Counter()
    wrong, start = 0, time.monotonic()
    chosen: list[Case] = [
        (kind, first + seed, None) for kind, seed in cases(here) if only in (None, kind)
    ]
    # Not forked: a process forked beside JAX's threads can hang.
    pool = ProcessPoolExecutor(workers, get_context("spawn"))
    with tempfile.TemporaryDirectory() as compiled, pool:
        kinds = [kind for kind in COMMANDS if only in (None, kind)]
        # Seeds that were not seen before.
        chosen += [
            (kinds[i % len(kinds)], first + here + i, Path(compiled))
            for i in range(commands if kinds else 0)
        ]
        outcomes = pool.map(_outcome, chosen, chunksize=_TOGETHER)
        for i, ((kind, seed, command), found) in enumerate(zip(chosen, outcomes, strict=True), 1):
            ended[
                f"{kind}, by the command" if command else kind,
                "WRONG" if found.wrong else found.word,
            ] += 1
            if found.wrong:
                wrong += 1
                by = " (by the command)" if command else ""
                print(f"--kind {kind} --seed {seed}{by}: {found.wrong}\n", flush=True)
            if i % _TOLD_EVERY == 0:
                took = time.monotonic() - start
                print(f"{i:,} of {len(chosen):,} after {took:.0f} s", file=sys.stderr, flush=True)
    _print_table(ended)
    print(f"{sum(ended.values()):,} cases in {time.monotonic() - start:.0f} s, {wrong} wrong")
    return wrong


def _outcome(case: Case) -> Outcome:
    kind, seed, command = case
    return outcome_of(kind, seed, command=command)


def _print_table(ended: Counter[tuple[str, str]]) -> None:
    words = sorted({word for _, word in ended})
    print(f"{'kind':24}" + "".join(f"{word:>10}" for word in words))
    for kind in dict.fromkeys(kind for kind, _ in ended):
        print(f"{kind:24}" + "".join(f"{ended[kind, word]:>10}" for word in words))


if __name__ == "__main__":
    main()
