"""Many cases on all cores, and how they ended."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import chdir
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from . import COMMANDS, KINDS, SHARES, call, generated
from .running import Outcome, called, in_process, judged, own_folder, typed

__all__ = ["cases", "outcome_of", "run_all", "summed"]

_TOGETHER = 10  # cases that a process is given at once
_TOLD_EVERY = 500
_BY_THE_COMMAND = ", by the command"
Case = tuple[str, int, Path | None]  # kind, seed, and where a command keeps what it compiles
Ended = Counter[tuple[str, str]]  # by the kind, and the word for how


def cases(count: int) -> Iterator[tuple[str, int]]:
    """So many cases, as kind and seed, in their shares."""
    return ((kind, seed) for kind in KINDS for seed in range(round(count * SHARES[kind] / 100)))


def outcome_of(
    kind: str, seed: int, *, command: Path | None = None, keep: Path | None = None
) -> Outcome:
    """How a case ends, here or (with a folder for what JAX compiles) by the command itself."""
    if kind == "settings":
        with own_folder() as folder, chdir(folder):  # where checkpoints may be asked for
            return called(call(seed))
    run = in_process if command is None else partial(typed, cache=command)
    with own_folder(keep) as folder:
        words = generated(kind, seed, folder)
        if keep is not None:
            print("zigp", shlex.join(words))
        return judged(words, folder, run, forged=kind in ("model", "forged"))


def run_all(here: int, commands: int, first: int, only: str | None, workers: int) -> dict[str, Any]:
    """Run cases as calls and by the command, print how they ended, and count them."""
    ended: Ended = Counter()
    wrong, start = 0, time.monotonic()
    chosen: list[Case] = [
        (kind, first + seed, None) for kind, seed in cases(here) if only in (None, kind)
    ]
    with tempfile.TemporaryDirectory() as compiled, _pool(workers, compiled) as pool:
        kinds = [kind for kind in COMMANDS if only in (None, kind)]
        # Seeds that were not seen before.
        chosen += [
            (kinds[i % len(kinds)], first + here + i, Path(compiled))
            for i in range(commands if kinds else 0)
        ]
        outcomes = pool.map(_outcome, chosen, chunksize=_TOGETHER)
        for i, ((kind, seed, command), found) in enumerate(zip(chosen, outcomes, strict=True), 1):
            ended[
                kind + _BY_THE_COMMAND * (command is not None),
                "WRONG" if found.wrong else found.word,
            ] += 1
            if found.wrong:
                wrong += 1
                by = " (by the command)" if command else ""
                print(f"--kind {kind} --seed {seed}{by}: {found.wrong}\n", flush=True)
            if i % _TOLD_EVERY == 0:
                took = time.monotonic() - start
                print(f"{i:,} of {len(chosen):,} after {took:.0f} s", file=sys.stderr, flush=True)
    seconds = time.monotonic() - start
    _print_table(ended)
    print(f"{len(chosen):,} cases in {seconds:.0f} s, {wrong} wrong")
    counts: dict[str, dict[str, int]] = {}
    for (kind, word), count in ended.items():
        counts.setdefault(kind, {})[word] = count
    return summed(counts) | {"first_seed": first, "seconds": round(seconds)}


def _pool(workers: int, compiled: str) -> ProcessPoolExecutor:
    """Processes that share what they compile, which is most of their work: little is optimised.

    They are not forked: a process forked beside JAX's threads can hang.
    """
    os.environ |= {
        "JAX_COMPILATION_CACHE_DIR": compiled,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    }
    return ProcessPoolExecutor(workers, get_context("spawn"))


def _outcome(case: Case) -> Outcome:
    kind, seed, command = case
    return outcome_of(kind, seed, command=command)


def summed(ended: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    """How many cases of each kind ended how, and of all together."""
    each = {kind: sum(words.values()) for kind, words in ended.items()}
    by_the_command = sum(n for kind, n in each.items() if kind.endswith(_BY_THE_COMMAND))
    return {
        "total": sum(each.values()),
        "in_process": sum(each.values()) - by_the_command,
        "by_the_command": by_the_command,
        "wrong": sum(words.get("WRONG", 0) for words in ended.values()),
        "ended": dict(ended),
    }


def _print_table(ended: Ended) -> None:
    words = sorted({word for _, word in ended})
    print(f"{'kind':24}" + "".join(f"{word:>10}" for word in words))
    for kind in dict.fromkeys(kind for kind, _ in ended):
        print(f"{kind:24}" + "".join(f"{ended[kind, word]:>10}" for word in words))
