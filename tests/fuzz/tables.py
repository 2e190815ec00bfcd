"""Tables that are wrong in every way that somebody thought of."""

from __future__ import annotations

import codecs
import gzip
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from .material import Dice, hauls, odd_name, odd_text, put_model, rain

__all__ = ["csv", "parquet", "use_of_table"]


_ROLES = (
    "--inputs lat,lon,hour",
    "--space lat,lon --time hour",
    "--inputs lat,lon --time hour",
    "--inputs lat --category lon --time hour",
    "--inputs lat,lon --exposure hour",
    "",
)


def use_of_table(rng: Dice, folder: Path, data: str) -> list[str]:
    """A command that reads a table."""
    what = rng.random() * (0.8 if rng.quick else 1.0)
    out = rng.choice(("p.csv", "p.csv", "p.csv.gz", "p.tsv", "p.parquet", "-"))
    if what < 0.45:
        others = ("plain", "class", "hurdle", "network", "hauls", "hauls")
        of = rng.choice(("ready",) * 6 + others * (not rng.quick))
        more = ["--chunk-rows", str(rng.choice((1, 5)))] if rng.random() < 0.3 else []
        return ["predict", put_model(folder, of), data, "--out", out, *more]
    if 0.45 < what < 0.5 and not rng.quick:
        return f"simulate --model {put_model(folder)} --data {data} --draws 2 --out {out}".split()
    if what < 0.8:
        roles = rng.choice(_ROLES)
        return f"evaluate {data} --target rain_mm {roles} --models zero --cv 2".split()
    if what < 0.81:
        return f"report {put_model(folder)} --data {data} --quick --out r.html".split()
    small = f"--steps 1 --inducing 3 --model {rng.choice(('gp', 'gp', 'zigp'))} --quiet"
    return f"fit {data} --target rain_mm {_ROLES[0]} {small} --out m.zigp".split()


# ---------------------------------------------------------------------------------------------
# CSV


def csv(rng: Dice, folder: Path) -> list[str]:
    table = (rain() if rng.random() < 0.9 else hauls()).astype(str)
    rows = [list(table.columns), *table.to_numpy().tolist()]
    rows = [[*row] for row in rows]
    for spoil in rng.sample(_CELLS, rng.choice((0, 1, 1, 2))):
        with suppress(ValueError, IndexError):  # of a table that has nothing left to spoil
            spoil(rng, rows)
    delimiter, end = rng.choice(",,,,;\t|"), rng.choice(("\n", "\n", "\n", "\r\n", "\r"))
    quoted = rng.choice((_as_needed, _as_needed, _always, _never))
    text = end.join(delimiter.join(quoted(field, delimiter) for field in row) for row in rows)
    raw = (text + end * rng.choice((0, 1, 1, 1, 5))).encode("utf-8", "surrogatepass")
    if rng.random() < 0.35:
        raw = rng.choice(_BYTES)(rng, raw)
    (folder / "data.csv").write_bytes(raw)
    return use_of_table(rng, folder, "data.csv")


def _as_needed(field: str, delimiter: str) -> str:
    return (
        _always(field, delimiter)
        if any(c in field for c in (delimiter, '"', "\n", "\r"))
        else field
    )


def _always(field: str, delimiter: str) -> str:
    return '"' + field.replace('"', '""') + '"'


def _never(field: str, delimiter: str) -> str:
    return field


def _some_cells(rng: Random, rows: list[list[str]]) -> None:
    for _ in range(rng.choice((1, 1, 3, 20))):
        row = rows[rng.randrange(1, len(rows))] if len(rows) > 1 else rows[0]
        if row:
            row[rng.randrange(len(row))] = odd_text(rng)


def _a_whole_column(rng: Random, rows: list[list[str]]) -> None:
    at, same = rng.randrange(len(rows[0])), odd_text(rng)
    for row in rows[1:]:
        if at < len(row):
            row[at] = same if rng.random() < 0.9 else odd_text(rng)


