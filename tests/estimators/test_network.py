"""GPNetworkRegressor as a user meets it."""

from __future__ import annotations

from copy import copy

import equinox as eqx
import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from zigp import GPNetworkRegressor, load
from zigp.training import Settings, train_restarts

FAST = {"n_restarts": 2, "steps": 300, "n_inducing": 8}


def two_outputs(n: int = 120, seed: int = 0):
    """Two outputs that share one latent, in different units and around different means."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 6, size=(n, 1))
    f = np.sin(1.5 * X[:, 0])
    Y = np.column_stack([100 + 20 * f, -3 - 0.5 * f]) + rng.normal(size=(n, 2)) * [1.0, 0.03]
    return X, Y


@pytest.fixture(scope="module")
def fitted():
    X, Y = two_outputs()
    settings = {**FAST, "steps": 200, "n_restarts": 3}
    return GPNetworkRegressor(1, **settings).fit(X, pd.DataFrame(Y, columns=["warm", "cold"]))


X_NEW = np.linspace(0.2, 5.8, 25)[:, None]
TRUE = np.column_stack([100 + 20 * np.sin(1.5 * X_NEW[:, 0]), -3 - 0.5 * np.sin(1.5 * X_NEW[:, 0])])


def test_predictions_come_in_the_users_units(fitted):
    mean, sd = fitted.predict(X_NEW, return_std=True)
    assert mean.shape == sd.shape == (25, 2)
    assert np.abs((mean - TRUE) / [20, 0.5]).max() < 0.2
    assert np.all(sd > 0)
    np.testing.assert_allclose(fitted.noise_sd_, [1.0, 0.03], rtol=0.5)


def test_a_network_comes_back_from_its_file_to_the_bit(fitted, tmp_path):
    fitted.save(tmp_path / "network.zigp")
    again = load(tmp_path / "network.zigp")
    for ours, theirs in zip(
        again.predict(X_NEW, return_std=True), fitted.predict(X_NEW, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    assert again.n_outputs_ == 2


def test_all_restarts_are_kept_and_the_best_is_used(fitted):
    assert len(fitted.restarts_) == 3
    reached = [fit.bounds[-1] for fit in fitted.restarts_]
    assert fitted.bounds_[-1] == max(reached)
    assert len(set(np.round(reached, 6))) == 3  # they started from different places


@pytest.mark.slow
def test_quantiles_samples_and_aggregates_for_every_output(fitted):
    interval = fitted.predict_interval(X_NEW, 0.9)
    assert list(interval.columns) == [
        ("lower", "warm"), ("lower", "cold"), ("upper", "warm"), ("upper", "cold"),
    ]  # fmt: skip
    draws = fitted.sample(X_NEW, 3000, random_state=0)
    assert draws.shape == (3000, 25, 2)
    for bound, p in (("lower", 0.05), ("upper", 0.95)):
        below = np.mean(draws <= interval[bound].to_numpy(), axis=0)
        np.testing.assert_allclose(below, p, atol=0.03)  # a Sobol rule of 512 nodes is behind it
    assert fitted.prob_below(X_NEW, 100.0).shape == (25, 2)
    total = fitted.aggregate(X_NEW, n_samples=200, random_state=0)
    np.testing.assert_allclose(total["mean"].to_numpy()[0], fitted.predict(X_NEW).sum(axis=0))


def test_sums_are_of_means_also_where_medians_are_predicted(fitted):
    """The mean of a sum is the sum of the means; of medians nothing of the kind holds."""
    X, Y = two_outputs()
    settings = {"n_inducing": 8, "n_restarts": 1, "steps": 20, "y_transform": "log"}
    logged = GPNetworkRegressor(1, back_transform="median", **settings).fit(X, np.exp(Y))
    median, mean = (
        copy(logged).set_params(back_transform=point).predict(X_NEW) for point in ("median", "mean")
    )
    assert np.all(median < mean)
    total = logged.aggregate(X_NEW, n_samples=2)
    np.testing.assert_allclose(total["mean"].to_numpy()[0], mean.sum(axis=0))


def test_the_bound_is_in_the_users_units(fitted):
    X, Y = two_outputs()
    # What training reports includes the log prior of the gates' length-scales.
    from zigp.models.objective import log_prior

    prior = float(log_prior(fitted.model_))
    assert fitted.elbo(X, Y) == pytest.approx(fitted.bounds_[-1] - prior, abs=0.5)


def test_parts_add_up_to_the_prediction(fitted):
    parts = fitted.predict_network(X_NEW)
    assert parts.weights.shape == parts.support.shape == (25, 1, 2)
    total = fitted.y_offset_ + parts.contributions.sum(axis=1)
    np.testing.assert_allclose(total, fitted.predict(X_NEW), rtol=1e-9)
    effective = parts.effective_weights * parts.latents[:, :, None] * fitted.y_scale_
    np.testing.assert_allclose(parts.contributions, effective, rtol=1e-12)
    np.testing.assert_allclose(parts.n_effective, 1.0)
    assert np.all((parts.support > 0) & (parts.support < 1))


@pytest.mark.slow
def test_what_is_known_of_one_output_tells_of_the_other():
    """Outputs that share what is local to a site, as only latent noise can say."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 6, size=(200, 1))
    local = np.sin(X[:, 0]) + rng.normal(size=200)
    Y = np.column_stack([local, 2 * local]) + 0.1 * rng.normal(size=(200, 2))
    model = GPNetworkRegressor(1, latent_noise=True, sparse_weights=False, **FAST).fit(
        X[:150], Y[:150]
    )
    known = Y[150:].copy()
    known[:, 1] = np.nan
    alone, sd_alone = model.predict(X[150:], return_std=True)
    given, sd_given = model.predict(X[150:], return_std=True, known=known)
    np.testing.assert_array_equal(given[:, 0], Y[150:, 0])
    errors = [np.std(p[:, 1] - Y[150:, 1]) for p in (alone, given)]
    assert errors[1] < 0.3 * errors[0]
    assert np.mean(sd_given[:, 1]) < 0.4 * np.mean(sd_alone[:, 1])
    assert np.std(given[:, 1] - Y[150:, 1]) < 2 * np.mean(sd_given[:, 1])

    missing = Y.copy()
    missing[150:, 1] = np.nan
    again = GPNetworkRegressor(1, latent_noise=True, sparse_weights=False, **FAST).fit(X, missing)
    filled = again.impute(X, missing)
    assert np.std(filled[150:, 1] - Y[150:, 1]) < 0.3 * errors[0]
    np.testing.assert_array_equal(filled[:150], Y[:150])


