"""Independent formulas with NumPy, SciPy and mpmath, without zigp."""

from __future__ import annotations

import mpmath as mp
import numpy as np
from scipy.special import ndtr
from scipy.special import owens_t as scipy_owens_t

LOG_2PI = np.log(2 * np.pi)


def probit_moments(mean: float, var: float) -> tuple[mp.mpf, mp.mpf]:
    """Return mean and variance of Φ(g), to thirty digits."""
    with mp.workdps(30):
        m, v = mp.mpf(float(mean)), mp.mpf(float(var))
        z, a = m / mp.sqrt(1 + v), 1 / mp.sqrt(1 + 2 * v)
        # mpmath's quadrature aims at absolute errors: the integrand starts at 1/(1+a²).
        integrand = lambda x: mp.exp(z * z * (a * a - x * x) / 2) / (1 + x * x)  # noqa: E731
        scale = mp.exp(-z * z * (1 + a * a) / 2) / mp.pi
        return mp.ncdf(z), scale * mp.quad(integrand, mp.linspace(a, 1, 4))


def probit_gradient(mean: float, var: float) -> tuple[tuple[mp.mpf, ...], tuple[mp.mpf, ...]]:
    """Return (∂/∂mean, ∂/∂var) of E[Φ] and of Var[Φ] = E[Φ²] − E[Φ]², to fifteen digits or more.

    ∂E/∂μ = E[φ(g)] and, by Price's theorem, ∂E/∂σ² = ½ E[d²/dg²], for Φ and for Φ².
    """
    with mp.workdps(22):
        m, v = mp.mpf(float(mean)), mp.mpf(float(var))
        s = mp.sqrt(v)

        def expect(h):
            weighted = lambda t: h(m + s * t) * mp.npdf(t)  # noqa: E731
            return mp.quad(weighted, mp.linspace(-12, 12, 9))

        phi, Phi = mp.npdf, mp.ncdf
        mean_phi = expect(Phi)
        d_mean = (expect(phi), expect(lambda g: -g * phi(g)) / 2)
        d_square = (
            expect(lambda g: 2 * phi(g) * Phi(g)),
            expect(lambda g: 2 * (phi(g) ** 2 - g * phi(g) * Phi(g))) / 2,
        )
        d_var = tuple(b - 2 * mean_phi * a for a, b in zip(d_mean, d_square, strict=True))
        return d_mean, d_var


def se_kernel(X, Z, lengthscale, variance):
    scaled = (X[:, None, :] - Z[None, :, :]) / np.asarray(lengthscale)
    return variance * np.exp(-0.5 * np.sum(scaled**2, axis=-1))


def pair_density(first, second, c11, c12, c22):
    """Return N((first, second); 0, [[c11, c12], [c12, c22]]), for arrays of any shape."""
    det = c11 * c22 - c12**2
    square = (c22 * first**2 - 2 * c12 * first * second + c11 * second**2) / det
    return np.exp(-0.5 * square) / (2 * np.pi * np.sqrt(det))


def sparse_marginals(K_nn_diag, K_nm, K_mm, m_u, S_u, beta=0.0):
    """μ = β + Q(m − β), diag Σ = diag(K_nn + Q(S − K_mm)Qᵀ), Q = K_nm K_mm⁻¹ (paper eqs. 21–24)."""
    Q = np.linalg.solve(K_mm, K_nm.T).T
    mean = beta + Q @ (m_u - beta)
    var = K_nn_diag + np.einsum("nm,mk,nk->n", Q, S_u - K_mm, Q)
    return mean, var


def gauss_kl(m_u, S_u, K_mm, beta=0.0):
    """KL(N(m, S) ‖ N(β, K))."""
    d = m_u - beta
    inverse = np.linalg.inv(K_mm)
    logdets = np.linalg.slogdet(K_mm)[1] - np.linalg.slogdet(S_u)[1]
    return 0.5 * (np.trace(inverse @ S_u) + d @ inverse @ d - len(d) + logdets)


def zigp_bound(y, mu_f, var_f, mu_g, var_g, noise, kl_f, kl_g):
    """Return the bound of the zero-inflated GP (paper eq. 27), with Owen's T from SciPy.

    Its second argument is 1/√(1+2σ²), as in the supplement.
    """
    z = mu_g / np.sqrt(1 + var_g)
    gate = ndtr(z)
    gate_square = gate - 2 * scipy_owens_t(z, 1 / np.sqrt(1 + 2 * var_g))
    gate_var = gate_square - gate**2
    log_density = -0.5 * (LOG_2PI + np.log(noise) + (y - gate * mu_f) ** 2 / noise)
    penalty = (gate_var * mu_f**2 + gate_square * var_f) / (2 * noise)
    return np.sum(log_density - penalty) - kl_f - kl_g
