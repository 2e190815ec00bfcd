"""CSV files are parsed once, as text, and columns become numbers, times and levels."""

import gzip

import numpy as np
import pandas as pd
import pytest
from table_files import error_of, put, written

from zigp.data.tables import FileError, check_columns, read, read_parts, typed
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
    monkeypatch.setattr(
        "zigp.data.tables.reading.unpacked", lambda p: opened.append(p) or p.open("rb")
    )
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
    names = [f"column {i}" for i in range(200_000)]
    check_names("wide.csv", names)  # pairs of them would take an hour
    with pytest.raises(FileError, match="two columns 'column 7'"):
        check_names("wide.csv", [*names, "column 7"])


# -- values ---------------------------------------------------------------------------------------


def as_numbers(frame: pd.DataFrame, *names: str) -> pd.DataFrame:
    return typed(frame, dict.fromkeys(names or frame.columns, "number"))


def as_times(*values: object) -> pd.Series:
    return typed(pd.DataFrame({"t": values}), {"t": "time"})["t"]


def test_numbers_of_all_types():
    frame = pd.DataFrame(
        {
            "self": [1, 2],
            "wet": pd.array([True, None], dtype="boolean"),
            "text": [" 1.5 ", None],
            "level": pd.Categorical(["1", "2"]),
            "truth": ["True", "false"],
            "nothing": [None, None],
        }
    )
    expected = [[1, 1, 1.5, 1, 1, np.nan], [2, np.nan, np.nan, 2, 0, np.nan]]
    np.testing.assert_array_equal(as_numbers(frame), expected)
    assert frame["text"].tolist()[0] == " 1.5 "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n1,x\n1,y\n", "line 3, column 'b': 'x' is not a number. Correct it"),
        ("a,b\n1,2\n\n1,n/a\n", "line 4, column 'b': 'n/a' is not a number"),
        ('a,b\n"u\nv",2\n1,?\n', "line 4, column 'b': '[?]' is not a number"),
        ("a,b\n1,1e3\n1,-inf\n", "line 3, column 'b': '-inf' is not finite"),
        ('a,b\n1,"1,5"\n', "line 2, column 'b': '1,5' is not a number"),
        ("a;b\n1,5;2\n2;1.5\n", "line 3, column 'b': '1.5' is not a number"),
        ("a;b\n1;2,5\n2;1.500\n", "line 3, column 'b': '1.500' is not a number"),
        ("a;b\n1;2,5\n2;1.500,5\n", "line 3, column 'b': '1.500,5' is not a number"),
        ("a,b\n1,2\n1,True\n", "line 3, column 'b': 'True' is not a number"),
        (
            "a,b\n1,net\n1,2020-01-01\n",
            "line 2, column 'b': 'net' is not a number, nor is any other of 2 values. Correct "
            "them, leave the column out, or name it with --time if they are times, with --category",
        ),
    ],
)
def test_text_that_is_no_number_is_an_error_with_its_line(text, message, tmp_path):
    path = put(tmp_path / "rain.csv", text)
    with pytest.raises(FileError, match=f"rain.csv, {message}"):
        as_numbers(read(path), "b")


def test_lines_are_those_of_the_file_in_later_parts_and_after_filtering(tmp_path):
    path = put(tmp_path / "rain.csv", "b\n1\n\n2\n3\nx\n")
    first, second = read_parts(path, 2)
    assert as_numbers(first, "b")["b"].tolist() == [1, 2]
    table = read(path)
    for frame in (second, table[table["b"] != "2"]):
        with pytest.raises(FileError, match="line 6, column 'b': 'x'"):
            as_numbers(frame, "b")


def test_rows_of_other_tables_are_counted_from_one(tmp_path):
    frame = pd.DataFrame({"b": ["1", "x"]})
    for table in (frame, frame.set_axis(["u", "v"])):
        with pytest.raises(FileError, match="The table, row 2, column 'b': 'x' is not a number"):
            as_numbers(table)
    path = written(tmp_path / "t.parquet", frame)
    with pytest.raises(FileError, match=r"t\.parquet, row 2, column 'b'"):
        as_numbers(read(path))


def test_gaps_are_errors_where_none_may_be(tmp_path):
    path = put(tmp_path / "t.csv", "a,b\n" + "1,2\n" * 7 + "\n1,NA\n1,3\n1,\n")
    kinds = {"a": "number", "b": "number"}
    first, second = read_parts(path, 6)
    assert len(typed(first, kinds, gaps=False)) == 6
    assert typed(second, kinds)["b"].isna().sum() == 2
    words = r"t\.csv, line 10, column 'b' is empty, as are 1 rows after it: fill it in"
    with pytest.raises(FileError, match=words):
        typed(second, kinds, gaps=False)
    with pytest.raises(FileError, match="The table, row 1, column 'b' is empty: fill it in"):
        typed(pd.DataFrame({"b": [None, "1"]}), {"b": "category"}, gaps=False)


