"""What a user meets: units, scaling, prediction kinds, joint draws, settings, memory."""

from __future__ import annotations

import subprocess
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from zigp import SparseGPRegressor, ZeroInflatedGPRegressor
from zigp.gp.batch import Rows
from zigp.gp.kernels import Categorical, Linear, Matern12, Matern32, Periodic, SquaredExponential
from zigp.models import predictions

FAST = {"steps": 150, "n_inducing": 15}  # one size for most, so that they share their programs


def on_and_off(n: int = 150, seed: int = 0):
    """A wave that is switched off to the left of zero."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-4, 4, size=(n, 1))
    signal = np.where(X[:, 0] > 0, 2.0 + np.sin(2 * X[:, 0]), 0.0)
    return X, np.where(signal > 0, signal + 0.1 * rng.normal(size=n), 0.0)


@pytest.fixture(scope="module")
def fitted():
    X, y = on_and_off()
    return ZeroInflatedGPRegressor(steps=600, n_inducing=15).fit(X, y)


X_NEW = np.linspace(-4, 4, 41)[:, None]


def test_the_gate_finds_where_the_signal_is_off(fitted):
    on = fitted.prob_on(X_NEW)
    assert on[X_NEW[:, 0] < -0.5].max() < 0.1
    assert on[X_NEW[:, 0] > 0.5].min() > 0.9
    assert np.abs(fitted.predict([[-3.0], [-2.0]])).max() < 0.05
    np.testing.assert_allclose(fitted.predict([[1.0], [2.0]]), 2 + np.sin([2.0, 4.0]), atol=0.15)


def noise_of(model):
    return model.noise_ if hasattr(model, "noise_") else {"sd": model.noise_sd_}


def test_components_compose_to_the_prediction(fitted):
    parts = fitted.predict_components(X_NEW)
    assert list(parts) == ["gate", "gate_sd", "latent", "latent_sd", "signal", "signal_sd"]
    mean, sd = fitted.predict(X_NEW, return_std=True)
    np.testing.assert_allclose(parts["signal"], parts["gate"] * parts["latent"], rtol=1e-10)
    np.testing.assert_allclose(parts["signal"], mean, rtol=1e-10)
    noise, on2 = fitted.noise_, parts["gate"] ** 2 + parts["gate_sd"] ** 2
    var = parts["signal_sd"] ** 2 + noise["off_sd"] ** 2 + on2 * noise["on_sd"] ** 2
    np.testing.assert_allclose(np.sqrt(var), sd, rtol=1e-10)
    np.testing.assert_allclose(parts["gate"], fitted.prob_on(X_NEW), rtol=1e-12)


def test_prob_zero_and_prob_below_are_integrals_over_the_gate(fitted):
    x = np.array([[0.05], [1.0], [-2.0]])
    marginals = fitted.model_.marginals(Rows(x - fitted.layout_.centre))
    scale = fitted.y_scale_
    off, louder = ((fitted.noise_[name] / scale) ** 2 for name in ("off_sd", "on_sd"))
    for i in range(3):
        (gm, gv), (fm, fv) = (
            (float(marginals[n].mean[i]), float(marginals[n].var[i])) for n in ("g", "f")
        )

        def below(t, gm=gm, gv=gv, fm=fm, fv=fv):
            def given(z):
                on = ndtr(gm + np.sqrt(gv) * z)
                sd = np.sqrt(off + on**2 * (fv + louder))
                return norm.cdf(t / scale, on * fm, sd) * norm.pdf(z)

            return quad(given, -9, 9, limit=400)[0]

        assert fitted.prob_below(x, 0.7)[i] == pytest.approx(below(0.7), abs=1e-5)
        expected = below(0.1) - below(-0.1)
        assert fitted.prob_zero(x, 0.1)[i] == pytest.approx(expected, abs=1e-5)


def test_support_is_not_a_probability_of_zero(fitted):
    assert not np.allclose(1 - fitted.prob_on(X_NEW), fitted.prob_zero(X_NEW, 0.05), atol=0.05)


def test_quantiles_and_intervals(fitted):
    q = fitted.predict_quantiles(X_NEW, (0.05, 0.5, 0.95))
    assert list(q) == [0.05, 0.5, 0.95]
    assert np.all(np.diff(q.to_numpy(), axis=1) > 0)
    for row in (0, 20, 21, 40):
        for p in q:
            below = fitted.prob_below(X_NEW[row : row + 1], q[p][row])
            assert below[0] == pytest.approx(p, abs=1e-8)
    interval = fitted.predict_interval(X_NEW, 0.9)
    np.testing.assert_allclose(interval["lower"], q[0.05], rtol=1e-12)
    np.testing.assert_allclose(interval["upper"], q[0.95], rtol=1e-12)


@pytest.mark.slow
def test_plain_regression_has_normal_quantiles():
    X, y = on_and_off()
    model = SparseGPRegressor(**FAST).fit(X, y)
    mean, sd = model.predict(X_NEW, return_std=True)
    np.testing.assert_allclose(
        model.predict_quantiles(X_NEW, 0.9)[0.9], mean + norm.ppf(0.9) * sd, rtol=1e-9
    )
    np.testing.assert_allclose(model.prob_below(X_NEW, 1.0), norm.cdf(1.0, mean, sd), atol=1e-12)


@pytest.mark.slow
def test_samples_follow_the_predicted_distribution_and_hang_together(fitted):
    n = 4000
    draws = fitted.sample(X_NEW, n, random_state=0)
    assert draws.shape == (n, len(X_NEW))
    quantiles = fitted.predict_quantiles(X_NEW, (0.05, 0.5, 0.9))
    for p in quantiles:
        below = np.mean(draws <= quantiles[p].to_numpy(), axis=0)
        assert np.abs(below - p).max() < 4.5 * np.sqrt(p * (1 - p) / n)
    quiet = fitted.sample(X_NEW, 2000, noise=False, random_state=0)
    near, far = (np.corrcoef(quiet[:, 30], quiet[:, j])[0, 1] for j in (31, 40))
    assert near > 0.4 > abs(far)


@pytest.mark.slow
def test_aggregates_sum_the_draws(fitted):
    by = np.where(X_NEW[:, 0] > 0, "right", "left")
    weights = np.linspace(0.5, 1.5, len(X_NEW))
    table = fitted.aggregate(X_NEW, weights, by, n_samples=3000, random_state=0)
    assert list(table.index) == ["left", "right"]
    mean = fitted.predict(X_NEW)
    draws = fitted.sample(X_NEW, 3000, random_state=1)
    for side in table.index:
        here = by == side
        assert table.loc[side, "mean"] == pytest.approx(weights[here] @ mean[here], rel=1e-9)
        sums = draws[:, here] @ weights[here]
        assert table.loc[side, "sd"] == pytest.approx(sums.std(), rel=0.1)
        assert table.loc[side, "lower"] == pytest.approx(
            np.quantile(sums, 0.05), abs=0.3 * sums.std()
        )
    average = fitted.aggregate(X_NEW, weights, by, how="mean", n_samples=50, random_state=0)
    right = by == "right"
    expected = np.average(mean[right], weights=weights[right])
    assert average.loc["right", "mean"] == pytest.approx(expected, rel=1e-9)


def test_elbo_is_in_the_units_of_y_and_matches_training():
    X, y = on_and_off()
    model = ZeroInflatedGPRegressor(steps=300, n_inducing=15, tol=0.0).fit(X, y)
    assert model.elbo(X, y) == pytest.approx(model.bounds_[-1], abs=0.05)
    scaled = ZeroInflatedGPRegressor(steps=300, n_inducing=15, tol=0.0).fit(X, 1000 * y)
    assert scaled.elbo(X, 1000 * y) == pytest.approx(
        model.elbo(X, y) - len(y) * np.log(1000), abs=1e-3
    )


@pytest.mark.parametrize(
    "estimator",
    [ZeroInflatedGPRegressor, pytest.param(SparseGPRegressor, marks=pytest.mark.slow)],
)
def test_units_of_x_and_y_do_not_matter(estimator):
    X, y = on_and_off()
    model = estimator(**FAST).fit(X, y)
    other = estimator(**FAST).fit(1000 * X + 5e5, y / 250)
    np.testing.assert_allclose(
        250 * other.predict(1000 * X_NEW + 5e5), model.predict(X_NEW), atol=1e-4
    )
    for name, noise in noise_of(model).items():
        assert 250 * noise_of(other)[name] == pytest.approx(noise, rel=1e-3)


def test_scaling_does_not_move_zero():
    X, y = on_and_off()
    model = ZeroInflatedGPRegressor(**FAST).fit(X, y)
    assert model.y_offset_ == 0.0
    assert model.y_scale_ == pytest.approx(np.sqrt(np.mean(y[y != 0] ** 2)))


def test_plain_regression_agrees_with_an_exact_gp():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(60, 1))
    y = 5.0 + np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=60)
    exact = GaussianProcessRegressor(
        ConstantKernel(1.0, (1e-2, 1e2)) * RBF(1.0) + WhiteKernel(0.01), normalize_y=True
    ).fit(X, y)
    model = SparseGPRegressor("squared_exponential", steps=2000, n_inducing=30, tol=0.0).fit(X, y)
    mean, sd = model.predict(X_NEW[10:31], return_std=True)
    exact_mean, exact_sd = exact.predict(X_NEW[10:31], return_std=True)
    np.testing.assert_allclose(mean, exact_mean, atol=0.03)
    np.testing.assert_allclose(sd, exact_sd, rtol=0.15)


def rain_like(seed: int = 0, stations: int = 8, hours: int = 30):
    rng = np.random.default_rng(seed)
    where = np.column_stack([rng.uniform(60, 64, stations), rng.uniform(22, 28, stations)])
    s, h = np.divmod(rng.permutation(stations * hours), hours)
    X = np.column_stack([where[s], h.astype(float)])
    y = np.clip(3 * np.sin(h / 4) * np.cos(where[s, 0]), 0, None).round(1)
    return X, y


SPACE_TIME = {"column_groups": {"space": [0, 1], "time": [2]}, "latlon": [0, 1], "steps": 60}


@pytest.mark.slow
def test_a_table_that_is_a_lattice_is_fitted_as_one_with_the_same_result(monkeypatch):
    X, y = rain_like()
    model = ZeroInflatedGPRegressor(**SPACE_TIME).fit(X, y)
    assert model.on_lattice_
    monkeypatch.setattr("zigp.data.layout.find_lattice", lambda X, groups: None)
    rows = ZeroInflatedGPRegressor(**SPACE_TIME).fit(X, y)
    assert not rows.on_lattice_
    # Adam divides a gradient by its own size, so that rounding grows with the steps.
    assert model.bounds_[0] == pytest.approx(rows.bounds_[0], rel=1e-11)
    np.testing.assert_allclose(model.bounds_[:5], rows.bounds_[:5], rtol=1e-6)
    np.testing.assert_allclose(model.predict(X), rows.predict(X), atol=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("covariance", ["diagonal", "dense"])
def test_every_covariance_fits_a_lattice(covariance):
    X, y = rain_like()
    model = ZeroInflatedGPRegressor(**SPACE_TIME, covariance=covariance).fit(X, y)
    assert model.bounds_[-1] > model.bounds_[0]
    assert model.sample(X, 3, random_state=0).shape == (3, len(X))


@pytest.mark.slow
def test_latitude_and_longitude_give_lengthscales_in_km():
    X, y = rain_like()
    model = SparseGPRegressor(**SPACE_TIME).fit(X, y)
    space = model.model_.latents["f"].kernels[0]
    assert space.metric == "chordal"
    assert 20 < float(space.lengthscale) < 2000


@pytest.mark.slow
@pytest.mark.parametrize(
    "kernel",
    [
        {"space": Matern32(lengthscale=150.0), "time": Matern12()},
        [2.0 * Matern32() + SquaredExponential(), "matern12"],
    ],
)
def test_kernel_objects_over_latitude_and_longitude_are_in_km_too(kernel):
    X, y = rain_like()
    model = SparseGPRegressor(kernel, **{**SPACE_TIME, "steps": 1}).fit(X, y)
    space = model.model_.latents["f"].kernels[0]
    parts = space.terms if hasattr(space, "terms") else (space,)
    stationary = [getattr(part, "kernel", part) for part in parts]
    assert [part.metric for part in stationary] == ["chordal"] * len(stationary)
    assert all(float(part.lengthscale) > 20 for part in stationary)


def test_one_kernel_over_degrees_and_hours_is_refused():
    X, y = rain_like()
    with pytest.raises(ValueError, match=r"together with other columns.*\.on"):
        SparseGPRegressor(Matern32(), latlon=[0, 1], steps=1).fit(X, y)


@pytest.mark.slow
def test_lists_of_settings_hold_for_a_gate_with_fewer_columns():
    X, y = rain_like()
    model = ZeroInflatedGPRegressor(
        ["matern32", "matern12"], gate_inputs=2, n_inducing=[5, 10], **{**SPACE_TIME, "steps": 1}
    ).fit(X, y)
    assert np.shape(model.model_.latents["f"].q_mean) == (5, 10)
    assert np.shape(model.model_.latents["g"].q_mean) == (10,)
    assert type(model.model_.latents["g"].kernels[0]) is Matern12


@pytest.mark.slow
def test_gate_and_latent_may_see_different_columns_through_different_kernels():
    X, y = rain_like()
    model = ZeroInflatedGPRegressor(
        Matern32(),
        gate_kernel={"time": 1.0 * Periodic(24) + Matern12()},
        inputs=[0, 1, 2],
        gate_inputs=[2],
        column_groups={"space": [0, 1], "time": [2]},
        steps=40,
    ).fit(X, y)
    assert model.model_.latents["g"].columns == ((2,),)
    assert model.model_.latents["f"].columns == ((0, 1), (2,))
    moved = X.copy()
    moved[:, :2] += 1.0
    np.testing.assert_allclose(model.prob_on(moved), model.prob_on(X), rtol=1e-12)
    assert not np.allclose(model.predict(moved), model.predict(X))


@pytest.mark.slow
def test_a_categorical_column():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(0, 5, 120), rng.integers(0, 3, 120)])
    y = np.array([0.0, 1.0, -1.0])[X[:, 1].astype(int)] * (1 + 0.1 * np.sin(X[:, 0]))
    kernel = SquaredExponential().on(0) * Categorical().on(1) + 0.1 * Linear().on(0)
    model = SparseGPRegressor(kernel, n_inducing=30, steps=400).fit(X, y)
    at = np.column_stack([np.full(3, 2.5), np.arange(3)])
    np.testing.assert_allclose(model.predict(at), [0.0, 1.06, -1.06], atol=0.15)


def test_frames_are_understood_and_their_index_kept():
    X, y = on_and_off()
    frame = pd.DataFrame({"x": X[:, 0]}, index=np.arange(len(X)) + 1000)
    model = ZeroInflatedGPRegressor(**FAST).fit(frame, y)
    assert isinstance(model.predict(frame), np.ndarray)
    for table in (model.predict_components(frame), model.predict_interval(frame)):
        assert list(table.index) == list(frame.index)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"x": "depth"}))


@pytest.mark.slow
def test_warm_start_goes_on_from_where_it_was():
    X, y = on_and_off()
    model = ZeroInflatedGPRegressor(**FAST, warm_start=True, schedule="constant", tol=0.0).fit(X, y)
    first = model.bounds_[-1]
    model.set_params(steps=1).fit(X, y)
    assert model.bounds_[0] == pytest.approx(first, abs=2.0)
    cold = clone(model).set_params(warm_start=False).fit(X, y)
    assert cold.bounds_[0] < first - 10


def test_warm_start_refuses_another_structure():
    X, y = on_and_off(30)
    model = ZeroInflatedGPRegressor(steps=2, n_inducing=15, warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match="but dtype, kernel, n_inducing differ"):
        model.set_params(n_inducing=9, kernel="matern12", dtype="float32").fit(X, y)


@pytest.mark.slow
def test_minibatches_and_float32_reach_a_similar_fit():
    X, y = on_and_off(400)
    full = ZeroInflatedGPRegressor(steps=600, n_inducing=20).fit(X, y)
    small = ZeroInflatedGPRegressor(steps=600, n_inducing=20, batch_size=100, tol=0.0).fit(X, y)
    single = ZeroInflatedGPRegressor(steps=600, n_inducing=20, dtype="float32").fit(X, y)
    assert single.predict(X_NEW).dtype == np.float32
    inside = np.abs(X_NEW[:, 0]) > 0.5
    for other in (small, single):
        np.testing.assert_allclose(
            other.predict(X_NEW)[inside], full.predict(X_NEW)[inside], atol=0.25
        )


def test_inducing_inputs_can_be_kept_where_they_were_placed():
    X, y = on_and_off()
    free, kept = (
        ZeroInflatedGPRegressor(**FAST, learn_inducing=learn).fit(X, y) for learn in (True, False)
    )
    before = clone(kept).set_params(steps=1, learning_rate=0.0).fit(X, y).model_
    Z = [m.latents["f"].inducing[0].offset for m in (before, kept.model_, free.model_)]
    np.testing.assert_array_equal(Z[0], Z[1])
    assert not np.allclose(Z[0], Z[2])


@pytest.mark.slow
def test_a_diverging_fit_warns_and_keeps_finite_parameters():
    X, y = on_and_off()
    model = ZeroInflatedGPRegressor(
        steps=200, schedule=lambda done: jnp.where(done < 0.5, 1.0, 1e6), n_inducing=15
    )
    with pytest.warns(ConvergenceWarning, match=r"stopped being finite at step 1.. of 200.*Try"):
        model.fit(X, y)
    assert model.n_iter_ == 100
    assert "parameters of step 100 are kept" in model.stopped_
    assert np.all(np.isfinite(model.predict(X)))


def test_a_fit_that_never_starts_is_an_error():
    X, y = on_and_off()
    model = ZeroInflatedGPRegressor(steps=40, learning_rate=1e6, n_inducing=15)
    with pytest.raises(FloatingPointError, match="stopped being finite"):
        model.fit(X, y)


@pytest.mark.parametrize(
    "ask",
    [
        lambda m: m.predict([[1.0]]),
        lambda m: m.predict_quantiles([[1.0]]),
        lambda m: m.predict_interval([[1.0]]),
        lambda m: m.predict_components([[1.0]]),
        lambda m: m.prob_on([[1.0]]),
        lambda m: m.prob_zero([[1.0]], 0.1),
        lambda m: m.prob_below([[1.0]], 0.1),
        lambda m: m.sample([[1.0]]),
        lambda m: m.aggregate([[1.0]]),
        lambda m: m.elbo([[1.0]], [1.0]),
        lambda m: m.noise_sd_,
    ],
)
def test_asking_before_fitting_is_named(ask):
    with pytest.raises(NotFittedError):
        ask(ZeroInflatedGPRegressor())
    failed = ZeroInflatedGPRegressor(**FAST, learning_rate=1e6)
    with pytest.raises(FloatingPointError):
        failed.fit(*on_and_off())
    with pytest.raises(NotFittedError):
        ask(failed)


def test_fitting_without_y_is_named():
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        ZeroInflatedGPRegressor().fit([[1.0], [2.0]], None)


def test_too_many_scattered_rows_cannot_be_drawn_jointly(fitted):
    with pytest.raises(ValueError, match=r"7000 rows cannot be drawn jointly.*fewer rows"):
        fitted.sample(np.linspace(-4, 4, 7000)[:, None])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": "rbf"}, "There is no kernel 'rbf'. Choose from squared_exponential"),
        ({"covariance": "full"}, "covariance must be 'auto'"),
        ({"dtype": "float16"}, "dtype must be 'float32' or 'float64'"),
        ({"n_inducing": 0}, "n_inducing must be at least 1"),
        ({"steps": np.inf}, "steps must be a whole number of at least 1, not inf"),
        ({"batch_size": np.nan}, "batch_size must be a whole number of at least 1, not nan"),
        ({"n_inducing": [3, 4]}, "n_inducing has 2 entries for 1 column groups"),
        ({"kernel": ["matern32", "matern12"]}, "kernel has 2 entries for 1 column groups"),
        ({"kernel": None}, "kernel must be a name, a kernel object"),
        ({"kernel": Matern32}, "kernel must be a name, a kernel object"),
        ({"inputs": []}, "at least one input column"),
        ({"fixed": "sigma"}, "'sigma', which this model does not have"),
        ({"fixed": ["sigma"]}, "'sigma', which this model does not have"),
        ({"column_groups": [["a"]]}, "pass a DataFrame"),
        ({"gate_inputs": [5]}, "no column 5"),
    ],
)
def test_impossible_settings_are_named(settings, message):
    X, y = on_and_off(20)
    with pytest.raises(ValueError, match=message):
        ZeroInflatedGPRegressor(**{"steps": 1, **settings}).fit(X, y)


def test_a_number_of_samples_may_be_written_as_a_float(fitted):
    drawn = [fitted.sample(X_NEW, n, random_state=0) for n in (50, 50.0)]
    np.testing.assert_array_equal(*drawn)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.prob_zero(X_NEW, 0.0), "tol must be positive"),
        (lambda m: m.predict_quantiles(X_NEW, 1.0), "strictly between 0 and 1"),
        (lambda m: m.predict_interval(X_NEW, 90), "level must lie strictly"),
        (lambda m: m.sample(X_NEW, 0), "n_samples must be a whole number of at least 1"),
        (lambda m: m.sample(X_NEW, 2.5), "n_samples must be a whole number"),
        (lambda m: m.aggregate(X_NEW, n_samples=1), "n_samples must be at least 2"),
        (lambda m: m.aggregate(X_NEW, np.full(41, np.nan)), "weights must be finite"),
        (lambda m: m.aggregate(X_NEW, np.zeros(41), how="mean"), "do not add up to zero"),
        (lambda m: m.aggregate(X_NEW, how="max"), "how must be 'sum' or 'mean'"),
        (lambda m: m.aggregate(X_NEW, by=["a"]), r"by has shape \(1,\), but X has 41 rows"),
    ],
)
def test_impossible_questions_are_named(fitted, call, message):
    with pytest.raises(ValueError, match=message):
        call(fitted)


@pytest.mark.slow
def test_jax_is_left_as_it_was_by_every_method_also_from_a_thread():
    program = """
