"""Model files that were damaged, or forged with knowledge of the format."""

import json
import math
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from .damage import BINARY, spoiled
from .material import Dice, hauls, model_file, odd_text, rain

_DEEP = {"@50@": 50, "@5000@": 5000}  # stand for so many nested lists, which json cannot write
_DAMAGE = ("bytes",) * 4 + ("spliced", "longer", "header", "data", "data") + ("signed",) * 6
_SORTS = ("ready", "ready", "plain", "class", "hurdle", "network", "hauls", "cube")


def damaged(rng: Dice, folder: Path) -> Path:
    """Write a model file with changed bytes, header or tensors, signed again or not."""
    sort, other = ("ready", "ready") if rng.quick else rng.choices(_SORTS, k=2)
    raw = model_file(sort).read_bytes()
    header, outer, data = parts_of(raw)
    match rng.choice(_DAMAGE):
        case "bytes":
            raw = spoiled(rng, raw, BINARY)
        case "spliced":
            rest, at = model_file(other).read_bytes(), rng.randrange(len(raw))
            raw = raw[:at] + rest[rng.choice((at, rng.randrange(len(rest)))) :]
        case "longer":
            said = int.from_bytes(raw[:8], "little") + 1
            length = rng.choice((0, 1, 2**63, 2**64 - 1, len(raw), 10**9, said))
            raw = length.to_bytes(8, "little") + raw[8:]
        case "header":
            raw = joined(_forge(rng, header, outer, flipped=0.3), outer, data)
        case "signed":
            raw = signed(_forge(rng, header, outer, flipped=0.3), outer, data)
        case "data":
            flipped = spoiled(rng, data, ("flipped",))
            raw = signed(header, outer, rng.choice((flipped, flipped, _numbers(rng, data))))
    (hauls() if sort == "hauls" else rain()).to_csv(folder / "data.csv", index=False)
    (folder / "m.zigp").write_bytes(raw)
    return folder / "m.zigp"


# -- the parts of a file --------------------------------------------------------------------------


def parts_of(raw: bytes) -> tuple[dict, dict, bytes]:
    """Return zigp's header of a model file, the header of its tensors, and their bytes."""
    length = int.from_bytes(raw[:8], "little")
    outer = json.loads(raw[8 : 8 + length])
    return json.loads(outer["__metadata__"]["zigp"]), outer, raw[8 + length :]


def joined(header: dict, outer: dict, data: bytes) -> bytes:
    """Return the file with these parts."""
    outer["__metadata__"] = {"zigp": _text(header)}
    text = json.dumps(outer, separators=(",", ":")).encode()
    return len(text).to_bytes(8, "little") + text + data