def _a_column_more(rng: Random, rows: list[list[str]]) -> None:
    name = rng.choice((odd_name(rng), "", rows[0][0], "mean", "note"))
    for i, row in enumerate(rows):
        row.append(odd_text(rng) if i else name)


def _a_column_renamed(rng: Random, rows: list[list[str]]) -> None:
    rows[0][rng.randrange(len(rows[0]))] = odd_name(rng)


def _a_column_less(rng: Random, rows: list[list[str]]) -> None:
    at = rng.randrange(len(rows[0]))
    for row in rows:
        del row[at : at + 1]


def _ragged(rng: Random, rows: list[list[str]]) -> None:
    row = rng.choice(rows)
    row.extend(["1"] * rng.choice((1, 2, 50))) if rng.random() < 0.5 else row.clear()


def _few_rows(rng: Random, rows: list[list[str]]) -> None:
    del rows[rng.choice((0, 1, 2, 3)) :]
    rows.extend([] if rows else [[]])


def _many_columns(rng: Random, rows: list[list[str]]) -> None:
    for i, row in enumerate(rows):
        row.extend(f"c{k}" if i == 0 else "1" for k in range(1000))


def _a_huge_field(rng: Random, rows: list[list[str]]) -> None:
    rows[rng.randrange(len(rows))][0:1] = [
        rng.choice(("x", "9", "ä ")) * rng.choice((10_000, 300_000))
    ]


_CELLS: list[Callable[[Random, list[list[str]]], None]] = [
    _some_cells, _some_cells, _some_cells, _a_whole_column, _a_whole_column, _a_column_more,
    _a_column_renamed, _a_column_less, _ragged, _few_rows, _many_columns, _a_huge_field,
]  # fmt: skip


def _recoded(rng: Random, raw: bytes) -> bytes:
    text = raw.decode("utf-8", "replace") + rng.choice(("", "ü", "日"))
    return text.encode(
        rng.choice(("latin-1", "utf-16", "utf-16-le", "utf-32", "cp1252", "utf-7")), "replace"
    )


def _marked(rng: Random, raw: bytes) -> bytes:
    return (
        rng.choice((codecs.BOM_UTF8, codecs.BOM_UTF8 * 2, codecs.BOM_UTF16_BE, b"\xef\xbb")) + raw
    )


def _inserted(rng: Random, raw: bytes) -> bytes:
    at = rng.randrange(len(raw) + 1)
    new = rng.choice(
        (
            b"\0",
            b"\0" * 100,
            b'"',
            b"\r",
            b"\x1a",
            b"\xff",
            b"\xed\xa0\x80",
            b"\n\n\n",
            rng.randbytes(9),
        )
    )
    return raw[:at] + new + raw[at:]


def _cut(rng: Random, raw: bytes) -> bytes:
    return raw[: rng.randrange(len(raw) + 1)]


