"""Data in blocks: every row once, in an order that can be repeated, and mistakes are told."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Iterator
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
from zigp.cli.streams import _can_be_large
from zigp.data.columns import Table
from zigp.data.streams import Block, Stream, open_stream, prefetched
from zigp.data.streams import order as ordering
from zigp.data.streams.order import Schedule, drawn, shares, turns
from zigp.data.streams.parquet import ParquetSource
from zigp.data.tables import FileError
from zigp.estimators.streams import block_and_step

ROWS = 1000


def frame(rows: int = ROWS) -> pd.DataFrame:
    """A table in which every row is known by its number."""
    number = np.arange(rows)
    return pd.DataFrame({"id": number, "x": number / 7, "rain": number * 3.0})


def put(path: Path, table: pd.DataFrame, rows: int = 70) -> Path:
    pq.write_table(pa.Table.from_pandas(table, preserve_index=False), path, row_group_size=rows)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return put(tmp_path / "rows.parquet", frame())


def opened(source: Any, rows: int = 128, **settings: Any) -> Stream:
    return open_stream(source, target="rain", rows_per_block=rows, **settings)


def ids(blocks: Iterator[Block]) -> list[list[int]]:
    """The rows of every block, without those of weight 0."""
    return [block.X[block.weight > 0, 0].astype(int).tolist() for block in blocks]


def flat(blocks: list[list[int]]) -> list[int]:
    return [one for block in blocks for one in block]


def told(source: Any, **settings: Any) -> str:
    """What is said about a source when it is opened, or read."""
    with pytest.raises(FileError) as error:
        list(opened(source, **settings).blocks(0, 0))
    return str(error.value)


# -- blocks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [3, 64, 128, 999, 1000, 5000])
@pytest.mark.parametrize("pieces", [1, 3, 8, 100])
def test_every_row_is_in_a_pass_once(path: Path, rows: int, pieces: int):
    stream = opened(path, rows, pieces_per_block=pieces)
    blocks = list(stream.blocks(3, 5))
    assert len(blocks) == stream.blocks_per_pass == -(-ROWS // rows)
    assert sorted(flat(ids(iter(blocks)))) == list(range(ROWS))
    for block in blocks:
        assert block.X.shape == (rows, 2)
        assert block.y.shape == block.weight.shape == (rows,)
        assert {array.dtype for array in block} == {np.dtype(float)}
        real = block.weight > 0
        np.testing.assert_array_equal(block.y[real], 3 * block.X[real, 0])
        np.testing.assert_array_equal(block.X[real, 1], block.X[real, 0] / 7)


def test_rows_and_names_need_no_data(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ParquetSource, "batches", None)
    stream = opened(path)
    assert stream.rows == ROWS
    assert stream.names == ("id", "x")
    assert opened(path, columns=["x"]).names == ("x",)


def test_an_order_belongs_to_seed_and_pass(path: Path):
    stream = opened(path)
    once = ids(stream.blocks(0, 0))
    assert once == ids(opened(path).blocks(0, 0))
    for seed, pass_number in ((0, 1), (1, 0)):
        other = ids(stream.blocks(seed, pass_number))
        assert other != once
        assert {*other[0]} != {*once[0]}  # not only rows within blocks


def test_no_two_purposes_draw_the_same_numbers(path: Path, monkeypatch: pytest.MonkeyPatch):
    """NumPy takes a key with zeros at its end for the same key without them."""
    keys, made = set(), np.random.default_rng

    def noted(key: tuple[int, ...]) -> np.random.Generator:
        keys.add(tuple(int(part) for part in key))
        return made(key)

    monkeypatch.setattr(np.random, "default_rng", noted)
    stream = opened(path)
    stream.sample(50, 0)
    for number in (0, 1):
        list(stream.blocks(0, number))
    assert len(keys) > 5
    assert len({tuple(made(key).integers(2**62, size=2)) for key in keys}) == len(keys)
    assert all(key[-1] for key in keys)


def test_a_block_mixes_row_groups_and_rows(path: Path):
    """Of eight lanes two have fewer rows than the others, and may give none to a block."""
    for block in ids(opened(path).blocks(0, 0)):
        assert len({one // 70 for one in block}) >= 6
        assert block != sorted(block)
        # Of any part of a block, such as a minibatch, the rows come from several row groups.
        assert len({one // 70 for one in block[:32]}) >= 4


@pytest.mark.parametrize("total", [1000, 1002, 3002])
def test_a_block_mixes_large_row_groups_however_full_it_is(total: int):
    sizes = np.full(8, total // 8)
    sizes[0] += total - sizes.sum()
    schedule = Schedule(sizes, np.arange(8), 8, 1000, blocks=-(-total // 1000))
    for number in range(schedule.blocks):
        given = [sum(cut.stop - cut.start for cut in cuts) for cuts in schedule.block(number)]
        assert min(given) > 0.9 * max(given)


@pytest.mark.parametrize("skip", [0, 1, 5, 7, 8, 20])
def test_to_skip_blocks_gives_the_others(path: Path, skip: int):
    stream = opened(path, part=(1, 2), rows=60)
    whole = list(stream.blocks(4, 2))
    tail = list(stream.blocks(4, 2, skip))
    assert len(tail) == max(len(whole) - skip, 0)
    for one, other in zip(tail, whole[skip:], strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_skipped_blocks_are_not_read(path: Path, monkeypatch: pytest.MonkeyPatch):
    read: list[int] = []
    batches = ParquetSource.batches
    monkeypatch.setattr(
        ParquetSource, "batches", lambda *given: read.append(given[1]) or batches(*given)
    )
    stream = opened(path, rows=70, pieces_per_block=1)
    list(stream.blocks(0, 0, skip=stream.blocks_per_pass - 2))
    assert len(set(read)) <= 3


def test_lanes_take_turns_in_longer_runs_too(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("zigp.data.streams.filling._FEWEST_RUNS", 64)
    stream = opened(path, rows=300, pieces_per_block=4)
    blocks = ids(stream.blocks(0, 0))
    assert sorted(flat(blocks)) == list(range(ROWS))
    for block in blocks:
        assert all(len({one // 70 for one in block[at : at + 32]}) >= 3 for at in (0, 100, 200))


@pytest.mark.parametrize("run", [1, 5, 64])
def test_turns_fill_a_block_and_share_every_stretch_of_it(run: int):
    counts = np.array([1000, 0, 2011, 995])
    lane = np.full(counts.sum(), -1)
    for number, (runs, rest) in enumerate(turns(counts, run)):
        for first in runs * run:
            lane[first : first + run] = number
        lane[rest] = number
    assert np.bincount(lane).tolist() == counts.tolist()
    middle = np.bincount(lane[1000:2280], minlength=4) / 1280
    np.testing.assert_allclose(middle, counts / counts.sum(), atol=2 * run / 1280)


def test_padding_is_a_row_of_weight_zero_and_every_block_has_as_much(path: Path):
    blocks = list(opened(path, rows=300).blocks(0, 0))
    assert len(blocks) == 4
    for block in blocks:
        assert block.weight.tolist() == [1.0] * 250 + [0.0] * 50
        assert (block.y[250:] == 0).all()
        assert (block.X[250:] == block.X[0]).all()


# -- parts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("among", [1, 2, 3, 7, 40])
def test_parts_are_disjoint_and_complete(path: Path, among: int):
    parts = [opened(path, part=(i, among), rows=32) for i in range(among)]
    passes = [list(part.blocks(0, 0)) for part in parts]
    assert {len(blocks) for blocks in passes} == {parts[0].blocks_per_pass}
    mine = [flat(ids(iter(blocks))) for blocks in passes]
    assert sorted(flat(mine)) == list(range(ROWS))
    assert max(map(len, mine)) - min(map(len, mine)) <= 70
    groups = [{one // 70 for one in rows} for rows in mine]
    assert sum(map(len, groups)) == len(set().union(*groups))
    # Blocks without rows hold inputs of one, not zeros that may stand for nothing.
    assert all((block.X[:, 1] == block.X[:, 0] / 7).all() for blocks in passes for block in blocks)


def test_shares_of_uneven_pieces_are_even():
    sizes = np.random.default_rng(0).integers(1, 1000, 200)
    loads = [int(sizes[share].sum()) for share in shares(sizes, 7)]
    assert sum(loads) == sizes.sum()
    assert max(loads) - min(loads) <= sizes.max()


def test_a_schedule_has_every_row_once_whatever_the_sizes():
    rng = np.random.default_rng(1)
    sizes = np.concatenate([rng.integers(1, 50, 30), [5000], rng.integers(1, 900, 5)])
    blocks = -(-int(sizes.sum()) // 333)
    schedule = Schedule(sizes, rng.permutation(len(sizes)), 6, 333, blocks)
    assert schedule.blocks == blocks
    seen = [np.zeros(size, int) for size in sizes]
    at = dict.fromkeys(range(len(sizes)), 0)
    for number in range(blocks):
        cuts = [cut for lane in schedule.block(number) for cut in lane]
        assert 0 <= sum(cut.stop - cut.start for cut in cuts) - schedule.total // blocks <= 1
        for cut in cuts:
            assert cut.start == at[cut.piece]  # a row group is read from its first row to its last
            at[cut.piece] = cut.stop
            seen[cut.piece][cut.start : cut.stop] += 1
    assert all((one == 1).all() for one in seen)
    few = Schedule(np.array([2, 1]), np.arange(2), 6, 333, blocks=9)
    assert few.blocks == 3
    assert all(sum(map(len, few.block(number))) == 1 for number in range(3))


# -- samples --------------------------------------------------------------------------------------


def test_a_small_source_is_its_own_sample(path: Path):
    X, y = opened(path).sample(ROWS, 0)
    pd.testing.assert_frame_equal(X, frame()[["id", "x"]])
    np.testing.assert_array_equal(y, frame()["rain"])


def test_a_sample_comes_from_all_over_and_is_the_same_for_all(path: Path):
    X, y = opened(path).sample(200, 3)
    assert len(X) == len(set(X["id"])) == 200
    np.testing.assert_array_equal(y, 3.0 * X["id"])
    assert set(X["id"] // 70) == set(range(15))
    pd.testing.assert_frame_equal(opened(path, part=(2, 5), rows=10).sample(200, 3)[0], X)
    assert set(opened(path).sample(200, 4)[0]["id"]) != set(X["id"])


def test_a_sample_looks_at_few_row_groups():
    sizes = np.full(10_000, 1000)
    found = dict(drawn(sizes, 500, np.random.default_rng(0)))
    assert len(found) == 64
    assert sum(map(len, found.values())) == 500
    assert np.histogram(list(found), 8, (0, 10_000))[0].min() >= 6
    many = dict(drawn(np.full(10_000, 10), 500, np.random.default_rng(0)))
    assert sum(map(len, many.values())) == 500
    assert len(many) == 200


def test_large_row_groups_are_sampled_in_part(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ordering, "_MOST_ROWS", 10_000)
    sizes = np.full(10, 100_000)
    windows = [(rows[0], np.ptp(rows)) for _, rows in drawn(sizes, 300, np.random.default_rng(0))]
    assert len(windows) == 10
    assert all(width <= 1000 for _, width in windows)
    assert np.ptp([first for first, _ in windows]) > 30_000


def test_rows_are_as_likely_as_each_other_in_a_sample():
    sizes = np.array([100, 300, 50, 550])
    counts = np.zeros(1000)
    for seed in range(400):
        for piece, rows in drawn(sizes, 200, np.random.default_rng(seed)):
            counts[rows + sizes[:piece].sum()] += 1
    np.testing.assert_allclose(counts.mean(), 80)
    np.testing.assert_allclose([part.mean() for part in np.split(counts, 10)], 80, rtol=0.03)


def test_a_sample_has_rows(path: Path):
    with pytest.raises(ValueError, match="at least one row"):
        opened(path).sample(0, 0)


# -- targets and inputs ---------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [np.nan, None])
def test_rows_without_a_target_have_weight_zero(tmp_path: Path, missing: float | None):
    table = frame()
    gone = table["id"] % 3 == 0
    table["rain"] = table["rain"].astype(object).mask(gone, missing)
    path = put(tmp_path / "gaps.parquet", table.astype({"rain": float if missing else "Float64"}))
    blocks = list(opened(path).blocks(0, 0))
    assert sorted(flat(ids(iter(blocks)))) == table["id"][~gone].tolist()
    assert all(np.isfinite(block.y).all() for block in blocks)
    X, y = opened(path).sample(ROWS, 0)
    assert X["id"].tolist() == table["id"][~gone].tolist()
    assert np.isfinite(y).all()


@pytest.mark.parametrize(
    ("value", "what"), [(np.nan, "missing"), (np.inf, "infinite"), (-np.inf, "infinite")]
)
def test_inputs_must_be_numbers(tmp_path: Path, value: float, what: str):
    table = frame()
    table.loc[500, "x"] = value
    path = put(tmp_path / "bad.parquet", table)
    said = told(path)
    assert f"{path}, row group 7, column 'x': some values are {what}." in said
    with pytest.raises(FileError, match="row group 7, column 'x'"):
        opened(path).sample(ROWS, 0)


def test_null_inputs_and_infinite_targets_are_told(tmp_path: Path):
    table = frame()
    table["x"] = table["x"].astype("Float64").mask(table["id"] == 80)
    path = put(tmp_path / "nulls.parquet", table)
    assert "row group 1, column 'x': some values are missing. Fill them in" in told(path)
    table = frame()
    table.loc[999, "rain"] = np.inf
    path = put(tmp_path / "infinite.parquet", table)
    assert "row group 14, column 'rain': some values are infinite. Make them missing" in told(path)


def test_numbers_of_every_type_are_read(tmp_path: Path):
    table = pa.table(
        {
            "id": pa.array(range(ROWS), pa.int16()),
            "single": pa.array(np.arange(ROWS) / 2, pa.float32()),
            "wet": pa.array([i % 2 == 0 for i in range(ROWS)]),
            "money": pa.array(range(ROWS), pa.int64()).cast(pa.decimal128(30, 2)),
            "rain": pa.array([None if i % 2 else i for i in range(ROWS)], pa.int32()),
        }
    )
    pq.write_table(table, tmp_path / "types.parquet", row_group_size=100)
    stream = opened(tmp_path / "types.parquet")
    sample, y = stream.sample(ROWS, 0)
    expected = Table.of(sample).numbers(sample).to_numpy()
    found = np.concatenate([b.X[b.weight > 0] for b in stream.blocks(0, 0)])
    np.testing.assert_array_equal(found[np.argsort(found[:, 0])], expected)
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
        stream.blocks(0, 0)
    sample, _ = stream.sample(ROWS, 0)
    known = Table.of(sample)
    kinds = {name: column.kind for name, column in known.columns.items()}
    assert [name for name, kind in kinds.items() if kind == "category"] == ["site", "kind", "code"]
    assert known.columns["code"].levels == ("0", "1", "2", "3")
    expected = known.numbers(sample).to_numpy()
    found = np.concatenate([b.X[b.weight > 0] for b in stream.read_as(known).blocks(0, 0)])
    np.testing.assert_array_equal(found[np.argsort(found[:, 0])], expected)


def test_levels_that_were_not_in_the_sample_are_told(tmp_path: Path):
    table = frame()
    table["site"] = np.where(table["id"] == 444, "rare", "often")
    path = put(tmp_path / "levels.parquet", table)
    stream = opened(path, categories=["site"])
    sample, _ = stream.sample(20, 0)
    assert "rare" not in set(sample["site"])
    with pytest.raises(FileError, match=r"row group 6, column 'site' has levels .* sample: rare"):
        list(stream.read_as(Table.of(sample)).blocks(0, 0))
    stream = opened(path, categories={"site": ["often", "rare"]})
    blocks = stream.read_as(Table.of(stream.sample(20, 0)[0])).blocks(0, 0)
    assert sum(block.X[block.weight > 0, 2].sum() for block in blocks) == 1


def test_levels_must_be_among_those_that_were_named(tmp_path: Path):
    path = put(tmp_path / "levels.parquet", frame().assign(site="here"))
    with pytest.raises(FileError, match="column 'site' has levels that were not named: here"):
        opened(path, categories={"site": ["there"]}).sample(20, 0)


def test_a_table_of_other_columns_is_refused(path: Path):
    with pytest.raises(ValueError, match=r"id \(number\), x \(number\). Make it with Table.of"):
        opened(path).read_as(Table.of(pd.DataFrame({"id": [1.0]})))


# -- sources --------------------------------------------------------------------------------------


def test_a_folder_is_one_table(tmp_path: Path):
    (tmp_path / "rows" / "year=2020").mkdir(parents=True)
    (tmp_path / "rows" / "_SUCCESS").touch()
    put(tmp_path / "rows" / "b.parquet", frame()[600:])
    put(tmp_path / "rows" / "a.parquet", frame()[:600], 50)
    put(tmp_path / "rows" / "year=2020" / "empty.parquet", frame()[:0])
    stream = opened(tmp_path / "rows")
    assert stream.rows == ROWS
    assert sorted(flat(ids(stream.blocks(0, 0)))) == list(range(ROWS))
    assert stream.sample(ROWS, 0)[0]["id"].tolist() == list(range(ROWS))


def test_footers_of_many_files_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder, read, of_source = tmp_path / "rows", [], ParquetSource._read_footer
    folder.mkdir()
    for i in range(20):
        put(folder / f"{i:02}.pq", frame(10))
    monkeypatch.setattr(
        ParquetSource, "_read_footer", lambda self, i: (read.append(i), of_source(self, i))[1]
    )
    stream = opened(folder)
    assert len(flat(ids(stream.blocks(0, 0)))) == 200
    assert sorted(read) == list(range(20))
    assert _can_be_large(folder)


def test_files_of_a_folder_must_agree(tmp_path: Path):
    put(tmp_path / "a.parquet", frame())
    put(tmp_path / "b.parquet", frame().drop(columns="x"))
    assert f"{tmp_path / 'b.parquet'} has no column 'x'. It has id, rain." in told(tmp_path)
    put(tmp_path / "b.parquet", frame().assign(x=pd.Timestamp("2020-01-01")))
    assert "b.parquet, column 'x' holds timestamp" in (said := told(tmp_path))
    assert said.endswith("write all files with the same types.")


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
    both = opened("memory://rows")
    assert both.rows == 2 * ROWS
    assert sorted(flat(ids(both.blocks(0, 0)))) == sorted([*range(ROWS), *range(ROWS)])
    pd.testing.assert_frame_equal(
        opened("memory://rows/one.parquet").sample(50, 1)[0], opened(path).sample(50, 1)[0]
    )


def test_what_is_wrong_with_a_source_is_told(tmp_path: Path, path: Path, memory: Any):
    (tmp_path / "rows.csv").write_text("id,rain\n1,2\n")
    (tmp_path / "empty").mkdir()
    memory.pipe_file("/text", b"id,rain\n1,2\n")
    for source, what in {
        tmp_path / "none.parquet": "There is no file",
        tmp_path / "rows.csv": "write it as Parquet first",
        tmp_path / "empty": "has no files that end in .parquet",
        "memory://nowhere": "There is nothing at memory://nowhere: check the address.",
        "memory://text": "is no Parquet file: write it as Parquet",
        "nonsense://bucket/rows": "Protocol not known: nonsense",
        put(tmp_path / "bare.parquet", frame()[["rain"]]): "has no inputs",
        put(tmp_path / "no.parquet", frame()[:0]): "has columns but no rows",
    }.items():
        assert what in told(source)
    assert "has no column 'z'. It has id, x, rain." in told(path, columns=["z"])
    assert "has no column 'z'. It has id, x, rain." in told(path, categories=["z"])
    text = put(tmp_path / "text.parquet", frame().assign(site="a", rain="b"))
    said = told(text, columns=["id"])
    assert "row group 0, column 'rain' holds" in said
    text = put(tmp_path / "text.parquet", frame().assign(site="a"))
    said = told(text)
    assert f"{text}, row group 0, column 'site' holds" in said
    assert "name it among the categories if these are levels" in said
    broken = tmp_path / "broken.parquet"
    content = bytearray(path.read_bytes())
    content[4:4000] = bytes(3996)
    broken.write_bytes(content)
    assert f"Cannot read {broken}, row group" in told(broken)


def test_without_fsspec_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    assert "pip install fsspec" in told("s3://bucket/rows")


def test_settings_are_checked(path: Path):
    for settings in ({"part": (1, 1)}, {"rows": 0}, {"pieces_per_block": 0}, {"columns": ["rain"]}):
        with pytest.raises(ValueError, match=r"part|rows|pieces|target"):
            opened(path, **settings)


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
def test_a_lattice_is_the_table_of_its_cells(tmp_path: Path, memory: Any, address: str):
    source = str(tmp_path / "rain.zarr") if address == "path" else address
    chunks = {"rain": {"chunks": (6, 3, 11)}}
    lattice().to_zarr(source, encoding=chunks, consolidated=False)
    stream = opened(source, rows=100, pieces_per_block=3)
    assert stream.rows == 20 * 7 * 11
    assert stream.names == ("time", "lat", "lon", "level")
    assert stream.groups == {"time": ["time"], "station": ["lat", "lon"], "level": ["level"]}
    cells = lattice().to_dataframe().reset_index()[[*stream.names, "rain"]].dropna()
    X, y = stream.sample(stream.rows, 0)
    table = Table.of(X)
    pd.testing.assert_frame_equal(table.numbers(X[:0]), table.numbers(cells[list(X)][:0]))
    expected = sorted_rows(table.numbers(cells[list(X)]).to_numpy(), cells["rain"].to_numpy())
    np.testing.assert_array_equal(sorted_rows(table.numbers(X).to_numpy(), y), expected)
    parts = [opened(source, rows=100, part=(i, 2)).read_as(table) for i in range(2)]
    blocks = [block for part in parts for block in part.blocks(1, 0)]
    seen = np.concatenate([block.weight > 0 for block in blocks])
    rows = (np.concatenate(values)[seen] for values in list(zip(*blocks, strict=True))[:2])
    np.testing.assert_array_equal(sorted_rows(*rows), expected)
    again = list(parts[0].blocks(1, 0, skip=3))
    np.testing.assert_array_equal(again[0].X, blocks[3].X)
    few, _ = stream.sample(50, 0)
    assert 30 < len(few) <= 50


def test_columns_of_a_lattice_can_be_chosen_and_ordered(tmp_path: Path):
    lattice().drop_vars("time").to_zarr(tmp_path / "a.zarr", consolidated=False)
    assert "Dimension 'time' has no coordinates" in told(tmp_path / "a.zarr")
    dataset = lattice().isel(time=0, drop=True)
    dataset.to_zarr(tmp_path / "b.zarr", consolidated=False)
    stream = opened(tmp_path / "b.zarr", columns=["level", "lon", "lat"])
    assert stream.names == ("level", "lon", "lat")
    block = next(stream.blocks(0, 0))
    assert set(block.X[:, 0]) <= set(np.arange(11) ** 2.0)
    assert block.X[:, 1].max() < 2
    said = told(tmp_path / "b.zarr", columns=["level", "lat", "height"])
    assert "has no axis 'height': rain runs along lat, level." in said
    with pytest.raises(FileError, match=r"has no variable 'snow'\. It has rain"):
        open_stream(tmp_path / "b.zarr", target="snow")
    assert "leave categories out" in told(tmp_path / "b.zarr", categories=["lat"])


def test_large_chunks_are_read_fewer_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    lattice().to_zarr(
        tmp_path / "a.zarr", encoding={"rain": {"chunks": (4, 7, 11)}}, consolidated=False
    )
    monkeypatch.setattr("zigp.data.streams.stream._MEMORY", 2 * 2 * 4 * 7 * 11 * 8)
    stream = opened(tmp_path / "a.zarr", rows=77)
    stream = stream.read_as(Table.of(stream.sample(5000, 0)[0]))
    for block in stream.blocks(0, 0):
        assert len(np.unique(block.X[:, 0] // 4)) <= 3


def test_an_infinite_cell_is_told(tmp_path: Path):
    dataset = lattice().isel(time=0, drop=True)
    dataset["rain"][3, 5] = np.inf
    dataset.to_zarr(tmp_path / "a.zarr", encoding={"rain": {"chunks": (3, 4)}}, consolidated=False)
    assert "chunk station 3:6, level 4:8, column 'rain': some values are inf" in told(
        tmp_path / "a.zarr"
    )


# -- fits ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_stream_in_one_block_is_fitted_as_the_same_rows_in_memory(tmp_path: Path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.uniform(0, 9, 512)})
    table["rain"] = np.where(np.sin(table["x"]) > 0, 2 + rng.normal(0, 0.1, 512), 0.0)
    settings = {"n_inducing": 12, "steps": 30, "batch_size": 512, "tol": 0.0}
    resident = ZeroInflatedGPRegressor(**settings).fit(table[["x"]], table["rain"])
    streamed = ZeroInflatedGPRegressor(**settings).fit_stream(
        opened(put(tmp_path / "rows.parquet", table, 64), rows=512)
    )
    np.testing.assert_allclose(streamed.bounds_, resident.bounds_, rtol=1e-6)
    X = pd.DataFrame({"x": np.linspace(0, 9, 50)})
    np.testing.assert_allclose(streamed.predict(X), resident.predict(X), rtol=1e-6, atol=1e-6)


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
    """Of all rows that were asked for, and at most a step more, none larger than it should be."""
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


@pytest.mark.slow
def test_a_zarr_stream_is_fitted_as_its_cells_in_memory(tmp_path: Path):
    rng = np.random.default_rng(0)
    cube = xr.Dataset(
        {"rain": (("a", "b"), np.maximum(3 * rng.normal(size=(16, 32)), 0))},
        {"a": np.arange(16.0), "b": np.arange(32.0)},
    )
    cube = cube.where(rng.random((16, 32)) > 0.2)  # a fifth was not observed
    cube.to_zarr(tmp_path / "a.zarr", encoding={"rain": {"chunks": (4, 8)}}, consolidated=False)
    stream = opened(tmp_path / "a.zarr", rows=512)
    settings = {"n_inducing": 5, "steps": 30, "batch_size": 512, "tol": 0.0}
    streamed = ZeroInflatedGPRegressor(**settings).fit_stream(stream)
    cells = cube.to_dataframe().reset_index().dropna()
    resident = ZeroInflatedGPRegressor(column_groups=stream.groups, **settings)
    resident.fit(cells[["a", "b"]], cells["rain"])
    np.testing.assert_allclose(streamed.bounds_, resident.bounds_, rtol=1e-6)
    assert streamed.n_rows_ == resident.n_rows_ == len(cells)
    found, expected = (model.predict(cells[["a", "b"]]) for model in (streamed, resident))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


# -- ahead of time --------------------------------------------------------------------------------


def threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("zigp-")]


def test_prefetched_items_are_the_same(path: Path):
    assert ids(prefetched(opened(path).blocks(0, 0))) == ids(opened(path).blocks(0, 0))
    assert list(prefetched(iter(()))) == []
    assert list(prefetched([1, None, 2], depth=5)) == [1, None, 2]
    assert threads() == []
    with pytest.raises(ValueError, match="depth is 0"):
        prefetched([], 0)


def test_errors_are_handed_on_after_what_was_made_before():
    def failing() -> Iterator[int]:
        yield 1
        yield 2
        raise FileError("the disk is gone")

    items = prefetched(failing())
    assert next(items) == 1
    assert next(items) == 2
    with pytest.raises(FileError, match="the disk is gone"):
        next(items)
    assert threads() == []


def test_no_more_is_made_ahead_than_asked():
    made, waiting = [], threading.Event()

    def counted() -> Iterator[int]:
        for i in range(100):
            made.append(i)
            if i == 3:
                waiting.set()
            yield i

    items = prefetched(counted(), depth=2)
    assert made == []
    next(items)
    assert waiting.wait(10)
    items.close()
    assert len(made) <= 5


@pytest.mark.parametrize("how", ["close", "forget"])
def test_its_thread_ends_with_its_reader(path: Path, how: str):
    closed = threading.Event()

    def endless() -> Iterator[Block]:
        try:
            while True:
                yield from opened(path).blocks(0, 0)
        finally:
            closed.set()

    items = prefetched(endless())
    next(items)
    assert threads() != []
    if how == "close":
        items.close()
    del items
    gc.collect()
    assert closed.is_set()
    assert threads() == []


def test_blocks_that_are_not_wanted_leave_no_thread(path: Path):
    blocks = opened(path, rows=10).blocks(0, 0)
    next(blocks)
    blocks.close()
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
