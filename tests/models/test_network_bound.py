"""Networks: the paper's bounds, symmetries, missing outputs and latent noise."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from models_by_hand import (
    NOISE,
    P,
    Q,
    assert_close,
    bound,
    kl,
    marginal,
    marginals,
    one_point_latent,
    random_family,
    random_latent,
    random_lattice,
    random_network,
    random_outputs,
)
from scipy.optimize import minimize
from scipy.special import ndtr
from scipy.stats import norm

from zigp.gp.batch import Batch, Rows
from zigp.gp.latent import family
from zigp.gp.moments import Moments
from zigp.models.likelihoods import (
    Gaussian,
    LatentNoise,
    network_given,
    network_parts,
    site_posterior,
)
from zigp.models.model import Model, gp_network, gp_regression, zero_inflated_gp
from zigp.models.signal import Latent, Total

with_and_without_latent_noise = pytest.mark.parametrize(
    "latent_noise", [None, np.array([0.4, 0.4])], ids=["plain", "latent noise"]
)


def by_hand(model: Model, batch: Batch) -> float:
    """Return the paper's bounds of GPRN and sparse GPRN (main text), term by term."""
    m = {name: jax.tree.map(np.asarray, v) for name, v in marginals(model, batch.at).items()}
    total = 0.0
    for p, n in zip(*np.nonzero(batch.weight), strict=True):
        mean, penalty = 0.0, 0.0
        for q in range(Q):
            f, vf = m["f"].mean[q, n], m["f"].var[q, n]
            w, vw = m["W"].mean[q, p, n], m["W"].var[q, p, n]
            gate, gate_var = 1.0, 0.0
            if "g" in m:
                g, vg = m["g"].mean[q, p, n], m["g"].var[q, p, n]
                grid = np.linspace(-9, 9, 4001)
                density = norm.pdf(grid) / norm.pdf(grid).sum()
                values = ndtr(g + np.sqrt(vg) * grid)
                gate = density @ values
                gate_var = density @ values**2 - gate**2
            mean += gate * w * f
            penalty += (gate**2 + gate_var) * (w**2 * vf + f**2 * vw + vw * vf)
            penalty += gate_var * f**2 * w**2
        total += norm.logpdf(batch.y[p, n], mean, np.sqrt(NOISE[p])) - penalty / (2 * NOISE[p])
    return total - float(kl(model))


@pytest.mark.parametrize("weights", [False, True], ids=["GPRN", "sparse GPRN"])
@pytest.mark.parametrize(("seed", "missing"), [(0, 0.0), (1, 0.4), (2, 0.2)])
def test_bound_is_the_papers_written_out_by_hand(weights, seed, missing):
    model, batch = random_network(seed, weights=weights), random_outputs(seed, missing)
    np.testing.assert_allclose(bound(model, batch), by_hand(model, batch), rtol=1e-9)


@pytest.mark.parametrize("shared", [False, True])
def test_families_are_their_members_one_by_one(shared):
    """A shared family has one set of kernels and inducing inputs."""
    members = [random_latent(i) for i in range(6)]
    if shared:
        common = {"kernels": members[0].kernels, "inducing": members[0].inducing}
        members = [dataclasses.replace(member, **common) for member in members]
    at, together = random_lattice(0), family(members, (2, 3), shared=shared)
    assert together.inducing[0].offset.ndim == (2 if shared else 4)
    whole = marginal(together, at)
    for i, member in enumerate(members):
        one = jax.tree.map(lambda leaf, i=i: leaf[divmod(i, 3)], whole)
        assert_close(one, marginal(member, at), atol=1e-11, rtol=0)
    each = sum(float(kl(member)) for member in members)
    np.testing.assert_allclose(kl(together), each, rtol=1e-12)


@pytest.mark.slow
def test_the_program_does_not_grow_with_the_network():
    """Q = 2, P = 3 and Q = 6, P = 20 trace to the same number of operations."""

    def operations(q: int, p: int) -> int:
        f, W = random_family(0, (q,)), random_family(1, (q, p))
        g = dataclasses.replace(random_family(2, (q, p)), inducing=None)
        model = gp_network(f, W, Gaussian.of_variance(np.full(p, 0.3)), g=g)
        at = random_lattice(0).rows()
        batch = Batch(at, np.zeros((p, *at.shape)), np.ones((p, *at.shape)))
        model = jax.tree.map(jnp.asarray, model)
        return len(eqx.filter_make_jaxpr(eqx.filter_grad(bound))(model, batch)[0].eqns)

    assert operations(2, 3) == operations(6, 20)


