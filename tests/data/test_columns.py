"""The columns of users' tables: numbers, times and levels, and columns that have changed."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import zigp
from zigp.data.columns import Table, column_kind
from zigp.gp.kernels import Categorical

N = 48
TIMES = pd.date_range("2026-03-28 00:00", periods=N, freq="h")
FRAME = pd.DataFrame(
    {
        "when": TIMES,
        "gear": pd.Categorical(["net", "trap", "line"] * (N // 3), ["line", "net", "trap"]),
        "depth": np.linspace(0.0, 9.0, N),
    }
)
LOCAL = pd.DataFrame({"when": TIMES.tz_localize("UTC").tz_convert("Europe/Helsinki")})
Y = np.where(FRAME["gear"] == "net", np.sin(FRAME["depth"]) + 2.0, 0.0)


@pytest.fixture(scope="module")
def fitted():
    return zigp.SparseGPRegressor(steps=60, n_inducing=20).fit(FRAME, Y)


def numbers(frame, of=None):
    return Table.of(frame if of is None else of).numbers(frame)


@pytest.mark.parametrize(
    ("kind", "types"),
    [
        ("number", ["int8", "uint64", "float32", "bool", "Int64", "boolean", "Sparse[float]"]),
        ("number", [pa.int8(), pa.uint64(), pa.float16(), pa.bool_(), pa.decimal128(20, 3)]),
        ("time", ["datetime64[s]", "datetime64[ns, Europe/Helsinki]"]),
        ("time", [pa.date32(), pa.timestamp("ns"), pa.timestamp("s", "UTC")]),
        ("category", ["category", pa.dictionary(pa.int8(), pa.string())]),
        (None, ["object", "U3", "string", "complex128", "timedelta64[s]", "period[D]"]),
        (None, [pa.string(), pa.string_view(), pa.binary(), pa.time64("us"), pa.duration("ms")]),
        (None, [pa.list_(pa.float64()), pa.struct([("a", pa.int64())]), pa.null()]),
    ],
)
def test_the_type_of_a_column_decides_what_it_holds_wherever_it_comes_from(kind, types):
    for dtype in types:
        if isinstance(dtype, str):
            assert column_kind(pd.api.types.pandas_dtype(dtype)) == kind, dtype
        else:
            assert column_kind(dtype) == kind, dtype
            if not pa.types.is_dictionary(dtype):
                assert column_kind(pd.ArrowDtype(dtype)) == kind, dtype


def test_times_are_hours_since_the_first():
    later = FRAME[5:]
    np.testing.assert_allclose(numbers(FRAME)["when"], np.arange(N))
    np.testing.assert_allclose(numbers(later, of=FRAME)["when"], np.arange(5, N))
    np.testing.assert_allclose(numbers(later)["when"], np.arange(N - 5))


def test_hours_are_true_hours_across_a_change_of_clocks_and_zones_are_not_mixed():
    np.testing.assert_allclose(numbers(LOCAL)["when"], np.arange(N))
    elsewhere = pd.DataFrame({"when": LOCAL["when"].dt.tz_convert("Asia/Tokyo")})
    np.testing.assert_allclose(numbers(elsewhere, of=LOCAL)["when"], np.arange(N))
    message = "'when' was time in Europe/Helsinki when the model was fitted and is now time without"
    with pytest.raises(ValueError, match=message):
        numbers(FRAME[["when"]], of=LOCAL)
    with pytest.raises(ValueError, match=r"was time without zone when .* and is now time in Eu"):
        numbers(LOCAL, of=FRAME[["when"]])


def test_levels_are_counted_in_the_order_of_the_fit():
    np.testing.assert_array_equal(numbers(FRAME)["gear"][:3], [1, 2, 0])
    other = pd.DataFrame({"gear": pd.Categorical(["trap", "net", None])})
    np.testing.assert_array_equal(numbers(other, of=FRAME[["gear"]])["gear"], [2, 1, np.nan])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a"] * N, "Column 'odd' holds text"),
        (pd.to_timedelta(np.arange(N), "h"), "Column 'odd' holds values of type timedelta64"),
        ([{"a": 1}] * N, "Column 'odd' holds values of type object"),
        (np.ones(N) * 1j, "Column 'odd' holds complex numbers"),
        (pd.cut(np.arange(N), 3), "Column 'odd' has levels that are neither text nor numbers"),
    ],
)
def test_errors_about_other_types_name_the_column(values, message):
    with pytest.raises(ValueError, match=message):
        zigp.SparseGPRegressor(steps=1).fit(FRAME.assign(odd=values), Y)


def test_numbers_of_any_type_are_numbers():
    frame = pd.DataFrame(
        {
            "whole": pd.array([1, 2, None], dtype="Int64"),
            "yes": [True, False, True],
            "mixed": pd.Series([1, 2.5, 3], dtype=object),
            "small": np.array([1, 2, 3], np.float32),
        }
    )
    expected = [[1, 1, 1, 1], [2, 0, 2.5, 2], [np.nan, 1, 3, 3]]
    np.testing.assert_array_equal(numbers(frame).to_numpy(), expected)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (FRAME[["when", "gear"]], r"(?s)names seen at fit time, yet now missing.*depth"),
        (FRAME.assign(extra=1.0), r"(?s)names unseen at fit time.*extra"),
        (FRAME[["gear", "when", "depth"]], "in the same order"),
        (FRAME[["when", "gear", "gear"]], "'gear' more than once"),
        (
            FRAME.assign(gear=pd.Categorical(["dredge"] * N)),
            "'gear' has levels .* not fitted with: dredge. It knows line, net, trap",
        ),
    ],
)
def test_columns_that_have_changed_are_errors(frame, message, fitted):
    with pytest.raises(ValueError, match=message):
        fitted.predict(frame)


def test_levels_get_the_categorical_kernel_and_a_file_remembers_the_columns(fitted, tmp_path):
    (kernel,) = fitted.model_.latents["f"].kernels
    assert [isinstance(factor.kernel, Categorical) for factor in kernel.factors] == [True, False]
    assert [factor.columns for factor in kernel.factors] == [(1,), (0, 2)]
    # Only the net catches: the levels are told apart.
    assert np.abs(fitted.predict(FRAME) - Y).mean() < 0.3
    fitted.save(tmp_path / "m.zigp")
    again = zigp.load(tmp_path / "m.zigp")
    assert again.table_ == fitted.table_
    np.testing.assert_array_equal(again.predict(FRAME[5:]), fitted.predict(FRAME[5:]))


@pytest.mark.slow
def test_a_hurdle_of_times_is_a_hurdle_of_hours():
    """Also where the second part has not seen the first of the times."""
    times, hours = FRAME[["when", "depth"]], FRAME[["depth"]].assign(when=np.arange(N))
    hours, late = hours[["when", "depth"]], slice(7, None)
    model, other = (zigp.HurdleGPRegressor(steps=5, n_inducing=6).fit(t, Y) for t in (times, hours))
    np.testing.assert_allclose(model.predict(times[late]), other.predict(hours[late]), rtol=1e-9)
    ours, theirs = (
        m.sample(t[late], 2, random_state=0) for m, t in ((model, times), (other, hours))
    )
    np.testing.assert_allclose(ours, theirs, atol=1e-6)
    assert model.elbo(times, Y) == pytest.approx(other.elbo(hours, Y), rel=1e-9)


@pytest.mark.slow
def test_longitude_may_come_first():
    rng = np.random.default_rng(1)
    X, y = rng.uniform([20, 60], [25, 65], size=(60, 2)), rng.normal(size=60)
    first = zigp.SparseGPRegressor(steps=20, n_inducing=6, latlon=[1, 0]).fit(X, y)
    second = zigp.SparseGPRegressor(steps=20, n_inducing=6, latlon=[0, 1]).fit(X[:, ::-1], y)
    assert first.model_.latents["f"].kernels[0].kernel.metric == "chordal"
    assert first.elbo(X, y) == pytest.approx(second.elbo(X[:, ::-1], y), abs=5.0)
