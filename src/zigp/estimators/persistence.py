"""Fitted estimators as files: safetensors for the arrays, JSON for all else, never any code.

A file is one safetensors file. Its metadata holds, under the key `zigp`, a JSON document: the
format's version, the library's, a summary of the training for people and tools to read, and the
estimator itself. That is a tree in which every object is named by its class, out of the classes of
this package that hold data, and every array by the tensor that it is. A digest of all of it tells
when a byte has changed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as written_tensors

from zigp.data import columns, layout
from zigp.gp import covariances, inducing, kernels, latent
from zigp.models import model, signal
from zigp.models.likelihoods import bernoulli, counts, gated, gaussian, hurdles, latent_noise
from zigp.runtime.atomic import replacing
from zigp.runtime.digest import digest
from zigp.training import progress

__all__ = ["FORMAT", "load", "read_header", "registered", "save"]

FORMAT = 1
_KEY = "zigp"
_WASTE = 64  # bytes of an array of texts of one width, for every character in them
_UNITS = ("y_offset_", "y_scale_")
_OWN = ("_output_names",)  # what a fit sets although its class has it
_HERE = ("checkpoint", "resume")  # settings for one machine: no file says where to write


class _UnknownError(Exception):
    """The tree names what this package does not have."""


# What reading a tree that somebody changed can run into.
_FAULTS = (
    _UnknownError,
    KeyError,
    IndexError,
    TypeError,
    ValueError,
    AttributeError,
    RecursionError,
)
_HOLDING_DATA = (
    *(columns, covariances, inducing, kernels, latent, layout, model, progress, signal),
    *(bernoulli, counts, gated, gaussian, hurdles, latent_noise),
)
_CLASSES: dict[str, type] = {
    f"{module.__name__.removeprefix('zigp.')}.{name}": value
    for module in _HOLDING_DATA
    for name, value in vars(module).items()
    if isinstance(value, type) and is_dataclass(value) and value.__module__ == module.__name__
}
_NAMES = {cls: name for name, cls in _CLASSES.items()}
_ESTIMATORS: dict[str, type] = {}


def registered[T: type](cls: T) -> T:
    """Let files hold estimators of this class."""
    _ESTIMATORS[cls.__name__] = cls
    return cls


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to a file, whole or not at all.

    Settings that are functions or random generators, and where checkpoints are written, are left
    out and are the default again after loading.
    """
    if type(estimator) not in _ESTIMATORS.values():
        raise TypeError(f"Only zigp's own estimators can be saved, not {type(estimator).__name__}.")
    arrays: dict[str, np.ndarray] = {}
    header = {
        "format": FORMAT,
        "library": _library_version(),
        **estimator._summary(),
        "content": _packed(estimator, arrays),
    }
    whole = {name: np.array(array, order="C") for name, array in arrays.items()}
    header["digest"] = digest(header, whole)
    text = json.dumps(header, allow_nan=False, ensure_ascii=False)
    try:
        with replacing(Path(path)) as part:
            part.write_bytes(written_tensors(whole, metadata={_KEY: text}))
    except OSError as error:  # which does not always name the file
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def load(path: str | os.PathLike[str]) -> Any:
    """The estimator in a file, ready to predict or, with `warm_start`, to be trained on.

    Nothing in the file is run: it names classes of this package and holds numbers.

    >>> model.save("model.zigp")
    >>> np.array_equal(load("model.zigp").predict(X), model.predict(X))
    True
    """
    path = Path(path)
    if path.is_char_device() or path.is_block_device():  # which may have no end
        raise ValueError(f"{path} is not a file: give the model that `save` wrote.")
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = _checked_header(path, raw[8 : 8 + length], length, len(raw))
    try:
        arrays = read_tensors(raw)
        if header.get("digest") != digest(header, arrays):
            raise _UnknownError("something in it was changed after it was saved")
        if "estimator" not in header["content"]:
            raise _UnknownError("it holds no estimator")
        return _unpacked(header["content"], arrays)
    except (SafetensorError, *_FAULTS) as error:
        raise ValueError(f"{path} is damaged: {error}. Save the model again.") from error


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a file says about itself, without loading it."""
    with Path(path).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        beginning = file.read(min(length, size))
    return _checked_header(Path(path), beginning, length, size)


def _checked_header(path: Path, beginning: bytes, length: int, size: int) -> dict[str, Any]:
    """The header of a file of that size, which says how long itself and the rest are."""
    if not beginning.startswith(b'{"__metadata__":{"' + _KEY.encode() + b'":'):
        raise ValueError(f"{path} is not a zigp model: it does not begin as one.")
    if len(beginning) < length:
        raise ValueError(_cut_short(path, 8 + length, size))
    try:
        outer = json.loads(beginning)
        header = json.loads(outer.pop("__metadata__")[_KEY])
        version = header["format"]
        ends = [entry["data_offsets"][1] for entry in outer.values()]
        claimed = 8 + length + max(ends, default=0)
    except _FAULTS as error:
        raise ValueError(f"{path} is damaged: its header cannot be read ({error}).") from error
    if not isinstance(version, int) or version > FORMAT:
        raise ValueError(
            f"{path} has format {version}, written by zigp {header.get('library')}; this zigp, "
            f"{_library_version()}, reads up to format {FORMAT}. Install a newer zigp."
        )
    if claimed != size:
        raise ValueError(_cut_short(path, claimed, size))
    return header


def _cut_short(path: Path, claimed: int, size: int) -> str:
    return (
        f"{path} should hold {claimed} bytes by its own header but has {size}: it was cut short or "
        "changed. Copy or save it again."
    )


def _library_version() -> str:
    from importlib.metadata import version

    return version("zigp")


# ---------------------------------------------------------------------------------------------
# Objects as trees of JSON


def _packed(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    match value:
        case None | bool() | str() | int():
            return value
        case float():
            return value if np.isfinite(value) else {"float": repr(value)}
        case np.ndarray() if value.dtype.kind in "OU":
            if not all(isinstance(v, str) for v in value):
                raise TypeError("An array of objects that are not text cannot be saved.")
            return {"texts": [str(v) for v in value], "object": value.dtype == object}
        case np.generic():
            return _packed(value.item(), arrays)
        case np.ndarray():
            known = (name for name, array in arrays.items() if array is value)
            name = next(known, str(len(arrays)))
            arrays[name] = value
            return {"array": name}
        case tuple() | list():
            kind = "tuple" if isinstance(value, tuple) else "list"
            return {kind: [_packed(v, arrays) for v in value]}
        case Mapping():
            return {"dict": [[_packed(k, arrays), _packed(v, arrays)] for k, v in value.items()]}
    if type(value) in _NAMES:
        held = {f.name: _packed(getattr(value, f.name), arrays) for f in fields(value)}
        return {"is": _NAMES[type(value)], "with": held}
    if type(value) in _ESTIMATORS.values():
        settings = value.get_params(deep=False)
        learned = {k: v for k, v in vars(value).items() if k not in settings}
        kept = {k: v for k, v in settings.items() if k not in _HERE and not _cannot_be_kept(v)}
        return {
            "estimator": type(value).__name__,
            "settings": {k: _packed(v, arrays) for k, v in kept.items()},
            "learned": {k: _packed(v, arrays) for k, v in learned.items()},
        }
    if hasattr(value, "tolist"):  # an Index or a Series among the settings
        return _packed(value.tolist(), arrays)
    raise TypeError(f"A {type(value).__name__} cannot be saved.")


def _cannot_be_kept(setting: Any) -> bool:
    is_function = isinstance(setting, Callable) and type(setting) not in _NAMES  # type: ignore[arg-type]
    return is_function or isinstance(setting, np.random.RandomState)


def _unpacked(tree: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    match tree:
        case None | bool() | str() | int() | float():
            return tree
        case {"float": text}:
            return float(text)
        case {"texts": list(texts), "object": is_object}:
            return _texts(texts, object if is_object else str)
        case {"array": name}:
            return arrays[name]
        case {"tuple": items}:
            return tuple(_unpacked(item, arrays) for item in items)
        case {"list": items}:
            return [_unpacked(item, arrays) for item in items]
        case {"dict": pairs}:
            return {_unpacked(k, arrays): _unpacked(v, arrays) for k, v in pairs}
        case {"is": name, "with": held}:
            return _built(name, {k: _unpacked(v, arrays) for k, v in held.items()})
        case {"estimator": name, "settings": settings, "learned": learned}:
            if name not in _ESTIMATORS:
                raise _UnknownError(f"there is no estimator {name!r}")
            given = {k: _unpacked(v, arrays) for k, v in settings.items() if k not in _HERE}
            built = _ESTIMATORS[name](**given)
            for key, value in learned.items():
                if hasattr(type(built), key) and key not in _OWN:
                    raise _UnknownError(f"{name} does not learn {key!r}")
                setattr(built, key, _unpacked(value, arrays))
                if key in _UNITS and not np.all(np.isfinite(getattr(built, key))):
                    raise _UnknownError(f"its {key} is not a number")
            return built
    raise _UnknownError(f"its content holds {str(tree)[:60]!r}")


def _texts(texts: list[Any], dtype: type) -> np.ndarray:
    """An array of texts, as they are where giving all the width of the longest would waste room."""
    if not all(isinstance(text, str) for text in texts):
        raise _UnknownError("its texts are not all texts")
    # The file has quotes and a comma for each: all arrays together take a multiple of its size.
    filled = sum(map(len, texts)) + len(texts)
    wide = 4 * len(texts) * max(map(len, texts), default=0) > _WASTE * filled
    return np.array(texts, dtype=object if wide else dtype)


def _built(name: str, held: dict[str, Any]) -> Any:
    """An object of one of our classes, with exactly the fields that it has."""
    if name not in _CLASSES:
        raise _UnknownError(f"there is no class {name!r}")
    cls = _CLASSES[name]
    if held.keys() != {f.name for f in fields(cls)}:
        raise _UnknownError(f"{name} has other fields than {', '.join(held)}")
    made: Any = object.__new__(cls)
    for key, value in held.items():
        object.__setattr__(made, key, value)
    return made
