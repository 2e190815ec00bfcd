"""Likelihoods as a user meets them: chosen, fitted to data of their own kind, asked, refused."""

from __future__ import annotations

from itertools import islice

import jax
import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest
from sklearn.base import clone

from zigp import GPNetworkRegressor, SparseGPClassifier, ZeroInflatedGPRegressor
from zigp.data.layout import Inputs, as_batch
from zigp.data.streams import open_stream
from zigp.estimators.families import FAMILIES, chosen_family, refuse_unsuited, resolution_of
from zigp.estimators.fitting import SparseGP
from zigp.training import Settings, Streamed, train, train_restarts

N, NEW = 900, 3000
# Each takes a while to compile, and to draw from.
LATE = [pytest.param(family, marks=pytest.mark.slow) for family in FAMILIES]


def draw(family: str, rng: np.random.Generator, effort, n: int = N):
    """Data of a kind, with a gate that swings and a smooth amount, multiplied by an effort."""
    x = rng.uniform(0, 10, n)
    on = rng.random(n) < np.where(np.sin(x) > 0, 0.95, 0.03)
    log_amount = 1.0 + 0.5 * np.cos(x)
    amount = np.exp(log_amount) * effort
    drawn = {
        "gaussian": lambda: np.where(np.sin(x) > 0, amount, 0.0) + 0.3 * rng.normal(size=n),
        "gated": lambda: np.where(
            np.sin(x) > 0, amount + 0.8 * rng.normal(size=n), 0.1 * rng.normal(size=n)
        ),
        "hurdle_lognormal": lambda: on * amount * np.exp(0.4 * rng.normal(size=n)),
        "hurdle_gamma": lambda: on * rng.gamma(3.0, amount / 3.0),
        "zip": lambda: on * rng.poisson(amount),
        "zinb": lambda: on * rng.poisson(rng.gamma(2.0, amount / 2.0)),
    }[family]()
    return pd.DataFrame({"x": x, "effort": np.broadcast_to(effort, n)}), drawn.astype(float)


def fit_to_draw(family: str, seed: int):
    """A fit to data of a kind, and new data of that kind."""
    rng = np.random.default_rng(seed)
    X, y = draw(family, rng, 1.0)
    model = ZeroInflatedGPRegressor(
        likelihood=family, inputs="x", n_inducing=20, steps=1200, tol=0.0
    )
    return model.fit(X, y), draw(family, rng, 1.0, NEW)


@pytest.fixture(scope="module", params=LATE)
def fitted(request):
    return request.param, *fit_to_draw(request.param, 0)


TRUTH = {
    "gaussian": {"sd": 0.3},
    "gated": {"off_sd": 0.1, "on_sd": 0.8},
    "hurdle_lognormal": {"log_sd": 0.4},
    "hurdle_gamma": {"shape": 3.0},
    "zip": {},
    "zinb": {"dispersion": 2.0},
}


def test_parameters_come_back(fitted):
    family, model, _ = fitted
    assert model.likelihood_ == family
    assert model.noise_ == pytest.approx(TRUTH[family], rel=0.35)


def test_intervals_hold_what_they_promise(fitted):
    """Within 3 points for amounts, over three data sets; counts and atoms are covered in steps."""
    family, *first = fitted
    if family in ("gaussian", "gated"):
        three = [first, *(fit_to_draw(family, seed) for seed in (1, 2))]
        covered = [coverage(model, *new) for model, new in three]
        assert np.mean(covered) == pytest.approx(0.9, abs=0.03)
    else:
        model, new = first
        assert coverage(model, *new) > 0.87


def coverage(model, X, y) -> float:
    inside = model.predict_interval(X, 0.9)
    return float(np.mean((y >= inside["lower"]) & (y <= inside["upper"])))


def test_residuals_are_standard_normal(fitted):
    _, model, (X, y) = fitted
    assert kstest(model.quantile_residuals(X, y), "norm").statistic < 0.05


def test_probabilities_of_zero_and_of_exceeding_are_calibrated(fitted):
    family, model, (X, y) = fitted
    if family in ("gaussian", "gated"):
        with pytest.raises(ValueError, match="tol must be positive"):
            model.prob_zero(X)
    else:
        assert np.mean(y == 0) == pytest.approx(model.prob_zero(X).mean(), abs=0.03)
        wet = np.sin(X["x"]) > 0.2
        assert np.mean(y[wet] == 0) == pytest.approx(model.prob_zero(X[wet]).mean(), abs=0.04)
    assert np.mean(y > 3) == pytest.approx(1 - model.prob_below(X, 3.0).mean(), abs=0.03)