import threading
import jax, jax.numpy as jnp, numpy as np
before = dict(jax.config.values)
import zigp
X, y = np.linspace(0, 3, 12)[:, None], np.maximum(np.linspace(-1, 2, 12), 0)
def use():
    model = zigp.ZeroInflatedGPRegressor(steps=2, n_inducing=5).fit(X, y)
    answers = [
        model.predict(X), model.prob_on(X), model.prob_zero(X, 0.1), model.prob_below(X, 1.0),
        model.sample(X, 2, random_state=0), model.predict_components(X).to_numpy(),
        model.predict_quantiles(X).to_numpy(), model.predict_interval(X).to_numpy(),
        model.aggregate(X, n_samples=3, random_state=0).to_numpy(), model.noise_["off_sd"],
    ]
    found.append({str(np.asarray(a).dtype) for a in answers} | {type(model.elbo(X, y)).__name__})
    network = zigp.GPNetworkRegressor(1, steps=2, n_restarts=2, n_inducing=4).fit(X, y)
    parts = network.predict_network(X)
    answers = [network.predict(X), network.impute(X, y), parts.weights, network.sample(X)]
    found.append({str(np.asarray(a).dtype) for a in answers})
found = []
thread = threading.Thread(target=use)
thread.start()
thread.join()
assert found == [{"float64", "float"}, {"float64"}], found
after = dict(jax.config.values)
assert before == after, {k for k in before if before[k] != after[k]}
assert jnp.ones(1).dtype == jnp.float32
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_learned_state_is_numpy(fitted):
    arrays = [leaf for leaf in jax.tree.leaves(fitted.model_) if not isinstance(leaf, np.ndarray)]
    assert arrays == []


