"""Tables and lattices are written whole or not at all, and every error says what to do."""

import errno
import io
import re
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from table_files import FRAME, LATTICE, error_of, put, written

from zigp.data import tables
from zigp.data.tables import TABLES, FileError, read, typed, writing


def whole(path: Path, force: bool = False) -> Path:
    return written(path, FRAME, force=force)


def test_times_and_truths_are_written_as_everybody_reads_them(tmp_path):
    frame = pd.DataFrame(
        {
            "plain": pd.to_datetime(["2020-01-01", None]),
            "zoned": pd.to_datetime(["2020-01-01T12:00:00.0+02:00", "2020-01-01T12:00:00.5+02:00"]),
            "wet": [True, False],
        }
    )
    text = written(tmp_path / "t.csv", frame).read_text()
    assert text == (
        "plain,zoned,wet\n"
        "2020-01-01T00:00:00,2020-01-01T12:00:00+02:00,True\n"
        ",2020-01-01T12:00:00.500000+02:00,False\n"
    )
    kinds = {"plain": "time", "zoned": "time", "wet": "number"}
    again = typed(read(tmp_path / "t.csv"), kinds).reset_index(drop=True)
    pd.testing.assert_frame_equal(again, typed(frame, kinds), check_dtype=False)


def test_the_same_rows_give_the_same_bytes_without_a_word_of_where_they_came_from(tmp_path):
    frame = read(written(tmp_path / "secret-name.csv", FRAME))
    for ending in TABLES:
        first, second = (written(tmp_path / f"{name}{ending}", frame) for name in "ab")
        assert first.read_bytes() == second.read_bytes()
        assert b"secret-name" not in first.read_bytes()


def test_csv_goes_to_standard_output(capsysbinary):
    written("-", FRAME[["count"]], FRAME[["count"]])
    assert capsysbinary.readouterr().out == b"count\n1\n2\n3\n4\n1\n2\n3\n4\n"


def test_standard_output_that_is_closed_is_left_to_the_caller(monkeypatch):
    class Closed(io.BytesIO):
        def flush(self):
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=Closed()))
    with pytest.raises(BrokenPipeError):
        written("-", FRAME)


# -- whole or not at all --------------------------------------------------------------------------


class Full(io.FileIO):
    """A file on a disk that is full after so many bytes."""

    room = 0

    def write(self, data):
        self.room -= len(data)
        if self.room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)


