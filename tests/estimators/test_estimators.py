"""Regression as users meet it: units, predictions, joint draws, settings and memory."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from small_models import questions

from zigp import SparseGPRegressor, ZeroInflatedGPRegressor
from zigp.kernels import Matern12, Matern32, Periodic, SquaredExponential

FAST = {"steps": 150, "n_inducing": 15}  # one size for most, so that they share their programs
X_NEW = np.linspace(-4, 4, 41)[:, None]


def on_and_off(n: int = 150, seed: int = 0):
    """Return a wave that is switched off to the left of zero."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-4, 4, size=(n, 1))
    signal = np.where(X[:, 0] > 0, 2.0 + np.sin(2 * X[:, 0]), 0.0)
    return X, np.where(signal > 0, signal + 0.1 * rng.normal(size=n), 0.0)


@pytest.fixture(scope="module")
def fitted():
    return ZeroInflatedGPRegressor(steps=600, n_inducing=15).fit(*on_and_off())


def test_the_gate_is_closed_where_the_signal_is_off(fitted):
    on, x = fitted.prob_on(X_NEW), X_NEW[:, 0]
    assert on[x < -0.5].max() < 0.1 < 0.9 < on[x > 0.5].min()
    assert np.abs(fitted.predict([[-3.0], [-2.0]])).max() < 0.05
    np.testing.assert_allclose(fitted.predict([[1.0], [2.0]]), 2 + np.sin([2.0, 4.0]), atol=0.15)


def test_components_compose_to_the_prediction(fitted):
    parts = fitted.predict_components(X_NEW)
    assert list(parts) == ["gate", "gate_sd", "latent", "latent_sd", "signal", "signal_sd"]
    mean, sd = fitted.predict(X_NEW, return_std=True)
    np.testing.assert_allclose(parts["signal"], parts["gate"] * parts["latent"], rtol=1e-10)
    np.testing.assert_allclose(parts["signal"], mean, rtol=1e-10)
    np.testing.assert_allclose(parts["gate"], fitted.prob_on(X_NEW), rtol=1e-12)
    noise, on2 = fitted.noise_, parts["gate"] ** 2 + parts["gate_sd"] ** 2
    var = parts["signal_sd"] ** 2 + noise["off_sd"] ** 2 + on2 * noise["on_sd"] ** 2
    np.testing.assert_allclose(np.sqrt(var), sd, rtol=1e-10)


def test_prob_zero_is_the_probability_of_an_interval_and_not_the_support(fitted):
    below = [fitted.prob_below(X_NEW, tol) for tol in (-0.05, 0.05)]
    zero = fitted.prob_zero(X_NEW, 0.05)
    np.testing.assert_allclose(zero, below[1] - below[0], atol=1e-9)
    assert not np.allclose(1 - fitted.prob_on(X_NEW), zero, atol=0.05)


def test_quantiles_invert_prob_below_and_bound_intervals(fitted):
    q = fitted.predict_quantiles(X_NEW, (0.05, 0.5, 0.95))
    assert np.all(np.diff(q.to_numpy(), axis=1) > 0)
    for p in (0.05, 0.5, 0.95):
        np.testing.assert_allclose(fitted.prob_below(X_NEW, q[p].to_numpy()), p, atol=1e-8)
    interval = fitted.predict_interval(X_NEW, 0.9)
    np.testing.assert_allclose(interval["lower"], q[0.05], rtol=1e-12)
    np.testing.assert_allclose(interval["upper"], q[0.95], rtol=1e-12)


@pytest.mark.slow
def test_draws_follow_the_predicted_distribution_and_are_joint(fitted):
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
def test_aggregates_are_sums_or_averages_of_draws(fitted):
    by, weights = np.where(X_NEW[:, 0] > 0, "right", "left"), np.linspace(0.5, 1.5, len(X_NEW))
    mean = fitted.predict(X_NEW)
    total = fitted.aggregate(X_NEW, weights, by, n_samples=3000, random_state=0)
    average = fitted.aggregate(X_NEW, weights, by, how="mean", n_samples=50, random_state=0)
    draws = fitted.sample(X_NEW, 3000, random_state=1)
    assert list(total.index) == list(average.index) == ["left", "right"]
    exact, sizes = (pd.Series(a).groupby(by).sum() for a in (weights * mean, weights))
    sums = pd.DataFrame((weights * draws).T).groupby(by).sum().T
    np.testing.assert_allclose(total["mean"], exact, rtol=1e-9)
    np.testing.assert_allclose(average["mean"], exact / sizes, rtol=1e-9)
    np.testing.assert_allclose(total["sd"], sums.std(), rtol=0.1)
    assert np.all(np.abs(total["lower"] - sums.quantile(0.05)) < 0.3 * sums.std())


