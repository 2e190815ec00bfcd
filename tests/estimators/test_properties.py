"""Properties that hold for any input, on the same cases of Hypothesis every time."""

from __future__ import annotations

import csv

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from zigp.data.tables import FileError, read, typed
from zigp.gp.moments import Moments
from zigp.models.signal import Latent
from zigp.special import probit_moments

settings.register_profile("everyday", derandomize=True, deadline=None, max_examples=40)
settings.load_profile("everyday")

_probit_moments = jax.jit(probit_moments)
NUMBERS = st.floats(-30, 30)
SPREADS = st.floats(1e-6, 1e3)


@given(NUMBERS, NUMBERS, SPREADS)
def test_a_gate_is_a_probability_that_rises_with_its_mean(one, other, var):
    mean, var = _probit_moments(np.sort([one, other]), np.full(2, var))
    assert 0.0 <= mean[0] <= mean[1] <= 1.0
    assert np.all((var >= -1e-12) & (var <= mean * (1.0 - mean) + 1e-12))


POINTS = st.lists(st.floats(-9, 9), min_size=1, max_size=4)


@given(POINTS, POINTS)
def test_moments_of_products_and_sums_are_those_of_all_pairs(one, other):
    """All pairs of two sets of points are equally likely, so the points are independent."""
    marginals = {
        name: Moments(jnp.asarray(np.mean(v)), jnp.asarray(np.var(v)))
        for name, v in (("a", one), ("b", other))
    }
    a, b = Latent("a"), Latent("b")
    for signal, pairs in (
        (a * b, np.multiply.outer(one, other)),
        (a + b, np.add.outer(one, other)),
    ):
        found = signal.moments(marginals)
        np.testing.assert_allclose(found.mean, pairs.mean(), atol=1e-9)
        np.testing.assert_allclose(found.var, pairs.var(), rtol=1e-9, atol=1e-9)


CELLS = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=5), st.text(min_size=1, max_size=9))
def test_a_table_is_read_back_or_refused_in_a_sentence(tmp_path_factory, rows, name):
    path = tmp_path_factory.mktemp("table") / "data.csv"
    with path.open("w", newline="", encoding="utf-8", errors="replace") as file:
        csv.writer(file).writerows([["first", name], *rows])
    try:
        table = read(path)
        found = typed(table, dict.fromkeys(table, "number")).to_numpy()
    except FileError as error:
        found = str(error)
    if isinstance(found, str):
        assert "data.csv" in found
    else:
        np.testing.assert_array_equal(found, np.array(rows))
