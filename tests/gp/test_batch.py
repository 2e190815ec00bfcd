"""Lattices as rows, and parts of data padded to one of a few sizes."""

from __future__ import annotations

import numpy as np

from zigp.gp.batch import Batch, Lattice, padded_size


def test_a_lattice_is_its_rows_with_their_exposures():
    places, hours = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[5.0], [6.0], [7.0]])
    effort = np.arange(1.0, 7.0).reshape(2, 3)
    lattice = Lattice((places, hours), ((0, 3), (2,)), effort, exposure_column=1)
    rows = lattice.rows()
    assert lattice.shape == (2, 3)
    assert rows.shape == (6,)
    assert rows.rows() is rows
    for (place, hour), row in zip(np.ndindex(2, 3), np.asarray(rows.X), strict=True):
        east, north = places[place]
        assert row.tolist() == [east, effort[place, hour], hours[hour, 0], north]
    np.testing.assert_array_equal(rows.exposures(1), lattice.exposures(1).ravel())


def test_padded_sizes_are_few():
    sizes = {n: padded_size(n) for n in range(1, 5000)}
    assert all(n <= size <= max(1.5 * n, 256) for n, size in sizes.items())
    assert len(set(sizes.values())) < 16


def test_parts_of_one_size_hold_every_place_once():
    lattice = Lattice((np.arange(7.0)[:, None], np.arange(2.0)[:, None]), ((0,), (1,)))
    data = Batch(lattice, np.random.default_rng(0).normal(size=(3, 7, 2)), np.ones((3, 7, 2)))
    parts = [data.part(0, slice(start, min(start + 3, 7)), 3) for start in (0, 3, 6)]
    assert [part.at.shape for part in parts] == [(3, 2)] * 3
    real = np.concatenate([part.weight[0, :, 0] for part in parts]) == 1.0
    y = np.concatenate([part.y for part in parts], axis=1)[:, real]
    np.testing.assert_array_equal(y, data.y)
    np.testing.assert_array_equal(
        np.concatenate([p.at.axes[0] for p in parts])[real], lattice.axes[0]
    )