@pytest.mark.slow
def test_missing_outputs_are_predicted():
    X, Y = two_outputs(200)
    Y[100:, 1] = np.nan
    model = GPNetworkRegressor(1, **{**FAST, "steps": 200, "n_restarts": 3}).fit(X, Y)
    assert np.abs((model.predict(X_NEW) - TRUE) / [20, 0.5]).max() < 0.3
    assert np.isfinite(model.elbo(X, Y))


@pytest.mark.parametrize("transform", ["log1p", pytest.param("log", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_transforms_come_back_as_mean_or_median(transform):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 6, size=(300, 1))
    shift = 1.0 if transform == "log1p" else 0.0
    Y = np.exp(np.sin(X) + 0.5 * rng.normal(size=(300, 1))) - shift
    mean, median = (
        GPNetworkRegressor(1, y_transform=transform, back_transform=back, **FAST)
        .fit(X, Y)
        .predict(X_NEW)
        for back in ("mean", "median")
    )
    truth = np.exp(np.sin(X_NEW))
    np.testing.assert_allclose(median + shift, truth, rtol=0.3)
    np.testing.assert_allclose((mean + shift) / (median + shift), np.exp(0.125), rtol=0.1)


@pytest.mark.slow
def test_a_transform_keeps_quantiles_bounds_and_draws_consistent():
    X, Y = two_outputs()
    Y = np.exp(Y / [50, 2])
    model = GPNetworkRegressor(1, y_transform="log", **FAST).fit(X, Y)
    plain = GPNetworkRegressor(1, **FAST).fit(X, np.log(Y))
    np.testing.assert_allclose(
        model.predict_quantiles(X_NEW, 0.9), np.exp(plain.predict_quantiles(X_NEW, 0.9)), rtol=1e-9
    )
    jacobian = np.log(Y).sum()
    assert model.elbo(X, Y) == pytest.approx(plain.elbo(X, np.log(Y)) - jacobian, rel=1e-9)
    threshold = float(np.median(Y))
    np.testing.assert_allclose(
        model.prob_below(X_NEW, threshold), plain.prob_below(X_NEW, np.log(threshold)), atol=1e-9
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"inducing": "one", "sparse_latents": True, "batch_size": 40},
        pytest.param({"covariance": "diagonal", "dtype": "float32"}, marks=pytest.mark.slow),
        pytest.param(
            {"weight_kernel": "matern52", "gate_kernel": "matern32"}, marks=pytest.mark.slow
        ),
        pytest.param({"lengthscale_prior": None}, marks=pytest.mark.slow),
    ],
    ids=lambda s: "-".join(s),
)
@pytest.mark.slow
def test_choices_all_fit(settings):
    X, Y = two_outputs()
    model = GPNetworkRegressor(2, **FAST, **settings).fit(X, Y)
    residual = (model.predict(X_NEW) - TRUE) / [20, 0.5]
    assert np.sqrt(np.mean(residual**2)) < 0.35


