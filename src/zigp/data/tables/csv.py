"""CSV files, parsed once, as frames of text."""

import codecs
import csv
import re
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import pandas as pd
import pyarrow as pa  # type: ignore[import-untyped]

from zigp.data.tables.addresses import unpacked
from zigp.data.tables.errors import FileError, check_names, file_errors

_LONGEST_LINE = 1 << 26  # bytes: a small gzipped file could fill all memory
_NOT_TEXT = re.compile("[\0\udc80-\udcff]")  # a NUL, or a byte that is not UTF-8
_TEXT = {pa.string(): pd.StringDtype()}
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
_ROWS = 1 << 16  # in which decimal commas are looked for, where ; is the delimiter


def csv_parts(path: Path, rows: int) -> Iterator[pd.DataFrame]:
    """Yield a CSV file as frames of text of at most so many rows, every field as it stands.

    The index holds the lines on which rows begin. `attrs` name the file and the sign of decimals,
    which is a comma if some of the first rows have one and fields end in semicolons.
    """
    with file_errors("read", path), unpacked(path) as file:
        lines = _lines(path, file)
        numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
        first, header = next(numbered, (1, ""))
        outside = re.sub(r'"[^"]*("|$)', "", header)
        delimiter = max(",;\t", key=outside.count)
        records = _rows(path, delimiter, chain([header], lines), first)
        if not (head := list(islice(records, 1))):
            raise FileError(f"{path} is empty: it needs a line of column names, and rows.")
        line, *fields = head[0]
        names = [name.strip() for name in fields]
        check_names(f"{path}, line {line}", names)
        head = list(islice(records, _ROWS if delimiter == ";" else 1))
        if not head:
            raise FileError(f"{path} has a header but no rows: there is nothing to use.")
        texts = chain.from_iterable(fields for _, *fields in head)
        is_comma = delimiter == ";" and any(map(_DECIMAL_COMMA.fullmatch, texts))
        records, width = chain(head, records), 1 + len(names)
        while cells := list(chain.from_iterable(islice(records, rows))):
            begin, *columns = (pa.array(cells[i::width]) for i in range(width))
            frame = pa.table(columns, names).to_pandas(types_mapper=_TEXT.get)
            frame.index = pd.Index(begin)
            frame.attrs.update(file=str(path), decimal="," if is_comma else ".")
            yield frame


def _rows(path: Path, delimiter: str, lines: Iterator[str], line: int) -> Iterator[list[Any]]:
    """Yield rows of one width, behind the line that each begins on; skip blank lines."""
    before, width = line - 1, 0
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)
    try:
        for fields in reader:
            if fields and (width == 1 or fields != [""]):
                width = width or len(fields)
                if len(fields) != width:
                    raise FileError(
                        f"{path}, line {line}: {len(fields)} fields where the header has {width}. "
                        f"Mend the line, or quote text that has a {delimiter!r} in it."
                    )
                yield [line, *fields]
            line = before + reader.line_num + 1
    except csv.Error as error:
        what = (
            f"a field has more than {csv.field_size_limit():,} characters, which no number, time "
            "or level has. Leave its column out, or look for a quote that is not closed."
            if "field limit" in str(error)
            else "a quote is not closed, or text follows it, or lines end in a lone carriage "
            "return. Mend the line, or export the file again."
        )
        raise FileError(f"{path}, line {line}: {what}") from None


def _lines(path: Path, file: IO[bytes]) -> Iterator[str]:
    """Yield the lines of a text in UTF-8, or raise an error that names the wrong byte."""
    for number, raw in enumerate(iter(lambda: file.readline(_LONGEST_LINE + 1), b""), 1):
        if len(raw) > _LONGEST_LINE:
            raise FileError(
                f"{path}, line {number} has more than {_LONGEST_LINE:,} bytes, which no row of a "
                "table has. Export the file again as CSV."
            )
        raw = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
        line = raw.decode(errors="surrogateescape")
        if wrong := _NOT_TEXT.search(line):
            at = len(line[: wrong.start()].encode())
            raise FileError(
                f"{path}, line {number}, byte {at + 1}: 0x{raw[at]:02x} is not text in UTF-8. Save "
                "the file as UTF-8, not as UTF-16 or Latin-1."
            )
        yield line
