"""Networks predict several outputs together, in the units of each."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from zigp import GPNetworkRegressor
from zigp.models.objective import log_prior

FAST = {"n_restarts": 2, "steps": 300, "n_inducing": 8}


def two_outputs(n: int = 120, seed: int = 0):
    """Return two outputs of one latent, in different units and around different means."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 6, size=(n, 1))
    f = np.sin(1.5 * X[:, 0])
    Y = np.column_stack([100 + 20 * f, -3 - 0.5 * f]) + rng.normal(size=(n, 2)) * [1.0, 0.03]
    return X, Y


@pytest.fixture(scope="module")
def fitted():
    X, Y = two_outputs()
    model = GPNetworkRegressor(1, **FAST | {"steps": 200, "n_restarts": 3})
    return model.fit(X, pd.DataFrame(Y, columns=["warm", "cold"]))


X_NEW = np.linspace(0.2, 5.8, 25)[:, None]
TRUE = np.column_stack([100 + 20 * np.sin(1.5 * X_NEW[:, 0]), -3 - 0.5 * np.sin(1.5 * X_NEW[:, 0])])


def test_predictions_come_in_the_users_units(fitted):
    mean, sd = fitted.predict(X_NEW, return_std=True)
    assert mean.shape == sd.shape == (25, 2)
    assert np.abs((mean - TRUE) / [20, 0.5]).max() < 0.2
    assert np.all(sd > 0)
    np.testing.assert_allclose(fitted.noise_sd_, [1.0, 0.03], rtol=0.5)


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


