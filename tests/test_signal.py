"""The algebra against brute force: products, sums and gates of independent Gaussians."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ndtr

from zigp.latent import Moments
from zigp.signal import Gate, Latent, Product, Sum

MARGINALS = {
    name: Moments(jnp.asarray(mean), jnp.asarray(var))
    for name, mean, var in [
        ("f", [0.8, -1.2], [0.5, 0.2]),
        ("g", [-0.4, 1.5], [1.3, 0.1]),
        ("w", [1.1, 0.3], [0.4, 0.9]),
        ("k", [0.2, -2.0], [0.7, 0.6]),
    ]
}
f, w, g, k = Latent("f"), Latent("w"), Gate("g"), Gate("k")

SIGNALS = {
    "latent": f,
    "gate": g,
    "zero-inflated": g * f,
    "network term": w * f,
    "sparse network term": g * w * f,
    "both gates": g * w * (k * f),
    "sum": w * f + Latent("g"),
    "sum of gated": g * f + k * w,
    "gate of a sum": Gate(Latent("g") + Latent("k")) * f,
}


def draw(n: int = 400_000) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        name: m.mean + np.sqrt(m.var) * rng.normal(size=(n, 2)) for name, m in MARGINALS.items()
    }


@pytest.mark.parametrize("name", SIGNALS)
def test_moments_match_monte_carlo(name):
    values = np.asarray(SIGNALS[name].value(draw()))
    moments = SIGNALS[name].moments(MARGINALS)
    error = values.std(axis=0) / np.sqrt(len(values))
    assert np.all(np.abs(values.mean(axis=0) - moments.mean) < 5 * error)
    np.testing.assert_allclose(moments.var, values.var(axis=0), rtol=0.02)


def test_value_is_what_the_formula_says():
    at = {name: jnp.asarray(v) for name, v in [("f", 2.0), ("w", -3.0), ("g", 0.5), ("k", 1.0)]}
    assert SIGNALS["both gates"].value(at) == pytest.approx(ndtr(0.5) * -3.0 * ndtr(1.0) * 2.0)
    assert SIGNALS["sum of gated"].value(at) == pytest.approx(ndtr(0.5) * 2.0 + ndtr(1.0) * -3.0)


def test_an_open_gate_changes_nothing():
    wide_open = {**MARGINALS, "g": Moments(jnp.full(2, 40.0), jnp.ones(2))}
    gated, plain = (g * f).moments(wide_open), f.moments(wide_open)
    np.testing.assert_allclose(gated.mean, plain.mean, rtol=1e-14)
    np.testing.assert_allclose(gated.var, plain.var, rtol=1e-14)


@pytest.mark.parametrize(
    "build",
    [lambda: f * f, lambda: g * f + f, lambda: f * Gate("f"), lambda: Product((g, Sum((g, f))))],
    ids=["f·f", "Φ(g)f + f", "f·Φ(f)", "nested"],
)
def test_a_latent_used_twice_is_refused(build):
    with pytest.raises(ValueError, match="twice"):
        build()


def test_a_gate_of_a_product_is_refused():
    with pytest.raises(ValueError, match="a latent or a sum of latents"):
        Gate(w * f)


def test_factors_hand_out_gate_and_latent():
    assert (g * f).factors() == (g, f)
    assert (g * w * f).factors() == (g, w, f)
    assert f.factors() == (f,)
