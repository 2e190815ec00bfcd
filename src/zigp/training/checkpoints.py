"""Checkpoints: files with the state of training, from which an interrupted fit resumes.

A folder of checkpoints belongs to one fit at a time, by a lock.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as written_tensors

from zigp.runtime.atomic import replacing
from zigp.runtime.digest import digest
from zigp.training.settings import check_positive

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

LOCK = ".zigp-lock"
_TRIES = 100  # during each of which another fit came and went
_KEY, _KEPT, _NAMES = "zigp-checkpoint", 2, "step-*.checkpoint"


@dataclass
class _Hold:
    """The checkpoints that a block of code holds."""

    outdated: Path | None
    finished: list[Checkpoints] = field(default_factory=list)


_hold: ContextVar[_Hold | None] = ContextVar("hold", default=None)


@contextmanager
def hold_checkpoints(
    folder: str | os.PathLike[str] | None, *, replace: bool = False
) -> Iterator[None]:
    """Keep the checkpoints of fits that end inside the block until the block has succeeded.

    So nothing is lost if a fit is the first of two, or if its model cannot be saved. With
    `replace`, checkpoints of earlier fits in the folder are discarded when training begins, and not
    if an error comes before. The outermost of nested blocks counts.
    """
    if folder is None or _hold.get() is not None:
        yield
        return
    hold = _Hold(Path(folder) if replace else None)
    token = _hold.set(hold)
    try:
        yield
    finally:
        _hold.reset(token)
    for checkpoints in hold.finished:
        checkpoints.clear()
    remove_empty(Path(folder))


def discard(folder: Path) -> None:
    """Remove the checkpoints of all fits in a folder, or raise an error if one is running."""
    with ExitStack() as held:
        places = {path.parent for name in (_NAMES, LOCK) for path in folder.rglob(name)}
        for place in sorted(places):  # all first: the parts of a hurdle are trained one by one
            held.enter_context(locked(place))
        for path in (path for place in places for path in place.glob(_NAMES)):
            path.unlink(missing_ok=True)


class Checkpoints:
    """A folder with the last two checkpoints of one fit.

    One is written every `seconds`, and when training is interrupted or ends. Each has the size of a
    few copies of the parameters plus, for each step, 8 bytes for the clock and for the bound of
    every restart, and with minibatches for each row. It appears as a whole or not at all.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        seconds: float = 300.0,
        resume: bool = False,
        writes: bool = True,
    ):
        check_positive("checkpoint_seconds", seconds)
        self.folder, self.seconds, self.resume = Path(folder), seconds, resume
        self.writes = writes  # true for the first of several processes
        self._last_time = time.monotonic()
        self._whole: list[Path] = []  # those that were written or read without error, newest last
        hold = _hold.get()
        if writes and hold is not None and hold.outdated is not None:
            discard(hold.outdated)
            hold.outdated = None
        if writes and not resume and self.paths():
            raise ValueError(
                f"{self.folder} holds checkpoints of a fit that was interrupted: go on from them "
                "with resume, or remove the folder to start anew."
            )

    def paths(self) -> list[Path]:
        """Return the checkpoints in the folder, the newest first."""
        return sorted(self.folder.glob(_NAMES), reverse=True)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the folder for this fit, and remove half-written files of a killed one."""
        if not self.writes:
            yield
            return
        with locked(self.folder):
            for part in self.folder.glob(".step-*.checkpoint.*.part"):
                part.unlink(missing_ok=True)
            yield

    def due(self) -> bool:
        """Return whether it is time for another checkpoint."""
        return time.monotonic() - self._last_time >= self.seconds

    def save(self, step: int, state: Any, record: dict[str, Any]) -> None:
        """Write a checkpoint, then remove all but the last two that are whole."""
        self._last_time = time.monotonic()
        if not self.writes:
            return
        arrays = _tensors(state)
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(record | {"digest": digest(record, arrays)}, allow_nan=True)
        content = written_tensors(arrays, metadata={_KEY: text})
        path = self.folder / f"step-{step:09d}.checkpoint"
        try:
            with replacing(path) as part:
                part.write_bytes(content)
        except OSError as error:
            advice = (
                f"{error.strerror}. Make room and go on with resume, from the checkpoint before"
            )
            raise OSError(error.errno, advice, str(path)) from error
        self._whole = [*(whole for whole in self._whole if whole != path), path][-_KEPT:]
        for other in set(self.paths()) - set(self._whole):  # older ones, and damaged ones
            other.unlink(missing_ok=True)

    def not_written(self, error: OSError) -> str:
        """Describe an error of writing, and the checkpoint before."""
        before = (
            f"the one before is {self._whole[-1].name}" if self._whole else "there is none before"
        )
        return f"its checkpoint could not be written ({os.strerror(error.errno or 0)}), {before}"

    def restore(self, like: Any, fingerprint: str) -> tuple[Any, dict[str, Any]] | None:
        """Return the state and record of the newest checkpoint that is not damaged, if any.

        The state has the structure of `like`.
        """
        if not self.resume:
            return None
        leaves, structure = jax.tree.flatten(like)
        for path in (paths := self.paths()):
            try:
                record, arrays = _read(path)
            except (SafetensorError, KeyError, ValueError):
                continue
            if record["fingerprint"] != fingerprint:
                raise ValueError(
                    f"{self.folder} holds checkpoints of another fit: its data, settings or "
                    "version differ. Give the same ones, or remove the folder to start anew."
                )
            self._whole = [path]
            state = [arrays[str(i)] for i in range(len(leaves))]
            return jax.tree.unflatten(structure, state), record
        if paths:
            warnings.warn(
                f"No checkpoint in {self.folder} can be read, since all are damaged: training "
                "starts from its beginning.",
                stacklevel=2,
            )
        return None

    def clear(self) -> None:
        """Remove the checkpoints of a finished fit, or leave that to the block that holds them."""
        if not self.writes:
            return
        if (hold := _hold.get()) is not None:
            hold.finished.append(self)
        elif self.folder.exists():
            with suppress(ValueError), locked(self.folder):  # another fit may be running by now
                for path in self.paths():
                    path.unlink(missing_ok=True)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read the record and the arrays of a checkpoint, or raise an error if it is damaged."""
    with safe_open(path, framework="numpy") as file:
        record = json.loads((file.metadata() or {})[_KEY])
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if record["digest"] != digest(record, arrays):
        raise ValueError(f"{path} is damaged: its content was changed after it was saved.")
    return record, arrays