PREDICT_MANY = """
import sys
import numpy as np
from zigp import ZeroInflatedGPRegressor
rng = np.random.default_rng(0)
X, y = rng.normal(size=(1500, 2)), np.maximum(rng.normal(size=1500), 0)
model = ZeroInflatedGPRegressor(steps=1, n_inducing=1000, covariance="diagonal").fit(X, y)
rows = int(sys.argv[1])
mean = model.predict(np.resize(X, (rows, 2)))
assert mean.shape == (rows,) and np.isfinite(mean).all()
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(int(status["VmHWM"].split()[0]) / 1e6)
"""


def peak_gigabytes(rows: int) -> float:
    """Peak memory of fitting 1,000 inducing points and predicting rows, in a process of its own."""
    if sys.platform != "linux":
        pytest.skip("peak memory is read from /proc, which only Linux has")
    command = [sys.executable, "-c", PREDICT_MANY, str(rows)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=500)
    return float(done.stdout)


@pytest.mark.slow
def test_scattered_rows_are_drawn_without_their_lattice():
    """600 rows with as many places and hours: 600 numbers a draw, not 360,000."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(600, 2)), rng.normal(size=600)])
    model = SparseGPRegressor(column_groups=[[0, 1], [2]], n_inducing=[4, 4], steps=1).fit(
        X, X[:, 0]
    )
    at, cells = predictions._joint_inputs(X, ((0, 1), (2,)), None)
    assert at.shape == (600,)
    assert cells is None
    assert model.sample(X, 7, random_state=0).shape == (7, 600)


def test_draws_come_in_blocks_of_bounded_size(fitted, monkeypatch):
    monkeypatch.setattr(predictions, "_NUMBERS_AT_ONCE", 5 * 41 * 2)
    draws = fitted.sample(X_NEW, 12, random_state=0)
    assert draws.shape == (12, 41)
    assert len(np.unique(draws[:, 20])) == 12


@pytest.mark.slow
def test_constant_and_tiny_outputs_have_a_sensible_scale():
    X = np.linspace(0, 1, 20)[:, None]
    for value in (0.1, 1e-200, 1e100):
        model = SparseGPRegressor(steps=30, n_inducing=15).fit(X, np.full(20, value))
        np.testing.assert_allclose(model.predict(X) / value, 1.0, rtol=0.05)
    with pytest.raises(ValueError, match="too large to be squared: use a larger unit"):
        SparseGPRegressor(steps=30, n_inducing=15).fit(X, np.full(20, 1e200))


@pytest.mark.slow
def test_prediction_memory_does_not_grow_with_the_rows():
    few, many = peak_gigabytes(10_000), peak_gigabytes(60_000)
    per_row = (many - few) / 50_000  # the inputs and the answers themselves
    assert many + 940_000 * per_row < 2.0


@pytest.mark.slow
def test_a_million_rows_are_predicted_in_less_than_two_gigabytes():
    assert peak_gigabytes(1_000_000) < 2.0


@pytest.mark.slow
def test_simulated_parameters_are_recovered():
    """Ten data sets drawn from the model: the gate and the signal are found again (medians)."""
    gates, signals = [], []
    for seed in range(10):
        X, y, gate, signal = draw_from_model(seed)
        paper = {"likelihood": "gaussian", "kernel": "squared_exponential"}  # as it was drawn
        model = ZeroInflatedGPRegressor(n_inducing=40, **paper).fit(X, y)
        on = gate > 0.5
        gates.append(np.corrcoef(model.prob_on(X), gate)[0, 1])
        signals.append(np.corrcoef(model.predict(X)[on], signal[on])[0, 1])
    assert np.median(gates) >= 0.9
    assert np.median(signals) >= 0.95


def draw_from_model(seed: int, n: int = 400):
    """y = Φ(g) f + ε with f and g drawn from GPs on a line."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 20, n))

    def gp(lengthscale: float, sd: float) -> np.ndarray:
        K = sd**2 * np.exp(-0.5 * ((x[:, None] - x) / lengthscale) ** 2) + 1e-8 * np.eye(n)
        return np.linalg.cholesky(K) @ rng.normal(size=n)

    gate, f = ndtr(gp(2.0, 3.0) - 0.5), gp(1.5, 1.0)
    signal = gate * f
    return x[:, None], signal + 0.1 * rng.normal(size=n), gate, signal


