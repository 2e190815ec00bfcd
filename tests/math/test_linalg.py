"""Linear algebra by blocks, against NumPy."""

import jax.numpy as jnp
import numpy as np
import pytest

from zigp.math.linalg import inverse_and_logdet


@pytest.mark.parametrize("n", [1, 7, 33, 90])
def test_inverse_and_determinant_are_numpys(n):
    half = np.random.default_rng(n).normal(size=(n, n))
    S = half @ half.T + np.eye(n)
    inverse, logdet = inverse_and_logdet(jnp.asarray(S))
    np.testing.assert_allclose(inverse, np.linalg.inv(S), rtol=1e-8, atol=1e-10)
    assert logdet == pytest.approx(np.linalg.slogdet(S)[1], rel=1e-12)


@pytest.mark.parametrize("n", [5, 70])
def test_a_matrix_that_is_not_positive_definite_gives_nan(n):
    S = np.diag(np.r_[-1.0, np.ones(n - 1)][::-1])
    assert np.isnan(inverse_and_logdet(jnp.asarray(S))[1])