@pytest.mark.parametrize("ending", TABLES)
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, FileNotFoundError])
@pytest.mark.parametrize("frames", [[], [FRAME]])
def test_a_table_that_is_not_finished_leaves_nothing(ending, error, frames, tmp_path):
    with pytest.raises(error, match="on the way"):
        written(tmp_path / f"t{ending}", *frames, error=error("on the way"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ending", TABLES)
def test_the_old_file_stays_until_the_new_one_is_whole(ending, tmp_path):
    path = written(tmp_path / f"t{ending}", FRAME)
    old = path.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        written(path, FRAME[:1], force=True, error=KeyboardInterrupt())
    assert path.read_bytes() == old
    path.chmod(0o600)
    with writing(path, force=True) as out:
        out.add(FRAME[:1])
        assert path.read_bytes() == old
    assert len(read(path)) == 1
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("ending", TABLES)
@pytest.mark.parametrize("room", [0, 200])
def test_a_full_disk_is_an_error_and_leaves_the_old_file(ending, room, tmp_path, monkeypatch):
    def opened(path, mode="r", *rest, **options):
        if "x" not in mode:
            return open(path, mode, *rest, **options)
        file = Full(path, "xb")
        file.room = room
        return io.BufferedWriter(file, 64)

    path = put(tmp_path / f"t{ending}", "old")
    monkeypatch.setattr(Path, "open", opened)
    frame = pd.DataFrame({"x": np.random.default_rng(0).normal(size=1000)})
    with pytest.raises(FileError, match=r"Cannot write .*: No space left on device. Choose"):
        written(path, frame, force=True)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_rename_that_fails_is_an_error_and_leaves_all_as_it_was(tmp_path, monkeypatch):
    table, lattice = put(tmp_path / "t.csv", "old"), tmp_path / "l.zarr"
    tables.write_dataset(LATTICE, lattice)

    def refuse(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("os.replace", refuse)
    for path, write in ((table, whole), (lattice, partial(tables.write_dataset, LATTICE + 1))):
        with pytest.raises(FileError, match=rf"Cannot write .*{path.name}: Input/output error"):
            write(path, force=True)
    assert table.read_text() == "old"
    xr.testing.assert_identical(read(lattice), LATTICE)
    assert sorted(tmp_path.iterdir()) == [lattice, table]


def test_a_lattice_can_be_replaced_by_one_that_is_read_from_it(tmp_path):
    path = tmp_path / "l.zarr"
    tables.write_dataset(LATTICE, path)
    lazy = read(path, lazy=True)
    tables.write_dataset((lazy + 1).rename(rain="snow"), path, force=True)
    xr.testing.assert_identical(read(path), (LATTICE + 1).rename(rain="snow"))
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["l.zarr", "l.nc"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_a_lattice_that_is_not_finished_leaves_nothing(name, error, tmp_path, monkeypatch):
    def stop(self, part, **_):
        if name == "l.zarr":
            Path(part).mkdir()
        put(Path(part) / "zarr.json" if name == "l.zarr" else Path(part), "{}")
        raise error(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(xr.Dataset, "to_zarr", stop)
    monkeypatch.setattr(xr.Dataset, "to_netcdf", stop)
    expected = FileError if error is OSError else KeyboardInterrupt
    with pytest.raises(expected, match="No space left on device"):
        tables.write_dataset(LATTICE, tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "write", "message"),
    [
        ("t.csv", lambda p: written(p, FRAME[["count"]], FRAME[["rain"]]), "differ in columns"),
        (
            "t.parquet",
            lambda p: written(p, FRAME[["count"]], pd.DataFrame({"count": ["x"]})),
            r"Cannot write .*t\.parquet",
        ),
        (
            "l.zarr",
            lambda p: tables.write_dataset(LATTICE.stack(both=("time", "x")), p),
            r"Cannot write .*l\.zarr: .* Choose another --out",
        ),
    ],
)
def test_what_no_file_can_hold_is_an_error(name, write, message, tmp_path):
    with pytest.raises(FileError, match=message):
        write(tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ending", TABLES)
def test_no_rows_make_a_header_and_no_parts_no_file(ending, tmp_path):
    with pytest.raises(FileError, match="There is nothing to write to"):
        written(tmp_path / f"none{ending}")
    assert not list(tmp_path.iterdir())
    assert "no rows" in error_of(written(tmp_path / f"t{ending}", FRAME[:0]))


# -- where nothing can be written -----------------------------------------------------------------


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet", "l.zarr", "l.nc"])
@pytest.mark.parametrize(
    ("there", "message"),
    [
        ("a file", "exists. Choose another --out, or add --force."),
        ("a folder", "exists and is of another kind. Choose another --out."),
        ("nothing", "There is no folder {}: create it, or choose another --out."),
        ("a closed folder", "Permission denied. Choose another --out, or make it possible there."),
    ],
)
def test_every_way_of_writing_says_where_it_cannot(name, there, message, tmp_path, monkeypatch):
    def refuse(**_):
        raise PermissionError(errno.EACCES, "Permission denied")

    path = tmp_path / "no" / name if there == "nothing" else tmp_path / name
    if there == "a file":
        put(path, "old")
    elif there == "a folder":
        path.mkdir()
        put(path / "thesis.tex", "years of work")
    elif there == "a closed folder":
        monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    if (there, name) == ("a file", "l.zarr"):  # those are folders: --force would not help
        message = "exists and is of another kind. Choose another --out."
    before = {one: one.is_file() and one.read_text() for one in tmp_path.rglob("*")}
    force, is_lattice = there != "a file", name.endswith(tables.LATTICES)
    write = partial(tables.write_dataset, LATTICE) if is_lattice else whole
    for attempt in (tables.check_writable, write):
        with pytest.raises(FileError, match=re.escape(message.format(path.parent))):
            attempt(path, force=force)
    assert before == {one: one.is_file() and one.read_text() for one in tmp_path.rglob("*")}


@pytest.mark.parametrize("name", ["t.xlsx", "t", "t.gz", "null"])
@pytest.mark.parametrize(
    ("write", "known"),
    [
        (tables.check_writable, r"\.csv, .*\.parquet, \.nc, \.zarr:"),
        (written, r"\.csv, \.csv\.gz, \.tsv, \.parquet:"),
        (lambda path: tables.write_dataset(LATTICE, path), r"\.nc, \.zarr:"),
    ],
)
def test_errors_about_endings_list_the_known_ones(name, write, known, tmp_path):
    with pytest.raises(FileError, match=f"does not end in {known}"):
        write(tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("path", "endings", "message"),
    [
        ("-", tables.LATTICES, r"choose a file that ends in \.nc or \.zarr as --out"),
        ("-", (), "cannot go to standard output: choose a file as --out"),
        ("new/", (), "new/ is a folder: choose a file in it as --out"),
    ],
)
def test_what_cannot_go_to_standard_output_or_a_folder_is_an_error(path, endings, message):
    with pytest.raises(FileError, match=message):
        tables.check_writable(path, endings=endings)


def test_checks_alone_write_nothing(tmp_path):
    for name in ("t.csv", "T.CSV", "l.zarr", "l.nc"):
        tables.check_writable(tmp_path / name)
    tables.check_writable("-")
    tables.check_writable(tmp_path / "model.zigp", endings=())
    assert not list(tmp_path.iterdir())
    tables.check_writable(put(tmp_path / "t.csv", "old"), force=True)
    assert (tmp_path / "t.csv").read_text() == "old"


def test_a_link_is_written_through(tmp_path):
    real, link = put(tmp_path / "real.csv", "old"), tmp_path / "link.csv"
    link.symlink_to(real)
    written(link, FRAME, force=True)
    assert link.is_symlink()
    assert len(read(real)) == len(FRAME)