def test_means_and_draws_agree(fitted):
    _, model, (X, y) = fitted
    mean, sd = model.predict(X, return_std=True)
    chance = 3 * y.std() * (1 / np.sqrt(N) + 1 / np.sqrt(NEW))
    assert mean.mean() == pytest.approx(y.mean(), abs=chance)
    few = X[:40]
    drawn = model.sample(few, 1500, random_state=0)
    se = sd[:40] / np.sqrt(1500)
    assert np.all(np.abs(drawn.mean(axis=0) - mean[:40]) < 6 * se)


def test_the_bound_is_below_what_a_constant_model_of_the_truth_gives(fitted):
    """The bound is finite, in the units of y, and what training ended at."""
    family, model, _ = fitted
    X, y = draw(family, np.random.default_rng(0), 1.0)
    assert model.elbo(X, y) == pytest.approx(model.bounds_[-1], abs=1.0)


@pytest.mark.slow
def test_zeros_are_zeros_in_single_precision_too():
    X, y = draw("hurdle_lognormal", np.random.default_rng(4), 1.0, 120)
    settings = {"likelihood": "hurdle_lognormal", "inputs": "x", "n_inducing": 10, "steps": 60}
    single = ZeroInflatedGPRegressor(dtype="float32", **settings).fit(X, y)
    np.testing.assert_allclose(single.prob_zero(X), 1 - single.prob_on(X), atol=1e-5)
    dry = y == 0
    assert single.quantile_residuals(X[dry], y[dry]).std() > 0.3


# -- choosing ---------------------------------------------------------------------------------


def test_auto_looks_at_values_not_at_types():
    assert chosen_family("auto", np.array([0.0, 2.0, 5.0])) == "zinb"
    assert chosen_family("auto", np.array([0, 2, 5])) == "zinb"
    assert chosen_family("auto", np.array([0.0, 0.5, 5.0])) == "gated"
    assert chosen_family("auto", np.array([0.0, -2.0, 5.0])) == "gated"
    assert chosen_family("auto", np.array([0.0, 1.0, 1.0])) == "gated"


def test_unsuited_data_are_refused_with_a_way_out():
    with pytest.raises(ValueError, match=r"needs y ≥ 0; row 1 is -2\. Use 'gated'"):
        refuse_unsuited("hurdle_gamma", np.array([1.0, -2.0]))
    with pytest.raises(ValueError, match=r"needs whole numbers; row 0 is 1\.5"):
        refuse_unsuited("zip", np.array([1.5, 2.0]))
    with pytest.raises(ValueError, match=r"no likelihood 'tweedie'\. Choose from auto, gaussian"):
        ZeroInflatedGPRegressor(likelihood="tweedie").fit([[0.0], [1.0]], [0.0, 1.0])


@pytest.fixture
def untrained(monkeypatch):
    """Fits end where training would begin."""

    def keep(model, first, data, *_):
        model.model_, model._structure = first[0], model._current_structure()
        if isinstance(data, Streamed):
            list(islice(data.blocks(0), 2))

    monkeypatch.setattr(SparseGP, "_train", keep)


SOME = pd.DataFrame({"x": np.arange(32.0), "hours": 1.0})
COUNTS = np.arange(32) % 4 + 1.0
UNSUITED = {
    "below zero": (ZeroInflatedGPRegressor(likelihood="hurdle_gamma"), -1.0, 1.0, "y ≥ 0"),
    "no count": (ZeroInflatedGPRegressor(likelihood="auto"), 1.5, 1.0, "whole numbers"),
    "no effort": (ZeroInflatedGPRegressor(exposure="hours"), 1.0, 0.0, "must be positive"),
    "another class": (SparseGPClassifier(), 3.0, 1.0, "3.0, which is not among"),
    "no logarithm": (GPNetworkRegressor(1, y_transform="log"), 0.0, 1.0, "outputs above 0"),
}


@pytest.mark.parametrize("what", UNSUITED)
def test_what_is_unsuited_is_refused_wherever_it_comes_in(what, untrained, tmp_path):
    """When a fit goes on, by the bound, and in blocks of a stream beyond its sample."""
    made, y_last, hours_last, words = UNSUITED[what]
    model = clone(made).set_params(n_inducing=3, warm_start=True)
    suited = COUNTS % 2 if isinstance(made, SparseGPClassifier) else COUNTS
    X, y = SOME.copy(), suited.copy()
    X.loc[31, "hours"], y[31] = hours_last, y_last
    model.fit(SOME, suited)
    for ask in (model.fit, model.elbo):
        with pytest.raises(ValueError, match=words):
            ask(X, y)
    X.assign(y=y).to_parquet(tmp_path / "rows.parquet")
    stream = open_stream(tmp_path / "rows.parquet", target="y", rows_per_block=16)
    stream.sample = lambda n, seed, gaps: (SOME, suited)
    for warm in (True, False):
        with pytest.raises(ValueError, match=f"In a block of the stream, of shuffled.*{words}"):
            model.set_params(warm_start=warm).fit_stream(stream)


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ([0, 0.1, 3.7, 0.4, 2.2, 1.9], 0.1),
        ([0, 0.25, 1.75, 0.5, 1.0, 3.25], 0.05),
        ([0, 3, 8, 1, 5, 4], 1.0),
        ([0, 40, 60, 100, 20, 140], 20.0),
    ],
)
def test_the_resolution_is_found_in_the_data(values, step):
    assert resolution_of(np.array(values, float)) == pytest.approx(step)


