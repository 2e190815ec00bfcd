"""Streams: every row once a pass, in an order that repeats, and errors that name the place."""

import gc
import subprocess
import sys
import threading
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray as xr

from zigp import SparseGPRegressor, ZeroInflatedGPRegressor
from zigp.data.columns import Table
from zigp.data.streams import Block, Stream, open_stream, prefetched
from zigp.data.tables import FileError
from zigp.estimators.fitting import block_and_step

ROWS = 1000
UNEVEN = [70, 1, 400, 29, 250, 3, 47, 200]


def frame(rows: int = ROWS) -> pd.DataFrame:
    """A table whose rows are numbered."""
    number = np.arange(rows)
    return pd.DataFrame({"id": number, "x": number / 7, "rain": number * 3.0})


def put(path: Path, table: pd.DataFrame, *groups: int) -> Path:
    """Write a table in row groups of these sizes, over and over; of 70 rows by default."""
    sizes = np.resize(groups or 70, len(table))
    whole = pa.Table.from_pandas(table, preserve_index=False)
    with pq.ParquetWriter(path, whole.schema) as file:
        for first, size in zip(np.cumsum(sizes) - sizes, sizes, strict=True):
            file.write_table(whole[first : first + size])
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return put(tmp_path / "rows.parquet", frame())


@pytest.fixture
def small_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A buffer of 200 rows with three columns."""
    monkeypatch.setattr("zigp.data.streams.stream._BUFFER", 200 * 3 * 8)


@pytest.fixture
def groups_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The row groups that were decoded."""
    read: list[int] = []
    decode = pq.ParquetFile.iter_batches
    monkeypatch.setattr(
        pq.ParquetFile,
        "iter_batches",
        lambda file, rows, groups, *more, **other: (
            read.extend(groups) or decode(file, rows, groups, *more, **other)
        ),
    )
    return read


def opened(source: Any, rows: int = 128, **settings: Any) -> Stream:
    return open_stream(source, **{"target": "rain", "rows_per_block": rows} | settings)


def ids(blocks: Iterable[Block]) -> list[list[int]]:
    """The rows of every block, without those of weight 0."""
    return [block.X[block.weight > 0, 0].astype(int).tolist() for block in blocks]


def flat(blocks: Iterable[Block]) -> list[int]:
    return [row for block in ids(blocks) for row in block]


def error_of(source: Any, **settings: Any) -> str:
    """The message about a source when it is opened or read."""
    with pytest.raises(FileError) as error:
        list(opened(source, **settings).blocks(0, 0))
    return str(error.value)