@pytest.mark.slow
def test_toy_data_of_the_paper(data_dir):
    """Where the true signal is zero ZiGP stays within the noise of zero, tighter than plain GP."""
    toy = pd.read_csv(data_dir / "toy.csv")
    X, y, off = toy[["x"]].to_numpy(), toy["y"].to_numpy(), (toy["f"] == 0).to_numpy()
    zigp, plain = ZeroInflatedGPRegressor().fit(X, y), SparseGPRegressor().fit(X, y)
    noise = np.std((y - toy["f"])[off])
    mean, sd = zigp.predict(X, return_std=True)
    assert np.abs(mean[off]).max() < noise
    assert np.sqrt(np.mean(mean[off] ** 2)) < 0.2 * np.sqrt(np.mean(plain.predict(X)[off] ** 2))
    plain_sd = plain.predict(X, return_std=True)[1]
    assert np.mean(sd[off]) < 0.7 * np.mean(plain_sd[off])


def test_fitting_raises_no_warnings():
    X, y = on_and_off(40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ZeroInflatedGPRegressor(steps=3, n_inducing=15).fit(X, y).predict(X)


def test_the_smallest_whole_number_is_a_number():
    """Which has no absolute value among its like: units were negative."""
    least = float(np.iinfo(np.int64).min)
    model = SparseGPRegressor(steps=2, n_inducing=3).fit(np.arange(6.0)[:, None], [int(least)] * 6)
    assert model.y_scale_ > 0
    np.testing.assert_allclose(model.predict([[2.5]]), least, rtol=1e-6)