def test_levels_are_text_and_gaps_stay_gaps(tmp_path):
    table = read(put(tmp_path / "t.csv", "gear\n01\n1\nNA\n"))
    levels = typed(table, {"gear": "category"})["gear"]
    assert list(levels.cat.categories) == ["01", "1"]
    assert levels.isna().tolist() == [False, False, True]
    numbers = pd.DataFrame({"gear": [2, 1]})
    assert typed(numbers, {"gear": "category"})["gear"].tolist() == ["2", "1"]


def test_a_column_that_is_missing_is_an_error():
    check_columns("rain.csv", ["a", "b"], ["b"])
    with pytest.raises(FileError, match=r"rain\.csv has no column 'c'\. It has a, b\.$"):
        check_columns("rain.csv", ["a", "b"], ["a", "c"])
    with pytest.raises(FileError, match=r"'c', as then\. It has a,b\. Rename columns with"):
        check_columns("rain.csv", ["a,b"], ["c"], ", as then")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([20180701, 20180630], ["2018-07-01", "2018-06-30"]),
        ([2018070113, 2018063000], ["2018-07-01 13:00", "2018-06-30"]),
        ([20180701, None], ["2018-07-01", None]),
        (["20180701", "20180630"], ["2018-07-01", "2018-06-30"]),
        ([20180701, 20180732], None),
        ([20180701.5, 20180702], None),
        ([17000101, 20180701], None),
        ([1530403200, 1530403201], None),  # seconds since 1970
        ([2018, 2019], None),
        (["1.5", "2"], None),
    ],
)
def test_integers_are_times_where_all_are_dates(values, expected):
    times = as_times(*values)
    if expected is None:
        assert times.dtype.kind != "M"
    else:
        dates = pd.Series(pd.to_datetime(expected, format="ISO8601"))
        pd.testing.assert_series_equal(times, dates, check_names=False, check_dtype=False)


def test_times_are_no_numbers():
    times = pd.DataFrame({"rain": pd.to_datetime(["2018-07-01", None], utc=True)})
    with pytest.raises(FileError, match="is not a number"):
        as_numbers(times)
    assert as_numbers(times[1:])["rain"].isna().all()
    pd.testing.assert_series_equal(typed(times, {"rain": "time"})["rain"], times["rain"])


@pytest.mark.parametrize(
    ("texts", "zone"),
    [
        (["2020-01-01", None], None),
        (["2020-01-01T12:30", "2020-01-02 01:00:00.25"], None),
        (["20200101T0600", "2020-02"], None),
        (["2020-01-01T12:00Z", "2020-01-02T12:00Z"], "UTC"),
        (["2020-01-01T12:00+02:00", "2020-07-01T12:00+02:00"], "UTC+02:00"),
        (["2020-01-01T12:00+02", "2020-07-01T12:00+03:00"], "UTC"),
    ],
)
def test_times_are_read_from_iso_8601_and_mixed_zones_are_utc(texts, zone):
    times = as_times(*texts)
    assert times.dt.tz is None if zone is None else str(times.dt.tz) == zone
    for time, text in zip(times, texts, strict=True):
        assert pd.isna(time) if text is None else time == pd.Timestamp(text)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["2020-01-01", "01.02.2020"], "line 3, column 't': '01.02.2020' is not a time. Write 20"),
        (["2020-01-01", "2020-02-30"], "line 3, column 't': '2020-02-30' is not a time"),
        (["now", "2020-01-01"], "line 2, column 't': 'now' is not a time"),
        (["2020-01-01", "12"], "line 3, column 't': '12' is not a time"),
        (["True", "False"], "line 2, column 't': 'True' is not a time"),
        (["1", "inf"], "line 3, column 't': 'inf' is not finite"),
        (["2020-01-01T00:00Z", "2020-01-01T00:00"], "line 3, column 't': .* has no zone"),
        (["2020-01-01T00:00", "2020-01-01T00:00Z"], "line 2, column 't': .* has no zone"),
    ],
)
def test_text_that_is_no_time_is_an_error_with_its_line(texts, message, tmp_path):
    path = put(tmp_path / "rain.csv", "t,x\n" + "".join(f"{text},1\n" for text in texts))
    with pytest.raises(FileError, match=f"rain.csv, {message}"):
        typed(read(path), {"t": "time"})
