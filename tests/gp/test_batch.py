"""Lattices as rows."""

from __future__ import annotations

import numpy as np

from zigp.gp.batch import Lattice


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
