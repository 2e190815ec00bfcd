"""Model files that were damaged, or forged by somebody who knows how they are made."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from .material import Dice, hauls, model_file, odd_text, rain
from .tables import _cut, _flipped, _inserted

__all__ = ["damaged", "forged", "joined", "parts_of", "signed"]

_DEEP = {"@50@": 50, "@5000@": 5000}  # stand for lists in lists, so many, which json cannot write
_SORTS = ("ready", "ready", "plain", "class", "hurdle", "network", "hauls", "cube")


def damaged(rng: Dice, folder: Path) -> list[str]:
    """A file that was changed on its way, as files are: its digest tells, or was made to agree."""
    sort, raw = _sound(rng)
    how = rng.random()
    if how < 0.4:
        spoil = rng.choice((_flipped, _flipped, _cut, _inserted, _spliced, _longer))
        return _use(rng, folder, sort, spoil(rng, raw))
    header, outer, data = parts_of(raw)
    if how < 0.5:
        return _use(rng, folder, sort, joined(*_header_changed(rng, header, outer), data))
    if how < 0.75:
        header, outer = _header_changed(rng, header, outer)
    else:
        data = rng.choice((_flipped, _flipped, _numbers))(rng, data)
    return _use(rng, folder, sort, signed(header, outer, data))


def _header_changed(
    rng: Dice, header: dict[str, Any], outer: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """With something in it that does not belong there, or with flipped bits that are JSON still."""
    if rng.random() < 0.5:
        rng.choice(_FORGED)(rng, header, outer)
        return header, outer
    text = json.dumps(header, ensure_ascii=False).encode()
    for _ in range(20):
        with suppress(ValueError):
            changed = json.loads(_flipped(rng, text))
            return (changed if isinstance(changed, dict) else header), outer
    return header, outer


def _numbers(rng: Random, data: bytes) -> bytes:
    """Tensors with numbers in them that no fit leaves."""
    odd = rng.choice((math.nan, math.inf, -math.inf, 0.0, -1.0, 1e300, 1e-300))
    first = rng.randrange(len(data) // 8)
    last = rng.choice((first + 1, len(data) // 8))
    return data[: 8 * first] + struct.pack("<d", odd) * (last - first) + data[8 * last :]


def forged(rng: Dice, folder: Path) -> list[str]:
    """A file by somebody who knows how they are made, and has made its digest agree."""
    sort, raw = _sound(rng)
    header, outer, data = parts_of(raw)
    rng.choice(_FORGED)(rng, header, outer)
    return _use(rng, folder, sort, signed(header, outer, data))


def _sort(rng: Dice) -> str:
    return "ready" if rng.quick else rng.choice(_SORTS)


def _sound(rng: Dice) -> tuple[str, bytes]:
    sort = _sort(rng)
    return sort, model_file(sort).read_bytes()


def _use(rng: Dice, folder: Path, sort: str, raw: bytes) -> list[str]:
    """A command that reads a model."""
    (folder / "m.zigp").write_bytes(raw)
    if (what := rng.random() * (0.9 if rng.quick else 1.0)) < 0.5:
        return ["info", "m.zigp", *rng.choice(([], ["--json"]))]
    (hauls() if sort == "hauls" else rain()).to_csv(folder / "data.csv", index=False)
    if what < 0.9:
        return ["predict", "m.zigp", "data.csv", "--out", "p.csv"]
    if what < 0.98:
        more = ["--data", "data.csv", "--draws", "2", "--out", "p.csv"]
        return ["simulate", "--model", "m.zigp", *more]
    return ["report", "m.zigp", "--data", "data.csv", "--quick", "--out", "r.html"]


def parts_of(raw: bytes) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    """What a file says of its estimator, what it says of its tensors, and these."""
    length = int.from_bytes(raw[:8], "little")
    outer = json.loads(raw[8 : 8 + length])
    return json.loads(outer["__metadata__"]["zigp"]), outer, raw[8 + length :]


def joined(header: Any, outer: dict[str, Any], data: bytes) -> bytes:
    """A file of these parts."""
    outer["__metadata__"] = {"zigp": _written(header)}
    text = json.dumps(outer, separators=(",", ":")).encode()
    return len(text).to_bytes(8, "little") + text + data


def signed(header: dict[str, Any], outer: dict[str, Any], data: bytes) -> bytes:
    """A file of these parts with a digest that agrees with them, if there can be one."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    from zigp.runtime.digest import digest

    with suppress(SafetensorError, ValueError, KeyError, OverflowError, RecursionError):
        said = json.loads(_written(header))  # as it will be read, with marks for lists filled in
        header["digest"] = digest(said, load(joined(header, outer, data)))
    return joined(header, outer, data)


def _written(header: Any) -> str:
    text = json.dumps(header)
    for mark, levels in _DEEP.items():
        text = text.replace(f'"{mark}"', _nested(levels))
    return text


def _spliced(rng: Dice, raw: bytes) -> bytes:
    other = model_file(_sort(rng)).read_bytes()
    at = rng.randrange(len(raw))
    return raw[:at] + other[at if rng.random() < 0.5 else rng.randrange(len(other)) :]


