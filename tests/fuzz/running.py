"""A case run in this process, or by the command itself, and what came of it."""

from __future__ import annotations

import atexit
import io
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

__all__ = ["Answer", "Outcome", "called", "in_process", "judged", "typed"]

ZIGP = Path(sys.executable).with_name("zigp")
_SECONDS = 60
_ADDRESSES = 16 << 30  # bytes of address space; JAX alone takes three
_MEMORY = 2 << 20  # KiB in use by a command, at most
_MORE_MEMORY = 1 << 20  # KiB that one case may add here
_LONGEST = 6_000  # characters of what is said
_UNFORESEEN = "This should not have happened"
_BLAMED = "is not a model that this zigp can use"  # which is true of forged ones alone
_PREDICTED = ("mean", "sd", "lower", "upper", "prob_on")


@dataclass(frozen=True)
class Answer:
    """What a command did."""

    code: int
    out: str
    said: str
    peak: int  # KiB


@dataclass(frozen=True)
class Outcome:
    """How a case ended; `wrong` says what must not be."""

    word: str  # works, told or usage
    wrong: str = ""


class TooLongError(BaseException):
    """A case did not end in time."""


@contextmanager
def _limited() -> Iterator[None]:
    """At most so much time and address space."""

    def stop(number: int, frame: object) -> None:
        raise TooLongError

    before, space = signal.signal(signal.SIGALRM, stop), resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES, space[1]))
    signal.alarm(_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, space)


def in_process(words: Sequence[str], folder: Path) -> Answer:
    """Type a command in a folder, without starting another process."""
    import jax  # noqa: F401  before what is set here

    from zigp import cli

    out, err = (
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors=e)
        for e in ("strict", "backslashreplace")
    )
    argv, code = sys.argv, 0
    sys.argv = ["zigp", *words]
    loaded = patch.dict(
        os.environ,
        JAX_COMPILATION_CACHE_DIR="unused: JAX is loaded already",
        **_at_home(folder, _scratch()),
    )
    grown = _grown()
    with (
        chdir(folder),
        redirect_stdout(out),
        redirect_stderr(err),
        warnings.catch_warnings(),
        loaded,
    ):
        warnings.simplefilter("always")
        warnings.showwarning = _warned
        try:
            with _limited():
                cli.main()
        except SystemExit as end:
            if isinstance(end.code, str):
                print(end.code, file=sys.stderr)
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except TooLongError:
            code = 124
        finally:
            sys.argv = argv
    peak = _MEMORY + 1 if grown() > _MORE_MEMORY else 0
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode("utf-8", "replace"))
    return Answer(code, *texts, peak)


def _at_home(folder: Path, scratch: Path) -> dict[str, str]:
    """Home is where a case can be seen to write; Matplotlib may keep its fonts elsewhere."""
    return {"HOME": str(folder.parent), "MPLCONFIGDIR": str(scratch)}


@cache
def _scratch() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="zigp-scratch-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _grown() -> Callable[[], int]:
    """Asked later, how much memory this process has used at most beyond what it uses now, in KiB.

    Linux forgets the most of before when it is told to. Elsewhere only what goes beyond that is
    seen.
    """
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        before = _most_used_here()
        return lambda: _most_used_here() - before
    before = _most_used(os.getpid())
    return lambda: _most_used(os.getpid()) - before


def _most_used_here() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _warned(message: Warning, *where: Any) -> None:
    """As Python does by itself, also where pytest would rather keep it."""
    sys.stderr.write(warnings.formatwarning(message, *where[:3]))


def typed(words: Sequence[str], folder: Path, cache: Path) -> Answer:
    """Type a command in a folder, as a user does."""
    environment = os.environ | {
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        **_at_home(folder, cache),
    }
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            [ZIGP, *(os.fsencode(word) for word in words)],
            cwd=folder,
            stdout=out,
            stderr=err,
            stdin=subprocess.DEVNULL,
            env=environment,
        )
        resource.prlimit(process.pid, resource.RLIMIT_AS, (_ADDRESSES, _ADDRESSES))
        peak, end = 0, time.monotonic() + _SECONDS
        while process.poll() is None:
            peak = max(peak, _most_used(process.pid))
            if time.monotonic() > end:
                process.kill()
            time.sleep(0.02)
        late = time.monotonic() > end
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
    return Answer(124 if late else process.returncode, *texts, peak)


def _most_used(process: int) -> int:
    """The most memory that a running process has used so far, in KiB."""
    with suppress(OSError):  # it may have ended
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    return 0


def listing(folder: Path) -> dict[str, bytes | None]:
    """Everything in a folder, with what the files hold."""
    return {
        str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None
        for p in folder.rglob("*")
    }


