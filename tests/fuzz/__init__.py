"""Generated bad input: each case can be run again by its kind and its seed.

    python -m tests.fuzz --cases 10000 --commands 200
    python -m tests.fuzz --kind csv --seed 1234 --keep folder

A case fills an empty folder with files and types a command there. The command must work, or report
in a sentence that it cannot, and must leave nothing in the folder but what it was asked for. Seeds
below a thousand are quick: their cases compile little.
"""

import shlex
from contextlib import chdir
from functools import partial
from pathlib import Path

from .commands import command_for, command_line, toml
from .damage import BINARY, TEXT, spoiled
from .material import Dice
from .models import damaged
from .running import Outcome, called, in_process, judged, own_folder, typed
from .settings import settings
from .tables import csv, lattice, parquet

FIRST = 1000  # of the seeds that are not quick
SHARES = {  # per cent of all cases
    "csv": 28, "parquet": 14, "lattice": 8, "model": 28, "toml": 8, "command": 10,
    "settings": 4,
}  # fmt: skip
# What writes a file, how its bytes are spoiled now and then, and the commands that read it.
_FILES = {
    "csv": (csv, TEXT, "table"),
    "parquet": (parquet, BINARY, "table"),
    "lattice": (lattice, ("flipped", "cut"), "lattice"),
    "model": (damaged, (), "model"),
}


def outcome_of(
    kind: str, seed: int, cache: Path | None = None, *, keep: Path | None = None
) -> Outcome:
    """Run a case in this process, or in one of its own that keeps compiled programs in `cache`."""
    dice = Dice(f"{kind} {seed}", quick=seed < FIRST)
    with own_folder(keep) as folder:
        if kind == "settings":
            with chdir(folder):  # a setting may name a folder of checkpoints
                return called(settings(dice))
        words = _command(dice, kind, folder)
        if keep is not None:
            print("zigp", shlex.join(words))
        run = in_process if cache is None else partial(typed, cache=cache)
        return judged(words, folder, run, forged=kind == "model")


def _command(rng: Dice, kind: str, folder: Path) -> list[str]:
    """Fill the folder of a case, and return the command to type there."""
    if kind not in _FILES:
        return {"toml": toml, "command": command_line}[kind](rng, folder)
    write, ways, of = _FILES[kind]
    path = write(rng, folder)
    if ways and rng.random() < 0.3:
        one = rng.choice(sorted(p for p in (path, *path.rglob("*")) if p.is_file()))
        one.write_bytes(spoiled(rng, one.read_bytes(), ways))
    return command_for(rng, of, path)
