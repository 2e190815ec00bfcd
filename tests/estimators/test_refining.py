"""Sampling of fitted estimators: predictions, files, ArviZ, and what is refused."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone

import zigp
from zigp.diagnostics.sanity import chain_findings

pytest.importorskip("blackjax")

RNG = np.random.default_rng(0)
X = np.linspace(0, 10, 40)[:, None]
Y = np.where(X[:, 0] > 5, 3 + np.sin(X[:, 0]) + RNG.normal(0, 0.2, 40), RNG.normal(0, 0.1, 40))
SHORT = {"draws": 12, "chains": 2, "warmup": 10, "random_state": 0}
ESTIMATORS = {
    "gaussian": (zigp.ZeroInflatedGPRegressor(likelihood="gaussian", n_inducing=6, steps=40), Y),
    "plain": (zigp.SparseGPRegressor(n_inducing=6, steps=40), Y),
    "gated": (zigp.ZeroInflatedGPRegressor(n_inducing=6, steps=40), Y),
    "classes": (zigp.SparseGPClassifier(n_inducing=6, steps=40), Y > 1),
}


NAMES = [
    "gaussian",
    *(pytest.param(n, marks=pytest.mark.slow) for n in ("plain", "gated", "classes")),
]


@cache
def refined(name):
    """Return a fitted estimator, and the same with draws."""
    estimator, y = ESTIMATORS[name]
    fit = clone(estimator).fit(X, y)
    return fit, fit.refine(**SHORT)


@pytest.mark.parametrize("name", NAMES)
def test_a_refined_estimator_predicts_from_its_draws(name):
    fit, sampled = refined(name)
    assert not hasattr(fit, "draws_")
    assert sampled.draws_.divergent.shape == (2, 12)
    assert np.mean(np.abs(sampled.predict(X) - ESTIMATORS[name][1] * 1.0)) < 0.5
    assert not np.array_equal(
        sampled.prob_on(X) if name != "plain" else sampled.predict(X), fit.predict(X)
    )


@pytest.mark.parametrize("name", ["gaussian", pytest.param("gated", marks=pytest.mark.slow)])
def test_every_question_has_an_answer(name):
    sampled = refined(name)[1]
    new = X[::10]
    table = sampled.predict_components(new)
    assert np.isfinite(table.to_numpy()).all()
    for of in ("response", "if_on", "latent", "gate"):
        quantiles = sampled.predict_quantiles(new, [0.05, 0.5, 0.95], of=of).to_numpy()
        assert np.all(np.diff(quantiles, axis=1) >= 0), of
    below = sampled.prob_below(new, sampled.predict_quantiles(new, 0.3)[0.3].to_numpy())
    np.testing.assert_allclose(below, 0.3, atol=1e-4)
    assert sampled.sample(new, 5, random_state=0).shape == (5, 4)
    total = sampled.aggregate(new, n_samples=50, random_state=0)
    np.testing.assert_allclose(total["mean"], sampled.predict(new).sum())


@pytest.mark.parametrize("name", NAMES)
def test_files_hold_draws(name, tmp_path):
    _, sampled = refined(name)
    sampled.save(tmp_path / "model.zigp")
    loaded = zigp.load(tmp_path / "model.zigp")
    np.testing.assert_array_equal(loaded.predict(X), sampled.predict(X))
    assert loaded.sanity() == sampled.sanity()
    with pytest.raises(ValueError, match="does not hold its training data"):
        loaded.refine(**SHORT)
    again = loaded.refine(**SHORT, X=X, y=ESTIMATORS[name][1])
    np.testing.assert_array_equal(again.predict(X), sampled.predict(X))


@pytest.mark.slow
def test_mcmc_is_a_posterior_of_the_constructor(monkeypatch):
    from zigp.estimators import refining

    counts = {}
    real = refining.sample

    def shorter(*args, **settings):
        counts.update(settings)
        return real(*args, **settings | {"draws": 4, "warmup": 4})

    monkeypatch.setattr(refining, "sample", shorter)
    model = zigp.SparseGPRegressor(n_inducing=6, steps=40, posterior="mcmc").fit(X, Y)
    assert (counts["draws"], counts["chains"], counts["warmup"]) == (1000, 4, 500)
    assert model.draws_.divergent.shape == (4, 4)
    model.set_params(posterior="auto").fit(X, Y)
    assert not hasattr(model, "draws_")


@pytest.mark.parametrize("name", NAMES)
def test_arviz_groups(name):
    arviz_stats = pytest.importorskip("arviz_stats")
    fit, sampled = refined(name)
    trees = {"q": fit.to_arviz(draws=60), "draws": sampled.to_arviz()}
    for tree in trees.values():
        assert set(tree.children) == {
            "posterior",
            "posterior_predictive",
            "observed_data",
            "log_likelihood",
        }
        np.testing.assert_allclose(tree.observed_data["y"], ESTIMATORS[name][1] * 1.0)
        assert tree.log_likelihood["y"].sizes == tree.posterior_predictive["y"].sizes
    assert trees["draws"].log_likelihood["y"].shape == (2, 12, 40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few draws: the Pareto tails are not known
        assert np.isfinite(arviz_stats.loo(trees["q"]).elpd)
        assert len(arviz_stats.compare({"a": trees["q"], "b": trees["q"]})) == 2


@pytest.mark.slow
def test_log_likelihoods_are_in_the_units_of_y():
    """Doubling y subtracts log 2 from the log density of every row."""
    trees = []
    for factor in (1.0, 2.0):
        fit = zigp.SparseGPRegressor(n_inducing=6, steps=40).fit(X, factor * Y)
        trees.append(fit.to_arviz(draws=3).log_likelihood["y"].to_numpy())
    np.testing.assert_allclose(trees[1], trees[0] - np.log(2.0), atol=1e-6)


def test_signs_of_trouble_are_named():
    divergent = np.zeros((2, 50), bool)
    assert chain_findings({"a": np.ones(3)}, {"a": np.full(3, 500.0)}, divergent) == []
    divergent[0, 0] = True
    said = chain_findings({"a": np.array([1.0, 1.3])}, {"a": np.array([20.0, 500.0])}, divergent)
    assert [sentence.split()[0] for sentence in said] == ["1", "Chains", "Few"]


def test_what_cannot_be_sampled_is_refused(monkeypatch):
    fit, _ = refined("gaussian")
    with pytest.raises(ValueError, match="draws must be a whole number"):
        fit.refine(draws=0)
    with pytest.raises(ValueError, match="both X and y"):
        fit.refine(X=X)
    with pytest.raises(ValueError, match="leave 'q' out of fixed"):
        clone(fit).set_params(fixed=("q",), posterior="mcmc").fit(X, Y)
    with pytest.raises(ValueError, match="devices='one'"):
        clone(fit).set_params(devices="data", posterior="mcmc").fit(X, Y)
    many = np.linspace(0, 1, 200_000)[:, None]
    with pytest.raises(ValueError, match="Lower n_inducing"):
        fit.refine(X=many, y=many[:, 0])
    network = zigp.GPNetworkRegressor(1, n_inducing=4, posterior="mcmc")
    with pytest.raises(ValueError, match="no order and no sign"):
        network.fit(X, np.column_stack([Y, Y]))
    monkeypatch.setattr("zigp.estimators.refining.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"zigp\[mcmc\]"):
        fit.refine()


@pytest.mark.slow
def test_a_chain_along_a_lattice_is_refused():
    east, hour = np.arange(4.0), np.arange(130.0)
    places = np.array([(x, t) for x in east for t in hour])
    fit = zigp.SparseGPRegressor(
        posterior="full", column_groups={"place": [0], "time": [1]}, steps=2
    ).fit(places, np.sin(places[:, 1]))
    assert fit.model_.chained
    with pytest.raises(ValueError, match="posterior='diagonal'"):
        fit.refine()
