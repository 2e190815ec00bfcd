"""The algebra against brute force: products, sums and gates of independent Gaussians."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ndtr

from zigp.gp.moments import Moments
from zigp.models.signal import Gate, Latent, Product, Sum, Total

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


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (lambda: f * f, "'f' enters a product twice"),
        (lambda: g * f + f, "'f' enters a sum twice"),
        (lambda: f * Gate("f"), "'f' enters a product twice"),
        (lambda: Product((g, Sum((g, f)))), "'g' enters a product twice"),
        (lambda: Sum((f, g, f)), "'f' enters a sum twice"),
        (lambda: Gate(w * f), "a latent or a sum of latents"),
    ],
    ids=["f·f", "Φ(g)f + f", "f·Φ(f)", "nested", "f + Φ(g) + f", "gate of a product"],
)
def test_what_the_algebra_cannot_compute_is_refused(build, reason):
    with pytest.raises(ValueError, match=reason):
        build()


def test_signals_flatten_and_keep_their_order():
    assert f.factors() == (f,)
    assert (g * w * f).factors() == (g * (w * f)).factors() == (g, w, f)
    assert (f + w + g).parts == (f + (w + g)).parts == (f, w, g)
    assert (f * w + g).parts == (f * w, g)
    assert (g * f + k * w).leaves == (g.of, f, k.of, w)


@pytest.mark.parametrize("signal", [f, g, g * f, f + w, Total("q", Latent("f", "q"))])
def test_a_signal_is_a_value(signal):
    """Equal signals are the same key of a dictionary, and none can be changed."""
    again = eval(
        repr(signal), {kind.__name__: kind for kind in (Gate, Latent, Product, Sum, Total)}
    )
    assert again in {signal}
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(signal, dataclasses.fields(signal)[0].name, None)


def test_only_latents_and_their_sums_are_gaussian():
    assert [s.gaussian for s in (f, f + w, Total("q", Latent("f", "q")))] == [True] * 3
    assert [s.gaussian for s in (g, f * w, f + g, Total("q", Gate("g", "q")))] == [False] * 4


def test_a_signal_is_linear_in_the_latents_outside_gates():
    assert (g * w * f).linear == {"w", "f"}
    assert (g * f + Gate(Latent("k") + Latent("w"))).linear == {"f"}
    assert Total("q", Gate("g", "qp") * Latent("W", "qp") * Latent("f", "q")).linear == {"W", "f"}


# -- given the conditioners --------------------------------------------------------------------

CONDITIONED = {
    **SIGNALS,
    "gate behind": f * g,
    "product of a sum": g * (f + w),
    "sum with a gate in it": (f + g) * w,
    "sum with a product in it": (g * f + Latent("k")) * w,
}


def test_conditioners_are_gates_and_all_but_one_factor():
    inside = g.of
    assert f.conditioners() == ()
    assert f.conditioners(fixed=True) == (f,)
    assert (g * f).conditioners() == (f * g).conditioners() == (inside,)
    assert (g * f).conditioners(fixed=True) == (inside, f)
    assert (w * f).conditioners() == (f,)
    assert (g * w + f).conditioners() == (inside,)
    assert ((f + g) * w).conditioners() == (f, inside)
    assert ((g * f + k.of) * w).conditioners() == (inside, f, k.of)
    assert Gate(Latent("g") + Latent("k")).conditioners() == (Latent("g") + Latent("k"),)
    assert Total("q", Latent("W", "q") * Latent("f", "q")).conditioners() == (Latent("f", "q"),)


def averaged(signal, marginals) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance of a signal by quadrature over its conditioners."""
    parts = signal.conditioners()
    x, weight = np.polynomial.hermite_e.hermegauss(24 if len(parts) > 1 else 80)
    grids = np.meshgrid(*[x] * len(parts), indexing="ij")
    weights = np.ones(1)
    for _ in parts:
        weights = np.multiply.outer(weights, weight / weight.sum())
    nodes = {part: jnp.asarray(v.reshape(-1, 1)) for part, v in zip(parts, grids, strict=True)}
    given, each = signal.given(marginals, nodes), weights.reshape(-1, 1)
    mean = np.sum(each * given.mean, axis=0) * np.ones(2)
    return mean, np.sum(each * (given.var + (given.mean - mean) ** 2), axis=0)


@pytest.mark.parametrize("name", CONDITIONED)
def test_conditional_moments_average_to_the_moments(name):
    """E[E[s | c]] = E[s] and E[Var[s | c]] + Var[E[s | c]] = Var[s], over nodes of every c."""
    signal = CONDITIONED[name]
    mean, var = averaged(signal, MARGINALS)
    exact = signal.moments(MARGINALS)
    np.testing.assert_allclose(mean, exact.mean, rtol=1e-6)
    np.testing.assert_allclose(var, exact.var, rtol=1e-5)


@pytest.mark.parametrize("name", CONDITIONED)
def test_with_everything_fixed_a_signal_is_a_number(name):
    """It is the value at the nodes, which are in standard deviations from the means."""
    signal = CONDITIONED[name]
    parts = signal.conditioners(fixed=True)
    nodes = {part: jnp.asarray(0.7 - 0.2 * i) for i, part in enumerate(parts)}
    given = signal.given(MARGINALS, nodes, fixed=True)
    np.testing.assert_array_equal(given.var, 0.0)
    at = {}
    for part, node in nodes.items():
        m = part.moments(MARGINALS)
        value = m.mean + jnp.sqrt(m.var) * node
        # Give the value of a sum to the first of its latents.
        rest = jnp.zeros_like(value)
        at |= {leaf.name: rest if i else value for i, leaf in enumerate(part.leaves)}
    np.testing.assert_allclose(given.mean, signal.value(at), rtol=1e-5)