def fingerprint(state: Any, settings: str, data: str) -> str:
    """Return a number that identifies a fit: its initial state, settings, data and versions."""
    about = {name: version(name) for name in ("zigp", "jax", "jaxlib")}
    about |= {"settings": settings, "structure": str(jax.tree.structure(state)), "data": data}
    return digest(about, _tensors(state))


def _tensors(state: Any) -> dict[str, np.ndarray]:
    """Return the arrays of a state by their numbers."""
    leaves = enumerate(jax.tree.leaves(state))
    return {str(i): np.array(leaf, order="C") for i, leaf in leaves}


# -- locks ----------------------------------------------------------------------------------------


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder against other fits, and remove it afterwards if it is empty."""
    path = folder / LOCK
    with _acquired(path):
        try:
            yield
        finally:  # before the lock is released, so that no other fit's is removed
            with suppress(OSError):
                path.unlink()
            remove_empty(folder)


def remove_empty(folder: Path) -> None:
    """Remove a folder if it is empty."""
    with suppress(OSError):
        folder.rmdir()


def _acquired(path: Path) -> IO[str]:
    """Return an open lock file, which is locked for as long as it is open."""
    for _ in range(_TRIES):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            file = path.open("a")
        except FileNotFoundError:  # the fit before has just removed the folder
            continue
        try:
            _lock(file.fileno())
        except BlockingIOError as error:
            file.close()
            raise ValueError(
                f"Another fit is running that keeps its checkpoints in {path.parent}: wait for "
                "it, or choose another place."
            ) from error
        # The fit before may have removed the file after it was opened here, and nobody else would
        # see this lock.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        file.close()
    raise ValueError(f"{path} cannot be locked: choose another place for checkpoints.")


def _lock(file: int) -> None:
    """Lock an open file; the system releases the lock of a process that dies."""
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:  # some file systems have no locks
        if isinstance(error, BlockingIOError):
            raise