def _longer(rng: Random, raw: bytes) -> bytes:
    length = rng.choice(
        (0, 1, 2**63, 2**64 - 1, len(raw), 10**9, int.from_bytes(raw[:8], "little") + 1)
    )
    return length.to_bytes(8, "little") + raw[8:]


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every container of a tree, and the keys in it."""
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in pairs:
        yield tree, key
        if isinstance(value, (dict, list)):
            yield from _places(value)


def _nested(levels: int) -> str:
    return '{"list":[' * levels + "1" + "]}" * levels


def _value(rng: Random) -> Any:
    """Something that does not belong here."""
    return rng.choice(
        (
            None, True, 0, -1, 1, 10**30, 1e308, -1.5, "", "x", odd_text(rng), [], {}, [1, 2],
            {"a": 1}, {"float": "nan"}, {"float": "inf"}, {"float": "one"}, {"float": [1]},
            {"array": "0"}, {"array": "999"}, {"array": 5}, {"array": "../../etc/passwd"},
            {"tuple": []}, {"tuple": [1, 2, 3]}, {"tuple": 5}, {"list": ["a"]}, {"list": "abc"},
            {"dict": []}, {"dict": [[1]]}, {"dict": [[{"list": []}, 1]]}, {"dict": 5},
            {"texts": ["a", "b"], "object": True}, {"texts": [[1], 2], "object": False},
            {"texts": "abc", "object": False}, {"is": "os.system", "with": {"command": "touch x"}},
            {"is": "kernels.Matern32", "with": {}}, {"is": ["a"], "with": {}},
            {"is": "columns.Table", "with": 5},
            {"estimator": "subprocess.Popen", "settings": {"args": "touch x"}, "learned": {}},
            {"estimator": "SparseGPRegressor", "settings": {}, "learned": {}},
            {"estimator": "SparseGPRegressor", "settings": {}, "learned": {"__class__": 1}},
            {"call": "print"}, {"py/object": "os.system"},
            {"__reduce__": ["os.system", ["touch x"]]},
            *_DEEP,
        )
    )  # fmt: skip


def _anything(rng: Random, header: dict[str, Any], outer: dict[str, Any]) -> None:
    for _ in range(rng.choice((1, 1, 3))):
        container, key = rng.choice(list(_places(header)))
        container[key] = _value(rng)


def _swapped(rng: Random, header: dict[str, Any], outer: dict[str, Any]) -> None:
    places = list(_places(header["content"]))
    (a, i), (b, j) = rng.choice(places), rng.choice(places)
    copied = json.loads(json.dumps([a[i], b[j]]))
    a[i], b[j] = copied[1], copied[0]


def _removed(rng: Random, header: dict[str, Any], outer: dict[str, Any]) -> None:
    container, key = rng.choice(list(_places(header)))
    del container[key]


def _learned(rng: Random, header: dict[str, Any], outer: dict[str, Any]) -> None:
    learned = header["content"]["learned"]
    more = (
        "__class__",
        "__dict__",
        "predict",
        "fit",
        "_over_rows",
        "x\0",
        "../../x",
        "noise_",
        "__init__",
    )
    learned[rng.choice((*learned, *more))] = _value(rng)


def _settings(rng: Random, header: dict[str, Any], outer: dict[str, Any]) -> None:
    settings = header["content"]["settings"]
    settings[rng.choice((*settings, "colour", "self", "__class__"))] = _value(rng)


def _tensors(rng: Random, header: dict[str, Any], outer: dict[str, Any]) -> None:
    entry = outer[rng.choice([name for name in outer if name != "__metadata__"])]
    key = rng.choice(("shape", "data_offsets", "dtype"))
    odd: dict[str, tuple[Any, ...]] = {
        "shape": (
            [10**12], [2**62, 2**62], [-1], [1.5], ["a"], "x", [], [0], [1] * 100, [[1]], None,
            [3, 3, 3],
        ),
        "data_offsets": (
            [0, 2**63], [-8, 8], [8, 0], [0], [], "x", [0, 0], [0, 10**15], [1.5, 2], None,
            [0, "8"],
        ),
        "dtype": ("F64", "I8", "BF16", "F8_E4M3", "BOOL", "object", "O", 5, None, "U64", "C64"),
    }  # fmt: skip
    entry[key] = rng.choice(odd[key])


def _other_tensors(rng: Random, header: dict[str, Any], outer: dict[str, Any]) -> None:
    names = [name for name in outer if name != "__metadata__"]
    a, b = rng.choice(names), rng.choice(names)
    action = rng.randrange(4)
    if action == 0:
        outer[a], outer[b] = outer[b], outer[a]
    elif action == 1:
        outer[a] = dict(outer[b])
    elif action == 2:
        del outer[a]
    else:
        outer[rng.choice(("../../x", "/etc/passwd", "", "x" * 9999))] = dict(outer[a])


def _head(rng: Random, header: dict[str, Any], outer: dict[str, Any]) -> None:
    key = rng.choice(("format", "library", "estimator", "columns", "trained", "content", "digest"))
    header[key] = _value(rng)


def _wide_texts(rng: Random, header: dict[str, Any], outer: dict[str, Any]) -> None:
    texts = ["x" * 100_000, *[""] * 100_000]
    header["content"]["learned"]["classes_"] = {"texts": texts, "object": False}


_FORGED: list[Callable[[Random, dict[str, Any], dict[str, Any]], None]] = [
    *[_anything] * 4, *[_swapped] * 3, *[_removed] * 2, *[_learned] * 3, *[_settings] * 2,
    *[_tensors] * 4, *[_other_tensors] * 2, *[_head] * 2, _wide_texts,
]  # fmt: skip
