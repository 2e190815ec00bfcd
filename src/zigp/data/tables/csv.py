"""CSV files, parsed once, as frames of text."""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import IO

import pandas as pd
import pyarrow as pa  # type: ignore[import-untyped]

from zigp.data.tables.addresses import unpacked
from zigp.data.tables.errors import FileError, check_names, file_errors

_LONGEST_LINE = 1 << 26  # bytes: a small gzipped file could fill all memory
_TEXT = {pa.string(): pd.StringDtype()}
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
_ROWS = 1 << 16  # in which decimal commas are looked for, where ; is the delimiter


def csv_parts(path: Path, rows: int) -> Iterator[pd.DataFrame]:
    """Yield a CSV file as frames of text of at most so many rows, every field as it stands.

    The index counts the rows of the file. `attrs` name the file and the sign of decimals, which is
    a comma if some of the first rows have one and fields end in semicolons.
    """
    start = 0
    with file_errors("read", path), unpacked(path) as file:
        delimiter, records = _records(path, file)
        line, header = next(records, (0, []))
        if not header:
            raise FileError(f"{path} is empty: it needs a line of column names, and rows.")
        names = [name.strip() for name in header]
        check_names(f"{path}, line {line}", names)
        head = list(islice(records, _ROWS if delimiter == ";" else 0))
        fields = chain.from_iterable(texts for _, texts in head)
        decimal = "," if any(map(_DECIMAL_COMMA.fullmatch, fields)) else "."
        records = chain(head, records)
        while texts := list(chain.from_iterable(texts for _, texts in islice(records, rows))):
            columns = [pa.array(texts[i :: len(names)], pa.string()) for i in range(len(names))]
            frame = pa.table(columns, names).to_pandas(types_mapper=_TEXT.get)
            frame.index += start
            frame.attrs.update(file=str(path), decimal=decimal)
            start += len(frame)
            yield frame
    if not start:
        raise FileError(f"{path} has a header but no rows: there is nothing to use.")


def line_of(path: Path, row: int) -> int:
    """Return the line that a row begins on, which blank lines and quoted line breaks shift."""
    with suppress(FileError, OSError), unpacked(path) as file:
        return next(islice(_records(path, file)[1], row + 1, None), (row + 2,))[0]
    return row + 2


def _records(path: Path, file: IO[bytes]) -> tuple[str, Iterator[tuple[int, list[str]]]]:
    """Return the delimiter, and an iterator over rows and the lines that they begin on.

    The delimiter is the one that is most often in the header, outside of quotes.
    """
    lines, head = _lines(path, file), list[str]()
    for line in lines:
        head.append(line)
        if line.strip():
            break
    outside = re.sub(r'"[^"]*("|$)', "", "".join(head[-1:]))
    delimiter = max(",;\t", key=outside.count)
    return delimiter, _rows(path, delimiter, chain(head, lines))


def _rows(path: Path, delimiter: str, lines: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield rows of one width, and the line that each begins on; skip blank lines."""
    line, width = 1, 0
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
    """Yield the lines of a text in UTF-8, or raise an error that names the wrong byte."""
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
