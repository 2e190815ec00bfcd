"""The content of a file decides how it is read."""

from __future__ import annotations

import errno
import gzip
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file
from table_files import FRAME, HDF5, error_of, put, written

from zigp.data.tables import locate, read, read_parts


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
        (b"CDF\1....", "netcdf"),
        (b"CDF\2....", "netcdf"),
        (b"CDF\5....", "netcdf"),
        (HDF5, "netcdf"),
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
