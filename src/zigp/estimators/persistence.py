"""Model files: safetensors for arrays, JSON for everything else, and no code.

A model file is a safetensors file whose metadata holds a JSON document under the key `zigp`: the
version of the format and of the library, a summary of training for people and tools to read, and
the estimator as a tree. In the tree an object is named by its class, which must be one of the
classes of this package that hold data, and an array by its tensor. A digest of the file detects
changed bytes.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as written_tensors

from zigp.data import columns, layout
from zigp.gp import coupling, covariances, inducing, kernels, latent, markov
from zigp.models import mixing, model, signal
from zigp.models.likelihoods import bernoulli, counts, gated, gaussian, hurdles, latent_noise
from zigp.runtime.atomic import replacing
from zigp.runtime.digest import digest
from zigp.runtime.session import entry_point
from zigp.training import progress, sampling

FORMAT = 2
_KEY = "zigp"
_WASTE = 64  # bytes of an array of texts of equal width, for each of their characters


class _DamageError(Exception):
    """The file holds something that `save` does not write."""


# Errors that reading a changed tree can raise.
_FAULTS = (
    _DamageError,
    KeyError,
    IndexError,
    TypeError,
    ValueError,
    AttributeError,
    RecursionError,
)
_HOLDING_DATA = (
    *(columns, coupling, covariances, inducing, kernels, latent, layout, markov, mixing, model),
    *(progress, sampling, signal),
    *(bernoulli, counts, gated, gaussian, hurdles, latent_noise),
)
_CLASSES: dict[str, type] = {
    f"{module.__name__.removeprefix('zigp.')}.{name}": value
    for module in _HOLDING_DATA
    for name, value in vars(module).items()
    if isinstance(value, type)
    and is_dataclass(value)
    and value.__module__.startswith(module.__name__)
}
_NAMES = {cls: name for name, cls in _CLASSES.items()}
ESTIMATORS: dict[str, type] = {}  # that files may hold


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to a file, completely or not at all."""
    if type(estimator) not in ESTIMATORS.values():
        raise TypeError(f"Only zigp's own estimators can be saved, not {type(estimator).__name__}.")
    arrays: dict[str, np.ndarray] = {}
    header = {
        "format": FORMAT,
        "library": version("zigp"),
        **estimator._summary(),
        "content": _packed(estimator, arrays),
    }
    arrays = {name: np.array(array, order="C") for name, array in arrays.items()}
    header["digest"] = digest(header, arrays)
    text = json.dumps(header, allow_nan=False, ensure_ascii=False)
    try:
        with replacing(Path(path)) as part:
            part.write_bytes(written_tensors(arrays, metadata={_KEY: text}))
    except OSError as error:  # which does not always name the file
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def load(path: str | os.PathLike[str]) -> Any:
    """Load an estimator from a file, ready to predict or, with `warm_start`, to train further.

    No code in the file is run: it names classes of this package and holds numbers.

    Parameters
    ----------
    path : str or path
        File that `save` or `zigp fit` wrote.

    Returns
    -------
    estimator : object
        The fitted estimator. Its predictions are equal to those of the saved one to the bit.

    Raises
    ------
    ValueError
        If the file is not a model, is damaged, or was written by a newer version of zigp.

    Examples
    --------
    >>> model.save("model.zigp")
    >>> np.array_equal(load("model.zigp").predict(X), model.predict(X))
    True
    """
    header, arrays = _read(path)
    try:
        if "estimator" not in header["content"]:
            raise _DamageError("it holds no estimator")
        return _unpacked(header["content"], arrays)
    except _FAULTS as error:
        raise ValueError(f"{path} is damaged: {error}. Save the model again.") from error


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the header of a model file without loading the model."""
    return _read(path)[0]


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the header and the arrays of a model file, after checking that it is whole."""
    with Path(path).open("rb") as file:
        raw = file.read(os.fstat(file.fileno()).st_size)  # 0 for a device, which may have no end
    if not raw[8:].startswith(b'{"__metadata__":{"' + _KEY.encode() + b'":'):
        raise ValueError(f"{path} is not a zigp model: it does not begin as one.")
    try:
        end = 8 + int.from_bytes(raw[:8], "little")
        header = json.loads(json.loads(raw[8:end])["__metadata__"][_KEY])
        other = header["format"] != FORMAT
        arrays = {} if other else read_tensors(raw)
        if not other and header.get("digest") != digest(header, arrays):
            raise _DamageError("its digest is another")
    except (SafetensorError, *_FAULTS) as error:
        raise ValueError(
            f"{path} is damaged: it was cut short or changed after it was saved ({error}). Copy or "
            "save it again."
        ) from error
    if other:
        remedy = "Install a newer zigp" if header["format"] > FORMAT else "Fit the model again"
        raise ValueError(
            f"{path} has format {header['format']}, written by zigp {header.get('library')}; this "
            f"zigp, {version('zigp')}, reads format {FORMAT}. {remedy}."
        )
    return header, arrays