def _flipped(rng: Random, raw: bytes) -> bytes:
    changed = bytearray(raw or b"x")
    for _ in range(rng.choice((1, 3, 30))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _packed(rng: Random, raw: bytes) -> bytes:
    whole = gzip.compress(raw, mtime=0)
    return rng.choice(
        (
            whole,
            _cut(rng, whole),
            _flipped(rng, whole),
            whole + b"tail",
            gzip.compress(whole, mtime=0),
        )
    )


def _of_another_kind(rng: Random, raw: bytes) -> bytes:
    magic = (
        b"PAR1",
        b"CDF\x01",
        b"CDF\x05",
        b"\x89HDF\r\n\x1a\n",
        b"PK\3\4",
        b"\x80\x04",
        b"\xd0\xcf\x11\xe0",
        b"%PDF",
    )
    return rng.choice(magic) + rng.choice((raw, b"", raw + b"PAR1", rng.randbytes(200)))


def _nothing(rng: Random, raw: bytes) -> bytes:
    return rng.choice((b"", b"\n", b" ", b"\n" * 50, b",,,\n", b'""\n', rng.randbytes(300)))


_BYTES: list[Callable[[Random, bytes], bytes]] = [
    _recoded, _recoded, _marked, _inserted, _inserted, _cut, _flipped, _flipped, _packed,
    _of_another_kind, _nothing,
]  # fmt: skip


# ---------------------------------------------------------------------------------------------
# Parquet

_TYPES: list[tuple[pa.DataType, Callable[[Random], object]]] = [
    (pa.float64(), lambda r: r.choice((0.5, float("nan"), float("inf"), 1e308, -0.0, 5e-324))),
    (pa.float16(), lambda r: r.choice((0.5, float("inf"), 65504.0))),
    (pa.int8(), lambda r: r.randrange(-128, 128)),
    (pa.int64(), lambda r: r.choice((0, 2**63 - 1, -(2**63), 20200101))),
    (pa.uint64(), lambda r: r.choice((0, 2**64 - 1))),
    (pa.bool_(), lambda r: r.random() < 0.5),
    (pa.string(), odd_text),
    (pa.large_string(), odd_text),
    (pa.string_view(), odd_text),
    (pa.binary(), lambda r: r.randbytes(r.randrange(9))),
    (pa.decimal128(20, 3), lambda r: Decimal(r.randrange(10**6)) / 1000),
    (pa.decimal256(60, 3), lambda r: Decimal(10) ** r.randrange(40)),
    (pa.date32(), lambda r: r.randrange(-10**6, 10**6)),
    (pa.timestamp("ns"), lambda r: r.choice((0, 2**62, -(2**62)))),
    (pa.timestamp("s", "UTC"), lambda r: r.choice((0, 10**11, -(10**11)))),
    (pa.timestamp("us", "+07:30"), lambda r: r.randrange(10**15)),
    (pa.time64("us"), lambda r: r.randrange(10**10)),
    (pa.duration("ms"), lambda r: r.randrange(-10**6, 10**6)),
    (pa.list_(pa.float64()), lambda r: [1.0] * r.randrange(3)),
    (pa.struct([("a", pa.int64())]), lambda r: {"a": 1}),
    (pa.map_(pa.string(), pa.int64()), lambda r: [("a", 1)]),
    (pa.dictionary(pa.int8(), pa.string()), lambda r: r.choice("abc")),
    (pa.dictionary(pa.int8(), pa.float64()), lambda r: r.choice((1.0, 2.5))),
    (pa.null(), lambda r: None),
]  # fmt: skip


def parquet(rng: Dice, folder: Path) -> list[str]:
    table = pa.Table.from_pandas(rain() if rng.random() < 0.8 else hauls(), preserve_index=False)
    columns = dict(zip(table.column_names, table.columns, strict=True))
    for _ in range(rng.choice((0, 1, 1, 2))):
        name = rng.choice((*columns, odd_name(rng), "note"))
        columns[name] = _column(rng, len(table))
    names = list(columns)
    if rng.random() < 0.1:
        names[rng.randrange(len(names))] = rng.choice(
            ("", names[0], odd_name(rng), "__index_level_0__")
        )
    made = pa.table(list(columns.values()), names=names)
    if rng.random() < 0.1:
        made = made.slice(0, rng.choice((0, 1, 2)))
    if rng.random() < 0.1:
        made = made.replace_schema_metadata(
            {"pandas": rng.choice(("{}", "[", '{"columns": 3}', "null"))}
        )
    path = folder / "data.parquet"
    pq.write_table(made, path)
    if rng.random() < 0.3:
        spoil = rng.choice((_flipped, _flipped, _cut, _inserted))
        path.write_bytes(spoil(rng, path.read_bytes()))
    return use_of_table(rng, folder, path.name)


def _column(rng: Random, rows: int) -> pa.Array:
    kind, value = rng.choice(_TYPES)
    gaps = rng.choice((0.0, 0.0, 0.3, 1.0))
    return pa.array([None if rng.random() < gaps else value(rng) for _ in range(rows)], kind)