# -- blocks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [3, 64, 999, 1000, 5000])
@pytest.mark.parametrize("buffer", [2**28, 4800])
@pytest.mark.parametrize("large", [2**14, 200, 16])
@pytest.mark.parametrize("groups", [UNEVEN, [ROWS]])
def test_every_row_is_in_a_pass_once_and_blocks_have_equally_many(
    rows: int,
    buffer: int,
    large: int,
    groups: list[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("zigp.data.streams.stream._BUFFER", buffer)
    monkeypatch.setattr("zigp.data.streams.buffers._LARGE", large)  # runs of 1, 5 and 16 rows
    stream = opened(put(tmp_path / "rows.parquet", frame(), *groups), rows)
    blocks = list(stream.blocks(3, 5))
    assert len(blocks) == stream.blocks_per_pass == -(-ROWS // rows)
    assert sorted(flat(blocks)) == list(range(ROWS))
    for block in blocks:
        assert [(v.shape, v.dtype) for v in block] == [((rows, 2), float), *2 * [((rows,), float)]]
        real = int(block.weight.sum())
        assert 0 <= real - ROWS // len(blocks) <= 1
        np.testing.assert_array_equal(block.weight, np.arange(rows) < real)
        np.testing.assert_array_equal(block.y, 3 * block.X[:, 0] * block.weight)
        np.testing.assert_array_equal(block.X[:, 1], block.X[:, 0] / 7)  # of padding too


def test_rows_and_names_need_no_data(path: Path, groups_read: list[int]):
    assert (opened(path).rows, opened(path).names) == (ROWS, ("id", "x"))
    assert opened(path, columns=["x"]).names == ("x",)
    assert groups_read == []


@pytest.mark.parametrize("large", [2**14, 16])
@pytest.mark.usefixtures("small_buffer")
def test_an_order_belongs_to_seed_pass_and_part(
    path: Path, large: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("zigp.data.streams.buffers._LARGE", large)
    stream = opened(path)
    first = ids(stream.blocks(0, 0))
    assert first == ids(opened(path).blocks(0, 0))
    for seed, pass_number in ((0, 1), (1, 0)):
        other = ids(stream.blocks(seed, pass_number))
        assert {*other[0]} != {*first[0]}  # not only the order of rows within blocks


@pytest.mark.usefixtures("small_buffer")
def test_a_block_mixes_the_row_groups_of_a_buffer(path: Path):
    for block in ids(opened(path, rows=32).blocks(0, 0)):
        assert len({row // 70 for row in block}) >= 3
        assert block != sorted(block)
    for block in ids(opened(path, rows=200).blocks(0, 0)):
        # In every part of a block too, as one device has it.
        assert all(len({row // 70 for row in block[at : at + 32]}) >= 3 for at in (0, 80, 160))


def test_a_large_buffer_mixes_short_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("zigp.data.streams.buffers._LARGE", 2**9)
    path = put(tmp_path / "rows.parquet", frame(2**14), 2**11)
    for block in ids(opened(path, rows=2**10).blocks(0, 0)):
        assert len({row // 2**11 for row in block[:256]}) >= 5
        assert len({row // 2**11 for row in block}) == 8
        assert np.mean(np.diff(block) == 1) < 0.95


@pytest.mark.parametrize("skip", [0, 1, 5, 7, 8, 20])
@pytest.mark.usefixtures("small_buffer")
def test_skipping_blocks_gives_the_others(path: Path, skip: int):
    stream = opened(path, part=(1, 2), rows=60)
    whole = list(stream.blocks(4, 2))
    tail = list(stream.blocks(4, 2, skip))
    assert len(tail) == max(len(whole) - skip, 0)
    for block, expected in zip(tail, whole[skip:], strict=True):
        np.testing.assert_array_equal(np.column_stack(block), np.column_stack(expected))


@pytest.mark.usefixtures("small_buffer")
def test_skipped_blocks_are_not_read(path: Path, groups_read: list[int]):
    stream = opened(path, rows=70)
    list(stream.blocks(0, 0, skip=stream.blocks_per_pass - 2))
    assert len(set(groups_read)) <= 4


# -- parts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("among", [1, 2, 3, 7, 40])
@pytest.mark.parametrize("groups", [[70], UNEVEN])
def test_parts_are_disjoint_complete_and_even(tmp_path: Path, among: int, groups: list[int]):
    path = put(tmp_path / "rows.parquet", frame(), *groups)
    parts = [opened(path, part=(i, among), rows=32) for i in range(among)]
    passes = [list(part.blocks(0, 0)) for part in parts]
    assert {len(blocks) for blocks in passes} == {parts[0].blocks_per_pass}
    rows = [flat(blocks) for blocks in passes]
    assert sorted(row for part in rows for row in part) == list(range(ROWS))
    assert max(map(len, rows)) - min(map(len, rows)) <= min(max(groups), ROWS // among)
    assert all((block.X[:, 1] == block.X[:, 0] / 7).all() for blocks in passes for block in blocks)


# -- samples --------------------------------------------------------------------------------------


def test_a_small_source_is_its_own_sample(path: Path):
    X, y = opened(path).sample(ROWS, 0)
    pd.testing.assert_frame_equal(X, frame()[["id", "x"]])
    np.testing.assert_array_equal(y, frame()["rain"])
    with pytest.raises(ValueError, match="at least one row"):
        opened(path).sample(0, 0)


@pytest.mark.usefixtures("small_buffer")
def test_a_sample_comes_from_all_over_and_is_the_same_for_all(path: Path):
    X, y = opened(path).sample(200, 3)
    assert len(X) == len(set(X["id"])) == 200
    np.testing.assert_array_equal(y, 3.0 * X["id"])
    assert X["id"].is_monotonic_increasing
    assert set(X["id"] // 70) == set(range(15))
    pd.testing.assert_frame_equal(opened(path, part=(2, 5), rows=10).sample(200, 3)[0], X)
    assert set(opened(path).sample(200, 4)[0]["id"]) != set(X["id"])


@pytest.mark.parametrize(("n", "most", "count"), [(100, 2**25, 64), (400, 2**25, 160), (9, 80, 8)])
def test_a_sample_reads_few_row_groups_from_all_over(
    n: int,
    most: int,
    count: int,
    tmp_path: Path,
    groups_read: list[int],
    monkeypatch: pytest.MonkeyPatch,
):
    """More where they are small, fewer where they are large."""
    monkeypatch.setattr("zigp.data.streams.stream._MOST_READ", most)
    X, _ = opened(put(tmp_path / "rows.parquet", frame(2000), 10)).sample(n, 0)
    assert len(X) == n
    assert 0.7 * count <= len(groups_read) <= count
    assert np.histogram(X["id"], 4, (0, 2000))[0].min() > 0
    assert abs(X["id"].mean() - 1000) < 1000 / np.sqrt(len(groups_read))


# -- targets and inputs ---------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [np.nan, None])
def test_rows_without_a_target_have_weight_zero(tmp_path: Path, missing: float | None):
    table = frame()
    gone = table["id"] % 3 == 0
    table["rain"] = table["rain"].astype(object).mask(gone, missing)
    path = put(tmp_path / "gaps.parquet", table.astype({"rain": float if missing else "Float64"}))
    blocks = list(opened(path).blocks(0, 0))
    assert sorted(flat(blocks)) == table["id"][~gone].tolist()
    assert all(np.isfinite(block.y).all() for block in blocks)
    X, y = opened(path).sample(ROWS, 0)
    np.testing.assert_array_equal(3.0 * X["id"], y)
    np.testing.assert_array_equal(np.isnan(opened(path).sample(ROWS, 0, gaps=True)[1]), gone)


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("x", np.nan, "missing. Fill them in"),
        ("x", None, "missing. Fill them in"),
        ("x", np.inf, "infinite. Correct them"),
        ("rain", -np.inf, r"infinite. Make them missing \(NaN\)"),
        ("time", pd.NaT, "missing. Fill them in"),
        ("site", None, "missing. Fill them in"),
    ],
)
def test_missing_and_infinite_values_are_refused_with_their_place(
    tmp_path: Path, name: str, value: Any, what: str
):
    table = frame().assign(time=pd.Timestamp("2020-01-01"), site="a")
    whole = Table.of(table[["id", "x", "time", "site"]].astype({"site": "category"}))
    if value is None:
        table["x"] = table["x"].astype("Float64")
    table.loc[500, name] = value
    path = put(tmp_path / "bad.parquet", table)
    stream = opened(path, categories=["site"])
    place = f"{path}, row group 7, column {name!r}: some values are {what}"
    with pytest.raises(FileError, match=place):
        stream.sample(ROWS, 0)
    with pytest.raises(FileError, match=place):
        list(stream.read_as(whole).blocks(0, 0))


def test_numbers_of_every_type_are_read(tmp_path: Path):
    table = pa.table(
        {
            "id": pa.array(range(ROWS), pa.int16()),
            "half": pa.array(np.arange(ROWS).astype(np.float16)),
            "single": pa.array(np.arange(ROWS) / 2, pa.float32()),
            "wet": pa.array([i % 2 == 0 for i in range(ROWS)]),
            "money": pa.array(range(ROWS), pa.int64()).cast(pa.decimal128(30, 2)),
            "rain": pa.array([None if i % 2 else i for i in range(ROWS)], pa.decimal128(30, 2)),
        }
    )
    pq.write_table(table, tmp_path / "types.parquet", row_group_size=100)
    stream = opened(tmp_path / "types.parquet")
    sample, y = stream.sample(ROWS, 0)
    expected = Table.of(sample).numbers(sample).to_numpy(float)
    rows = np.concatenate([block.X[block.weight > 0] for block in stream.blocks(0, 0)])
    np.testing.assert_array_equal(rows[np.argsort(rows[:, 0])], expected)
    np.testing.assert_array_equal(expected[:, 1:], expected[:, :1] * [1, 0.5, 0, 1] + [0, 0, 1, 0])
    np.testing.assert_array_equal(y, np.arange(0, ROWS, 2))


@pytest.mark.parametrize("zone", [None, "Europe/Rome"])
def test_times_and_levels_are_read_as_a_table_has_them(tmp_path: Path, zone: str | None):
    table = frame()
    table["time"] = pd.date_range("2020-01-01", periods=ROWS, freq="13min", tz=zone)
    table["day"] = pd.date_range("2020-01-01", periods=ROWS).date
    table["site"] = [f"s{i % 5}" for i in range(ROWS)]
    table["kind"] = pd.Categorical([f"k{i % 3}" for i in range(ROWS)])
    table["code"] = table["id"] % 4
    path = put(tmp_path / "typed.parquet", table)
    stream = opened(path, categories=["site", "code"])
    with pytest.raises(ValueError, match=r"stream\.read_as\(table\)"):
        next(stream.blocks(0, 0))
    sample, _ = stream.sample(ROWS, 0)
    whole = Table.of(sample)
    assert [sample.columns[at] for at in whole.categories] == ["site", "kind", "code"]
    assert whole.columns["code"].levels == ("0", "1", "2", "3")
    expected = whole.numbers(sample).to_numpy()
    rows = np.concatenate([b.X[b.weight > 0] for b in stream.read_as(whole).blocks(0, 0)])
    np.testing.assert_array_equal(rows[np.argsort(rows[:, 0])], expected)
    with pytest.raises(ValueError, match=r"id \(number\), x \(number\).* Make it with Table.of"):
        stream.read_as(Table.of(frame()[["id", "x"]]))


def test_levels_outside_the_sample_must_be_named(tmp_path: Path):
    table = frame()
    table["site"] = np.where(table["id"] == 444, "rare", "often")
    path = put(tmp_path / "levels.parquet", table)
    stream = opened(path, categories=["site"])
    sample, _ = stream.sample(20, 0)
    with pytest.raises(FileError, match=r"row group 6, column 'site' has levels .* sample: rare"):
        list(stream.read_as(Table.of(sample)).blocks(0, 0))
    stream = opened(path, categories={"site": ["often", "rare"]})
    blocks = stream.read_as(Table.of(stream.sample(20, 0)[0])).blocks(0, 0)
    assert sum(block.X[block.weight > 0, 2].sum() for block in blocks) == 1
    with pytest.raises(FileError, match="column 'site' has levels that were not named: often"):
        opened(path, categories={"site": ["rare"]}).sample(20, 0)


# -- sources --------------------------------------------------------------------------------------


def test_a_folder_is_one_table_whose_footers_are_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    without, made = [], pq.ParquetFile

    def counted(source: Any, metadata: Any = None, **settings: Any) -> Any:
        without.extend([source] * (metadata is None))
        return made(source, metadata=metadata, **settings)

    (tmp_path / "year=2020").mkdir()
    (tmp_path / "_SUCCESS").touch()
    files = [put(tmp_path / f"{i:02}.pq", frame()[i * 50 : i * 50 + 50]) for i in range(20)]
    files.append(put(tmp_path / "year=2020" / "empty.parquet", frame()[:0]))
    monkeypatch.setattr(pq, "ParquetFile", counted)
    stream = opened(tmp_path)
    assert sorted(flat(stream.blocks(0, 0))) == list(range(ROWS))
    assert stream.sample(ROWS, 0)[0]["id"].tolist() == list(range(ROWS))
    assert sorted(without) == sorted(map(str, files))


@pytest.fixture
def memory() -> Iterator[Any]:
    system = fsspec.filesystem("memory")
    yield system
    system.store.clear()


def test_an_address_is_read_like_a_path(path: Path, memory: Any):
    memory.pipe_file("/rows/one.parquet", path.read_bytes())
    memory.pipe_file("/rows/two.parquet", path.read_bytes())
    expected = ids(opened(path).blocks(0, 0))
    assert ids(opened("memory://rows/one.parquet").blocks(0, 0)) == expected
    assert ids(opened(path.as_uri()).blocks(0, 0)) == expected
    both = opened("memory://rows").blocks(0, 0)
    assert sorted(flat(both)) == sorted([*range(ROWS), *range(ROWS)])
    pd.testing.assert_frame_equal(
        opened("memory://rows/one.parquet").sample(50, 1)[0], opened(path).sample(50, 1)[0]
    )


def test_an_unusable_source_is_refused_with_a_remedy(tmp_path: Path, path: Path, memory: Any):
    (tmp_path / "rows.csv").write_text("id,rain\n1,2\n")
    (tmp_path / "empty").mkdir()
    memory.pipe_file("/text", b"id,rain\n1,2\n")
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(path.read_bytes()[:4] + bytes(3996) + path.read_bytes()[4000:])
    text = put(tmp_path / "text.parquet", frame().assign(site="a", rain="b"))
    levels = put(tmp_path / "levels.parquet", frame().assign(site="a"))
    grid, bare = tmp_path / "grid.zarr", tmp_path / "bare.zarr"
    cells = lattice().isel(time=0, drop=True)
    cells["rain"][3, 5] = np.inf
    cells.to_zarr(grid, encoding={"rain": {"chunks": (3, 4)}}, consolidated=False)
    lattice().drop_vars("time").to_zarr(bare, consolidated=False)
    for source, settings, message in (
        (tmp_path / "none.parquet", {}, "There is no file"),
        (tmp_path / "rows.csv", {}, "write it as Parquet first"),
        (tmp_path / "empty", {}, "has no files that end in .parquet"),
        ("memory://nowhere", {}, "There is nothing at memory://nowhere: check the address."),
        ("memory://text", {}, "is no Parquet file: write it as Parquet"),
        ("nonsense://bucket/rows", {}, "Protocol not known: nonsense"),
        (put(tmp_path / "bare.parquet", frame()[["rain"]]), {}, "has no inputs"),
        (put(tmp_path / "no.parquet", frame()[:0]), {}, "has columns but no rows"),
        (path, {"columns": ["z"]}, "has no column 'z'. It has id, x, rain."),
        (path, {"categories": ["z"]}, "has no column 'z'. It has id, x, rain."),
        (path, {"part": (0, 1001)}, "has 1000 rows: too few for 1001 processes."),
        (text, {"columns": ["id"]}, "column 'rain' holds"),
        (levels, {}, f"{levels}, column 'site' holds"),
        (levels, {}, "name it among the categories if these are levels"),
        (broken, {}, f"Cannot read {broken}, row group"),
        (bare, {}, "Dimension 'time' has no coordinates"),
        (grid, {"columns": ["level", "lat", "z"]}, "has no axis 'z': rain runs along lat, level."),
        (grid, {"target": "snow"}, "has no variable 'snow'. It has rain"),
        (grid, {"categories": ["lat"]}, "leave categories out"),
        (grid, {}, "chunk station 3:6, level 4:8, column 'rain': some values are inf"),
    ):
        assert message in error_of(source, **settings)


def test_an_address_without_fsspec_names_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    assert "pip install fsspec" in error_of("s3://bucket/rows")


@pytest.mark.parametrize("setting", [{"part": (1, 1)}, {"rows": 0}, {"columns": ["rain"]}])
def test_settings_are_checked(path: Path, setting: dict[str, Any]):
    with pytest.raises(ValueError, match=r"part is|rows_per_block is|is the target"):
        opened(path, **setting)


# -- lattices -------------------------------------------------------------------------------------


def lattice() -> xr.Dataset:
    rng = np.random.default_rng(0)
    values = rng.random((20, 7, 11))
    values[rng.random(values.shape) < 0.1] = np.nan
    return xr.Dataset(
        {"rain": (("time", "station", "level"), values)},
        {
            "time": pd.date_range("2020-01-01", periods=20, freq="h"),
            "lat": ("station", 40 + rng.random(7)),
            "lon": ("station", rng.random(7)),
            "level": np.arange(11) ** 2.0,
        },
    )


def sorted_rows(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    rows = np.column_stack([X, y])
    return rows[np.lexsort(rows.T[::-1])]


@pytest.mark.parametrize("address", ["path", "memory://rain.zarr"])
@pytest.mark.parametrize("buffer", [2**28, 100 * 5 * 8])
def test_a_lattice_is_the_table_of_its_cells(
    tmp_path: Path, memory: Any, address: str, buffer: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("zigp.data.streams.stream._BUFFER", buffer)  # of less than a chunk
    source = str(tmp_path / "rain.zarr") if address == "path" else address
    chunks = {"rain": {"chunks": (6, 3, 11)}}
    lattice().to_zarr(source, encoding=chunks, consolidated=False)
    stream = opened(source, rows=50)
    assert stream.rows == 20 * 7 * 11
    assert stream.names == ("time", "lat", "lon", "level")
    assert stream.groups == {"time": ["time"], "station": ["lat", "lon"], "level": ["level"]}
    cells = lattice().to_dataframe().reset_index()[[*stream.names, "rain"]].dropna()
    X, y = stream.sample(stream.rows, 0)
    table = Table.of(X)
    expected = sorted_rows(table.numbers(cells[list(X)]).to_numpy(), cells["rain"].to_numpy())
    np.testing.assert_array_equal(sorted_rows(table.numbers(X).to_numpy(), y), expected)
    parts = [opened(source, rows=50, part=(i, 2)).read_as(table) for i in range(2)]
    blocks = [block for part in parts for block in part.blocks(1, 0)]
    observed = np.concatenate([block.weight > 0 for block in blocks])
    rows = (np.concatenate(values)[observed] for values in list(zip(*blocks, strict=True))[:2])
    np.testing.assert_array_equal(sorted_rows(*rows), expected)
    again = next(parts[0].blocks(1, 0, skip=3))
    np.testing.assert_array_equal(again.X, blocks[3].X)
    few, _ = stream.sample(50, 0)
    assert 30 < len(few) <= 50


def test_columns_of_a_lattice_can_be_chosen_and_ordered(tmp_path: Path):
    lattice().isel(time=0, drop=True).to_zarr(tmp_path / "a.zarr", consolidated=False)
    stream = opened(tmp_path / "a.zarr", columns=["level", "lon", "lat"])
    assert stream.names == ("level", "lon", "lat")
    level, lon, lat = next(stream.blocks(0, 0)).X.T
    assert set(level) <= set(np.arange(11) ** 2.0)
    assert lon.max() < 2 < lat.min()


# -- fits ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("lattice", [False, True])
def test_a_stream_in_one_block_is_fitted_as_the_same_rows_in_memory(tmp_path: Path, lattice: bool):
    rng = np.random.default_rng(0)
    cube = xr.Dataset(
        {"rain": (("a", "b"), np.maximum(3 * rng.normal(size=(16, 32)), 0))},
        {"a": np.arange(16.0), "b": np.arange(32.0)},
    ).where(rng.random((16, 32)) > 0.2 * lattice)
    cells = cube.to_dataframe().reset_index().dropna()
    if lattice:
        chunks = {"rain": {"chunks": (4, 8)}}
        cube.to_zarr(tmp_path / "rows", encoding=chunks, consolidated=False)
    else:
        put(tmp_path / "rows", cells, 64)
    stream = opened(tmp_path / "rows", rows=512)
    settings = {"n_inducing": 5, "steps": 30, "batch_size": 512, "tol": 0.0}
    streamed = ZeroInflatedGPRegressor(**settings).fit_stream(stream)
    resident = ZeroInflatedGPRegressor(column_groups=stream.groups, **settings)
    resident.fit(cells[["a", "b"]], cells["rain"])
    np.testing.assert_allclose(streamed.bounds_, resident.bounds_, rtol=1e-6)
    assert streamed.n_rows_ == resident.n_rows_ == len(cells)
    predicted, expected = (model.predict(cells[["a", "b"]]) for model in (streamed, resident))
    np.testing.assert_allclose(predicted, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [2048, 2050])
def test_the_bound_of_a_pass_is_that_of_all_rows_to_its_end(rows: int, tmp_path: Path):
    """Two rows more make a block more, which must not consist of padding."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.uniform(0, 10, rows)})
    table["rain"] = np.sin(table["x"]) + 0.1 * rng.normal(size=rows)
    stream = opened(put(tmp_path / "rows.parquet", table, 128), rows=1024)
    settings = {"n_inducing": 12, "batch_size": 128, "method": "natural", "learning_rate": 0.02}
    model = SparseGPRegressor(schedule="constant", **settings).fit_stream(stream, passes=6)
    last = model.bounds_[-8:].mean()  # the steps of a block
    assert last == pytest.approx(model.elbo(table[["x"]], table["rain"]), rel=0.1)


@pytest.mark.parametrize("rows", [1, 1000, 2**18, 10**6])
@pytest.mark.parametrize("batch", [1, 7, 2**14, 10**9])
def test_blocks_have_whole_steps_on_any_number_of_devices(rows, batch):
    """Blocks have the rows wanted and at most a step more; no step is too large."""
    for here in range(1, 9):
        for processes in range(1, 8):
            block, size = block_and_step(rows, batch, here * processes, here)
            assert block % size == 0
            assert 0 <= block * here - rows < (size + 1) * here
            assert 1 <= size * here * processes <= max(batch, here * processes)
    assert block_and_step(2**18, 2**14, 4, 2) == (2**17, 2**12)


@pytest.mark.slow
def test_a_stream_is_fitted_in_steps_that_do_not_divide_its_blocks(tmp_path: Path):
    """600 rows, in blocks of 256 that become 300: three steps of 100 rows in each of two."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.uniform(0, 9, 600)})
    table["rain"] = np.where(np.sin(table["x"]) > 0, 2.0, 0.0)
    stream = opened(put(tmp_path / "rows.parquet", table, 64), rows=256)
    model = SparseGPRegressor(n_inducing=6, batch_size=100).fit_stream(stream, passes=2)
    assert model.n_iter_ == 12
    assert stream.rows_per_block == 256


# -- threads --------------------------------------------------------------------------------------


def threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("zigp-")]


@pytest.mark.parametrize("items", [[], [1, None, 2]])
def test_prefetched_items_are_the_same(items: list[Any]):
    assert list(prefetched((item for item in items), ahead=5)) == items


def test_errors_are_raised_after_the_items_before_them():
    def failing() -> Generator[int]:
        yield from (1, 2)
        raise FileError("the disk is gone")

    items = prefetched(failing())
    assert [next(items), next(items)] == [1, 2]
    with pytest.raises(FileError, match="the disk is gone"):
        next(items)
    assert threads() == []


def test_no_more_items_are_made_ahead_than_wanted():
    made: list[int] = []
    items = prefetched((made.append(i) or i for i in range(100)), ahead=2)
    assert [next(items), next(items)] == [0, 1]
    items.close()
    assert made in ([0, 1], [0, 1, 2], [0, 1, 2, 3])


@pytest.mark.parametrize("how", ["close", "forget"])
def test_threads_end_with_their_reader(path: Path, how: str):
    items = prefetched(opened(path, rows=10).blocks(0, 0))
    next(items)
    assert threads() != []
    if how == "close":
        items.close()
    del items
    gc.collect()
    assert threads() == []


def test_a_program_ends_in_the_middle_of_a_pass(path: Path):
    code = f"""
import itertools
from zigp.data.streams import open_stream, prefetched
stream = open_stream({str(path)!r}, target="rain", rows_per_block=20)
blocks = prefetched(block for number in itertools.count() for block in stream.blocks(0, number))
print(next(blocks).weight.sum())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "20.0"
    assert done.stderr == ""
