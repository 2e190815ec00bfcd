"""CSV, looked at line by line before pandas sees it."""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import IO, Any

from zigp.data.tables.kinds import unpacked
from zigp.data.tables.problems import FileError

__all__ = ["MISSING", "check_names", "layout_of", "line_of"]

MISSING = ["", "NA", "NaN", "nan", "null", "None"]  # where a number, a time or a level could be

_LONGEST_LINE = 1 << 26  # bytes: what is small when packed could fill all memory
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")


def layout_of(path: Path) -> tuple[dict[str, Any], int]:
    """How a CSV file is laid out, in pandas' words, and its rows, after all of it was looked at."""
    sep, decimal = _delimiter(path), "."
    rows = _rows(path, sep)
    line, header = next(rows, (0, []))
    if not header:
        raise FileError(f"{path} is empty: it needs a line of column names, and rows.")
    names, count = [name.strip() for name in header], 0
    check_names(f"{path}, line {line}", names)
    for line, fields in rows:
        count += 1
        if len(fields) != len(names):
            raise FileError(
                f"{path}, line {line}: {len(fields)} fields where the header has {len(names)}. "
                f"Mend the line, or quote text that has a {sep!r} in it."
            )
        if sep == ";" and decimal == "." and any(map(_DECIMAL_COMMA.fullmatch, fields)):
            decimal = ","
    if not count:
        raise FileError(f"{path} has a header but no rows: there is nothing to use.")
    return {"sep": sep, "decimal": decimal, "names": names}, count


def check_names(place: str, names: list[str]) -> None:
    if "" in names:
        raise FileError(f"{place}: column {names.index('') + 1} has no name. Name it or remove it.")
    seen = set[str]()
    for name in names:
        if name in seen:
            raise FileError(f"{place}: there are two columns {name!r}. Rename or remove one.")
        seen.add(name)


def _delimiter(path: Path) -> str:
    """The delimiter that is most often in the header, outside of quotes."""
    with unpacked(path) as file:
        header = next((line for line in _lines(path, file) if line.strip()), "")
    return max(",;\t", key=re.sub(r'"[^"]*("|$)', "", header).count)


def _rows(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV file, each with the line that it begins on; blank lines are left out."""
    with unpacked(path) as file:
        lines, line, width = _lines(path, file), 1, 0
        reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)
        try:
            for fields in reader:
                if fields and (width == 1 or fields != [""]):
                    width = width or len(fields)
                    yield line, fields
                line = reader.line_num + 1
        except csv.Error as error:
            if "field limit" in str(error):
                raise FileError(
                    f"{path}, line {line}: a field has more than {csv.field_size_limit():,} "
                    "characters, which no number, time or level has. Leave its column out, or look "
                    "for a quote that is not closed."
                ) from None
            raise FileError(
                f"{path}, line {line}: a quote is not closed, or text follows it, or lines end in "
                "a lone carriage return. Mend the line, or export the file again."
            ) from None


def _lines(path: Path, file: IO[bytes]) -> Iterator[str]:
    """The lines of a text in UTF-8, or an error that says where it is none."""
    for number, raw in enumerate(iter(lambda: file.readline(_LONGEST_LINE + 1), b""), 1):
        if len(raw) > _LONGEST_LINE:
            raise FileError(
                f"{path}, line {number} has more than {_LONGEST_LINE:,} bytes, which no row of a "
                "table has. Export the file again as CSV."
            )
        if number == 1 and raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise FileError(f"{path} is text in UTF-16: save it as UTF-8.")
        raw = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
        if (at := raw.find(b"\0")) >= 0:
            raise FileError(
                f"{path}, line {number}, byte {at + 1}: a NUL, which no text has. Export the file "
                "again as CSV in UTF-8."
            )
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            at = error.start
            raise FileError(
                f"{path}, line {number}, byte {at + 1}: 0x{raw[at]:02x} is not UTF-8. Save the "
                "file as UTF-8."
            ) from None
        yield text


def line_of(path: Path, row: int) -> int:
    """The line that a row of data begins on, which blank lines and breaks within quotes shift."""
    with suppress(FileError, OSError):
        lines = (line for line, _ in _rows(path, _delimiter(path)))
        return next(islice(lines, row + 1, None), row + 2)
    return row + 2