# -- units ----------------------------------------------------------------------------------------


def test_elbo_is_in_the_units_of_y_and_is_what_training_reached():
    X, y = on_and_off()
    model, scaled = (
        ZeroInflatedGPRegressor(steps=300, n_inducing=15, tol=0.0).fit(X, factor * y)
        for factor in (1, 1000)
    )
    assert model.elbo(X, y) == pytest.approx(model.bounds_[-1], abs=0.05)
    expected = model.elbo(X, y) - len(y) * np.log(1000)
    assert scaled.elbo(X, 1000 * y) == pytest.approx(expected, abs=1e-3)


def test_plain_regression_agrees_with_an_exact_gp():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(60, 1))
    y = 5.0 + np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=60)
    kernel = ConstantKernel(1.0, (1e-2, 1e2)) * RBF(1.0) + WhiteKernel(0.01)
    exact = GaussianProcessRegressor(kernel, normalize_y=True).fit(X, y)
    model = SparseGPRegressor("squared_exponential", steps=2000, n_inducing=30, tol=0.0).fit(X, y)
    mean, sd = model.predict(X_NEW[10:31], return_std=True)
    exact_mean, exact_sd = exact.predict(X_NEW[10:31], return_std=True)
    np.testing.assert_allclose(mean, exact_mean, atol=0.03)
    np.testing.assert_allclose(sd, exact_sd, rtol=0.15)


# -- lattices, columns and kernels ----------------------------------------------------------------


def rain_like(seed: int = 0, stations: int = 8, hours: int = 30):
    rng = np.random.default_rng(seed)
    where = np.column_stack([rng.uniform(60, 64, stations), rng.uniform(22, 28, stations)])
    s, h = np.divmod(rng.permutation(stations * hours), hours)
    y = np.clip(3 * np.sin(h / 4) * np.cos(where[s, 0]), 0, None).round(1)
    return np.column_stack([where[s], h.astype(float)]), y


SPACE_TIME = {"column_groups": {"space": [0, 1], "time": [2]}, "latlon": [0, 1], "steps": 60}


@pytest.mark.slow
def test_a_table_that_is_a_lattice_is_fitted_as_one_with_the_same_result():
    """Rows of weight zero at other hours leave the data as they are, but fill no lattice."""
    X, y = rain_like()
    model = ZeroInflatedGPRegressor(**SPACE_TIME).fit(X, y)
    more, weight = X + [0, 0, 0.001] * np.arange(len(X))[:, None], np.repeat([1.0, 0.0], len(X))
    rows = ZeroInflatedGPRegressor(**SPACE_TIME).fit(
        np.concatenate([X, more]), np.tile(y, 2), sample_weight=weight
    )
    assert model.on_lattice_
    assert not rows.on_lattice_
    # Adam divides a gradient by its own size, so that rounding grows with the steps.
    assert model.bounds_[0] == pytest.approx(rows.bounds_[0], rel=1e-11)
    np.testing.assert_allclose(model.bounds_[:5], rows.bounds_[:5], rtol=1e-6)
    np.testing.assert_allclose(model.predict(X), rows.predict(X), atol=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kernel",
    [
        "matern32",
        {"space": Matern32(lengthscale=150.0), "time": Matern12()},
        [2.0 * Matern32() + SquaredExponential(), "matern12"],
    ],
)
def test_latitude_and_longitude_give_lengthscales_in_km(kernel):
    X, y = rain_like()
    model = SparseGPRegressor(kernel, **{**SPACE_TIME, "steps": 1}).fit(X, y)
    leaves = jax.tree.leaves(model.model_.latents["f"].kernels[0])
    assert 20 < max(float(np.max(leaf)) for leaf in leaves) < 2000


@pytest.mark.slow
def test_gate_and_amount_may_have_different_columns_and_kernels():
    X, y = rain_like()
    model = ZeroInflatedGPRegressor(
        ["matern32", "matern12"],
        gate_kernel={"time": 1.0 * Periodic(24) + Matern12()},
        gate_inputs=[2],
        n_inducing=[5, 10],
        **{**SPACE_TIME, "steps": 40},
    ).fit(X, y)
    moved = X + np.array([1.0, 1.0, 0.0])
    np.testing.assert_allclose(model.prob_on(moved), model.prob_on(X), rtol=1e-12)
    assert not np.allclose(model.predict(moved), model.predict(X))


