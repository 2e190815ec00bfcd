"""Write a table of simulated rain too large for memory: a folder of Parquet files.

    python benchmarks/make_rows.py FOLDER --rows 1e8

Rows are gauges anywhere in a region over ten years, in the order of time. Rain falls where a smooth
field that moves with the hours is above a threshold, and is zero elsewhere.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HOURS = 10 * 365 * 24
ROWS_PER_GROUP = 1_000_000
GROUPS_PER_FILE = 10
COLUMNS = ("lat", "lon", "hour", "rain")


def rain(lat: np.ndarray, lon: np.ndarray, hour: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Zero in about three cells of four, and otherwise a smooth field with lognormal noise."""
    front = np.sin(0.9 * lat - 0.35 * hour) + np.sin(0.7 * lon + 0.11 * hour)
    season = 0.3 * np.cos(hour * (2 * np.pi / (365 * 24)))
    wet = front + season + 0.35 * noise - 0.75
    return np.where(wet > 0, wet * np.exp(0.5 * noise), 0.0)


def group(first: int, rows: int, total: int, seed: int, dtype: np.dtype) -> pa.Table:
    """Rows from `first` on, which are the same however many are made at once."""
    rng = np.random.default_rng([seed, first])
    lat, lon = (rng.random(rows, np.float32) * side for side in (12.0, 20.0))
    noise = rng.standard_normal(rows, np.float32)
    hour = np.floor(np.arange(first, first + rows) * (HOURS / total))
    amount = rain(lat, lon, hour.astype(np.float32), noise)
    columns = (40 + lat, lon - 10, hour, amount)
    return pa.table({n: c.astype(dtype) for n, c in zip(COLUMNS, columns, strict=True)})


def write(folder: Path, rows: int, seed: int = 0, dtype: str = "float32") -> None:
    """Write the table, in memory that does not depend on how many rows it has."""
    folder.mkdir(parents=True)
    schema = pa.schema([(name, pa.from_numpy_dtype(np.dtype(dtype))) for name in COLUMNS])
    per_file = ROWS_PER_GROUP * GROUPS_PER_FILE
    for number, begin in enumerate(range(0, rows, per_file)):
        # Dictionaries help the hours and the zeros; places are all different.
        with pq.ParquetWriter(
            folder / f"part-{number:05d}.parquet", schema, use_dictionary=["hour", "rain"]
        ) as file:
            for first in range(begin, min(begin + per_file, rows), ROWS_PER_GROUP):
                size = min(ROWS_PER_GROUP, rows - first)
                file.write_table(group(first, size, rows, seed, np.dtype(dtype)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="a folder that does not exist yet")
    parser.add_argument("--rows", type=float, default=1e8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    options = parser.parse_args()
    start = time.perf_counter()
    write(options.folder, int(options.rows), options.seed, options.dtype)
    seconds = time.perf_counter() - start
    size = sum(file.stat().st_size for file in options.folder.iterdir())
    print(json.dumps({"rows": int(options.rows), "seconds": seconds, "bytes": size}))


if __name__ == "__main__":
    main()
