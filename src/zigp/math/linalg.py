"""Linear algebra by blocks."""

import jax.numpy as jnp
from jax import Array
from jax.scipy.linalg import cho_solve

# Up to this size LAPACK runs in one thread. Its threads cost more than they save in matrices of a
# few hundred rows, and much more on a machine that is busy.
_SMALL = 32


def inverse_and_logdet(S: Array) -> tuple[Array, Array]:
    """Return S⁻¹ and log |S| of a positive definite matrix, mostly by matrix products.

    With blocks S = [[A, Bᵀ], [B, D]], X = B A⁻¹ and the Schur complement C = D − X Bᵀ,

        S⁻¹ = [[A⁻¹ + Xᵀ C⁻¹ X, −Xᵀ C⁻¹], [−C⁻¹ X, C⁻¹]]        log |S| = log |A| + log |C|

    A matrix that is not positive definite gives NaN.
    """
    n = len(S)
    if n <= _SMALL:
        root = jnp.linalg.cholesky(S, symmetrize_input=False)
        inverse = cho_solve((root, True), jnp.eye(n, dtype=S.dtype))
        return inverse, 2.0 * jnp.sum(jnp.log(jnp.diagonal(root)))
    half = n // 2
    A, first = inverse_and_logdet(S[:half, :half])
    X = S[half:, :half] @ A
    C, second = inverse_and_logdet(S[half:, half:] - X @ S[half:, :half].T)
    CX = C @ X
    return jnp.block([[A + X.T @ CX, -CX.T], [-CX, C]]), first + second
