"""Generated bad input: each case is known by its kind and its seed, and can be run again.

    python -m tests.fuzz --cases 10000 --commands 200
    python -m tests.fuzz --kind csv --seed 1234 --keep folder

A case fills an empty folder with files and types a command there. It must work, or be told in a
sentence that it cannot; and nothing may be left in the folder but what was asked for. Seeds below a
thousand are quick: little of them needs to be compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .commands import command_line, toml
from .lattices import lattice
from .material import Dice
from .models import damaged, forged
from .settings import settings
from .tables import csv, parquet

__all__ = ["COMMANDS", "FIRST", "KINDS", "SHARES", "call", "generated"]

# What fills a folder and returns the command to type there.
COMMANDS: dict[str, Callable[[Dice, Path], list[str]]] = {
    "csv": csv,
    "parquet": parquet,
    "lattice": lattice,
    "model": damaged,
    "forged": forged,
    "toml": toml,
    "command": command_line,
}
FIRST = 1000  # of the seeds that are not quick
KINDS = (*COMMANDS, "settings")
SHARES = {  # per cent of all cases
    "csv": 28, "parquet": 14, "lattice": 8, "model": 20, "forged": 8, "toml": 8, "command": 10,
    "settings": 4,
}  # fmt: skip


def generated(kind: str, seed: int, folder: Path) -> list[str]:
    """The command of a case, after its files were put into the folder."""
    return COMMANDS[kind](Dice(f"{kind} {seed}", quick=seed < FIRST), folder)


def call(seed: int) -> Callable[[], None]:
    """The case of settings in Python: something to call."""
    return settings(Dice(f"settings {seed}", quick=seed < FIRST))