def test_frames_are_read_by_name_and_keep_their_index():
    X, y = on_and_off()
    frame = pd.DataFrame({"x": X[:, 0]}, index=np.arange(len(X)) + 1000)
    model = ZeroInflatedGPRegressor(**FAST).fit(frame, y)
    assert isinstance(model.predict(frame), np.ndarray)
    for table in (model.predict_components(frame), model.predict_interval(frame)):
        assert list(table.index) == list(frame.index)


# -- training -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_warm_start_continues_from_the_fitted_model():
    X, y = on_and_off()
    model = ZeroInflatedGPRegressor(**FAST, warm_start=True, schedule="constant", tol=0.0).fit(X, y)
    first = model.bounds_[-1]
    model.set_params(steps=1).fit(X, y)
    assert model.bounds_[0] == pytest.approx(first, abs=2.0)
    cold = clone(model).set_params(warm_start=False).fit(X, y)
    assert cold.bounds_[0] < first - 10


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"batch_size": 100, "tol": 0.0}, {"dtype": "float32"}])
def test_minibatches_and_float32_reach_a_similar_fit(settings):
    X, y = on_and_off(400)
    full, other = (
        ZeroInflatedGPRegressor(steps=600, n_inducing=20, **more).fit(X, y).predict(X_NEW)
        for more in ({}, settings)
    )
    assert other.dtype == settings.get("dtype", "float64")
    inside = np.abs(X_NEW[:, 0]) > 0.5
    np.testing.assert_allclose(other[inside], full[inside], atol=0.25)


def test_inducing_inputs_can_be_kept_where_they_were_placed():
    def inducing(**more) -> np.ndarray:
        model = ZeroInflatedGPRegressor(**FAST | more).fit(*on_and_off())
        return model.model_.latents["f"].inducing[0].offset

    placed = inducing(steps=1, learning_rate=0.0)
    np.testing.assert_array_equal(inducing(learn_inducing=False), placed)
    assert not np.allclose(inducing(), placed)


@pytest.mark.slow
def test_a_diverging_fit_warns_and_keeps_finite_parameters():
    rate = {"schedule": lambda done: jnp.where(done < 0.5, 1.0, 1e6)}
    model = ZeroInflatedGPRegressor(steps=200, n_inducing=15, **rate)
    with pytest.warns(ConvergenceWarning, match=r"stopped being finite at step 1.. of 200.*Try"):
        model.fit(*on_and_off())
    assert model.n_iter_ == 100
    assert "parameters of step 100 are kept" in model.stopped_
    assert np.all(np.isfinite(model.predict(X_NEW)))


def test_models_that_are_not_fitted_or_failed_to_fit_answer_nothing():
    failed = ZeroInflatedGPRegressor(**FAST, learning_rate=1e6)
    with pytest.raises(FloatingPointError, match="stopped being finite"):
        failed.fit(*on_and_off())
    for model in (ZeroInflatedGPRegressor(), failed):
        for method, more in [*questions(model), ("elbo", {"y": np.ones(3)})]:
            with pytest.raises(NotFittedError):
                getattr(model, method)(X_NEW[:3], **more)


# -- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": "rbf"}, "There is no kernel 'rbf'. Choose from squared_exponential"),
        ({"posterior": "dense"}, "posterior must be 'auto'"),
        ({"dtype": "float16"}, "dtype must be 'float32' or 'float64'"),
        ({"n_inducing": 0}, "n_inducing must be a whole number of at least 1, not 0"),
        ({"n_inducing": np.inf}, "n_inducing must be a whole number of at least 1, not inf"),
        ({"steps": np.inf}, "steps must be a whole number of at least 1, not inf"),
        ({"batch_size": np.nan}, "batch_size must be a whole number of at least 1, not nan"),
        ({"n_inducing": [3, 4]}, "n_inducing has 2 entries for 1 column groups"),
        ({"kernel": ["matern32", "matern12"]}, "kernel has 2 entries for 1 column groups"),
        ({"kernel": None}, "There is no kernel None"),
        ({"kernel": Matern32}, "There is no kernel <class .*, or pass a kernel object such as"),
        ({"inputs": []}, "at least one input column"),
        ({"fixed": "sigma"}, "'sigma', which this model does not have"),
        ({"fixed": ["sigma"]}, "'sigma', which this model does not have"),
        ({"column_groups": [["a"]]}, "pass a DataFrame"),
        ({"gate_inputs": [5]}, "no column 5"),
        (
            {"likelihood": "tweedie"},
            "likelihood must be 'auto', 'gaussian'.*not 'tweedie'",
        ),
        ({"resolution": 1e300}, "resolution reaches"),
    ],
)
def test_impossible_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        ZeroInflatedGPRegressor(**{"steps": 1, **settings}).fit(*on_and_off(20))


