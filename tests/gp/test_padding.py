"""Rows are padded to one of a few sizes, so that few programs are compiled."""

from __future__ import annotations

import numpy as np

from zigp.gp.padding import chunks, padded_size


def test_padded_sizes_are_few_and_chunks_cover_all_rows():
    sizes = {n: padded_size(n) for n in range(1, 5000)}
    assert all(n <= size <= max(1.5 * n, 256) for n, size in sizes.items())
    assert len(set(sizes.values())) < 16
    X = np.arange(1000.0)[:, None]
    parts = list(chunks(X, 384))
    assert {len(part) for _, part in parts} == {384}
    joined = np.concatenate([part[: rows.stop - rows.start] for rows, part in parts])
    np.testing.assert_array_equal(joined, X)
