"""Tables and lattices on disk: what is written comes back, and every mistake is told."""

from __future__ import annotations

import errno
import gzip
import io
import os
import pickle
import stat
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import cftime
import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray as xr
import zarr
from safetensors.numpy import save_file

from zigp import open_stream
from zigp.data import tables
from zigp.data.tables import FileError, as_numbers, as_times, kind_of, read, read_parts, writing
from zigp.data.tables.text import check_names
from zigp.runtime.atomic import replacing

HAS_HDF5 = find_spec("h5py") is not None
HDF5 = b"\x89HDF\r\n\x1a\n"
FRAME = pd.DataFrame(
    {
        "rain": [0.0, 0.1 + 0.2, np.nan, 1e-300],
        "count": [1, 2, 3, 4],
        "wet": [False, True, False, True],
        "seen": pd.array([True, None, False, None], dtype="boolean"),
        "place": ["Ås", "New York, NY", None, 'a "b"\nc; d'],
    }
)
LATTICE = xr.Dataset(
    {"rain": (("time", "x"), np.arange(6.0).reshape(3, 2) / 7)},
    {"time": pd.date_range("2020-01-01", periods=3, freq="h"), "x": [0.5, 1.5]},
)


def put(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def written(path: Path, frame: pd.DataFrame) -> Path:
    with writing(path) as out:
        out.add(frame)
    return path


def told(path: Path) -> str:
    """What is said about a file, the same when it is read whole and in parts."""
    with pytest.raises(FileError) as whole:
        read(path)
    with pytest.raises(FileError) as parts:
        read_parts(path, 2)
    assert str(whole.value) == str(parts.value)
    assert str(path) in str(whole.value)
    return str(whole.value)


def test_a_file_and_its_new_name_are_on_the_disk_before_they_are_relied_upon(tmp_path, monkeypatch):
    """First what is in the file, then, once it has its name, the folder that holds the name."""
    settled = []
    monkeypatch.setattr("os.fsync", lambda opened: settled.append(os.fstat(opened)))
    with replacing(tmp_path / "kept") as part:
        part.write_text("all of it")
        assert settled == []
    file, folder = settled
    assert file.st_ino == (tmp_path / "kept").stat().st_ino
    assert stat.S_ISDIR(folder.st_mode)
    assert folder.st_ino == tmp_path.stat().st_ino


def test_importing_is_cheap():
    code = """
import sys
import zigp.data.tables
print({"jax", "pandas", "xarray", "pyarrow", "zarr"} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# -- round trips ----------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", tables.TABLES)
def test_tables_come_back_as_they_were(ending, tmp_path):
    again = read(written(tmp_path / f"t{ending}", FRAME))
    pd.testing.assert_frame_equal(again, FRAME)
    assert [p.name for p in tmp_path.iterdir()] == [f"t{ending}"]


@pytest.mark.parametrize("ending", tables.TABLES)
def test_numbers_are_kept_to_the_bit(ending, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=5000) * 10.0 ** rng.integers(-300, 300, 5000)
    again = read(written(tmp_path / f"t{ending}", pd.DataFrame({"x": x})))
    np.testing.assert_array_equal(again["x"], x)


@pytest.mark.parametrize("ending", tables.TABLES)
def test_adding_in_parts_is_adding_at_once(ending, tmp_path, monkeypatch):
    monkeypatch.setattr("zigp.data.tables.output._ROWS", 3)
    with writing(tmp_path / f"t{ending}") as out:
        out.add(FRAME.iloc[:1])
        out.add(FRAME.iloc[1:])
    pd.testing.assert_frame_equal(read(tmp_path / f"t{ending}"), FRAME)


def test_times_and_truths_are_written_as_everybody_reads_them(tmp_path):
    frame = pd.DataFrame(
        {
            "plain": pd.to_datetime(["2020-01-01", None]),
            "zoned": pd.to_datetime(["2020-01-01T12:00:00.0+02:00", "2020-01-01T12:00:00.5+02:00"]),
            "noleap": [cftime.DatetimeNoLeap(2020, 2, 28), None],
            "wet": [True, False],
        }
    )
    text = written(tmp_path / "t.csv", frame).read_text()
    assert text == (
        "plain,zoned,noleap,wet\n"
        "2020-01-01T00:00:00,2020-01-01T12:00:00+02:00,2020-02-28T00:00:00,True\n"
        ",2020-01-01T12:00:00.500000+02:00,,False\n"
    )
    again = as_times(read(tmp_path / "t.csv"), ["plain", "zoned"])
    assert (again["zoned"] == frame["zoned"]).all()
    assert again["plain"].isna().tolist() == [False, True]


def test_parquet_keeps_times_levels_and_a_named_index(tmp_path):
    frame = pd.DataFrame(
        {
            "when": pd.date_range("2020-01-01", periods=3, tz="Europe/Helsinki"),
            "gear": pd.Categorical(["net", "trap", "net"], ["trap", "net"], ordered=True),
            "day": pd.to_datetime(["2020-01-01", None, "2020-01-03"]).date,
        },
        index=pd.Index([5, 7, 9], name="id"),
    )
    frame.to_parquet(tmp_path / "indexed.parquet")
    frame.reset_index(drop=True).iloc[[0, 2]].to_parquet(tmp_path / "filtered.parquet")
    again = read(tmp_path / "indexed.parquet")
    assert again["id"].tolist() == [5, 7, 9]
    assert again["gear"].tolist() == ["net", "trap", "net"]
    assert again["gear"].cat.ordered
    assert again["day"].dt.day.tolist()[::2] == [1, 3]
    assert (again["when"] == frame["when"].to_numpy()).all()
    assert list(read(tmp_path / "filtered.parquet")) == ["when", "gear", "day"]


def test_parquet_does_not_tell_where_its_rows_came_from(tmp_path):
    frame = read(written(tmp_path / "secret-name.csv", FRAME))
    assert b"secret-name" not in written(tmp_path / "t.parquet", frame).read_bytes()


def test_the_same_rows_give_the_same_bytes(tmp_path):
    first, second = (written(tmp_path / f"{name}.csv.gz", FRAME) for name in "ab")
    assert first.read_bytes() == second.read_bytes()


def test_csv_on_standard_output(capsysbinary):
    with writing("-") as out:
        out.add(FRAME[["count"]])
        out.add(FRAME[["count"]])
    assert capsysbinary.readouterr().out == b"count\n1\n2\n3\n4\n1\n2\n3\n4\n"


def test_standard_output_that_is_closed_is_left_to_the_caller(monkeypatch):
    class Closed(io.BytesIO):
        def flush(self):
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    def attempt():
        with writing("-") as out:
            out.add(FRAME)

    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=Closed()))
    with pytest.raises(BrokenPipeError):
        attempt()


def test_zarr_comes_back_and_can_be_lazy(tmp_path):
    tables.write_dataset(LATTICE, tmp_path / "l.zarr")
    assert [p.name for p in tmp_path.iterdir()] == ["l.zarr"]
    xr.testing.assert_identical(read(tmp_path / "l.zarr"), LATTICE)
    assert read(tmp_path / "l.zarr")["rain"].chunks is None
    lazy = read(tmp_path / "l.zarr", lazy=True)
    assert lazy["rain"].chunks is not None
    xr.testing.assert_identical(lazy.compute(), LATTICE)


@pytest.mark.parametrize("version", [2, 3])
def test_zarr_of_others_is_read(version, tmp_path):
    LATTICE.to_zarr(tmp_path / "l", zarr_format=version, consolidated=False)
    xr.testing.assert_equal(read(tmp_path / "l"), LATTICE)


def test_classic_netcdf_is_read_whole_or_lazily(tmp_path):
    LATTICE.to_netcdf(tmp_path / "l.dat", engine="scipy")
    xr.testing.assert_equal(read(tmp_path / "l.dat"), LATTICE)
    lazy = read(tmp_path / "l.dat", lazy=True)
    assert lazy["rain"].chunks is not None
    xr.testing.assert_equal(lazy.compute(), LATTICE)
    lazy.close()


def test_calendars_of_climate_models_are_kept(tmp_path):
    days = xr.date_range("2020-02-28", periods=3, calendar="noleap", use_cftime=True)
    lattice = LATTICE.assign_coords(time=days)
    tables.write_dataset(lattice, tmp_path / "l.zarr")
    assert read(tmp_path / "l.zarr")["time"].dt.calendar == "noleap"


def test_packing_of_the_source_does_not_cost_precision(tmp_path):
    lattice = LATTICE.copy(deep=True)
    lattice["rain"].encoding = {"dtype": "int16", "scale_factor": 0.1, "_FillValue": -1}
    tables.write_dataset(lattice, tmp_path / "l.zarr")
    xr.testing.assert_equal(read(tmp_path / "l.zarr"), LATTICE)


def test_netcdf_4_comes_back_or_what_is_missing_is_told(tmp_path):
    path = tmp_path / "l.nc"
    if HAS_HDF5:
        tables.write_dataset(LATTICE, path)
        assert path.read_bytes().startswith(HDF5)
        xr.testing.assert_equal(read(path), LATTICE)
    else:
        with pytest.raises(FileError, match=r"Cannot write .*h5py.* Install what is missing"):
            tables.write_dataset(LATTICE, path)
        assert not list(tmp_path.iterdir())


def test_the_engine_is_chosen_by_content(tmp_path, monkeypatch):
    engines = []

    def opened(path, engine, chunks):
        engines.append((engine, chunks))
        return LATTICE

    LATTICE.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    monkeypatch.setattr(xr, "open_dataset", opened)
    read(tmp_path / "a.nc")
    read(put(tmp_path / "b.nc", b"CDF\2" + bytes(64)), lazy=True)
    assert engines == [("h5netcdf", None), ("scipy", {})]


# -- what a file is -------------------------------------------------------------------------------


def test_content_wins_over_the_name(tmp_path):
    written(tmp_path / "t.parquet", FRAME).rename(tmp_path / "parquet.csv")
    written(tmp_path / "t.csv.gz", FRAME).rename(tmp_path / "gzipped.parquet")
    written(tmp_path / "t.csv", FRAME).rename(tmp_path / "plain.csv.gz")
    kinds = {path.name: kind_of(path) for path in tmp_path.iterdir()}
    assert kinds == {"parquet.csv": "parquet", "gzipped.parquet": "csv", "plain.csv.gz": "csv"}
    for path in tmp_path.iterdir():
        pd.testing.assert_frame_equal(read(path), FRAME)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"PAR1....", "parquet"),
        (b"CDF\1....", "netcdf"),
        (b"CDF\2....", "netcdf"),
        (b"CDF\5....", "netcdf"),
        (HDF5, "netcdf"),
        (b"PK,rain\n1,2\n", "csv"),
        (b"CDF,rain\n1,2\n", "csv"),
        (b"", "csv"),
    ],
)
def test_kinds_by_their_first_bytes(content, kind, tmp_path):
    assert kind_of(put(tmp_path / "file", content)) == kind


@pytest.mark.parametrize("marker", ["zarr.json", ".zgroup", ".zmetadata", ".zattrs"])
def test_a_zarr_folder_is_known_by_its_marker(marker, tmp_path):
    put(tmp_path / marker, "{}")
    assert kind_of(tmp_path) == "zarr"


def zipped(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(zipfile.ZipInfo(name), "")  # the date is always the same
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (zipped("rain.csv"), "is a zip archive: unpack it"),
        (zipped("[Content_Types].xml", "xl/workbook.xml"), "is a spreadsheet: export it as CSV"),
        (zipped("mimetype", "content.xml"), "is a spreadsheet: export it as CSV"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "is a spreadsheet: export it as CSV"),
        (zipped("rain.csv")[:20], "is a zip archive: unpack it"),
        (pickle.dumps([1], protocol=4), "is a pickle, .* save it as CSV or Parquet"),
        (pickle.dumps([1], protocol=5), "is a pickle, .* save it as CSV or Parquet"),
        (gzip.compress(b"PAR1", mtime=0), "is parquet inside gzip: unpack it with gunzip"),
    ],
)
def test_other_files_are_refused_with_advice(content, message, tmp_path):
    path = put(tmp_path / "rain.csv", content)
    with pytest.raises(FileError, match=message):
        kind_of(path)
    told(path)


def test_a_model_is_not_a_table(tmp_path):
    path = tmp_path / "rain.zigp"
    save_file({"a": np.zeros(2)}, path, metadata={"zigp": "{}"})
    assert "is a model, not a table" in told(path)


def test_what_is_no_file_is_told(tmp_path):
    assert "There is no file" in told(tmp_path / "rain.csv")
    assert "is a folder" in told(tmp_path)
    assert "is no file on disk" in told(Path("/dev/null"))


def test_a_file_that_may_not_be_read_is_told(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    path = put(tmp_path / "rain.csv", "a\n1\n")
    monkeypatch.setattr(Path, "open", refuse)
    assert f"Cannot read {path}: Permission denied. Check" in told(path)


# -- CSV ------------------------------------------------------------------------------------------


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
    expected = pd.DataFrame({"a": [1.5, 2.0], "b": ["x", "y"]})
    path = put(tmp_path / "t.csv", text)
    pd.testing.assert_frame_equal(read(path), expected)
    pd.testing.assert_frame_equal(pd.concat(read_parts(path, 1)), expected)


def test_delimiters_within_quotes_do_not_count(tmp_path):
    path = put(tmp_path / "t.csv", '"rain, mm, daily";b\n1;2\n')
    assert list(read(path)) == ["rain, mm, daily", "b"]


def test_a_comma_in_text_is_no_decimal_comma(tmp_path):
    frame = read(put(tmp_path / "t.csv", "a;b\n1.5;x,y\n"))
    assert frame["a"].tolist() == [1.5]
    assert frame["b"].tolist() == ["x,y"]


def test_missing_values_are_few_and_the_rest_is_text(tmp_path):
    gaps = ["", "NA", "NaN", "nan", "null", "None"]
    rows = "".join(f"{gap},{gap},1\n" for gap in gaps)
    frame = read(put(tmp_path / "t.csv", f"x,place,z\n{rows}2,#N/A,1\n#3,n/a,1\n"))
    assert frame["place"].isna().tolist() == [True] * 6 + [False] * 2
    assert frame["place"].tolist()[6:] == ["#N/A", "n/a"]
    assert frame["x"].tolist()[6:] == ["2", "#3"]


def test_codes_with_leading_zeros_stay_text_if_one_is_text(tmp_path):
    path = put(tmp_path / "t.csv", "code\n007\n008\nA09\n")
    assert read(path)["code"].tolist() == ["007", "008", "A09"]
    assert pd.concat(read_parts(path, 1))["code"].tolist() == ["007", "008", "A09"]


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
        (b"a,b\r1,2\r", "line 1: .* lone carriage return"),
        ("a,b\n1,Ås\n".encode("latin-1"), "line 2, byte 3: 0xc5 is not UTF-8. Save the file as"),
        ("a,Å\n1,2\n".encode("latin-1"), "line 1, byte 3: 0xc5 is not UTF-8"),
        (b"a,b\n1,2\n1,\x002\n", "line 3, byte 3: a NUL"),
        ("a,b\n1,2\n".encode("utf-16"), "is text in UTF-16: save it as UTF-8"),
        ("a,b\n1,2\n".encode("utf-16-be"), "line 1, byte 1: a NUL"),
        (
            gzip.compress(b"a,b\n" + b"1,2\n" * 9999, mtime=0)[:-20],
            "Cannot read .* Check that the file is",
        ),
        (gzip.compress(b"a,b\n1,2\n", mtime=0)[:12], "Cannot read .* Check that the file is whole"),
        (
            gzip.compress(b"a,b\n1,2\n", mtime=0)[:-8] + bytes(8),
            "Cannot read .* Check that the file is",
        ),
    ],
)
def test_mistakes_in_csv_are_told_with_their_place(content, message, tmp_path):
    path = put(tmp_path / "rain.csv", content)
    told(path)
    with pytest.raises(FileError, match=message):
        read(path)


# -- Parquet, NetCDF and Zarr ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "rows", "message"),
    [
        (["a", "a"], 2, "there are two columns 'a'"),
        (["a", ""], 2, "column 2 has no name"),
        (["a", "b"], 0, "has columns but no rows"),
    ],
)
def test_mistakes_in_parquet_are_told(names, rows, message, tmp_path):
    table = pa.Table.from_arrays([pa.array(np.arange(rows))] * 2, names=names)
    pq.write_table(table, tmp_path / "t.parquet")
    assert message in told(tmp_path / "t.parquet")


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


def test_a_folder_of_parquet_is_one_table_in_the_order_of_its_names(tmp_path):
    (tmp_path / "rows" / "year=2020").mkdir(parents=True)
    (tmp_path / "rows" / "_SUCCESS").touch()
    written(tmp_path / "whole.parquet", FRAME)
    written(tmp_path / "rows" / "b.parquet", FRAME[2:][[*FRAME][::-1]])  # columns in another order
    written(tmp_path / "rows" / "a.parquet", FRAME[:2])
    pq.write_table(
        pq.read_table(tmp_path / "whole.parquet")[:0],
        tmp_path / "rows" / "year=2020" / "empty.parquet",
    )
    whole = read(tmp_path / "whole.parquet")
    for address in (tmp_path / "rows", (tmp_path / "rows").as_uri()):
        parts = list(read_parts(address, 1))
        assert len(parts) == 4
        pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), whole)
        pd.testing.assert_frame_equal(read(address), whole)
    # Errors name the file, and the row in it.
    assert [part.attrs["file"] for part in parts[1:3]] == [
        str(tmp_path / "rows" / name) for name in ("a.parquet", "b.parquet")
    ]
    assert [part.index[0] for part in parts] == [0, 1, 0, 1]


def test_files_of_a_folder_have_the_same_columns(tmp_path):
    written(tmp_path / "a.parquet", FRAME)
    written(tmp_path / "b.parquet", FRAME.drop(columns="wet"))
    said = told(tmp_path)
    assert "b.parquet and" in said
    assert "a.parquet differ in column 'wet': write all files with the same columns." in said


def test_damaged_parquet_is_told(tmp_path):
    whole = written(tmp_path / "t.parquet", FRAME).read_bytes()
    cut = put(tmp_path / "cut.parquet", whole[:-50])
    assert "Check that the file is whole" in told(cut)
    assert f"Cannot read {cut}: " in told(tmp_path)  # of a folder, which of them


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"CDF\1 and no more", "Cannot read .* Check that the file is whole"),
        (b"CDF\5" + bytes(40), "is NetCDF of the kind CDF-5: convert it with nccopy"),
        (HDF5 + bytes(40), "Cannot read .*l.nc: "),
    ],
)
def test_damaged_lattices_are_told(content, message, tmp_path):
    with pytest.raises(FileError, match=message):
        read(put(tmp_path / "l.nc", content))


def test_damaged_zarr_is_told(tmp_path):
    put(tmp_path / "zarr.json", "not json")
    with pytest.raises(FileError, match=r"Cannot read .* Check that the file is whole"):
        read(tmp_path)


def empty_but_huge(path: Path, kind: str, **sizes: int) -> Path:
    """A lattice of a few KB in which nothing was ever written."""
    arrays = {"rain": sizes} | {dim: {dim: n} for dim, n in sizes.items()}
    if kind == "zarr":
        group = zarr.open_group(path, mode="w")
        for name, along in arrays.items():
            shape = tuple(along.values())
            group.create_array(
                name, shape=shape, chunks=_pieces(shape), dtype="f8", dimension_names=[*along]
            )
        return path
    with h5py.File(path, "w") as group:
        for name, along in reversed(arrays.items()):
            shape = tuple(along.values())
            made = group.create_dataset(name, shape, "f8", chunks=_pieces(shape))
            if name in along:
                made.make_scale(name)
        for i, dim in enumerate(sizes):
            group["rain"].dims[i].attach_scale(group[dim])
    return path


def _pieces(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(min(n, 1 << 10) for n in shape)


@pytest.mark.parametrize("kind", ["zarr", "netcdf"])
def test_lattices_that_claim_more_than_memory_are_refused_unread(kind, tmp_path):
    path = empty_but_huge(tmp_path / "l", kind, lat=1 << 20, lon=1 << 20)
    with pytest.raises(FileError, match=r"claims 8\.8e\+03 GB, of which 8\.8e\+03 GB in 'rain'"):
        read(path)
    assert read(path, lazy=True).sizes == {"lat": 1 << 20, "lon": 1 << 20}


@pytest.mark.parametrize("ending", [".parquet", ".csv.gz"])
def test_tables_that_repeat_themselves_are_refused_where_they_outgrow_memory(
    ending, tmp_path, monkeypatch
):
    """Parquet before any of it is read; text once its rows were counted. In parts both are read."""
    path = tmp_path / f"rain{ending}"
    frame = pd.DataFrame({"x": np.ones(100_000), "y": 0.0})
    frame.to_parquet(path) if ending == ".parquet" else frame.to_csv(path, index=False)
    assert path.stat().st_size < 20_000
    monkeypatch.setattr("zigp.data.tables.sizes._memory", lambda: 3e6)
    with pytest.raises(FileError, match=r"claims 0\.0016 GB, of which 0\.0008 GB in 'x'; 0\.0015"):
        read(path)
    assert sum(len(part) for part in read_parts(path, 30_000)) == 100_000


@pytest.mark.parametrize("kind", ["zarr", "netcdf"])
def test_axes_that_claim_more_than_memory_are_refused_even_where_cells_are_not(kind, tmp_path):
    path = empty_but_huge(tmp_path / "l", kind, time=10**12, lat=9)
    for lazy in (False, True):
        with pytest.raises(FileError, match=r"8e\+03 GB in 'time'" if lazy else "in 'rain'"):
            read(path, lazy=lazy)
    if kind == "zarr":
        with pytest.raises(FileError, match="in 'time'"):
            open_stream(path, target="rain")


def test_a_lattice_of_more_chunks_than_can_be_counted_is_refused(tmp_path):
    group = zarr.open_group(tmp_path, mode="w")
    many = 1 << 12
    group.create_array(
        "rain", shape=(many, many), chunks=(1, 1), dtype="f8", dimension_names=["t", "x"]
    )
    for name in ("t", "x"):
        group.create_array(name, data=np.arange(many), dimension_names=[name])
    with pytest.raises(FileError, match=r"claims 1\.68e\+07 chunks"):
        open_stream(tmp_path, target="rain")


def test_axes_alone_are_a_lattice(tmp_path):
    LATTICE.coords.to_dataset().to_netcdf(tmp_path / "l.nc", engine="scipy")
    assert set(read(tmp_path / "l.nc").coords) == set(LATTICE.coords)


def test_lattices_without_variables_are_told(tmp_path):
    xr.Dataset().to_netcdf(tmp_path / "l.nc", engine="scipy")
    with pytest.raises(FileError, match="has no variables outside of groups"):
        read(tmp_path / "l.nc")


def test_lattices_have_no_rows(tmp_path):
    tables.write_dataset(LATTICE, tmp_path / "l.zarr")
    with pytest.raises(FileError, match=r"is a lattice \(zarr\), which has no rows"):
        read_parts(tmp_path / "l.zarr", 10)


@pytest.mark.parametrize(
    ("module", "write"),
    [
        ("pyarrow.parquet", lambda path: pq.write_table(pa.table({"a": [1]}), path)),
        ("xarray", lambda path: LATTICE.to_netcdf(path, engine="scipy")),
    ],
)
def test_a_library_that_is_missing_is_named(module, write, tmp_path, monkeypatch):
    write(tmp_path / "file")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(FileError, match=f"{module}.* Install what is missing with pip"):
        read(tmp_path / "file")


@pytest.mark.parametrize("module", ["zarr", "cftime"])
def test_what_lattices_need_has_a_name_to_install_it_by(module, tmp_path, monkeypatch):
    if module == "zarr":
        tables.write_dataset(LATTICE, tmp_path / "l.zarr")
        (tmp_path / "l.zarr").rename(tmp_path / "l")
    else:
        days = xr.Variable(
            "time", [0, 1], {"units": "days since 2001-02-28", "calendar": "360_day"}
        )
        xr.Dataset({"time": days}).to_netcdf(tmp_path / "l", engine="scipy")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(FileError, match=r"Cannot read .*l: .*pip install 'zigp\[grids\]'"):
        read(tmp_path / "l")


def test_without_dask_a_lattice_is_read_when_looked_at(tmp_path, monkeypatch):
    LATTICE.to_netcdf(tmp_path / "l.nc", engine="scipy")
    monkeypatch.setitem(sys.modules, "dask", None)
    with read(tmp_path / "l.nc", lazy=True) as lattice:
        assert not any(array.chunks for array in lattice.values())
        xr.testing.assert_equal(lattice.load(), LATTICE)


# -- parts ----------------------------------------------------------------------------------------


def many() -> pd.DataFrame:
    """Columns whose first rows do not show what the later ones hold."""
    n = 50
    late = np.arange(n) > 30
    return pd.DataFrame(
        {
            "whole": np.arange(n),
            "late_gap": np.where(late, np.nan, np.arange(n)),
            "late_fraction": np.where(late, 0.5, np.arange(n)),
            "late_text": np.where(late, "x", np.arange(n).astype(str)).tolist(),
            "early_gap": [None if i < 20 else "y" for i in range(n)],
            "late_truth": pd.array([None if i < 20 else i % 2 == 0 for i in range(n)], "boolean"),
            "truth": np.arange(n) % 3 == 0,
            "nothing": np.full(n, np.nan),
        }
    )


@pytest.mark.parametrize("ending", tables.TABLES)
@pytest.mark.parametrize("rows", [1, 7, 50, 1000])
def test_parts_equal_the_whole(ending, rows, tmp_path, monkeypatch):
    path = written(tmp_path / f"t{ending}", many())
    monkeypatch.setattr("zigp.data.tables.reading._ROWS", 7)
    whole, parts = read(path), list(read_parts(path, rows))
    assert [len(part) for part in parts[:-1]] == [rows] * ((50 - 1) // rows)
    for part in parts:
        pd.testing.assert_series_equal(part.dtypes, whole.dtypes)
    pd.testing.assert_frame_equal(pd.concat(parts), whole)
    pd.testing.assert_frame_equal(whole, many())


def test_text_stays_as_it_stands(tmp_path):
    path = put(tmp_path / "t.csv", 'id,code,note,x\n00000,NA,,1\n 01,1.50,"a, b",NA\n')
    kept = {"id": ["00000", "01"], "code": ["NA", "1.50"], "note": ["", "a, b"]}
    for part in (read(path, text=kept.__contains__), *read_parts(path, 9, kept.__contains__)):
        assert {name: part[name].tolist() for name in kept} == kept
        np.testing.assert_array_equal(part["x"], [1.0, np.nan])


def test_parts_of_parquet_share_levels_and_widen_whole_numbers(tmp_path):
    path = tmp_path / "t.parquet"
    frame = pd.DataFrame(
        {
            "gear": pd.Categorical(["net", "net", "trap", None]),
            "n": pd.array([1, 2, None, 4], dtype="Int64"),
        }
    )
    table = pa.Table.from_pandas(frame, preserve_index=False)
    pq.write_table(table, path, row_group_size=2)
    first, second = read_parts(path, 2)
    assert first["gear"].dtype == second["gear"].dtype
    assert {*first["gear"].cat.categories} == {"net", "trap"}
    assert first["n"].dtype == second["n"].dtype == read(path)["n"].dtype == float


def test_parts_that_fail_on_the_way_are_told(tmp_path):
    path = put(tmp_path / "t.csv", "a\n" + "1\n" * 100_000)
    parts = read_parts(path, 1000)
    next(parts)
    put(path, "a\n1\n" + "x\n" * 100_000)
    with pytest.raises(FileError, match=r"Cannot read .*t\.csv"):
        list(parts)


# -- columns --------------------------------------------------------------------------------------


def test_numbers_of_all_kinds(tmp_path):
    frame = pd.DataFrame(
        {
            "whole": [1, 2],
            "wet": pd.array([True, None], dtype="boolean"),
            "text": [" 1.5 ", None],
            "level": pd.Categorical(["1", "2"]),
            "other": ["x", "y"],
        }
    )
    numbers = as_numbers(frame, ["whole", "wet", "text", "level"])
    assert numbers["whole"].tolist() == [1, 2]
    np.testing.assert_array_equal(numbers["wet"], [1.0, np.nan])
    np.testing.assert_array_equal(numbers["text"], [1.5, np.nan])
    assert numbers["level"].tolist() == [1, 2]
    assert numbers["other"].tolist() == ["x", "y"]
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
        ("a,b\n1,2020-01-01\n", "line 2, column 'b': '2020-01-01' is not a number"),
        ("a,b\n1,2\n1,True\n", "line 3, column 'b': 'True' is not a number"),
    ],
)
def test_text_that_is_no_number_is_told_with_its_line(text, message, tmp_path):
    path = put(tmp_path / "rain.csv", text)
    with pytest.raises(FileError, match=f"rain.csv, {message}"):
        as_numbers(read(path), ["b"])


def test_lines_are_those_of_the_file_in_later_parts_and_after_filtering(tmp_path):
    path = put(tmp_path / "rain.csv", "b\n1\n\n2\n3\nx\n")
    first, second = read_parts(path, 2)
    assert as_numbers(first, ["b"])["b"].tolist() == [1, 2]
    with pytest.raises(FileError, match="line 6, column 'b': 'x'"):
        as_numbers(second, ["b"])
    frame = read(path)
    with pytest.raises(FileError, match="line 6, column 'b': 'x'"):
        as_numbers(frame[frame["b"] != "2"], ["b"])


def test_lines_are_told_when_the_file_has_gone(tmp_path):
    path = put(tmp_path / "rain.csv", "a,b\n1,x\n")
    frame = read(path)
    path.unlink()
    with pytest.raises(FileError, match="line 2, column 'b': 'x'"):
        as_numbers(frame, ["b"])


def test_rows_of_other_tables_are_counted_from_one(tmp_path):
    frame = pd.DataFrame({"b": ["1", "x"]})
    with pytest.raises(FileError, match="The table, row 2, column 'b': 'x' is not a number"):
        as_numbers(frame, ["b"])
    with pytest.raises(FileError, match="The table, row 2, column 'b': 'x' is not a number"):
        as_numbers(frame.set_axis(["u", "v"]), ["b"])
    path = written(tmp_path / "t.parquet", frame)
    with pytest.raises(FileError, match=r"t\.parquet, row 2, column 'b'"):
        as_numbers(read(path), ["b"])


def test_gaps_are_told_with_the_line_of_the_file(tmp_path):
    path = put(tmp_path / "t.csv", "a,b\n" + "1,2\n" * 7 + "\n1,NA\n1,3\n1,\n")
    first, second = read_parts(path, 6)
    tables.refuse_gaps(first, ["a", "b"])
    words = r"t\.csv, line 10, column 'b' is empty, as are 1 rows after it: fill it in"
    with pytest.raises(FileError, match=words):
        tables.refuse_gaps(second, ["a", "b"])
    second.attrs.clear()
    with pytest.raises(FileError, match="The table, row 8, column 'b' is empty, as are 1"):
        tables.refuse_gaps(second, ["a", "b"])


def test_levels_are_text_and_gaps_stay_gaps(tmp_path):
    path = put(tmp_path / "t.csv", "gear\n01\n1\nNA\n")
    levels = tables.as_levels(read(path, text=lambda name: True), ["gear"])["gear"]
    assert list(levels.cat.categories) == ["01", "1"]
    assert levels.isna().tolist() == [False, False, True]
    table = pd.DataFrame({"gear": [2, 1]})
    assert tables.as_levels(table, ["gear"])["gear"].tolist() == ["2", "1"]


def test_a_column_may_be_called_self():
    table = pd.DataFrame({"self": ["1", "2"]})
    assert as_numbers(table, ["self"])["self"].tolist() == [1, 2]
    assert table["self"].tolist() == ["1", "2"]


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
        ([None, None], None),
    ],
)
def test_whole_numbers_are_times_where_all_are_dates(values, expected):
    times = as_times(pd.DataFrame({"t": values}), ["t"])["t"]
    if expected is None:
        assert times.dtype.kind != "M"
    else:
        pd.testing.assert_series_equal(
            times, pd.Series(pd.to_datetime(expected, format="ISO8601")), check_names=False,
            check_dtype=False,
        )  # fmt: skip


def test_times_are_no_numbers():
    times = pd.DataFrame({"rain": pd.to_datetime(["2018-07-01", None], utc=True)})
    with pytest.raises(FileError, match="is not a number"):
        as_numbers(times, ["rain"])
    assert as_numbers(times[1:], ["rain"])["rain"].isna().all()


@pytest.mark.parametrize("function", [as_numbers, as_times])
def test_a_column_that_is_not_there_is_told(function, tmp_path):
    frame = read(put(tmp_path / "rain.csv", "a,b\n1,2\n"))
    with pytest.raises(FileError, match=r"rain\.csv has no column 'c'. Choose among a, b\."):
        function(frame, ["c"])


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["2020-01-01", None], ["2020-01-01", None]),
        (["2020-01-01T12:30", "2020-01-02 01:00:00.25"], None),
        (["20200101T0600", "2020-02"], ["2020-01-01T06:00", "2020-02-01"]),
        (["2020-01-01T12:00Z", "2020-01-02T12:00Z"], None),
        (["2020-01-01T12:00+02:00", "2020-07-01T12:00+02:00"], None),
        (["2020-01-01T12:00+02", "2020-07-01T12:00+03:00"], ["2020-01-01T10Z", "2020-07-01T09Z"]),
    ],
)
def test_times_are_read_from_iso_8601(texts, expected):
    times = as_times(pd.DataFrame({"t": texts}), ["t"])["t"]
    assert times.dtype.kind == "M"
    assert [None if pd.isna(t) else t for t in times] == [
        None if text is None else pd.Timestamp(text) for text in expected or texts
    ]


def test_one_zone_is_kept_and_mixed_zones_are_utc():
    def zone(*texts):
        return str(as_times(pd.DataFrame({"t": texts}), ["t"])["t"].dt.tz)

    assert zone("2020-01-01T12:00", "2020-01-02") == "None"
    assert zone("2020-01-01T12:00+02:00", "2020-01-02T00:00+02:00") == "UTC+02:00"
    assert zone("2020-01-01T12:00+02:00", "2020-01-02T00:00+01:00") == "UTC"


def test_times_that_are_numbers_or_times_stay():
    noleap = [cftime.DatetimeNoLeap(2020, 2, 28), cftime.DatetimeNoLeap(2020, 3, 1)]
    frame = pd.DataFrame(
        {
            "number": [1.5, np.nan],
            "text": ["1.5", "2"],
            "time": pd.to_datetime(["2020-01-01", None]),
            "noleap": noleap,
        }
    )
    times = as_times(frame, list(frame))
    np.testing.assert_array_equal(times["number"], [1.5, np.nan])
    assert times["text"].tolist() == [1.5, 2.0]
    pd.testing.assert_series_equal(times["time"], frame["time"])
    assert times["noleap"].tolist() == noleap


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (
            ["2020-01-01", "01.02.2020"],
            "line 3, column 't': '01.02.2020' is not a time. Write 2018",
        ),
        (["2020-01-01", "2020-02-30"], "line 3, column 't': '2020-02-30' is not a time"),
        (["now", "2020-01-01"], "line 2, column 't': 'now' is not a time"),
        (["2020-01-01", "12"], "line 3, column 't': '12' is not a time"),
        (["True", "False"], "line 2, column 't': 'True' is not a time"),
        (["1", "inf"], "line 3, column 't': 'inf' is not finite"),
        (["2020-01-01T00:00Z", "2020-01-01T00:00"], "line 3, column 't': .* has no zone"),
        (["2020-01-01T00:00", "2020-01-01T00:00Z"], "line 2, column 't': .* has no zone"),
    ],
)
def test_text_that_is_no_time_is_told_with_its_line(texts, message, tmp_path):
    path = put(tmp_path / "rain.csv", "t,x\n" + "".join(f"{text},1\n" for text in texts))
    with pytest.raises(FileError, match=f"rain.csv, {message}"):
        as_times(read(path), ["t"])


# -- writing --------------------------------------------------------------------------------------


class Full(io.FileIO):
    """A file on a disk that is full after so many bytes."""

    room = 0

    def write(self, data):
        self.room -= len(data)
        if self.room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)


@pytest.fixture
def full_disk(monkeypatch):
    def fill(room: int) -> None:
        def opened(path, mode="r", *rest, **options):
            if "x" in mode:
                file = Full(path, "xb")
                file.room = room
                return io.BufferedWriter(file, 64)
            return open(path, mode, *rest, **options)

        monkeypatch.setattr(Path, "open", opened)

    return fill


@pytest.mark.parametrize("ending", tables.TABLES)
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, FileNotFoundError])
@pytest.mark.parametrize("rows", [0, 4])
def test_what_is_not_finished_leaves_nothing(ending, error, rows, tmp_path):
    def stopped():
        with writing(tmp_path / f"t{ending}") as out:
            if rows:
                out.add(FRAME)
            raise error("on the way")

    with pytest.raises(error, match="on the way"):
        stopped()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ending", tables.TABLES)
def test_the_old_file_stays_until_the_new_one_is_whole(ending, tmp_path):
    path = written(tmp_path / f"t{ending}", FRAME)
    old = path.read_bytes()

    def stopped():
        with writing(path, force=True) as out:
            out.add(FRAME.iloc[:1])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert path.read_bytes() == old
    path.chmod(0o600)
    with writing(path, force=True) as out:
        out.add(FRAME.iloc[:1])
        assert path.read_bytes() == old
    assert len(read(path)) == 1
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("ending", tables.TABLES)
@pytest.mark.parametrize("room", [0, 200])
def test_a_full_disk_is_told_and_leaves_the_old_file(ending, room, tmp_path, full_disk):
    path = put(tmp_path / f"t{ending}", "old")
    frame = pd.DataFrame({"x": np.random.default_rng(0).normal(size=1000)})
    full_disk(room)

    def attempt():
        with writing(path, force=True) as out:
            out.add(frame)

    with pytest.raises(FileError, match=r"Cannot write .*: No space left on device. Choose"):
        attempt()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_rename_that_fails_is_told_and_leaves_all_as_it_was(tmp_path, monkeypatch):
    table, lattice = put(tmp_path / "t.csv", "old"), tmp_path / "l.zarr"
    tables.write_dataset(LATTICE, lattice)

    def refuse(*_):
        raise OSError(errno.EIO, "Input/output error")

    def attempt():
        with writing(table, force=True) as out:
            out.add(FRAME)

    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(FileError, match=r"Cannot write .*t\.csv: Input/output error"):
        attempt()
    with pytest.raises(FileError, match=r"Cannot write .*l\.zarr: Input/output error"):
        tables.write_dataset(LATTICE + 1, lattice, force=True)
    assert table.read_text() == "old"
    xr.testing.assert_identical(read(lattice), LATTICE)
    assert sorted(tmp_path.iterdir()) == [lattice, table]


def test_a_lattice_is_replaced_whole(tmp_path):
    path = tmp_path / "l.zarr"
    tables.write_dataset(LATTICE, path)
    read_from_itself = read(path, lazy=True)
    tables.write_dataset((read_from_itself + 1).rename(rain="snow"), path, force=True)
    xr.testing.assert_identical(read(path), (LATTICE + 1).rename(rain="snow"))
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["l.zarr", "l.nc"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_a_lattice_that_is_not_finished_leaves_nothing(name, error, tmp_path, monkeypatch):
    def stop(self, part, **_):
        if name == "l.zarr":
            Path(part).mkdir()
            put(Path(part) / "zarr.json", "{}")
        else:
            put(Path(part), "begun")
        raise error(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(xr.Dataset, "to_zarr", stop)
    monkeypatch.setattr(xr.Dataset, "to_netcdf", stop)
    expected = FileError if error is OSError else KeyboardInterrupt
    with pytest.raises(expected, match="No space left on device"):
        tables.write_dataset(LATTICE, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_lattice_that_cannot_be_written_is_told(tmp_path):
    stacked = LATTICE.stack(both=("time", "x"))
    with pytest.raises(FileError, match=r"Cannot write .*l\.zarr: .* Choose another --out"):
        tables.write_dataset(stacked, tmp_path / "l.zarr")
    assert not list(tmp_path.iterdir())


def test_parts_must_fit_together(tmp_path):
    def attempt(path, second):
        with writing(path) as out:
            out.add(FRAME[["count"]])
            out.add(second)

    with pytest.raises(FileError, match="its parts differ in columns"):
        attempt(tmp_path / "t.csv", FRAME[["rain"]])
    with pytest.raises(FileError, match=r"Cannot write .*t\.parquet"):
        attempt(tmp_path / "t.parquet", pd.DataFrame({"count": ["x"]}))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ending", tables.TABLES)
def test_no_rows_make_a_header_and_no_parts_no_file(ending, tmp_path):
    def nothing():
        with writing(tmp_path / f"none{ending}"):
            pass

    with pytest.raises(FileError, match="There is nothing to write to"):
        nothing()
    assert not list(tmp_path.iterdir())
    path = written(tmp_path / f"t{ending}", FRAME.iloc[:0])
    assert "no rows" in told(path)


def attempts(path: Path, force: bool = False):
    """All the ways of being told that a path cannot be written."""

    def table():
        with writing(path, force=force) as out:
            out.add(FRAME)

    def lattice():
        tables.write_dataset(LATTICE, path, force=force)

    is_lattice = path.name.endswith(tables.LATTICES)
    return [lambda: tables.check_writable(path, force), lattice if is_lattice else table]


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.tsv", "t.parquet", "l.zarr", "l.nc"])
def test_what_exists_is_not_overwritten(name, tmp_path):
    path = put(tmp_path / name, "old")
    advice = ". Choose another --out, or add --force."
    if name == "l.zarr":  # those are folders: --force would not help
        advice = " and is of another kind. Choose another --out."
    for attempt in attempts(path):
        with pytest.raises(FileError) as error:
            attempt()
        assert str(error.value) == f"{path} exists{advice}"
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "l.zarr", "l.nc"])
def test_a_folder_of_other_things_is_never_replaced(name, tmp_path):
    path = tmp_path / name
    path.mkdir()
    kept = put(path / "thesis.tex", "years of work")
    for attempt in attempts(path, force=True):
        with pytest.raises(FileError, match=r"exists and is of another kind. Choose another"):
            attempt()
    assert kept.read_text() == "years of work"


@pytest.mark.parametrize("name", ["t.csv", "l.zarr", "l.nc"])
def test_a_missing_folder_is_told(name, tmp_path):
    path = tmp_path / "no" / name
    for attempt in attempts(path):
        with pytest.raises(FileError) as error:
            attempt()
        folder = path.parent
        assert str(error.value) == (
            f"There is no folder {folder}: create it, or choose another --out."
        )


@pytest.mark.parametrize("name", ["t.csv", "l.zarr", "l.nc"])
def test_a_folder_that_may_not_be_written_to_is_told(name, tmp_path, monkeypatch):
    def refuse(**_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    for attempt in attempts(tmp_path / name):
        with pytest.raises(FileError, match=r"Cannot write .*: Permission denied. Choose another"):
            attempt()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["t.xlsx", "t", "t.gz", "null"])
def test_unknown_endings_are_told_with_the_known(name, tmp_path):
    with pytest.raises(FileError, match=r"does not end in \.csv, .*\.parquet, \.nc, \.zarr:"):
        tables.check_writable(tmp_path / name)
    with (
        pytest.raises(FileError, match=r"does not end in \.csv, \.csv\.gz, \.tsv, \.parquet:"),
        writing(tmp_path / name),
    ):
        pass
    with pytest.raises(FileError, match=r"does not end in \.nc, \.zarr:"):
        tables.write_dataset(LATTICE, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_checks_alone_write_nothing(tmp_path):
    for name in ("t.csv", "T.CSV", "l.zarr", "l.nc"):
        tables.check_writable(tmp_path / name)
    tables.check_writable("-")
    assert not list(tmp_path.iterdir())
    with pytest.raises(FileError, match=r"choose a file that ends in \.nc or \.zarr as --out"):
        tables.check_writable("-", endings=tables.LATTICES)
    with pytest.raises(FileError, match="cannot go to standard output: choose a file as --out"):
        tables.check_writable("-", endings=())
    with pytest.raises(FileError, match="new/ is a folder: choose a file in it as --out"):
        tables.check_writable("new/", endings=())
    tables.check_writable(tmp_path / "model.zigp", endings=())
    tables.check_writable(put(tmp_path / "t.csv", "old"), force=True)
    assert (tmp_path / "t.csv").read_text() == "old"


def test_a_link_is_written_through(tmp_path):
    real, link = put(tmp_path / "real.csv", "old"), tmp_path / "link.csv"
    link.symlink_to(real)
    with writing(link, force=True) as out:
        out.add(FRAME)
    assert link.is_symlink()
    pd.testing.assert_frame_equal(read(real), FRAME)
