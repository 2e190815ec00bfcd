"""CSV files are parsed once, as text; every error names the line."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pytest
from table_files import error_of, put

from zigp.data.tables import FileError, read, read_parts, typed
from zigp.data.tables.errors import check_names

MISSING = ("", "NA", "NaN", "nan", "null", "None")


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n1.5,x\n2,y\n",
        "a;b\n1.5;x\n2;y\n",
        "a\tb\n1.5\tx\n2\ty\n",
        "a;b\n1,5;x\n2;y\n",
        "\ufeffa,b\n1.5,x\n2,y\n",
        "a,b\r\n1.5,x\r\n2,y\r\n",
        "a,b\n1.5,x\n2,y",
        "\na, b \n\n1.5, x\n   \n2,y\n\n",
        '"a",b\n"1.5","x"\n2,"y"\n',
    ],
)
def test_all_usual_layouts_are_read(text, tmp_path):
    path = put(tmp_path / "t.csv", text)
    parts = list(read_parts(path, 1))
    assert [len(part) for part in parts] == [1, 1]
    pd.testing.assert_frame_equal(pd.concat(parts), read(path))
    for frames in ([read(path)], parts):
        a = [typed(frame, {"a": "number"})["a"] for frame in frames]
        assert pd.concat(a).tolist() == [1.5, 2.0]
        assert pd.concat(frames)["b"].tolist() == ["x", "y"]


@pytest.mark.parametrize("reader", [read, lambda path: list(read_parts(path, 100))])
def test_a_file_is_parsed_once(reader, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("zigp.data.tables.csv.unpacked", lambda p: opened.append(p) or p.open("rb"))
    path = put(tmp_path / "t.csv", "a;b\n" + "1;2\n" * 1000)
    reader(path)
    assert opened == [path]


def test_every_field_stays_as_it_stands(tmp_path):
    path = put(tmp_path / "t.csv", '"rain, mm, daily",id,note\n1.50,00000,"a, b"\nNA, 01,""\n')
    for table in (read(path), next(read_parts(path, 9))):
        assert table["rain, mm, daily"].tolist() == ["1.50", "NA"]
        assert table["id"].tolist() == ["00000", "01"]
        assert table["note"].tolist() == ["a, b", ""]


def test_a_comma_in_text_is_no_decimal_comma(tmp_path):
    table = read(put(tmp_path / "t.csv", "a;b\n1.5;x,y\n"))
    assert typed(table, {"a": "number"})["a"].tolist() == [1.5]
    assert table["b"].tolist() == ["x,y"]


def test_a_decimal_comma_far_down_counts_for_all_parts(tmp_path):
    path = put(tmp_path / "t.csv", "a;b\n1;1\n2;1\n3,5;1\n4.5;1\n")
    *parts, last = read_parts(path, 1)
    numbers = [typed(part, {"a": "number"})["a"].item() for part in parts]
    assert numbers == [1.0, 2.0, 3.5]
    with pytest.raises(FileError, match=r"line 5, column 'a': '4\.5' is not a number"):
        typed(last, {"a": "number"})


def test_few_texts_stand_for_gaps(tmp_path):
    rows = "".join(f"{gap},{gap},1\n" for gap in MISSING)
    table = read(put(tmp_path / "t.csv", f"x,place,z\n{rows}2,#N/A,1\n#3,n/a,1\n"))
    places = typed(table, {"place": "category"})["place"]
    assert places.isna().tolist() == [True] * 6 + [False] * 2
    assert places.tolist()[6:] == ["#N/A", "n/a"]
    assert np.isnan(typed(table[:6], {"x": "number"})["x"]).all()
    with pytest.raises(FileError, match="line 9, column 'x': '#3' is not a number"):
        typed(table, {"x": "number"})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty: it needs a line of column names"),
        (b"\n \n", "is empty: it needs a line of column names"),
        (gzip.compress(b"", mtime=0), "is empty"),
        (b"a,b\n", "has a header but no rows"),
        (b"a,b\n\n", "has a header but no rows"),
        (b"a,b,a\n1,2,3\n", "line 1: there are two columns 'a'. Rename or remove one."),
        (b"a, a\n1,2\n", "line 1: there are two columns 'a'"),
        (b"a,,b\n1,2,3\n", "line 1: column 2 has no name"),
        (b"\na,b,\n1,2,3\n", "line 2: column 3 has no name"),
        (b"a,b\n1,2\n1,2,3\n", "line 3: 3 fields where the header has 2. Mend the line"),
        (b"a,b\n1,2\n\n1\n", "line 4: 1 fields where the header has 2"),
        (b'a,b\n"x\ny",2\n1\n', "line 4: 1 fields where the header has 2"),
        (b"a;b\n1;2\n1\n", "quote text that has a ';' in it"),
        (b'a,b\n1,2\n"x,2\n3,4\n', "line 3: a quote is not closed"),
        (b"a,b\n1,2\n3," + b"x" * 200_000 + b"\n", "line 3: a field has more than 131,072 char"),
        (b'a,b\n1,"x"y\n', "line 2: a quote is not closed, or text follows it"),
        (
            b"a,b\r1,2\r",
            "line 1: a quote is not closed, or text follows it, or lines end in a lone",
        ),
        (
            "a,b\n1,Ås\n".encode("latin-1"),
            "line 2, byte 3: 0xc5 is not text in UTF-8. Save the file as",
        ),
        ("a,Å\n1,2\n".encode("latin-1"), "line 1, byte 3: 0xc5 is not text in UTF-8"),
        (b"a,b\n1,2\n1,\x002\n", "line 3, byte 3: 0x00 is not text in UTF-8"),
        (
            "a,b\n1,2\n".encode("utf-16"),
            "line 1, byte 1: 0xff is not text in UTF-8. Save the file as UTF-8, not as UTF-16",
        ),
        ("a,b\n1,2\n".encode("utf-16-be"), "line 1, byte 1: 0x00 is not text in UTF-8"),
        (gzip.compress(b"a,b\n" + b"1,2\n" * 9999, mtime=0)[:-20], "Check that the file is whole"),
        (gzip.compress(b"a,b\n1,2\n", mtime=0)[:12], "Check that the file is whole"),
        (gzip.compress(b"a,b\n1,2\n", mtime=0)[:-8] + bytes(8), "Check that the file is whole"),
    ],
)
def test_errors_in_csv_name_the_place(content, message, tmp_path):
    assert message in error_of(put(tmp_path / "rain.csv", content))


def test_an_error_far_down_is_found_after_the_parts_before_it(tmp_path):
    parts = read_parts(put(tmp_path / "t.csv", "a\n" + "1\n" * 70_000 + "1,2\n"), 1000)
    assert len(next(parts)) == 1000
    with pytest.raises(FileError, match="line 70002: 2 fields where the header has 1"):
        list(parts)


def test_names_of_columns_are_each_looked_at_once():
    """A header of a few MB has millions of them."""
    looks = []

    class Name(str):
        __hash__ = str.__hash__

        def __eq__(self, other):
            looks.append(other)
            return str.__eq__(self, other)

    names = [Name(f"column {i}") for i in range(500)]
    check_names("wide.csv", names)
    assert len(looks) < 10 * len(names)
    with pytest.raises(FileError, match="two columns 'column 7'"):
        check_names("wide.csv", [*names, Name("column 7")])
