"""The placement of inducing inputs."""

from __future__ import annotations

import numpy as np

from zigp.gp.inducing import Inducing, pick, place


def test_few_distinct_rows_are_all_taken():
    X = np.array([[1.0, 2.0], [1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(place(X, 5, seed=0), [[1.0, 2.0], [3.0, 4.0]])


def test_one_column_is_covered_evenly():
    Z = place(np.arange(1000.0)[:, None], 10, seed=0)[:, 0]
    np.testing.assert_allclose(np.diff(Z), 99.9, rtol=1e-6)
    assert 0 < Z[0] < 100
    assert 900 < Z[-1] < 999


def test_clusters_each_get_a_point():
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [100.0, 0.0], [0.0, 1e-3]])
    X = np.concatenate([c + rng.normal(scale=[1.0, 1e-5], size=(50, 2)) for c in centres])
    Z = place(X, 3, seed=0)
    distance = np.abs((Z[:, None] - centres) / [100.0, 1e-3]).max(axis=-1)
    assert distance.min(axis=0).max() < 0.05


def test_inducing_inputs_have_levels_of_discrete_columns():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=200), rng.integers(0, 3, 200)])
    Z = place(X, 15, seed=0, discrete=(1,))
    assert set(Z[:, 1]) <= {0.0, 1.0, 2.0}
    alone = place(np.arange(50.0)[:, None], 10, seed=0, discrete=(0,))[:, 0]
    assert len(set(alone) & set(range(50))) == 10


def test_picked_rows_are_rows():
    X = np.random.default_rng(0).normal(size=(30, 2))
    Z = pick(X, 8, seed=1)
    assert len({tuple(z) for z in Z} & {tuple(x) for x in X}) == 8
    assert len(pick(X[:3], 8, seed=1)) == 3


def test_locations_start_where_they_are_put():
    Z = np.array([[60.0, 1e6], [61.0, 1e6], [65.0, 1e6]])
    np.testing.assert_allclose(Inducing.at(Z).Z, Z, rtol=1e-12)