def test_elbo_is_in_the_users_units_and_without_the_prior(fitted):
    """Training reports the bound with the log prior of the gates' length-scales."""
    prior = float(log_prior(fitted.model_))
    assert fitted.elbo(*two_outputs()) == pytest.approx(fitted.bounds_[-1] - prior, abs=0.5)


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
def test_known_outputs_improve_the_prediction_of_the_others():
    """Where outputs share what is local to a site, which only latent noise can describe."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 6, size=(200, 1))
    local = np.sin(X[:, 0]) + rng.normal(size=200)
    Y = np.column_stack([local, 2 * local]) + 0.1 * rng.normal(size=(200, 2))
    missing = Y.copy()
    missing[150:, 1] = np.nan
    truth, network = Y[150:, 1], GPNetworkRegressor(1, latent_noise=True, sparse_weights=False)
    model = network.set_params(**FAST).fit(X[:150], Y[:150])
    alone, sd_alone = model.predict(X[150:], return_std=True)
    given, sd_given = model.predict(X[150:], return_std=True, known=missing[150:])
    np.testing.assert_array_equal(given[:, 0], Y[150:, 0])
    filled = clone(network).fit(X, missing).impute(X, missing)
    np.testing.assert_array_equal(filled[:150], Y[:150])
    errors = [np.std(one[:, 1] - truth) for one in (given, filled[150:], alone)]
    assert max(errors[:2]) < 0.3 * errors[2]
    assert errors[0] < 2 * np.mean(sd_given[:, 1]) < 0.8 * np.mean(sd_alone[:, 1])


@pytest.mark.slow
@pytest.mark.parametrize("transform", ["log1p", "log"])
def test_transformed_outputs_are_predicted_by_their_mean_or_median(transform):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 6, size=(300, 1))
    shift = 1.0 if transform == "log1p" else 0.0
    Y = np.exp(np.sin(X) + 0.5 * rng.normal(size=(300, 1))) - shift
    model = GPNetworkRegressor(1, y_transform=transform, **FAST).fit(X, Y)
    mean, median = (
        shift + model.set_params(back_transform=point).predict(X_NEW)
        for point in ("mean", "median")
    )
    np.testing.assert_allclose(median, np.exp(np.sin(X_NEW)), rtol=0.3)
    np.testing.assert_allclose(mean / median, np.exp(0.125), rtol=0.1)
    total = model.aggregate(X_NEW, n_samples=2)["mean"].to_numpy()
    np.testing.assert_allclose(total[0], (mean - shift).sum(axis=0))  # not of the medians


@pytest.mark.slow
def test_a_transform_keeps_quantiles_and_bounds_consistent():
    X, Y = two_outputs()
    Y = np.exp(Y / [50, 2])
    model = GPNetworkRegressor(1, y_transform="log", **FAST).fit(X, Y)
    plain = GPNetworkRegressor(1, **FAST).fit(X, np.log(Y))
    quantiles = np.exp(plain.predict_quantiles(X_NEW, 0.9))
    np.testing.assert_allclose(model.predict_quantiles(X_NEW, 0.9), quantiles, rtol=1e-9)
    expected = plain.elbo(X, np.log(Y)) - np.log(Y).sum()
    assert model.elbo(X, Y) == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"inducing": "one", "sparse_latents": True, "batch_size": 40},
        {"posterior": "diagonal", "dtype": "float32"},
        {"weight_kernel": "matern52", "gate_kernel": "matern32"},
        {"lengthscale_prior": None},
    ],
    ids=lambda s: "-".join(s),
)
def test_every_choice_of_settings_fits(settings):
    model = GPNetworkRegressor(2, **FAST, **settings).fit(*two_outputs())
    residual = (model.predict(X_NEW) - TRUE) / [20, 0.5]
    assert np.sqrt(np.mean(residual**2)) < 0.35


@pytest.mark.slow
def test_a_lattice_with_missing_outputs_is_fitted():
    rng = np.random.default_rng(0)
    sites, hours = rng.uniform(0, 4, (6, 2)), np.arange(20.0)
    s, h = np.divmod(np.arange(120), 20)
    X = np.column_stack([sites[s], hours[h]])
    f = np.sin(hours[h] / 3) * (1 + sites[s, 0])
    Y = np.column_stack([f, 1 - f]) + 0.05 * rng.normal(size=(120, 2))
    Y[::7, 0] = np.nan
    settings = {"column_groups": [[0, 1], [2]], "n_inducing": [6, 8], "n_restarts": 2}
    model = GPNetworkRegressor(1, steps=400, **settings).fit(X, Y)
    assert model.on_lattice_
    assert np.sqrt(np.nanmean((model.predict(X) - Y) ** 2)) < 0.4


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
def test_the_support_is_low_where_a_weight_is_off():
    """Support tells the halves of the domain apart: the median AUC of ten data sets."""
    scores = []
    for seed in range(10):
        X, Y, on = half_switched_off(seed)
        model = GPNetworkRegressor(1, n_inducing=25, n_restarts=2, steps=800).fit(X, Y)
        scores.append(roc_auc_score(on, model.predict_network(X).support[:, 0, 1]))
    assert np.median(scores) >= 0.95


EMPTY, LARGE = two_outputs(20)[1], two_outputs(20)[1]
EMPTY[:15, 1], LARGE[3, 0] = np.nan, 1e200  # rows from 15 on have no weight


@pytest.mark.parametrize(
    ("settings", "Y", "message"),
    [
        ({"n_latents": 0}, None, "n_latents must be a whole number of at least 1"),
        ({"n_restarts": 1.5}, None, "n_restarts must be"),
        ({"inducing": "all"}, None, "inducing must be 'separate' or 'one'"),
        ({"y_transform": "sqrt"}, None, "y_transform must be None, 'log' or 'log1p'"),
        ({"y_transform": "log"}, None, r"needs outputs above 0; row 0, column 1 of Y is -"),
        ({}, EMPTY, "Column 1 of Y has no observation in a row with a weight"),
        ({}, LARGE[:-1], "inconsistent numbers of samples"),
        ({}, LARGE, "Y reaches 1e\\+200, too large to be squared"),
    ],
)
def test_mistakes_are_named(settings, Y, message):
    X, sound = two_outputs(20)
    model = GPNetworkRegressor(**{"steps": 1, "n_restarts": 1, **settings})
    with pytest.raises(ValueError, match=message):
        model.fit(X, sound if Y is None else Y, sample_weight=np.arange(20) < 15)


def test_known_outputs_must_have_the_models_columns(fitted):
    with pytest.raises(ValueError, match="Y has 3 columns, but the model has 2 outputs"):
        fitted.predict(X_NEW, known=np.full((25, 3), np.nan))


@pytest.mark.slow
@pytest.mark.parametrize("how", [{"latent_noise": True}, {"y_transform": "log"}])
def test_a_y_of_one_dimension_gives_answers_of_one(how):
    rng = np.random.default_rng(3)
    X = rng.uniform(0, 5, (40, 2))
    y = np.exp(np.sin(X[:, 0]))
    known = np.where(y > 1, y, np.nan)
    small = {"n_restarts": 1, "n_inducing": 6, "steps": 20}
    line, column = (GPNetworkRegressor(1, **small, **how).fit(X, t) for t in (y, y[:, None]))
    for method, arguments in (
        ("predict", {}),
        ("predict", {"known": known}),
        ("impute", {"Y": known}),
        ("sample", {"n_samples": 3, "random_state": 0}),
        ("prob_below", {"threshold": y}),
        ("prob_zero", {"tol": 0.5}),
        ("log_prob_between", {"low": y, "high": y + 1.0}),
        ("quantile_residuals", {"y": y}),
    ):
        of_column = {k: v[:, None] if np.ndim(v) else v for k, v in arguments.items()}
        answer = getattr(line, method)(X, **arguments)
        assert answer.shape[-1] == 40
        expected = getattr(column, method)(X, **of_column)[..., 0]
        np.testing.assert_allclose(answer, expected, rtol=1e-12)
    assert list(line.predict_quantiles(X)) == [0.05, 0.5, 0.95]
    assert line.prob_below(X, np.column_stack([y, y + 1])).shape == (40, 2)
    assert list(line.aggregate(X, n_samples=20)) == ["mean", "sd", "lower", "upper"]
    assert line.predict_network(X).weights.shape == (40, 1, 1)