def test_one_kernel_over_degrees_and_hours_is_refused():
    with pytest.raises(ValueError, match=r"together with other columns.*\.on"):
        SparseGPRegressor(Matern32(), latlon=[0, 1], steps=1).fit(*rain_like())


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        ("prob_zero", {"tol": 0.0}, "tol must be positive"),
        ("predict_quantiles", {"quantiles": 1.0}, "strictly between 0 and 1"),
        ("predict_interval", {"level": 90}, "level must lie strictly"),
        ("sample", {"n_samples": 0}, "n_samples must be a whole number of at least 1"),
        ("sample", {"n_samples": 2.5}, "n_samples must be a whole number"),
        ("sample", {"X": np.linspace(-4, 4, 7000)[:, None]}, "7000 rows cannot be drawn jointly"),
        ("aggregate", {"n_samples": 1}, "n_samples must be at least 2"),
        ("aggregate", {"weights": np.full(41, np.nan)}, "weights must be finite"),
        ("aggregate", {"weights": np.zeros(41), "how": "mean"}, "do not add up to zero"),
        ("aggregate", {"how": "max"}, "how must be 'sum' or 'mean'"),
        ("aggregate", {"by": ["a"]}, r"by has shape \(1,\), but X has 41 rows"),
    ],
)
def test_impossible_questions_are_named(fitted, method, arguments, message):
    with pytest.raises(ValueError, match=message):
        getattr(fitted, method)(**{"X": X_NEW} | arguments)


# -- the process around ---------------------------------------------------------------------------


@pytest.mark.slow
def test_jax_is_left_as_it_was_by_every_method_also_in_a_thread():
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


PREDICT_MANY = """
import resource
import numpy as np
from zigp import ZeroInflatedGPRegressor
rng = np.random.default_rng(0)
X, y = rng.normal(size=(1500, 2)), np.maximum(rng.normal(size=1500), 0)
model = ZeroInflatedGPRegressor(steps=1, n_inducing=1000, posterior="diagonal").fit(X, y)
mean = model.predict(np.resize(X, (1_000_000, 2)))
assert mean.shape == (1_000_000,) and np.isfinite(mean).all()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is in KiB on Linux only")
def test_a_million_rows_are_predicted_in_less_than_two_gigabytes():
    command = [sys.executable, "-c", PREDICT_MANY]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=500)
    assert float(done.stdout) < 2.0


# -- data of the model, and of the paper ----------------------------------------------------------


def draw_from_model(seed: int, n: int = 400):
    """Return x and y = Φ(g) f + ε, with f and g drawn from GPs on a line, Φ(g) and Φ(g) f."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 20, n))

    def gp(lengthscale: float, sd: float) -> np.ndarray:
        K = sd**2 * np.exp(-0.5 * ((x[:, None] - x) / lengthscale) ** 2) + 1e-8 * np.eye(n)
        return np.linalg.cholesky(K) @ rng.normal(size=n)

    gate, f = ndtr(gp(2.0, 3.0) - 0.5), gp(1.5, 1.0)
    return x[:, None], gate * f + 0.1 * rng.normal(size=n), gate, gate * f


@pytest.mark.slow
def test_simulated_gates_and_signals_are_recovered():
    """Medians of ten data sets."""
    correlations = []
    for seed in range(10):
        X, y, gate, signal = draw_from_model(seed)
        paper = {"likelihood": "gaussian", "kernel": "squared_exponential"}  # as it was drawn
        model = ZeroInflatedGPRegressor(n_inducing=40, **paper).fit(X, y)
        on = gate > 0.5
        found = (model.prob_on(X), gate), (model.predict(X)[on], signal[on])
        correlations.append([np.corrcoef(*pair)[0, 1] for pair in found])
    assert np.all(np.median(correlations, axis=0) >= [0.9, 0.95])


@pytest.mark.slow
def test_predictions_stay_at_zero_where_the_papers_toy_signal_is_zero(data_dir):
    """Within the noise, and tighter than those of a plain GP."""
    toy = pd.read_csv(data_dir / "toy.csv")
    X, y, off = toy[["x"]].to_numpy(), toy["y"].to_numpy(), (toy["f"] == 0).to_numpy()
    (mean, sd), (plain, plain_sd) = (
        estimator().fit(X, y).predict(X[off], return_std=True)
        for estimator in (ZeroInflatedGPRegressor, SparseGPRegressor)
    )
    assert np.abs(mean).max() < np.std((y - toy["f"])[off])
    assert np.sqrt(np.mean(mean**2)) < 0.2 * np.sqrt(np.mean(plain**2))
    assert np.mean(sd) < 0.7 * np.mean(plain_sd)
