"""Hold what was measured to what is promised: `make bench-check` fails where a bar does."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Bar:
    """A number in a file of results, and the most that it may be."""

    what: str
    file: str
    keys: tuple[str, ...]
    most: float
    aim: float | None = None

    def value(self, results: dict[str, Any]) -> float | None:
        """What was measured, or None where it was not."""
        found = results.get(self.file)
        for key in self.keys:
            found = None if found is None else found.get(key)
        return found


BARS = (
    Bar("full-data gradient / GPyTorch's step on 1,000 rows", "gradient", ("ratio",), 1 / 6, 0.1),
    Bar(
        "scattered step, diagonal q / the faster peer's",
        "scattered", ("diagonal", "ratio"), 1, 0.7,
    ),
    Bar(
        "scattered step, dense q / the faster peer's",
        "scattered", ("dense", "ratio"), 1, 0.7,
    ),
    Bar("peak memory of the gradient's process, MB", "memory", ("peak_mb",), 1000),
    Bar("import of an estimator / of jax and scikit-learn", "imports", ("ratio",), 1.3),
    Bar("second start of a fit / the first", "second_start", ("ratio",), 0.5),
    Bar(
        "time to the same bound, rain / plain Adam's",
        "convergence", ("ratios", "precipitation"), 1 / 3, 1 / 5,
    ),
    Bar(
        "time to the same bound, Jura / plain Adam's",
        "convergence", ("ratios", "jura"), 1 / 3, 1 / 5,
    ),
    Bar("streamed pass / reading plus computing alone", "streaming", ("ratio",), 1.3),
    Bar("peak memory of the streamed pass, MB", "streaming", ("peak_mb",), 2000),
)  # fmt: skip
WITHOUT_BARS = {"floor", "trainers", "compile_network", "stranger", "cube"}


def read(folder: Path = RESULTS) -> dict[str, Any]:
    """Every file of results by its name."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


def judged(results: dict[str, Any]) -> Iterator[tuple[Bar, float | None, str]]:
    """Each bar that applies, what was measured, and the verdict in a word."""
    for bar in BARS:
        value = bar.value(results)
        if value is None:
            yield bar, None, "missing"
        elif value > bar.most:
            yield bar, value, "fails"
        else:
            yield bar, value, "passes" if bar.aim is None or value > bar.aim else "reaches its aim"


def failures(results: dict[str, Any]) -> list[Bar]:
    return [bar for bar, _, verdict in judged(results) if verdict in ("fails", "missing")]


def nowhere(results: dict[str, Any]) -> list[str]:
    """What `make bench` measures and does not say on which machine, or with which versions."""
    names = {bar.file for bar in BARS} | WITHOUT_BARS
    said = {name: results.get(name, {}).get("on", {}) for name in names}
    return sorted(name for name, on in said.items() if not {"cpu", "versions"} <= on.keys())


def was_busy(found: Any) -> bool:
    """Whether more than half of the cores had other work when a measurement began."""
    on = found.get("on", {}) if isinstance(found, dict) else {}
    return on.get("load_before", 0.0) > on.get("cores", 1) / 2


def main(folder: Path = RESULTS) -> int:
    results = read(folder)
    for bar, value, verdict in judged(results):
        shown = "" if value is None else f"{value:.3g}"
        aim = "" if bar.aim is None else f", aim {bar.aim:.3g}"
        print(f"{verdict:16s}{shown:>8s}  {bar.what} (at most {bar.most:.3g}{aim})")
    if busy := [name for name, found in results.items() if was_busy(found)]:
        print(f"Not to be relied on, as the machine had other work: {', '.join(busy)}.")
    if without := nowhere(results):
        print(f"Not known where it was measured, so run make bench again: {', '.join(without)}.")
    return 1 if failures(results) or without else 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