def test_open_gates_turn_the_sparse_network_into_the_plain_one():
    model, batch = random_network(7), random_outputs(7)
    g = model.latents["g"]
    wide_open = eqx.tree_at(lambda gp: gp.prior_mean, g, np.full_like(g.prior_mean, 60.0))
    opened = eqx.tree_at(lambda m: m.latents["g"], model, wide_open)
    plain = gp_network(model.latents["f"], model.latents["W"], model.likelihood)
    np.testing.assert_allclose(bound(opened, batch) + float(kl(g)), bound(plain, batch), rtol=1e-11)


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.slow
def test_one_output_and_a_weight_of_one_is_regression(gated):
    """With Q = P = 1 and W = 1 a network is GP regression, or with a gate a zero-inflated GP."""
    f, g = random_latent(1), random_latent(2, prior_mean=-0.3)
    one = eqx.tree_at(
        lambda gp: (gp.q_mean, gp.q_cov.factor, gp.prior_mean, gp.log_variance),
        random_latent(3),
        (np.zeros((3, 4)), np.zeros((12, 12)), np.asarray(1.0), np.asarray(-90.0)),
    )
    network = gp_network(
        family([f], (1,)),
        family([one], (1, 1)),
        Gaussian.of_variance(np.array([0.3])),
        g=family([g], (1, 1)) if gated else None,
    )
    noise = Gaussian.of_variance(0.3)
    single = zero_inflated_gp(f, g, noise) if gated else gp_regression(f, noise)
    at = random_lattice(0).rows()
    y = np.random.default_rng(0).normal(size=at.shape)
    got = bound(network, Batch(at, y[None], np.ones((1, *y.shape))))
    np.testing.assert_allclose(got, bound(single, Batch(at, y, np.ones(y.shape))), rtol=1e-10)


def relabelled(family):
    return jax.tree.map(lambda leaf: leaf[::-1], family)


def flipped(family):
    sign = np.where(np.arange(Q) == 1, -1.0, 1.0)
    mean = family.q_mean * sign.reshape(-1, *(1,) * (family.q_mean.ndim - 1))
    return eqx.tree_at(lambda gp: gp.q_mean, family, mean)


@pytest.mark.slow
@pytest.mark.parametrize(("change", "names"), [(relabelled, "fWgk"), (flipped, "fW")])
@with_and_without_latent_noise
def test_relabelling_latents_or_flipping_their_signs_changes_nothing(change, names, latent_noise):
    model, batch = random_network(8, latents=True, latent_noise=latent_noise), random_outputs(8)
    latents = model.latents | {name: change(model.latents[name]) for name in names}
    changed = dataclasses.replace(model, latents=latents)
    np.testing.assert_allclose(bound(changed, batch), bound(model, batch), rtol=1e-11)
    before, after = (
        m.likelihood.moments(*m.signal_and_marginals(batch.at)) for m in (model, changed)
    )
    assert_close(after, before, atol=1e-11, rtol=0)


@pytest.mark.slow
@with_and_without_latent_noise
def test_a_row_without_outputs_changes_nothing(latent_noise):
    model, batch = random_network(11, latent_noise=latent_noise), random_outputs(11)
    longer = Batch(
        Rows(np.vstack([batch.at.X, [[9.0, 9.0, 9.0]]])),
        np.pad(batch.y, ((0, 0), (0, 1)), constant_values=np.nan),
        np.pad(batch.weight, ((0, 0), (0, 1))),
    )
    both = eqx.filter_jit(eqx.filter_value_and_grad(bound))
    model = jax.tree.map(jnp.asarray, model)
    assert_close(both(model, longer), both(model, batch), rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True])
def test_the_bound_of_a_network_on_a_lattice_is_that_on_its_rows(shared):
    model, lattice = random_network(12, shared=shared), random_lattice(12, (3, 4))
    y = np.random.default_rng(12).normal(size=(P, 3, 4))
    on_lattice = bound(model, Batch(lattice, y, np.ones(y.shape)))
    rows = Batch(lattice.rows(), y.reshape(P, -1), np.ones((P, 12)))
    np.testing.assert_allclose(on_lattice, bound(model, rows), rtol=1e-11)


def test_a_total_that_counts_a_latent_twice_is_refused():
    with pytest.raises(ValueError, match="'f', which has no axis 'q', more than once"):
        Total("q", Latent("W", "qp") * Latent("f"))


