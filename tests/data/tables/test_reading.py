"""The content of a file decides how it is read, whole or in parts; too large ones are not read."""

import errno
import gzip
import os
import pickle
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray as xr
import zarr
from safetensors.numpy import save_file
from table_files import FRAME, HDF5, KINDS, LATTICE, error_of, put, written

from zigp import open_stream
from zigp.data.grids import axes_of
from zigp.data.tables import (
    TABLES,
    FileError,
    locate,
    read,
    read_parts,
    typed,
    write_dataset,
    writing,
)

# -- kinds of files -------------------------------------------------------------------------------


def test_the_content_counts_and_not_the_name(tmp_path):
    written(tmp_path / "t.parquet", FRAME).rename(tmp_path / "parquet.csv")
    written(tmp_path / "t.csv.gz", FRAME).rename(tmp_path / "gzipped.parquet")
    written(tmp_path / "t.csv", FRAME).rename(tmp_path / "plain.csv.gz")
    kinds = {path.name: locate(path).kind for path in tmp_path.iterdir()}
    assert kinds == {"parquet.csv": "parquet", "gzipped.parquet": "csv", "plain.csv.gz": "csv"}
    for path in tmp_path.iterdir():
        assert list(read(path)) == list(FRAME)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"PAR1....", "parquet"),
        (b"CDF\1....", "scipy"),
        (b"CDF\2....", "scipy"),
        (HDF5, "h5netcdf"),
        (b"PK,rain\n1,2\n", "csv"),
        (b"CDF,rain\n1,2\n", "csv"),
        (b"", "csv"),
    ],
)
def test_first_bytes_tell_the_kind(content, kind, tmp_path):
    assert locate(put(tmp_path / "file", content)).kind == kind


@pytest.mark.parametrize("marker", ["zarr.json", ".zgroup", ".zmetadata", ".zattrs"])
def test_a_zarr_folder_has_a_marker(marker, tmp_path):
    put(tmp_path / marker, "{}")
    assert locate(tmp_path).kind == locate(tmp_path.as_uri()).kind == "zarr"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"PK\3\4 and more",
            "is a zip archive, as spreadsheets are: export the sheet as CSV, or un",
        ),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "is a spreadsheet: export it as CSV"),
        (pickle.dumps([1], protocol=4), "which could run code and is not opened: save it as CSV"),
        (pickle.dumps([1], protocol=5), "which could run code and is not opened: save it as CSV"),
        (gzip.compress(b"PAR1", mtime=0), "is parquet inside gzip: unpack it with gunzip"),
    ],
)
def test_other_files_are_refused_with_advice(content, message, tmp_path):
    assert message in error_of(put(tmp_path / "rain.csv", content))


def test_a_model_is_not_a_table(tmp_path):
    path = tmp_path / "rain.zigp"
    save_file({"a": np.zeros(2)}, path, metadata={"zigp": "{}"})
    assert "is a model, not a table" in error_of(path)


def test_what_is_no_file_is_refused(tmp_path, monkeypatch):
    assert "There is no file" in error_of(tmp_path / "rain.csv")
    assert "has no files that end in .parquet, .parq, .pq" in error_of(tmp_path)
    assert "is no file on disk" in error_of(Path("/dev/null"))

    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    path = put(tmp_path / "rain.csv", "a\n1\n")
    monkeypatch.setattr(Path, "open", refuse)
    assert f"Cannot read {path}: Permission denied. Check" in error_of(path)


def test_a_folder_of_parquet_is_one_table_in_the_order_of_its_names(tmp_path):
    (tmp_path / "rows" / "year=2020").mkdir(parents=True)
    (tmp_path / "rows" / "_SUCCESS").touch()
    written(tmp_path / "whole.parquet", FRAME)
    written(tmp_path / "rows" / "b.parquet", FRAME[2:][[*FRAME][::-1]])  # columns in another order
    written(tmp_path / "rows" / "a.parquet", FRAME[:2])
    empty = pq.read_table(tmp_path / "whole.parquet")[:0]
    pq.write_table(empty, tmp_path / "rows" / "year=2020" / "empty.parquet")
    whole = read(tmp_path / "whole.parquet")
    for address in (tmp_path / "rows", (tmp_path / "rows").as_uri()):
        parts = list(read_parts(address, 1))
        assert len(parts) == 4
        pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), whole)
        pd.testing.assert_frame_equal(read(address), whole)
    # Errors name the file, and the row in it.
    files = [str(tmp_path / "rows" / name) for name in ("a.parquet", "b.parquet")]
    assert [part.attrs["file"] for part in parts[1:3]] == files
    assert [part.index[0] for part in parts] == [0, 1, 0, 1]


