"""Damage to the bytes of a file."""

import codecs
import gzip
from collections.abc import Sequence
from random import Random

BINARY = ("flipped", "flipped", "cut", "inserted")
TEXT = (
    "recoded", "recoded", "marked", *("inserted",) * 4, "cut", "flipped", "flipped", "packed",
    "another kind", "nothing",
)  # fmt: skip

_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF8 * 2, codecs.BOM_UTF16_BE, b"\xef\xbb")
_ENCODINGS = ("latin-1", "utf-16", "utf-16-le", "utf-32", "cp1252", "utf-7")
_INSERTED = (
    b"\n", b",1", b",1" * 50, b"\0", b"\0" * 100, b'"', b"\r", b"\x1a", b"\xff", b"\xed\xa0\x80",
    b"\n\n\n",
    b"\x93\x00\xe4 \x01\xfe\x7f\xc3\xa9",
)  # fmt: skip
_MAGIC = (
    b"PAR1", b"CDF\x01", b"CDF\x05", b"\x89HDF\r\n\x1a\n", b"PK\3\4", b"\x80\x04",
    b"\xd0\xcf\x11\xe0", b"%PDF",
)  # fmt: skip


def spoiled(rng: Random, raw: bytes, ways: Sequence[str]) -> bytes:
    """Return the bytes with one kind of damage out of `ways`."""
    at = rng.randrange(len(raw) + 1)
    match rng.choice(ways):
        case "cut":
            return raw[:at]
        case "flipped":
            changed = bytearray(raw or b"x")
            for _ in range(rng.choice((1, 3, 30))):
                changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
            return bytes(changed)
        case "inserted":
            return raw[:at] + rng.choice(_INSERTED) + raw[at:]
        case "marked":
            return rng.choice(_MARKS) + raw
        case "recoded":
            text = raw.decode("utf-8", "replace") + rng.choice(("", "ü", "日"))
            return text.encode(rng.choice(_ENCODINGS), "replace")
        case "packed":
            whole = gzip.compress(raw, mtime=0)
            broken = spoiled(rng, whole, ("cut", "flipped"))
            return rng.choice((whole, broken, whole + b"tail", gzip.compress(whole, mtime=0)))
        case "another kind":
            return rng.choice(_MAGIC) + rng.choice((raw, b"", raw + b"PAR1", rng.randbytes(200)))
    return rng.choice((b"", b"\n", b" ", b"\n" * 50, b",,,\n", b'""\n', rng.randbytes(300)))