@pytest.mark.parametrize("values", [[0.0, 2.0], [0.0, 0.3, 1.2, 0.5], [-7.0, 0.0, 7.0]])
def test_a_few_values_show_no_resolution(values):
    y = np.array(values)
    typical = np.sqrt(np.mean(np.unique(np.abs(y[y != 0])) ** 2))
    assert resolution_of(y) == pytest.approx(0.01 * typical)


def test_without_steps_the_resolution_is_a_part_of_the_amounts():
    y = np.where(np.arange(50) % 2, np.sqrt(np.arange(50) + 0.1), 0.0)
    typical = np.sqrt(np.mean(y[y > 0] ** 2))
    assert resolution_of(y) == pytest.approx(0.01 * typical)


@pytest.mark.slow
def test_noise_of_the_zeros_stays_above_the_resolution():
    X, _ = draw("gated", np.random.default_rng(1), 1.0, 150)
    y = np.where(X["x"] > 5, np.round(2 + np.sin(X["x"]), 1), 0.0)
    model = ZeroInflatedGPRegressor(likelihood="gated", inputs="x", n_inducing=20, steps=600)
    assert model.fit(X, y).noise_["off_sd"] >= 0.1 / np.sqrt(12)
    assert np.isfinite(model.bounds_).all()


# -- exposure ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "family",
    ["gated", *(pytest.param(f, marks=pytest.mark.slow) for f in ("zinb", "hurdle_gamma"))],
)
def test_an_exposure_multiplies_the_amount(family):
    rng = np.random.default_rng(2)
    X, y = draw(family, rng, rng.uniform(0.5, 4.0, N))
    model = ZeroInflatedGPRegressor(
        likelihood=family, exposure="effort", n_inducing=15, steps=500
    ).fit(X, y)
    one = X[:50].assign(effort=1.0)
    np.testing.assert_allclose(model.predict(one.assign(effort=3.0)), 3 * model.predict(one))
    on = model.predict_components(one)
    np.testing.assert_array_equal(on["gate"], model.prob_on(one.assign(effort=9.0)))
    truth = np.exp(1 + 0.5 * np.cos(one["x"]))
    clear = np.sin(one["x"]) > 0.5
    assert model.predict(one)[clear] == pytest.approx(0.95 * truth[clear], rel=0.3)


@pytest.mark.slow
def test_exposures_count_the_same_on_a_lattice_in_rows_and_in_minibatches():
    rng = np.random.default_rng(3)
    s, t = np.meshgrid(np.arange(6.0), np.arange(8.0), indexing="ij")
    X = np.column_stack([s.ravel(), t.ravel(), rng.uniform(1, 3, 48)])
    y = rng.poisson(X[:, 2]) * 1.0
    settings = {"likelihood": "hurdle_gamma", "exposure": 2, "steps": 1, "fixed": ["q"]}
    groups = [[0], [1]]
    on_lattice = ZeroInflatedGPRegressor(column_groups=groups, **settings).fit(X, y)
    assert on_lattice.on_lattice_
    whole = ZeroInflatedGPRegressor(column_groups=groups, batch_size=48, **settings).fit(X, y)
    assert on_lattice.bounds_[0] == pytest.approx(whole.bounds_[0], rel=1e-9)
    assert on_lattice.sample(X, 3).shape == (3, 48)


def test_exposures_must_be_positive():
    X = np.column_stack([np.arange(5.0), [1, 2, 0, 1, 1]])
    with pytest.raises(ValueError, match="Exposures must be positive; in row 2 it is 0"):
        ZeroInflatedGPRegressor(exposure=1).fit(X, np.arange(5.0))


# -- zero or not ------------------------------------------------------------------------------