@pytest.mark.slow
def test_a_network_on_a_lattice():
    rng = np.random.default_rng(0)
    sites, hours = rng.uniform(0, 4, (6, 2)), np.arange(20.0)
    s, h = np.divmod(np.arange(120), 20)
    X = np.column_stack([sites[s], hours[h]])
    f = np.sin(hours[h] / 3) * (1 + sites[s, 0])
    Y = np.column_stack([f, 1 - f]) + 0.05 * rng.normal(size=(120, 2))
    Y[::7, 0] = np.nan
    model = GPNetworkRegressor(
        1, column_groups=[[0, 1], [2]], n_inducing=[6, 8], n_restarts=2, steps=400
    ).fit(X, Y)
    assert model.on_lattice_
    assert np.sqrt(np.nanmean((model.predict(X) - Y) ** 2)) < 0.4


@pytest.mark.slow
def test_one_failed_restart_does_not_spoil_the_rest():
    X, Y = two_outputs()
    few = {"n_restarts": 3, "steps": 60, "method": "adam"}  # far from where they end
    model = GPNetworkRegressor(1, **{**FAST, **few}).fit(X, Y)
    models = [fit.model for fit in model.restarts_]
    W = models[1].latents["W"]
    models[1] = eqx.tree_at(
        lambda m: m.latents["W"].q_mean, models[1], np.full_like(W.q_mean, np.nan)
    )
    from zigp.data.layout import Inputs, as_batch

    values = ((Y - model.y_offset_) / model.y_scale_).T
    data = as_batch(Inputs(X), values, np.ones(values.shape), model.layout_, "float64")
    fits = train_restarts(models, data, Settings(steps=60))
    assert [fit.failed for fit in fits] == [False, True, False]
    assert "stopped being finite" in fits[1].stopped
    assert fits[1].retried == [0]
    for fit in (fits[0], fits[2]):
        assert len(fit.bounds) == 60
        assert fit.bounds[-1] > fit.bounds[0]


@pytest.mark.slow
def test_restarts_together_are_restarts_alone():
    X, Y = two_outputs()
    model = GPNetworkRegressor(1, **{**FAST, "steps": 1, "learning_rate": 0.0}).fit(X, Y)
    from zigp.data.layout import Inputs, as_batch

    values = ((Y - model.y_offset_) / model.y_scale_).T
    data = as_batch(Inputs(X), values, np.ones(values.shape), model.layout_, "float64")
    models = [fit.model for fit in model.restarts_]
    together = train_restarts(models, data, Settings(steps=10))
    alone = train_restarts(models[1:], data, Settings(steps=10))
    np.testing.assert_allclose(together[1].bounds, alone[0].bounds, rtol=1e-8)


def half_switched_off(seed: int, n: int = 250):
    """Two latents; the second output uses the second latent only in the right half."""
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(0, 10, n))[:, None]

    def gp(lengthscale: float) -> np.ndarray:
        K = np.exp(-0.5 * ((X - X.T) / lengthscale) ** 2) + 1e-8 * np.eye(n)
        return np.linalg.cholesky(K) @ rng.normal(size=n)

    f = gp(0.7)
    on = X[:, 0] > 5
    Y = np.column_stack([f, on * f]) + 0.1 * rng.normal(size=(n, 2))
    return X, Y, on