# -- dependent latents ---------------------------------------------------------------------------

COVARIANCE = jnp.asarray([0.5, -0.1])
DEPENDENT = {
    **MARGINALS,
    "f": Moments(MARGINALS["f"].mean, MARGINALS["f"].var, {"g": COVARIANCE}),
}
OF_DEPENDENT = {
    "zero-inflated": g * f,
    "with a factor": w * g * f,
    "product of latents": Latent("f") * Latent("g"),
    "sum of latents": Latent("f") + Latent("g"),
    "gate of a sum": Gate(Latent("f") + Latent("g")),
}


def draw_dependent(n: int = 400_000) -> dict[str, np.ndarray]:
    values = draw(n)
    f, g = MARGINALS["f"], MARGINALS["g"]
    slope = COVARIANCE / g.var
    rest = np.random.default_rng(1).normal(size=(n, 2)) * np.sqrt(f.var - slope * COVARIANCE)
    return {**values, "f": f.mean + slope * (values["g"] - g.mean) + rest}


@pytest.mark.parametrize("name", OF_DEPENDENT)
def test_moments_of_dependent_latents_match_monte_carlo(name):
    values = np.asarray(OF_DEPENDENT[name].value(draw_dependent()))
    moments = OF_DEPENDENT[name].moments(DEPENDENT)
    error = values.std(axis=0) / np.sqrt(len(values))
    assert np.all(np.abs(values.mean(axis=0) - moments.mean) < 5 * error)
    np.testing.assert_allclose(moments.var, values.var(axis=0), rtol=0.02)


@pytest.mark.parametrize("name", OF_DEPENDENT)
def test_conditional_moments_of_dependent_latents_average_to_the_moments(name):
    signal = OF_DEPENDENT[name]
    mean, var = averaged(signal, DEPENDENT)
    exact = signal.moments(DEPENDENT)
    np.testing.assert_allclose(mean, exact.mean, rtol=1e-6)
    np.testing.assert_allclose(var, exact.var, rtol=1e-5)


@pytest.mark.parametrize(
    "signal", [g * Gate("f"), f + Gate("g"), g * (f + k)], ids=["gates", "sum", "sum with a gate"]
)
def test_dependent_parts_without_a_closed_form_are_refused(signal):
    with pytest.raises(ValueError, match="are dependent"):
        signal.moments(DEPENDENT)


# -- families --------------------------------------------------------------------------------------

NETWORK = Total("q", Gate("g", "qp") * Latent("W", "qp") * Latent("f", "q"))


def family_marginals(n: int = 4) -> dict[str, Moments]:
    rng = np.random.default_rng(3)
    shapes = {"g": (2, 3, n), "W": (2, 3, n), "f": (2, n)}
    return {
        name: Moments(jnp.asarray(rng.normal(size=s)), jnp.asarray(rng.uniform(0.1, 1, size=s)))
        for name, s in shapes.items()
    }


def members(values: dict, p: int, n_latents: int = 2) -> dict:
    """Return the latents of one output, each with a name of its own."""
    alone = {}
    for q in range(n_latents):
        for name, axes in (("g", (q, p)), ("W", (q, p)), ("f", (q,))):
            alone[f"{name}{q}"] = Moments(values[name].mean[axes], values[name].var[axes])
    return alone


def test_a_family_is_its_members_one_by_one():
    values = family_marginals()
    assert NETWORK.axes == "p"
    assert [leaf.name for leaf in NETWORK.leaves] == ["g", "W", "f"]
    got = NETWORK.moments(values)
    terms = [Gate(f"g{q}") * Latent(f"W{q}") * Latent(f"f{q}") for q in range(2)]
    for p in range(3):
        exact = (terms[0] + terms[1]).moments(members(values, p))
        np.testing.assert_allclose(got.mean[p], exact.mean, rtol=1e-13)
        np.testing.assert_allclose(got.var[p], exact.var, rtol=1e-13)
    at = {name: m.mean for name, m in values.items()}
    by_hand = np.sum(ndtr(at["g"]) * at["W"] * at["f"][:, None], axis=0)
    np.testing.assert_allclose(NETWORK.value(at), by_hand, rtol=1e-13)


def test_a_network_is_normal_given_gates_and_latents():
    values = family_marginals()
    gates, latents = Latent("g", "qp"), Latent("f", "q")
    assert NETWORK.conditioners() == (gates, latents)
    nodes = {gates: jnp.full((2, 3, 1), 0.4), latents: jnp.full((2, 1), -1.1)}
    given = NETWORK.given(values, nodes)
    on = ndtr(values["g"].mean + 0.4 * np.sqrt(values["g"].var))
    by = on * (values["f"].mean - 1.1 * np.sqrt(values["f"].var))[:, None]
    np.testing.assert_allclose(given.mean, np.sum(by * values["W"].mean, axis=0), rtol=1e-12)
    np.testing.assert_allclose(given.var, np.sum(by**2 * values["W"].var, axis=0), rtol=1e-12)


@pytest.mark.parametrize(("one", "other"), [("qp", "pq"), ("q", "p"), ("qp", "r")])
def test_axes_that_do_not_line_up_are_refused(one, other):
    for build in (Latent("a", one) * Latent("b", other), Latent("a", other) + Latent("b", one)):
        with pytest.raises(ValueError, match="do not line up"):
            _ = build.axes