def test_the_decision_is_chosen_on_data_or_given(fitted):
    _, model, (X, y) = fitted
    with pytest.raises(ValueError, match="choose one with fit_decision"):
        ZeroInflatedGPRegressor().predict_on(X)
    threshold = model.fit_decision(X, y)
    np.testing.assert_array_equal(model.predict_on(X), model.predict(X) >= threshold)
    dear_misses = model.fit_decision(X, y, cost_ratio=20.0)
    assert dear_misses <= model.fit_decision(X, y, cost_ratio=0.05)
    assert model.predict_on(X, 1e9).sum() == 0


def test_what_to_expect_if_it_is_on(fitted):
    family, model, (X, _) = fitted
    some = X.iloc[:50]
    mean, sd = model.predict_if_on(some, return_std=True)
    parts, noise = model.predict_components(some), model.noise_
    if family in ("gaussian", "gated"):
        var = sum(value**2 for value in noise.values())
        np.testing.assert_allclose(mean, parts["latent"], rtol=1e-9)
        np.testing.assert_allclose(sd, np.sqrt(parts["latent_sd"] ** 2 + var), rtol=1e-9)
    else:
        above = 0.5 * noise["log_sd"] ** 2 if family == "hurdle_lognormal" else 0.0
        level = np.exp(parts["latent"] + 0.5 * parts["latent_sd"] ** 2 + above)
        np.testing.assert_allclose(mean, level, rtol=1e-4)
        np.testing.assert_allclose(parts["signal"], model.predict(some), rtol=1e-4)
    assert np.all(np.isfinite(sd) & (sd > 0))


@pytest.mark.slow
def test_quantiles_of_the_parts(fitted):
    """Quantiles rise, and their average over all levels is the mean.

    Those of counts are whole numbers, which no average over some levels tells: a quantile is the
    first whose probability not to be exceeded reaches the level.
    """
    family, model, (X, _) = fitted
    nodes, weights = np.polynomial.legendre.leggauss(40)
    some, levels = X.iloc[:20], 0.5 * (1.0 + nodes)
    parts = model.predict_components(some)
    expected = {"gate": parts["gate"], "latent": parts["latent"]}
    if family in ("zip", "zinb"):
        if_on = model.predict_quantiles(some, levels[::8], of="if_on").to_numpy()
        found = model.predict_quantiles(some, levels[::8]).to_numpy()
        for numbers in (if_on, found):
            assert np.all(np.diff(numbers, axis=1) >= 0)
            np.testing.assert_array_equal(numbers, np.round(numbers))
        assert np.all(if_on >= found)
        assert np.all(model.prob_below(some, found) >= levels[::8] - 1e-6)
        assert np.all(model.prob_below(some, found - 1.0) < levels[::8] + 1e-6)
    else:
        expected |= {"if_on": model.predict_if_on(some), "response": model.predict(some)}
    for part, mean in expected.items():
        found = model.predict_quantiles(some, levels, of=part).to_numpy()
        assert np.all(np.diff(found, axis=1) >= 0)
        np.testing.assert_allclose(found @ (0.5 * weights), mean, rtol=0.02, atol=0.01)
    inside = model.predict_interval(some, 0.8, of="gate")
    assert list(inside) == ["lower", "upper"]
    assert inside.min(axis=None) >= 0
    assert inside.max(axis=None) <= 1
    with pytest.raises(ValueError, match="has quantiles of 'response', 'if_on', 'latent', 'gate'"):
        model.predict_quantiles(some, of="signal")


def test_an_index_is_as_uncertain_as_its_draws(fitted):
    _, model, (X, _) = fitted
    grid = X.iloc[:200]
    index = model.aggregate(grid, how="mean", noise=False, n_samples=400, random_state=0)
    drawn = model.sample(grid, 400, noise=False, random_state=1).mean(axis=1)
    assert index["mean"].item() == pytest.approx(model.predict(grid).mean())
    assert drawn.mean() == pytest.approx(index["mean"].item(), abs=4 * drawn.std() / 20 + 1e-3)
    assert index["sd"].item() == pytest.approx(drawn.std(), rel=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_restarts_together_are_restarts_one_by_one(family):
    X, y = draw(family, np.random.default_rng(0), 1.0, 60)
    first = ZeroInflatedGPRegressor(likelihood=family, inputs="x", n_inducing=6, steps=1).fit(X, y)
    data = as_batch(Inputs(X.to_numpy()), y / first.y_scale_, np.ones(60), first.layout_, "float64")

    def other(leaf):
        return leaf * 1.1 if np.issubdtype(leaf.dtype, np.floating) else leaf

    models = [first.model_, jax.tree.map(other, first.model_)]
    settings = Settings(steps=8)
    together = train_restarts(models, data, settings)
    for start, one in zip(models, together, strict=True):
        alone = train(start, data, settings)
        np.testing.assert_allclose(one.bounds, alone.bounds, rtol=1e-9)
    assert together[0].bounds[0] != together[1].bounds[0]
