"""Run a command or a call within limits of time and memory, and judge how it ended."""

import io
import os
import resource
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import (
    chdir,
    contextmanager,
    nullcontext,
    redirect_stderr,
    redirect_stdout,
    suppress,
)
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import xarray as xr

SCRATCH = tempfile.TemporaryDirectory(prefix="zigp-fuzz-")  # for what outlives a case
_SECONDS = 60
_ADDRESSES = 16 << 20  # KiB of address space; JAX alone takes three GiB
_MEMORY = 2 << 20  # KiB that a command may use; half of it where JAX is loaded already
_SIGNS = (
    "Traceback", "This should not have happened", "Warning: ", "object at 0x", "Exception ignored",
    "is not a model that this zigp can use",  # true of forged models only
)  # fmt: skip
_PREDICTED = ("mean", "sd", "lower", "upper", "prob_on")
_READERS = {".csv": pd.read_csv, ".parquet": pd.read_parquet, ".nc": xr.load_dataset}


@dataclass(frozen=True)
class Answer:
    """What a command did; `limit` says which limit it went beyond."""

    code: int
    out: str
    said: str
    limit: str = ""


@dataclass(frozen=True)
class Outcome:
    """How a case ended; `wrong` says what must not happen."""

    word: str  # works, told or usage
    wrong: str = ""


class LimitError(BaseException):
    """A case took too long or too much memory."""


@contextmanager
def _limits(seconds: int = _SECONDS) -> Iterator[None]:
    """Limit the time and address space of this process, and the memory added to it."""

    def stop(number: int, frame: object) -> None:
        raise LimitError(f"it did not end within {seconds} s")

    handler, space = signal.signal(signal.SIGALRM, stop), resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES << 10, space[1]))
    signal.alarm(seconds)
    with suppress(OSError):  # Linux forgets the peak so far; elsewhere only a higher one is seen
        Path("/proc/self/clear_refs").write_text("5")
    before = _peak(resource.RUSAGE_SELF)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_AS, space)
    if (used := _peak(resource.RUSAGE_SELF) - before) > _MEMORY // 2:
        raise LimitError(f"it used {used >> 10} MiB")


def _peak(of: int) -> int:
    return resource.getrusage(of).ru_maxrss


# -- commands -------------------------------------------------------------------------------------


def in_process(words: Sequence[str], folder: Path, *, seconds: int = _SECONDS) -> Answer:
    """Type a command in a folder, without starting another process."""
    import jax  # noqa: F401  before the environment changes

    from zigp import cli

    streams = [
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors=errors, write_through=True)
        for errors in ("strict", "backslashreplace")
    ]
    loaded = {"JAX_COMPILATION_CACHE_DIR": "unused: JAX is loaded already"}
    with (
        chdir(folder),
        redirect_stdout(streams[0]),
        redirect_stderr(streams[1]),
        patch.object(sys, "argv", ["zigp", *words]),
        patch.dict(os.environ, loaded | _home(folder)),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("always")
        code, limit = _ended(cli.main, seconds)
    texts = (stream.buffer.getvalue().decode("utf-8", "replace") for stream in streams)
    return Answer(code, *texts, limit)


def _ended(main: Callable[[], None], seconds: int) -> tuple[int, str]:
    """Return the exit code, and the limit that was passed if any."""
    try:
        with _limits(seconds):
            main()
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None), ""
    except LimitError as error:
        return 124, str(error)
    return 0, ""


def _home(folder: Path) -> dict[str, str]:
    """Let a case write its home only where that is seen; Matplotlib keeps its fonts elsewhere."""
    return {"HOME": str(folder.parent), "MPLCONFIGDIR": SCRATCH.name}