def judged(
    words: Sequence[str],
    folder: Path,
    run: Callable[[Sequence[str], Path], Answer],
    *,
    forged: bool = False,
) -> Outcome:
    """Run a command in its folder and say whether it ended as it should.

    A model that somebody forged may be blamed for what went wrong; a sound one may not.
    """
    around = folder.parent  # where `..` and `~` lead
    before = listing(around)
    answer = run(words, folder)
    after = listing(around)
    word = {0: "works", 1: "told", 2: "usage"}.get(answer.code, f"ended by {answer.code}")
    outs = _outputs(words, folder)
    changed = {
        around / name
        for name in before.keys() | after.keys()
        if before.get(name, 0) != after.get(name, 0)
    }
    asked = {path for path in changed if not outs.isdisjoint((path, *path.parents))}
    strange = {
        str(path.relative_to(around)) for path in changed - (asked if word == "works" else set())
    }
    wrong = _wrong(answer, word, strange)
    if not wrong and _BLAMED in answer.said and not forged:
        wrong = answer.said[:700]
    if not wrong and word == "works" and words[0] == "predict" and "not finite" not in answer.said:
        wrong = _silent(outs)
    return Outcome(word, wrong)


def _outputs(words: Sequence[str], folder: Path) -> set[Path]:
    """What a command was asked to write."""
    found = {words[i + 1] for i, word in enumerate(words[:-1]) if word == "--out"}
    found |= {word.removeprefix("--out=") for word in words if word.startswith("--out=")}
    return {Path(os.path.normpath(folder / name)) for name in found or {"report.html"}}


def _wrong(answer: Answer, word: str, strange: set[str]) -> str:
    said = answer.said
    if answer.code == 124:
        return f"it did not end within {_SECONDS} s"
    if answer.peak > _MEMORY:
        return f"it used {answer.peak >> 10} MiB"
    if word not in ("works", "told", "usage"):
        return f"{word}: {said[-300:]}"
    for sign in ("Traceback", _UNFORESEEN, "Warning: ", "object at 0x", "Exception ignored"):
        if sign in said:
            return said[max(said.index(sign) - 200, 0) :][:700]
    if word != "works" and not said.strip():
        return "nothing was said"
    if len(said) > _LONGEST:
        return f"{len(said)} characters were said: {said[:200]}"
    if word != "usage" and (odd := next((c for c in said if _steers(c)), None)):
        return f"{odd!r} went to the terminal: {said[:200]!r}"
    return f"left behind or changed: {sorted(strange)[:3]}" if strange else ""


def _steers(c: str) -> bool:
    """Whether a terminal does more with a character than to show it."""
    return not c.isprintable() and c not in "\n\r"


def _silent(outs: set[Path]) -> str:
    """What is wrong with predictions that were written without a word."""
    for path in outs:
        if path.suffix in (".csv", ".parquet", ".nc") and path.is_file():
            for name, values in _predictions(path).items():
                if values.dtype.kind not in "fiu" or not np.isfinite(values).all():
                    return f"{name} is not finite and nobody said so"
    return ""


def _predictions(path: Path) -> dict[str, np.ndarray]:
    """What a file of predictions holds beside what was there before."""
    import pandas as pd
    import xarray as xr

    if path.suffix == ".nc":
        with xr.open_dataset(path, engine="h5netcdf") as opened:
            return {name: opened[name].values for name in _PREDICTED if name in opened}
    table = pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
    last = list(table)[-1:] if "class" in table else list(table)[-len(_PREDICTED) :]
    return {name: table[name].to_numpy() for name in last if name in _PREDICTED}


_CLEAR = (ValueError, TypeError, OSError, FloatingPointError, ImportError)


def called(case: Callable[[], None]) -> Outcome:
    """Call a case of Python: an answer, or an error that tells."""
    grown = _grown()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with _limited():
                case()
        except _CLEAR as error:
            unclear = isinstance(error, UnicodeError) or not str(error).strip()
            return Outcome("told", f"{type(error).__name__}: {error}" if unclear else "")
        except TooLongError:
            return Outcome("ended by 124", f"it did not end within {_SECONDS} s")
        except Exception as error:
            return Outcome("failed", f"{type(error).__name__}: {str(error)[:300]}")
    used = grown()
    return Outcome("works", f"it used {used >> 10} MiB" if used > _MORE_MEMORY else "")


@contextmanager
def own_folder(keep: Path | None = None) -> Iterator[Path]:
    """An empty folder for a case, in a folder that is watched too."""
    around = Path(tempfile.mkdtemp(prefix="zigp-case-")) if keep is None else keep
    folder = around.resolve() / "case"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    finally:
        if keep is None:
            shutil.rmtree(around, ignore_errors=True)
