"""One pass over 1e8 rows of Parquet: its time against reading plus computing, and its memory.

python benchmarks/streaming.py [ROWS]

make_rows.py writes the rows into a temporary folder. The model is the zero-inflated GP with a
lattice of 10 × 100 inducing points. Reading alone is one pass over the same blocks; computing alone
is as many steps on a block that stays in memory. Writes results/streaming.json and
docs/images/streaming.svg.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from run import RESULTS, machine

import zigp.estimators.fitting as base
from zigp import ZeroInflatedGPRegressor, open_stream
from zigp.data.streams import Stream, prefetched
from zigp.runtime.session import session
from zigp.training import train_restarts

ROWS = 100_000_000
IMAGE = Path(__file__).parents[1] / "docs" / "images" / "streaming.svg"


class Memory(threading.Thread):
    """Record the resident memory of this process once a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.seen: list[tuple[float, float]] = []
        self.done, self.start_time = threading.Event(), time.monotonic()

    def run(self) -> None:
        while not self.done.wait(1.0):
            with open("/proc/self/statm") as file:
                pages = int(file.read().split()[1])
            self.seen.append((time.monotonic() - self.start_time, pages * 4096 / 1e6))


def estimator() -> ZeroInflatedGPRegressor:
    return ZeroInflatedGPRegressor(
        column_groups={"space": ["lat", "lon"], "time": ["hour"]},
        n_inducing={"space": 10, "time": 100},
        covariance="diagonal",
        likelihood="gaussian",
        kernel="squared_exponential",
        method="adam",
        batch_size=2**14,
    )


def opened(folder: Path) -> Stream:
    return open_stream(folder, target="rain", columns=["lat", "lon", "hour"])


def reading_alone(folder: Path) -> float:
    """Return the seconds that one pass over the blocks takes, without computing."""
    start = time.perf_counter()
    total = 0.0
    for block in prefetched(opened(folder).blocks(0, 0)):
        total += float(block.weight.sum())
    print(f"read {total:,.0f} rows", flush=True)
    return time.perf_counter() - start


def computing_alone(folder: Path, blocks: int = 12) -> float:
    """Return the seconds that the steps on a block take, once it is in memory."""
    held: dict[str, Any] = {}

    def instead(models: Any, feed: Any, settings: Any, show: Any, **more: Any) -> Any:
        data = feed.block(0)[0]
        feed.close()
        steps = feed.steps * blocks
        settings = base.replace(settings, steps=steps, batch_size=2**14)
        train_restarts(models, data, base.replace(settings, steps=feed.steps))
        fits = train_restarts(models, data, settings)
        held["seconds"] = fits[0].seconds / blocks
        return fits

    whole, base.train_restarts = base.train_restarts, instead
    try:
        estimator().fit_stream(opened(folder))
    finally:
        base.train_restarts = whole
    return held["seconds"]


def draw(memory: list[tuple[float, float]], rows: int) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6.5, 2.8), layout="constrained")
    axis.plot(*np.transpose(memory), color="#1f6f8b")
    axis.set(
        xlabel="seconds",
        ylabel="resident memory, MB",
        ylim=(0, None),
        title=f"One pass over {rows:,} rows",
    )
    figure.savefig(IMAGE, metadata={"Date": None})


def main(rows: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "rows"
        make = [sys.executable, str(Path(__file__).with_name("make_rows.py")), str(folder)]
        subprocess.run([*make, "--rows", str(rows)], check=True)
        stream = opened(folder)
        with session():
            block = computing_alone(folder)
        computing = block * stream.rows / stream.rows_per_block
        print(f"computing: {computing:.1f} s", flush=True)
        reading = reading_alone(folder)
        print(f"reading: {reading:.1f} s", flush=True)
        memory = Memory()
        memory.start()
        start = time.perf_counter()
        model = estimator().fit_stream(stream)
        took = time.perf_counter() - start
        memory.done.set()
    print(f"streamed: {took:.1f} s", flush=True)
    held = np.array([mb for _, mb in memory.seen])
    half = held[len(held) // 2 :]
    found = {
        "rows": rows,
        "seconds": took,
        "reading_seconds": reading,
        "computing_seconds": computing,
        "ratio": took / (reading + computing),
        "rows_per_second": rows / took,
        "hours_for_a_billion_rows": 1e9 / (rows / took) / 3600,
        "peak_mb": float(held.max()),
        "growth_in_the_second_half_mb": float(half.max() - half[: max(len(half) // 10, 1)].max()),
        "bound_a_row": [float(model.bounds_[i] / rows) for i in (0, -1)],
        "memory": memory.seen[:: max(len(memory.seen) // 300, 1)],
        "on": machine(),
    }
    (RESULTS / "streaming.json").write_text(json.dumps(found) + "\n")
    draw(memory.seen, rows)
    print(json.dumps({k: v for k, v in found.items() if k != "memory"}))


if __name__ == "__main__":
    main(int(float(sys.argv[1])) if len(sys.argv) > 1 else ROWS)
