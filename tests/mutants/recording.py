"""What is kept of a run: its counts, the survivors, and a page that says why they survive."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Iterable
from typing import Any

from . import ROOMS, ROOT

RESULTS = ROOT / "tests" / "mutants" / "results.json"
REASONS = ROOT / "tests" / "mutants" / "survivors.toml"
PAGE = ROOT / "docs" / "mutants.md"
LEAST_CAUGHT = 0.85

Results = dict[str, Any]


def result_of(made: int, ended: Iterable[tuple[str, str]]) -> Results:
    """The counts of a room, and the keys of its survivors, from (key, how it ended)."""
    ended = list(ended)
    counts = {word: sum(how == word for _, how in ended) for word in ("caught", "slow", "survived")}
    survivors = [key for key, how in ended if how == "survived"]
    return {"made": made, **counts, "survivors": survivors}


def totals(results: Results) -> Counter[str]:
    """The counts of all rooms together."""
    words = ("made", "caught", "slow", "survived")
    return Counter({word: sum(room[word] for room in results.values()) for word in words})


def survivors_in(results: Results) -> list[str]:
    return [key for room in results.values() for key in room["survivors"]]


def tried(counts: dict[str, int]) -> int:
    return counts["caught"] + counts["slow"] + counts["survived"]


def caught(counts: dict[str, int]) -> float:
    """The share that the tests noticed: one that never ends is noticed too."""
    return (counts["caught"] + counts["slow"]) / max(tried(counts), 1)


def read_results() -> Results:
    """What is known of each room."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def keep(room: str, result: Results) -> None:
    """Take the place of what was known of this room; the others stay as they were."""
    known = read_results() | {room: result}
    ordered = {name: known[name] for name in ROOMS if name in known}
    RESULTS.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")


def read_reasons() -> list[dict[str, Any]]:
    return tomllib.loads(REASONS.read_text()).get("reason", [])


def unexplained(results: Results, reasons: list[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """Survivors without a reason, and reasons without a survivor."""
    explained = [key for reason in reasons for key in reason["mutants"]]
    survivors = survivors_in(results)
    return sorted(set(survivors) - set(explained)), sorted(set(explained) - set(survivors))


def page(results: Results, reasons: list[dict[str, Any]]) -> str:
    """docs/mutants.md."""
    rows = [*results.items(), ("all", totals(results))]
    table = "\n".join(
        f"| {name} | {counts['made']} | {tried(counts)} | {counts['caught'] + counts['slow']} "
        f"| {counts['survived']} | {100 * caught(counts):.1f} % |"
        for name, counts in rows
    )
    kinds = Counter({r["kind"]: 0 for r in reasons})
    for reason in reasons:
        kinds[reason["kind"]] += len(reason["mutants"])
    summary = ", ".join(f"{n} {kind}" for kind, n in kinds.items())
    sections = "\n\n".join(_section(reason) for reason in reasons)
    return f"""# Mutants

A test is worth something if it fails when the code is wrong. `make mutants` makes one small wrong
change after the other in the rooms that all numbers stand on (another sign, a constant one larger,
a condition turned round), and runs the tests of that room on each, in a process of its own. The
changes are those of cosmic-ray; left out are those that only raise on floating-point numbers, and
those of annotations and declarations. This page is written from what was found. The
run fails if fewer than {100 * LEAST_CAUGHT:.0f} % are caught, or one that survives is not explained
here.

{_how_many(results)}

| room | made | tried | caught | survived | caught, of those tried |
|---|---|---|---|---|---|
{table}

## Those that survive

By kind: {summary}.

{sections}
"""


def _how_many(results: Results) -> str:
    """Of which rooms a sample was tried, and of which all."""
    parts = [name for name, counts in results.items() if tried(counts) < counts["made"]]
    if not parts:
        return "All of these changes were tried."
    shares = ", ".join(
        f"{100 * tried(results[name]) / results[name]['made']:.0f} % of those of `{name}`"
        for name in parts
    )
    return (
        f"Tried were {shares}, drawn at random once and for all (the seed is fixed, so that every "
        "run tries the same), and all of the other rooms. `python -m tests.mutants --share 1` "
        "tries all of them."
    )


def _section(reason: dict[str, Any]) -> str:
    listed = "\n".join(f"    {key}" for key in reason["mutants"])
    return f"**{reason['kind'].capitalize()}.** {reason['why'].strip()}\n\n{listed}"