def typed(words: Sequence[str], folder: Path, cache: Path) -> Answer:
    """Type a command in a folder, in a process of its own."""
    compiled = {
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    limited = [
        "sh",
        "-c",
        f'ulimit -v {_ADDRESSES}; exec "$@"',
        "sh",
        f"{sys.prefix}/bin/zigp",
        *words,
    ]
    before = _peak(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run(
            limited, cwd=folder, env=os.environ | compiled | _home(folder), timeout=_SECONDS,
            capture_output=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Answer(124, "", "", f"it did not end within {_SECONDS} s")
    peak = _peak(resource.RUSAGE_CHILDREN)
    limit = f"it used {peak >> 10} MiB" if peak > max(before, _MEMORY) else ""
    texts = (raw.decode("utf-8", "replace") for raw in (done.stdout, done.stderr))
    return Answer(done.returncode, *texts, limit)


# -- judging --------------------------------------------------------------------------------------


@contextmanager
def own_folder(keep: Path | None = None) -> Iterator[Path]:
    """Make an empty folder for a case, in a folder that is watched too."""
    made = tempfile.TemporaryDirectory(prefix="zigp-case-", ignore_cleanup_errors=True)
    with nullcontext(keep) if keep else made as around:
        folder = Path(around).resolve() / "case"
        folder.mkdir(parents=True, exist_ok=True)
        yield folder


def listing(folder: Path) -> dict[str, bytes | None]:
    """Return everything in a folder, with the content of files."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def judged(
    words: Sequence[str],
    folder: Path,
    run: Callable[[Sequence[str], Path], Answer],
    *,
    forged: bool = False,
) -> Outcome:
    """Run a command in its folder and judge how it ended.

    The command may blame a model for a failure only where the model was `forged`.
    """
    around = folder.parent  # where `..` and `~` lead
    before = listing(around)
    answer = run(words, folder)
    after = listing(around)
    word = {0: "works", 1: "told", 2: "usage"}.get(answer.code, f"ended by {answer.code}")
    changed = {around / name for name, _ in before.items() ^ after.items()}
    outs = _outputs(words, folder)
    if word == "works":
        changed = {path for path in changed if outs.isdisjoint((path, *path.parents))}
    rules = {
        answer.limit: answer.limit,
        f"{word}: {answer.said[-300:]}": word.startswith("ended by"),
        f"its message is {answer.said[-700:]!r}": _is_wrong(answer.said, word, forged),
        f"it left behind or changed {sorted(map(str, changed))[:3]}": changed,
        "a prediction is not finite and no warning was printed": words[0] == "predict"
        and word == "works"
        and "not finite" not in answer.said
        and not all(_is_finite(path) for path in outs),
    }
    return Outcome(word, next((wrong for wrong, broken in rules.items() if broken), ""))


def _outputs(words: Sequence[str], folder: Path) -> set[Path]:
    """Return the paths that a command was asked to write."""
    names = {words[i + 1] for i, word in enumerate(words[:-1]) if word == "--out"}
    return {Path(os.path.normpath(folder / name)) for name in names or {"report.html"}}


def _is_wrong(said: str, word: str, forged: bool) -> bool:
    """Return whether an error message has what it must not have, or is missing."""
    signs = _SIGNS[:-1] if forged else _SIGNS
    steers = word != "usage" and any(not (c.isprintable() or c in "\n\r") for c in said)
    nothing = word != "works" and not said.strip()
    return steers or nothing or len(said) > 6_000 or any(sign in said for sign in signs)


def _is_finite(path: Path) -> bool:
    """Return whether all predictions in a file are finite numbers."""
    if path.suffix not in _READERS or not path.is_file():
        return True
    table = _READERS[path.suffix](path)
    several = [name for name in table if str(name).partition("_")[0] in _PREDICTED[:2]]
    # Beside the predictions of several outputs, a column "mean" is one of the user's own.
    names = ["prob_on"] if "class" in table else [n for n in several if "_" in n] or _PREDICTED
    columns = [np.asarray(table[name]) for name in names if name in table]
    return all(values.dtype.kind in "fiu" and np.isfinite(values).all() for values in columns)


def called(case: Callable[[], None]) -> Outcome:
    """Call a case of Python: it must return, or raise an error with a clear message."""
    try:
        with _limits(), warnings.catch_warnings(action="ignore"):
            case()
    except (ValueError, TypeError, OSError, FloatingPointError, ImportError) as error:
        return Outcome("told", "" if str(error).strip() else f"{type(error).__name__} says nothing")
    except (LimitError, Exception) as error:
        return Outcome("failed", f"{type(error).__name__}: {str(error)[:300]}")
    return Outcome("works")