# ---------------------------------------------------------------------------------------------
# Objects as trees of JSON


def _packed(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Return an object as a tree, and add its arrays to the others."""
    match value:
        case None | bool() | str() | int():
            return value
        case float():
            return value if np.isfinite(value) else {"float": repr(value)}
        case np.ndarray() if value.dtype.kind in "OU":
            if not all(isinstance(v, str) for v in value):
                raise TypeError("An array of objects that are not text cannot be saved.")
            return {"texts": [str(v) for v in value], "object": value.dtype == object}
        case np.ndarray():
            same = (name for name, array in arrays.items() if array is value)
            name = next(same, str(len(arrays)))
            arrays[name] = value
            return {"array": name}
        case tuple() | list():
            kind = "tuple" if isinstance(value, tuple) else "list"
            return {kind: [_packed(v, arrays) for v in value]}
        case Mapping():
            return {"dict": [[_packed(k, arrays), _packed(v, arrays)] for k, v in value.items()]}
    if isinstance(value, model.Model):
        value = value.compact()
    if type(value) in _NAMES:
        held = {f.name: _packed(getattr(value, f.name), arrays) for f in fields(value)}
        return {"is": _NAMES[type(value)], "with": held}
    if type(value) in ESTIMATORS.values():
        settings, run = value.get_params(deep=False), value._names("run")
        kept = {k: v for k, v in settings.items() if k not in run and not _is_unsaved(v)}
        learned = {k: v for k, v in vars(value).items() if k not in settings and k != "_data"}
        return {
            "estimator": type(value).__name__,
            "settings": {k: _packed(v, arrays) for k, v in kept.items()},
            "learned": {k: _packed(v, arrays) for k, v in learned.items()},
        }
    if hasattr(value, "tolist"):  # a number of numpy, or an Index of pandas, among the settings
        return _packed(value.tolist(), arrays)
    raise TypeError(f"A {type(value).__name__} cannot be saved.")


def _is_unsaved(setting: Any) -> bool:
    is_function = callable(setting) and type(setting) not in _NAMES  # unlike a kernel
    return is_function or isinstance(setting, np.random.RandomState)


def _unpacked(tree: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """Return the object that `_packed` made a tree of."""
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
            given, found = (
                {k: _unpacked(v, arrays) for k, v in part.items()} for part in (settings, learned)
            )
            return _fitted(name, given, found)
    raise _DamageError(f"its content holds {str(tree)[:60]!r}")


def _texts(texts: list[Any], dtype: type) -> np.ndarray:
    """Return an array of texts, of objects if equal widths would waste memory."""
    if not all(isinstance(text, str) for text in texts):
        raise _DamageError("its texts are not all texts")
    # The file has quotes and a comma for each: all arrays together take a multiple of its size.
    filled = sum(map(len, texts)) + len(texts)
    wide = 4 * len(texts) * max(map(len, texts), default=0) > _WASTE * filled
    return np.array(texts, dtype=object if wide else dtype)


def _built(name: str, held: dict[str, Any]) -> Any:
    """Return an object of one of our classes, with exactly its fields."""
    if name not in _CLASSES:
        raise _DamageError(f"there is no class {name!r}")
    cls = _CLASSES[name]
    if held.keys() != {f.name for f in fields(cls)}:
        raise _DamageError(f"{name} has other fields than {', '.join(held)}")
    made: Any = object.__new__(cls)
    for key, value in held.items():
        object.__setattr__(made, key, value)
    return made


def _fitted(name: str, settings: dict[str, Any], learned: dict[str, Any]) -> Any:
    """Return an estimator with settings, except those of the run, and with what it has learned."""
    if name not in ESTIMATORS:
        raise _DamageError(f"there is no estimator {name!r}")
    cls: Any = ESTIMATORS[name]
    made = cls(**{key: value for key, value in settings.items() if key not in cls._names("run")})
    if isinstance(trained := learned.get("model_"), model.Model) and trained.chained:
        learned["model_"] = entry_point(trained.refreshed)()
    for key, value in learned.items():
        if getattr(cls, key, None) is not None:  # a method or a property
            raise _DamageError(f"{name} does not learn {key!r}")
        setattr(made, key, value)
    for key in {"y_offset_", "y_scale_"} & learned.keys():
        if not np.all(np.isfinite(learned[key])):
            raise _DamageError(f"its {key} is not a number")
    return made