def test_files_of_a_folder_must_have_the_same_columns_of_types_that_fit_together(tmp_path):
    written(tmp_path / "a.parquet", FRAME[["count"]])
    written(tmp_path / "b.parquet", FRAME[["rain"]].rename(columns={"rain": "count"}))
    assert read(tmp_path)["count"].tolist()[:6] == [1, 2, 3, 4, 0.0, 0.1 + 0.2]
    written(tmp_path / "c.parquet", FRAME[["place"]].rename(columns={"place": "count"}))
    assert "count has incompatible types: double vs large_string" in error_of(tmp_path)
    written(tmp_path / "b.parquet", FRAME, force=True)
    error = error_of(tmp_path)
    assert "b.parquet and" in error
    assert "a.parquet differ in column 'place': write all files with the same columns." in error
    with pytest.raises(FileError, match="differ in column 'place'"):
        open_stream(tmp_path, target="count")


# -- tables ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", TABLES)
@pytest.mark.parametrize("rows", [1, 3, 4, 1000])
def test_tables_come_back_as_they_were_whole_and_in_parts(ending, rows, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.concat([FRAME] * 5, ignore_index=True).assign(
        number=rng.normal(size=20) * 10.0 ** rng.integers(-300, 300, 20),  # kept to the bit
        late_gap=[float(i) for i in range(15)] + [None] * 5,
        late_fraction=[*range(19), 0.5],
        early_gap=pd.array([None] * 10 + [7] * 10, "Int64"),
    )
    kinds = KINDS | dict.fromkeys(("number", "late_gap", "late_fraction", "early_gap"), "number")
    path = written(tmp_path / f"t{ending}", frame)
    assert list(tmp_path.iterdir()) == [path]
    whole, parts = read(path), list(read_parts(path, rows))
    assert [len(part) for part in parts[:-1]] == [rows] * ((20 - 1) // rows)
    for part in parts:
        pd.testing.assert_series_equal(part.dtypes, whole.dtypes)
    pd.testing.assert_frame_equal(pd.concat(parts), whole)
    whole.index = frame.index
    again, expected = (typed(one, kinds).astype({"place": object}) for one in (whole, frame))
    pd.testing.assert_frame_equal(again, expected, check_exact=True)
    np.testing.assert_array_equal(expected["early_gap"], frame["early_gap"].to_numpy(float))


def test_parquet_keeps_times_levels_integers_and_a_named_index(tmp_path):
    frame = pd.DataFrame(
        {
            "when": pd.date_range("2020-01-01", periods=3, tz="Europe/Helsinki"),
            "gear": pd.Categorical(["net", "trap", "net"], ["trap", "net"], ordered=True),
            "day": pd.to_datetime(["2020-01-01", None, "2020-01-03"]).date,
            "large": pd.array([2**62 + 1, None, 3], "Int64"),
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
    assert again["large"][0] == 2**62 + 1
    assert list(read(tmp_path / "filtered.parquet")) == list(frame)


def test_levels_may_differ_between_parts(tmp_path):
    """Also where there are too many for the integers that count them in the first part."""
    gear = pd.Series([f"gear {i}" for i in range(400)], dtype="category")
    table = pa.table({"gear": pa.array(gear)})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=100)
    out = tmp_path / "again.parquet"
    with writing(out) as again:
        for part in read_parts(tmp_path / "t.parquet", 100):
            again.add(part)
    pd.testing.assert_series_equal(
        read(out)["gear"].astype(str), gear.astype(str), check_names=False
    )


@pytest.mark.parametrize(
    ("names", "rows", "message"),
    [
        (["a", "a"], 2, "there are two columns 'a'"),
        (["a", ""], 2, "column 2 has no name"),
        (["a", "b"], 0, "has columns but no rows"),
    ],
)
def test_wrong_parquet_is_an_error(names, rows, message, tmp_path):
    table = pa.Table.from_arrays([pa.array(np.arange(rows))] * 2, names=names)
    pq.write_table(table, tmp_path / "t.parquet")
    assert message in error_of(tmp_path / "t.parquet")


def test_damaged_parquet_is_an_error_that_names_the_file(tmp_path):
    whole = written(tmp_path / "t.parquet", FRAME).read_bytes()
    cut = put(tmp_path / "cut.parquet", whole[:-50])
    assert "Check that the file is whole" in error_of(cut)
    assert f"Cannot read {cut}: " in error_of(tmp_path)


@pytest.mark.parametrize("ending", [".parquet", ".csv.gz"])
def test_tables_that_outgrow_memory_are_refused_and_can_be_read_in_parts(
    ending, tmp_path, monkeypatch
):
    """Parquet before any of it is read, text on the way."""
    path = tmp_path / f"rain{ending}"
    frame = pd.DataFrame({"x": np.ones(100_000), "y": 0.0})
    frame.to_parquet(path) if ending == ".parquet" else frame.to_csv(path, index=False)
    assert path.stat().st_size < 20_000
    monkeypatch.setattr("zigp.data.tables.reading._room", lambda: 1.5e6)
    with pytest.raises(FileError, match=r"takes 0\.00\d+ GB or more, of which 0\.00\d+ GB in 'x'"):
        read(path)
    assert sum(len(part) for part in read_parts(path, 30_000)) == 100_000


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
def test_memory_does_not_grow_with_the_rows_of_a_csv_file_that_is_read_in_parts(tmp_path):
    """Ten times the rows, which take 300 MB in memory, take at most 30 MB more."""
    code = """
import sys
from zigp.data.tables import read_parts
rows = sum(len(part) for part in read_parts(sys.argv[1], 50_000))
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(rows, int(status["VmHWM"].split()[0]) / 1e3)
"""
    peaks = []
    for rows in (300_000, 3_000_000):
        path = put(tmp_path / f"{rows}.csv", "a,b,c\n" + "12.345678,23.456789,0.1\n" * rows)
        command = [sys.executable, "-c", code, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
        count, peak = done.stdout.split()
        assert int(count) == rows
        peaks.append(float(peak))
    assert peaks[1] - peaks[0] < 30


# -- lattices -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "write",
    [
        lambda path: LATTICE.to_netcdf(path, engine="scipy"),
        lambda path: LATTICE.to_netcdf(path, engine="h5netcdf"),
        lambda path: LATTICE.to_zarr(path, zarr_format=2, consolidated=False),
        lambda path: LATTICE.to_zarr(path, zarr_format=3, consolidated=False),
    ],
)
def test_lattices_of_others_are_read_whole_or_lazily_whatever_their_names(write, tmp_path):
    write(tmp_path / "l.dat")
    xr.testing.assert_equal(read(tmp_path / "l.dat"), LATTICE)
    assert read(tmp_path / "l.dat")["rain"].chunks is None
    with read(tmp_path / "l.dat", lazy=True) as lazy:
        assert lazy["rain"].chunks is not None
        xr.testing.assert_equal(lazy.compute(), LATTICE)


def test_lattices_come_back_in_full_precision_and_have_no_rows(tmp_path):
    lattice = LATTICE.copy(deep=True)
    lattice["rain"].encoding = {"dtype": "int16", "scale_factor": 0.1, "_FillValue": -1}
    for path in (tmp_path / "l.nc", tmp_path / "l.zarr"):
        write_dataset(lattice, path)
        xr.testing.assert_identical(read(path), LATTICE)
        with pytest.raises(FileError, match=r"is a lattice \(\w+\), which has no rows"):
            read_parts(path, 10)
    assert (tmp_path / "l.nc").read_bytes().startswith(HDF5)


def test_axes_alone_are_a_lattice_and_nothing_is_none(tmp_path):
    LATTICE.coords.to_dataset().to_netcdf(tmp_path / "l.nc", engine="scipy")
    assert set(read(tmp_path / "l.nc").coords) == set(LATTICE.coords)
    xr.Dataset().to_netcdf(tmp_path / "none.nc", engine="scipy")
    with pytest.raises(FileError, match="has no variables outside of groups"):
        read(tmp_path / "none.nc")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("l.nc", b"CDF\1 and no more", "Cannot read .* Check that the file is whole"),
        ("l.nc", b"CDF\5" + bytes(40), "is NetCDF of the kind CDF-5: convert it with nccopy"),
        ("l.nc", HDF5 + bytes(40), "Cannot read .*l.nc: "),
        ("zarr.json", b"not json", "Cannot read .* Check that the file is whole"),
    ],
)
def test_damaged_lattices_are_errors(name, content, message, tmp_path):
    path = put(tmp_path / name, content)
    with pytest.raises(FileError, match=message):
        read(tmp_path if name == "zarr.json" else path)


def empty_but_huge(path: Path, kind: str, **sizes: int) -> Path:
    """Write a lattice of a few KB in which nothing was ever stored."""
    arrays = {"rain": sizes} | {dim: {dim: n} for dim, n in sizes.items()}
    shapes = {name: tuple(along.values()) for name, along in arrays.items()}
    chunks = {name: tuple(min(n, 1 << 10) for n in shape) for name, shape in shapes.items()}
    if kind == "zarr":
        group = zarr.open_group(path, mode="w")
        for name, along in arrays.items():
            how = {"chunks": chunks[name], "dtype": "f8", "dimension_names": [*along]}
            group.create_array(name, shape=shapes[name], **how)
        return path
    with h5py.File(path, "w") as group:
        for name in reversed(arrays):
            made = group.create_dataset(name, shapes[name], "f8", chunks=chunks[name])
            if name != "rain":
                made.make_scale(name)
        for i, dim in enumerate(sizes):
            group["rain"].dims[i].attach_scale(group[dim])
    return path


@pytest.mark.parametrize("kind", ["zarr", "netcdf"])
def test_lattices_that_claim_more_than_memory_are_refused_unread(kind, tmp_path):
    path = empty_but_huge(tmp_path / "l", kind, lat=1 << 20, lon=1 << 20)
    with pytest.raises(FileError, match=r"takes 8\.8e\+03 GB or more, of which 8\.8e\+03 GB in 'r"):
        read(path)
    assert read(path, lazy=True).sizes == {"lat": 1 << 20, "lon": 1 << 20}
    path = empty_but_huge(tmp_path / "axis", kind, time=10**12, lat=9)
    for lazy in (False, True):
        with pytest.raises(FileError, match=r"8e\+03 GB in 'time'" if lazy else "in 'rain'"):
            read(path, lazy=lazy)
    if kind == "zarr":
        with pytest.raises(FileError, match="in 'time'"):
            open_stream(path, target="rain")


def test_a_lattice_of_too_many_chunks_is_refused(tmp_path):
    group, many = zarr.open_group(tmp_path, mode="w"), 1 << 12
    how = {"chunks": (1, 1), "dtype": "f8", "dimension_names": ["t", "x"]}
    group.create_array("rain", shape=(many, many), **how)
    for name in ("t", "x"):
        group.create_array(name, data=np.arange(many), dimension_names=[name])
    with pytest.raises(FileError, match=r"claims 1\.68e\+07 chunks"):
        open_stream(tmp_path, target="rain")


# -- packages that are missing --------------------------------------------------------------------


def test_without_zarr_the_extra_to_install_is_named(tmp_path, monkeypatch):
    write_dataset(LATTICE, tmp_path / "l.zarr")
    (tmp_path / "l.zarr").rename(tmp_path / "l")
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(FileError, match=r"Cannot read .*l: .*pip install 'zigp\[grids\]'"):
        read(tmp_path / "l")


@pytest.mark.parametrize("installed", [True, False])
def test_times_of_other_calendars_are_errors_that_say_how_to_convert_them(
    installed, tmp_path, monkeypatch
):
    attributes = {"units": "days since 2001-02-28", "calendar": "360_day"}
    days = xr.Variable("time", [0, 1], attributes)
    xr.Dataset({"rain": ("time", [0.0, 1.0]), "time": days}).to_netcdf(tmp_path / "l")
    if not installed:
        monkeypatch.setitem(sys.modules, "cftime", None)
    with pytest.raises(ValueError, match=r"calendar.*360_day.*\.convert_calendar\('standard'\)"):
        axes_of(read(tmp_path / "l")["rain"])


def test_without_dask_a_lattice_is_read_when_it_is_used(tmp_path, monkeypatch):
    LATTICE.to_netcdf(tmp_path / "l.nc", engine="scipy")
    monkeypatch.setitem(sys.modules, "dask", None)
    with read(tmp_path / "l.nc", lazy=True) as lattice:
        assert not any(array.chunks for array in lattice.values())
        xr.testing.assert_equal(lattice.load(), LATTICE)