# -- latent noise ------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_collapsed_bound_is_the_uncollapsed_one_at_its_best():
    """The best q(h), found numerically for each row, gives the value of the closed form."""
    s = np.array([0.4, 0.7])
    model, batch = random_network(14, latent_noise=s), random_outputs(14, missing=0.3)
    weights, latents = (
        jax.tree.map(np.asarray, part.moments(marginals(model, batch.at)))
        for part in network_parts(model.signal)
    )
    total = 0.0
    for n in np.flatnonzero(batch.weight.any(axis=0)):
        some = np.flatnonzero(batch.weight[:, n])
        w, vw = weights.mean[:, some, n], weights.var[:, some, n]
        y, noise = batch.y[some, n], NOISE[some]
        f, vf = latents.mean[:, n], latents.var[:, n]

        def negative(theta, w=w, vw=vw, y=y, noise=noise, f=f, vf=vf):
            m, root = theta[:2], np.array([[np.exp(theta[2]), 0.0], [theta[3], np.exp(theta[4])]])
            C = root @ root.T
            second = np.outer(m, m) + C
            spread = np.einsum("qp,qr,rp->p", w, second, w) - (w.T @ m) ** 2
            spread = spread + vw.T @ np.diag(second)
            fit = np.sum(norm.logpdf(y, w.T @ m, np.sqrt(noise)) - spread / (2 * noise))
            prior = -0.5 * np.sum(np.log(2 * np.pi * s) + ((m - f) ** 2 + vf + np.diag(C)) / s)
            entropy = np.log(2 * np.pi) + 1.0 + theta[2] + theta[4]
            return -(fit + prior + entropy)

        total -= minimize(negative, np.zeros(5), method="BFGS", options={"gtol": 1e-9}).fun
    np.testing.assert_allclose(bound(model, batch) + kl(model), total, rtol=1e-7)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))]
)
def test_the_collapsed_bound_is_below_the_evidence(seed):
    """One row, two outputs, one latent: the evidence is a quadrature over both weights."""
    rng = np.random.default_rng(seed)
    y, noise, s = rng.normal(size=2), np.array([0.3, 0.4]), 0.5
    f, *W = (one_point_latent(0.0, rng.normal(), np.exp(0.5 * rng.normal())) for _ in range(3))
    likelihood = LatentNoise.of_variances(noise, np.array([s]))
    model = gp_network(family([f], (1,)), family(W, (1, 2)), likelihood)

    # With f ~ N(0, 1) integrated out, y | w ~ N(0, (1 + s) w wᵀ + noise); sums over a fine grid
    # are exact for functions as smooth as these.
    w, step = np.linspace(-9, 9, 901, retstep=True)
    one, two = w[:, None], w[None, :]
    covariance = ((1 + s) * one**2 + noise[0], (1 + s) * one * two, (1 + s) * two**2 + noise[1])
    joint = oracles.pair_density(*y, *covariance) * norm.pdf(one) * norm.pdf(two)
    evidence = np.log(np.sum(joint) * step**2)
    batch = Batch(Rows(np.zeros((1, 1))), y[:, None], np.ones((2, 1)))
    assert float(bound(model, batch)) <= evidence + 1e-8


def test_conditioning_on_outputs_is_gaussian_conditioning_for_given_weights():
    rng = np.random.default_rng(0)
    w = rng.normal(size=(Q, P, 1))
    prior = Moments(jnp.asarray(rng.normal(size=(Q, 1))), jnp.asarray(rng.uniform(0.3, 1, (Q, 1))))
    y, observed = rng.normal(size=(P, 1)), np.array([[1.0], [0.0], [1.0]])
    weights = Moments(jnp.asarray(w), jnp.zeros((Q, P, 1)))
    noise = jnp.asarray(NOISE)[:, None]
    h = site_posterior(prior, weights, noise, jnp.asarray(y), jnp.asarray(observed))
    got = network_given(weights, *h)

    W = w[..., 0].T  # [P, Q]
    mean, cov = W @ prior.mean[:, 0], W @ np.diag(prior.var[:, 0]) @ W.T
    known = np.array([0, 2])
    gain = cov[:, known] @ np.linalg.inv(cov[np.ix_(known, known)] + np.diag(NOISE[known]))
    expected = mean + gain @ (y[known, 0] - mean[known]), np.diag(cov - gain @ cov[known])
    assert_close((got.mean[:, 0], got.var[:, 0]), expected, rtol=1e-9)


@pytest.mark.slow
def test_latent_noise_is_shared_by_the_outputs_of_a_site():
    """Moments at a new site are those of W (f + e), by Monte Carlo."""
    s = np.array([0.4, 0.7])
    model, batch = random_network(15, latent_noise=s), random_outputs(15)
    signal, at = eqx.filter_jit(lambda model, at: model.signal_and_marginals(at))(model, batch.at)
    rng, n = np.random.default_rng(0), 100_000
    draws = {
        name: np.asarray(m.mean) + np.sqrt(m.var) * rng.normal(size=(n, *m.mean.shape))
        for name, m in at.items()
    }
    values = np.asarray(jax.jit(jax.vmap(signal.value))(draws))
    moments = jax.jit(signal.moments)(at)
    error = values.std(axis=0) / np.sqrt(n)
    assert np.all(np.abs(values.mean(axis=0) - moments.mean) < 5 * error)
    np.testing.assert_allclose(moments.var, values.var(axis=0), rtol=0.06)