def signed(header: dict, outer: dict, data: bytes) -> bytes:
    """Return the file with these parts and a digest that agrees with them, if one can be made."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    from zigp.runtime.digest import digest

    with suppress(SafetensorError, ValueError, KeyError, OverflowError, RecursionError):
        read = json.loads(_text(header))  # with the nested lists in place
        header["digest"] = digest(read, load(joined(header, outer, data)))
    return joined(header, outer, data)


def _text(header: dict) -> str:
    text = json.dumps(header)
    for mark, levels in _DEEP.items():
        text = text.replace(f'"{mark}"', '{"list":[' * levels + "1" + "]}" * levels)
    return text


# -- damage ---------------------------------------------------------------------------------------


def _numbers(rng: Dice, data: bytes) -> bytes:
    """Put numbers that no fit leaves into one place, or into all from there on."""
    odd = rng.choice((math.nan, math.inf, -math.inf, 0.0, -1.0, 1e300, 1e-300))
    first = rng.randrange(len(data) // 8)
    last = rng.choice((first + 1, len(data) // 8))
    return data[: 8 * first] + struct.pack("<d", odd) * (last - first) + data[8 * last :]


_FORGERIES = (
    *("anything",) * 5, *("swapped",) * 3, *("removed",) * 2, *("attribute",) * 5, "head", "head",
    *("tensor",) * 4, "tensors", "tensors",
)  # fmt: skip
_ATTRIBUTES = (
    "__class__", "__dict__", "__init__", "predict", "fit", "noise_", "x\0", "../../x", "colour",
    "self",
)  # fmt: skip


def _forge(rng: Dice, header: dict, outer: dict, *, flipped: float = 0.0) -> dict:
    """Change one thing in a header, or flip bits such that it is still JSON."""
    if rng.random() < flipped:
        with suppress(ValueError):
            text = json.dumps(header, ensure_ascii=False).encode()
            changed = json.loads(spoiled(rng, text, ("flipped",)))
            return changed if isinstance(changed, dict) else header
    names = [name for name in outer if name != "__metadata__"]
    one, other = rng.choices(names, k=2)
    (a, i), (b, j) = rng.choices(list(_places(header)), k=2)
    value = rng.choice((*_VALUES, *_DEEP, odd_text(rng)))  # does not belong into a header
    match rng.choice(_FORGERIES):
        case "anything":
            a[i] = value
        case "swapped":
            b[j], a[i] = json.loads(json.dumps([a[i], b[j]]))
        case "removed":
            del a[i]
        case "attribute":
            part = header["content"][rng.choice(("learned", "learned", "settings"))]
            part[rng.choice((*part, *_ATTRIBUTES))] = value
        case "head":
            header[rng.choice(tuple(header))] = value
        case "tensor":
            key = rng.choice(tuple(_TENSOR))
            outer[one][key] = rng.choice(_TENSOR[key])
        case "tensors":
            entry, odd = outer.pop(one), rng.choice(("../../x", "/etc/passwd", "", "x" * 9999))
            source = outer.get(other, entry)
            outer |= rng.choice(({one: source}, {one: source, other: entry}, {odd: entry}, {}))
    return header


def _places(tree: dict | list) -> Iterator[tuple]:
    """Yield every container in a tree with each of its keys."""
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        yield tree, key
        if isinstance(value, (dict, list)):
            yield from _places(value)


_VALUES = (
    None, True, 0, -1, 1, 10**30, 1e308, -1.5, "", "x", [], {}, [1, 2],
    {"a": 1}, {"float": "nan"}, {"float": "inf"}, {"float": "one"}, {"float": [1]},
    {"array": "0"}, {"array": "999"}, {"array": 5}, {"array": "../../etc/passwd"},
    {"tuple": []}, {"tuple": [1, 2, 3]}, {"tuple": 5}, {"list": ["a"]}, {"list": "abc"},
    {"dict": []}, {"dict": [[1]]}, {"dict": [[{"list": []}, 1]]}, {"dict": 5},
    {"texts": ["a", "b"], "object": True}, {"texts": [[1], 2], "object": False},
    {"texts": "abc", "object": False},
    {"texts": ["x" * 100_000, *[""] * 100_000], "object": False},
    {"is": "os.system", "with": {"command": "touch x"}},
    {"is": "kernels.Matern32", "with": {}}, {"is": ["a"], "with": {}},
    {"is": "columns.Table", "with": 5},
    {"estimator": "subprocess.Popen", "settings": {"args": "touch x"}, "learned": {}},
    {"estimator": "SparseGPRegressor", "settings": {}, "learned": {}},
    {"estimator": "SparseGPRegressor", "settings": {}, "learned": {"__class__": 1}},
    {"call": "print"}, {"py/object": "os.system"}, {"__reduce__": ["os.system", ["touch x"]]},
)  # fmt: skip
_TENSOR = {
    "shape": (
        [10**12], [2**62, 2**62], [-1], [1.5], ["a"], "x", [], [0], [1] * 100, [[1]], None,
        [3, 3, 3],
    ),
    "data_offsets": (
        [0, 2**63], [-8, 8], [8, 0], [0], [], "x", [0, 0], [0, 10**15], [1.5, 2], None, [0, "8"],
    ),
    "dtype": ("F64", "I8", "BF16", "F8_E4M3", "BOOL", "object", "O", 5, None, "U64", "C64"),
}  # fmt: skip