@pytest.mark.slow
def test_the_support_finds_where_a_weight_is_off():
    """A weight switched off in half of the domain: support tells the halves apart (median AUC)."""
    scores = []
    for seed in range(10):
        X, Y, on = half_switched_off(seed)
        model = GPNetworkRegressor(1, n_inducing=25, n_restarts=2, steps=800).fit(X, Y)
        support = model.predict_network(X).support[:, 0, 1]
        scores.append(roc_auc_score(on, support))
    assert np.median(scores) >= 0.95


@pytest.mark.parametrize(
    ("settings", "change", "message"),
    [
        ({"n_latents": 0}, None, "n_latents must be a whole number of at least 1"),
        ({"n_restarts": 1.5}, None, "n_restarts must be"),
        ({"inducing": "all"}, None, "inducing must be 'separate' or 'one'"),
        ({"y_transform": "sqrt"}, None, "y_transform must be None, 'log' or 'log1p'"),
        ({"y_transform": "log"}, None, r"needs outputs above 0; row 0, column 1 of Y is -"),
        ({}, "empty", "Y has no observation at all in column 1"),
        ({}, "short", "inconsistent numbers of samples"),
        ({}, "large", "Y reaches 1e\\+200, too large to be squared"),
    ],
)
def test_mistakes_are_named(settings, change, message):
    X, Y = two_outputs(20)
    if change == "empty":
        Y[:, 1] = np.nan
    Y[3, 0] = 1e200 if change == "large" else Y[3, 0]
    Y = Y[:-1] if change == "short" else Y
    with pytest.raises(ValueError, match=message):
        GPNetworkRegressor(**{"steps": 1, "n_restarts": 1, **settings}).fit(X, Y)


def test_an_output_must_be_seen_in_rows_that_count():
    X, Y = two_outputs(20)
    Y[:15, 1] = np.nan
    with pytest.raises(ValueError, match="Column 1 of Y is observed in rows of weight 0 alone"):
        GPNetworkRegressor(1).fit(X, Y, sample_weight=np.arange(20) < 15)


def test_known_outputs_must_have_the_models_columns(fitted):
    with pytest.raises(ValueError, match="Y has 3 columns, but the model has 2 outputs"):
        fitted.predict(X_NEW, known=np.full((25, 3), np.nan))


@pytest.mark.parametrize("how", [{"latent_noise": True}, {"y_transform": "log"}])
@pytest.mark.slow
def test_a_y_of_one_dimension_gives_answers_of_one(how):
    rng = np.random.default_rng(3)
    X = rng.uniform(0, 5, (40, 2))
    y = np.exp(np.sin(X[:, 0]))
    line, column = (
        GPNetworkRegressor(1, n_restarts=1, n_inducing=6, steps=20, **how).fit(X, target)
        for target in (y, y[:, None])
    )
    for ask in (
        lambda model, y: np.stack(model.predict(X, return_std=True)),
        lambda model, y: model.sample(X, 3, random_state=0),
        lambda model, y: model.prob_below(X, y),
        lambda model, y: model.prob_zero(X, 0.5),
        lambda model, y: model.log_prob_between(X, y, y + 1.0),
        lambda model, y: model.quantile_residuals(X, y),
        lambda model, y: model.predict(X, known=np.where(y > 1, y, np.nan)),
        lambda model, y: model.impute(X, np.where(y > 1, y, np.nan)),
    ):
        answer = ask(line, y)
        assert answer.shape[-1] == 40
        np.testing.assert_allclose(answer, ask(column, y[:, None])[..., 0], rtol=1e-12)
    assert list(line.predict_quantiles(X)) == [0.05, 0.5, 0.95]
    assert line.prob_below(X, np.column_stack([y, y + 1])).shape == (40, 2)
    assert list(line.aggregate(X, n_samples=20)) == ["mean", "sd", "lower", "upper"]
    assert line.predict_network(X).weights.shape == (40, 1, 1)
