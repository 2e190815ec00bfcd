"""Checkpoints: where training stood, in files, so that it can go on from there."""

from __future__ import annotations

import hashlib
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as written_tensors

from zigp.runtime.atomic import beside
from zigp.runtime.digest import digest
from zigp.training.locks import LOCK, locked
from zigp.training.settings import check_positive, check_whole

__all__ = [
    "Checkpoints",
    "discard",
    "fingerprint",
    "in_place_of",
    "kept_until_done",
    "when_done",
]

_KEY, _KEPT, _NAMES = "zigp-checkpoint", 2, "step-*.checkpoint"
_later: ContextVar[list[Callable[[], None]] | None] = ContextVar("later", default=None)
_left: ContextVar[Path | None] = ContextVar("left", default=None)


@contextmanager
def kept_until_done() -> Iterator[None]:
    """Checkpoints of fits that end meanwhile are removed once all of this went well, not before.

    So nothing is lost where a fit is the first of two, or where its model cannot be saved.
    """
    todo: list[Callable[[], None]] = []
    outer = _later.set(todo)
    try:
        yield
    finally:
        _later.reset(outer)
    for action in todo:
        when_done(action)


def when_done(action: Callable[[], None]) -> None:
    """Do it now, or at the end of `kept_until_done`."""
    todo = _later.get()
    if todo is None:
        action()
    else:
        todo.append(action)


@contextmanager
def in_place_of(folder: Path | None) -> Iterator[None]:
    """What interrupted fits left in a folder is removed once training begins, not by a mistake."""
    outer = _left.set(folder)
    try:
        yield
    finally:
        _left.reset(outer)


def discard(folder: Path) -> None:
    """Remove what interrupted fits left in a folder, unless one of them is running."""
    with ExitStack() as held:
        places = {path.parent for name in (_NAMES, LOCK) for path in folder.rglob(name)}
        for place in sorted(places):  # all of them first: the parts of a hurdle are trained in turn
            held.enter_context(locked(place))
        for path in (path for place in places for path in place.glob(_NAMES)):
            path.unlink(missing_ok=True)


class Checkpoints:
    """A folder of checkpoints of one fit, the last two of them.

    One is written every so many seconds or, if given, steps, and when training is interrupted or
    ends. Each takes the room of a few copies of the parameters and 8 bytes a step for the clock and
    for each restart's bound, and appears whole or not at all.
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, seconds: float = 300.0, steps: int | None = None,
        resume: bool = False, writes: bool = True,
    ):  # fmt: skip
        check_positive("checkpoint_seconds", seconds)
        if steps is not None:
            check_whole("checkpoint_steps", steps)
        self.folder, self.seconds, self.steps, self.resume = Path(folder), seconds, steps, resume
        self.writes = writes  # of several processes only the first does
        self._last_time, self._last_step = time.monotonic(), 0
        self._kept: list[Path] = []  # what is known to be whole, the newest last
        if writes and (left := _left.get()) is not None:
            discard(left)
            _left.set(None)
        if writes and not resume and self.found():
            raise ValueError(
                f"{self.folder} holds checkpoints of a fit that was interrupted: go on from them "
                "with resume, or remove the folder to start anew."
            )

    def found(self) -> list[Path]:
        """The checkpoints in the folder, the newest first."""
        return sorted(self.folder.glob(_NAMES), reverse=True)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """While this lasts no other fit writes here; what a killed one left half-written goes."""
        if not self.writes:
            yield
            return
        with locked(self.folder):
            for part in self.folder.glob(".step-*.checkpoint.*.part"):
                part.unlink(missing_ok=True)
            yield

    def due(self, step: int) -> bool:
        if self.steps is not None:
            return step - self._last_step >= self.steps
        return time.monotonic() - self._last_time >= self.seconds

    def save(self, step: int, state: Any, record: dict[str, Any]) -> None:
        """Write a checkpoint, then remove all but the last two that are whole."""
        self._last_time, self._last_step = time.monotonic(), step
        arrays = {
            str(i): np.array(leaf, order="C") for i, leaf in enumerate(jax.tree.leaves(state))
        }
        if not self.writes:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(record | {"digest": digest(record, arrays)}, allow_nan=True)
        content = written_tensors(arrays, metadata={_KEY: text})
        path = self.folder / f"step-{step:09d}.checkpoint"
        try:
            with beside(path) as part:
                part.write_bytes(content)
        except OSError as error:
            said = f"{error.strerror}. Make room and go on with resume, from the checkpoint before"
            raise OSError(error.errno, said, str(path)) from error
        self._kept = [*(kept for kept in self._kept if kept != path), path][-_KEPT:]
        for other in set(self.found()) - set(self._kept):  # older ones, and damaged ones
            other.unlink(missing_ok=True)

    def not_written(self, error: OSError) -> str:
        """That the last one could not be written, and which there is, in words."""
        before = (
            f"the one before is {self._kept[-1].name}" if self._kept else "there is none before"
        )
        return f"its checkpoint could not be written ({os.strerror(error.errno or 0)}), {before}"

    def how_to_go_on(self) -> str:
        """What to do after an interruption, where there is something to go on from."""
        there = f"Fit again with resume=True to go on from what is kept in {self.folder}."
        return there if self.found() else ""

    def restore(self, state: Any, mark: str) -> tuple[Any, dict[str, Any]] | None:
        """The newest checkpoint that is not damaged, as a state like the one given."""
        if not self.resume:
            return None
        leaves, structure = jax.tree.flatten(state)
        for path in (found := self.found()):
            try:
                record, arrays = _read(path)
            except (SafetensorError, KeyError, ValueError):
                continue
            if record["fingerprint"] != mark:
                raise ValueError(
                    f"{self.folder} holds checkpoints of another fit: its data, settings or "
                    "version differ. Give the same ones, or remove the folder to start anew."
                )
            self._last_step, self._kept = int(record["done"]), [path]
            return jax.tree.unflatten(
                structure, [arrays[str(i)] for i in range(len(leaves))]
            ), record
        if found:
            warnings.warn(
                f"No checkpoint in {self.folder} can be read, since all are damaged: training "
                "starts from its beginning.",
                stacklevel=2,
            )
        return None

    def clear(self) -> None:
        """Remove all of it: the fit is finished and kept elsewhere."""
        if self.writes:
            when_done(self._remove)

    def _remove(self) -> None:
        if not self.folder.exists():
            return
        with suppress(ValueError), locked(self.folder):  # another fit may have begun here meanwhile
            for path in self.found():
                path.unlink(missing_ok=True)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What a checkpoint says and holds, or an error if that is not what was written."""
    with safe_open(path, framework="numpy") as file:
        record = json.loads((file.metadata() or {})[_KEY])
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if record["digest"] != digest(record, arrays):
        raise ValueError(f"{path} is damaged: something in it was changed after it was saved.")
    return record, arrays


def fingerprint(state: Any, settings: str, digest: str) -> str:
    """What tells a fit from others: where it starts, its settings and its data."""
    from importlib.metadata import version

    found = hashlib.sha256()
    said = [version(name) for name in ("zigp", "jax", "jaxlib")]
    said += [settings, str(jax.tree.structure(state)), digest]
    found.update("\n".join(said).encode())
    for leaf in jax.tree.leaves(state):
        found.update(np.ascontiguousarray(leaf).tobytes())
    return found.hexdigest()
