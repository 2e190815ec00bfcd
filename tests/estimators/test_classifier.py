"""The classifier agrees with a fine sum, with sampling, and with scikit-learn's."""

import numpy as np
import pytest
from models_by_hand import bound, kl, marginals, random_latent, random_lattice
from scipy.special import log_ndtr, ndtr
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from zigp import SparseGPClassifier
from zigp.gp.batch import Batch
from zigp.models.model import gp_classification


def stripes(n: int = 200, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 10, size=(n, 1))
    return X, (np.sin(X[:, 0]) + 0.4 * rng.normal(size=n) > 0).astype(int)


X_NEW = np.linspace(0, 10, 60)[:, None]


@pytest.fixture(scope="module")
def fitted():
    return SparseGPClassifier(steps=400, n_inducing=15).fit(*stripes())


def test_the_bound_is_the_expected_log_probability_less_the_divergence():
    at, model = random_lattice(1), gp_classification(random_latent(2, prior_mean=0.4))
    rng = np.random.default_rng(3)
    y, weight = rng.integers(2, size=at.shape) * 1.0, rng.integers(3, size=at.shape) * 1.0
    g = marginals(model, at)["g"]
    xi = np.linspace(-9, 9, 4001)
    density = np.exp(-0.5 * xi**2) / np.exp(-0.5 * xi**2).sum()
    nodes = np.asarray(g.mean)[..., None] + np.sqrt(np.asarray(g.var))[..., None] * xi
    each = log_ndtr(np.where(y > 0, 1, -1)[..., None] * nodes) @ density
    exact = np.sum(weight * each) - float(kl(model.latents["g"]))
    assert float(bound(model, Batch(at, y, weight))) == pytest.approx(exact, rel=1e-5)


def test_it_agrees_with_a_full_gp_classifier(fitted):
    X, y = stripes()
    full = GaussianProcessClassifier(ConstantKernel(4.0) * RBF(1.5), random_state=0).fit(X, y)
    # Their link is logistic and their posterior Laplace's, so probabilities agree only roughly.
    assert np.abs(fitted.predict_proba(X_NEW) - full.predict_proba(X_NEW)).max() < 0.12
    assert np.mean(fitted.predict(X_NEW) == full.predict(X_NEW)) > 0.95


def test_probabilities_classes_and_latent_agree(fitted):
    p = fitted.predict_proba(X_NEW)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(fitted.prob_on(X_NEW), p[:, 1])
    np.testing.assert_array_equal(fitted.predict(X_NEW) == 1, p[:, 1] >= 0.5)
    np.testing.assert_allclose(ndtr(fitted.decision_function(X_NEW)), p[:, 1], atol=1e-10)


def test_labels_may_be_words(fitted):
    X, y = stripes()
    words = np.where(y == 1, "wet", "dry")
    named = SparseGPClassifier(steps=400, n_inducing=15).fit(X, words)
    assert named.classes_.tolist() == ["dry", "wet"]
    np.testing.assert_array_equal(named.prob_on(X), fitted.prob_on(X))
    assert named.elbo(X, words) == pytest.approx(named.bounds_[-1], abs=0.5)
    with pytest.raises(ValueError, match="'damp', which is not among"):
        named.elbo(X[:1], ["damp"])


@pytest.mark.parametrize(("label", "p"), [(7, 1.0), (0, 0.0)])
def test_a_single_class_is_predicted_for_sure(label, p):
    X, _ = stripes(40)
    only = SparseGPClassifier(steps=5, n_inducing=15).fit(X, np.full(40, label))
    np.testing.assert_array_equal(only.predict(X), label)
    np.testing.assert_array_equal(only.predict_proba(X), 1.0)
    np.testing.assert_array_equal(only.prob_on(X), p)
