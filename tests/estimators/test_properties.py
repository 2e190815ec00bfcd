"""Properties that hold for any input, on the same cases of Hypothesis every time."""

import csv

import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from zigp.data.tables import FileError, read, typed
from zigp.gp.moments import Moments
from zigp.models.signal import Latent

settings.register_profile("everyday", derandomize=True, deadline=None, max_examples=40)
settings.load_profile("everyday")


POINTS = st.lists(st.floats(-9, 9), min_size=1, max_size=4)


@given(POINTS, POINTS)
def test_moments_of_products_and_sums_are_those_of_all_pairs(one, other):
    """All pairs of two sets of points are equally likely, so the points are independent."""
    marginals = {
        name: Moments(jnp.mean(jnp.array(values)), jnp.var(jnp.array(values)))
        for name, values in (("a", one), ("b", other))
    }
    a, b = Latent("a"), Latent("b")
    for signal, of_pairs in ((a * b, np.multiply.outer), (a + b, np.add.outer)):
        found, pairs = signal.moments(marginals), of_pairs(one, other)
        expected = [pairs.mean(), pairs.var()]
        np.testing.assert_allclose([found.mean, found.var], expected, rtol=1e-9, atol=1e-9)


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
