"""Checkpoints: where training stood, in files, so that it can go on from there."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as written_tensors

from zigp.files.atomic import beside

__all__ = ["Checkpoints", "fingerprint"]

_KEY, _KEPT = "zigp-checkpoint", 2


class Checkpoints:
    """A folder of checkpoints of one fit, the last two of them.

    One is written every so many seconds, and when training is interrupted or ends. Each takes the
    room of a few copies of the parameters, and appears whole or not at all.
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, seconds: float = 300.0, steps: int | None = None,
        resume: bool = False, writes: bool = True,
    ):  # fmt: skip
        self.folder, self.seconds, self.steps, self.resume = Path(folder), seconds, steps, resume
        self.writes = writes  # of several processes only the first does
        self._last_time, self._last_step = time.monotonic(), 0
        if self.found() and not resume:
            raise ValueError(
                f"{self.folder} holds checkpoints of a fit that was interrupted: go on from them "
                "with resume, or remove the folder to start anew."
            )

    def found(self) -> list[Path]:
        """The checkpoints in the folder, the newest first."""
        return sorted(self.folder.glob("step-*.checkpoint"), reverse=True)

    def due(self, step: int) -> bool:
        if self.steps is not None:
            return step - self._last_step >= self.steps
        return time.monotonic() - self._last_time >= self.seconds

    def save(self, step: int, state: Any, record: dict[str, Any]) -> None:
        """Write a checkpoint, then remove all but the last two."""
        self._last_time, self._last_step = time.monotonic(), step
        arrays = {
            str(i): np.array(leaf, order="C") for i, leaf in enumerate(jax.tree.leaves(state))
        }
        if not self.writes:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(record, allow_nan=True)
        with beside(self.folder / f"step-{step:09d}.checkpoint") as part:
            part.write_bytes(written_tensors(arrays, metadata={_KEY: text}))
        for old in self.found()[_KEPT:]:
            old.unlink(missing_ok=True)

    def restore(self, state: Any, mark: str) -> tuple[Any, dict[str, Any]] | None:
        """The newest checkpoint that can be read, as a state like the one given."""
        if not self.resume:
            return None
        for path in self.found():
            try:
                with safe_open(path, framework="numpy") as file:
                    record = json.loads((file.metadata() or {})[_KEY])
                    if record["fingerprint"] != mark:
                        raise ValueError(
                            f"{self.folder} holds checkpoints of another fit: its data, settings "
                            "or version differ. Give the same ones, or remove the folder to start "
                            "anew."
                        )
                    leaves, structure = jax.tree.flatten(state)
                    held = [file.get_tensor(str(i)) for i in range(len(leaves))]
            except (SafetensorError, OSError, KeyError, json.JSONDecodeError):
                continue
            self._last_step = int(record["done"])
            return jax.tree.unflatten(structure, held), record
        return None

    def clear(self) -> None:
        """Remove the folder: the fit is finished and kept elsewhere."""
        if self.writes:
            for path in self.found():
                path.unlink(missing_ok=True)
            if self.folder.is_dir() and not any(self.folder.iterdir()):
                shutil.rmtree(self.folder, ignore_errors=True)


def fingerprint(state: Any, settings: Any, digest: str) -> str:
    """What tells a fit from others: where it starts, its settings and its data."""
    from importlib.metadata import version

    found = hashlib.sha256()
    said = [version(name) for name in ("zigp", "jax", "jaxlib")]
    said += [repr(settings), str(jax.tree.structure(state)), digest]
    found.update("\n".join(said).encode())
    for leaf in jax.tree.leaves(state):
        found.update(np.ascontiguousarray(leaf).tobytes())
    return found.hexdigest()
