"""Markov processes along an axis: Gaussian processes with a Matérn kernel, state by state.

The state of a Matérn process holds the function and, for smoother ones, its derivative, scaled to
have unit variance. Between two times τ = √(2ν) Δ/ℓ apart it moves by

    x′ = A x + q,  q ~ N(0, Q)        A = exp(Fτ),  Q = I − A Aᵀ

so that the precision matrix of all states is block tridiagonal, and a posterior with observations
of single times is found by one pass in either direction, in time linear in their number.
"""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import gammainc

from zigp.gp.kernels import Kernel, Matern12, Matern32
from zigp.math.linalg import inverse_and_logdet

ORDERS: dict[type[Kernel], int] = {Matern12: 1, Matern32: 2}  # sizes of the state


class Chain(NamedTuple):
    """The moves of a state of size d between T times: A and Q, [T − 1, d, d]."""

    A: Array
    Q: Array

    @classmethod
    def of(cls, kernel: Kernel, times: Array) -> Chain:
        """Return the chain of a kernel of one column at ascending times."""
        return cls(*_move(kernel, times[1:] - times[:-1]))

    def precision(self) -> tuple[Array, Array]:
        """Return the blocks of the precision: those of each time, and of it and the next."""
        inverse = jnp.linalg.inv(self.Q)
        forward = jnp.swapaxes(self.A, 1, 2) @ inverse
        d = self.A.shape[-1]
        first = jnp.eye(d, dtype=self.A.dtype)[None]  # a stationary state has unit variance
        before = jnp.concatenate([first, inverse])
        return before.at[:-1].add(forward @ self.A), -forward

    def logdet(self) -> Array:
        """Return the log determinant of the covariance of all states."""
        return jnp.sum(jnp.linalg.slogdet(self.Q)[1])

    def times(self, x: Array) -> Array:
        """Return the precision times states x, [T, d, s]."""
        own, after = self.precision()
        out = own @ x
        out = out.at[:-1].add(after @ x[1:])
        return out.at[1:].add(jnp.swapaxes(after, 1, 2) @ x[:-1])

    def square(self, same: Array, following: Array) -> Array:
        """Return E[xᵀ P x] from E[x_t x_tᵀ] and E[x_t x_{t+1}ᵀ], [T, d, d] and [T − 1, d, d].

        With e = x_{t+1} − A x_t it is |x_0|² + Σ_t eᵀ Q⁻¹ e.
        """
        cross = self.A @ following
        moved = self.A @ same[:-1] @ jnp.swapaxes(self.A, 1, 2)
        spread = same[1:] - cross - jnp.swapaxes(cross, 1, 2) + moved
        return jnp.trace(same[0]) + jnp.sum(jnp.linalg.inv(self.Q) * spread)


def _move(kernel: Kernel, gap: Array) -> tuple[Array, Array]:
    """Return A and Q for gaps between times, [gaps, d, d]."""
    match kernel:
        case Matern12():
            tau = gap / kernel.lengthscale
            A, Q = jnp.exp(-tau)[:, None, None], -jnp.expm1(-2.0 * tau)[:, None, None]
        case Matern32():
            # I − A Aᵀ cancels for small gaps: with γ the incomplete gamma function and t = 2τ,
            # 1 − exp(−t)(1 + t + t²/2) = γ(3, t).
            tau = 3.0**0.5 * gap / kernel.lengthscale
            A = _matrices(1.0 + tau, tau, -tau, 1.0 - tau) * jnp.exp(-tau)[:, None, None]
            t, decay = 2.0 * tau, jnp.exp(-2.0 * tau)
            first, between = gammainc(3.0, t), 0.5 * t**2 * decay
            Q = _matrices(first, between, between, first + 2.0 * t * decay)
        case _:
            raise TypeError(f"{type(kernel).__name__} has no Markov form.")
    return A, Q


def _matrices(a: Array, b: Array, c: Array, d: Array) -> Array:
    return jnp.stack([jnp.stack([a, b], -1), jnp.stack([c, d], -1)], -2)


class Filtered(NamedTuple):
    """The factorised posterior precision of s coupled chains: what one pass forward leaves.

    `inverse[t]` is the inverse of what remains of block t once the times before it are eliminated,
    [d s × d s], `after[t]` the block between times t and t + 1, [d, d].
    """

    inverse: Array
    after: Array
    logdet: Array  # of the precision


def filtered(chain: Chain, gram: Array) -> Filtered:
    """Eliminate time after time from P ⊗ I + gram, where gram acts on the functions, [T, s, s]."""
    own, after = chain.precision()
    s, d = gram.shape[-1], own.shape[-1]
    eye = jnp.eye(s, dtype=gram.dtype)

    def whole(block: Array, gram: Array) -> Array:
        return jnp.kron(block, eye).at[:s, :s].add(gram)

    def eliminate(rest: Array, at: tuple[Array, Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        block, gram, after = at
        inverse, logdet = inverse_and_logdet(whole(block, gram) - rest)
        return _sandwich(after, inverse), (inverse, logdet)

    last = jnp.zeros_like(own[:1])
    begin = jnp.zeros((d * s, d * s), gram.dtype)
    _, (inverse, logdet) = jax.lax.scan(
        eliminate, begin, (own, gram, jnp.concatenate([after, last]))
    )
    return Filtered(inverse, after, jnp.sum(logdet))


def _sandwich(after: Array, inverse: Array) -> Array:
    """Oᵀ F⁻¹ O with O = after ⊗ I."""
    return _times(_times(inverse, after).T, after).T


def _times(M: Array, block: Array) -> Array:
    """M (block ⊗ I), as sums of the columns of M: an Einstein sum would copy them first."""
    d = len(block)
    columns = jnp.split(M, d, axis=1)
    mixed = [reduce(add, (columns[c] * block[c, a] for c in range(d))) for a in range(d)]
    return jnp.concatenate(mixed, axis=1)


def solve(filtered: Filtered, b: Array) -> Array:
    """Return the posterior precision's inverse times b, [T, d, s]."""
    _, d, s = b.shape
    apply = lambda inverse, x: (inverse @ x.reshape(-1)).reshape(d, s)  # noqa: E731
    last = jnp.zeros_like(filtered.inverse[:1, :d, :d])
    after = jnp.concatenate([filtered.after, last])

    def forward(carry: Array, at: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        inverse, after, b = at
        y = b - carry
        return after.T @ apply(inverse, y), y

    def backward(x: Array, at: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        inverse, after, y = at
        x = apply(inverse, y - after @ x)
        return x, x

    zero = jnp.zeros((d, s), b.dtype)
    _, y = jax.lax.scan(forward, zero, (filtered.inverse, after, b))
    return jax.lax.scan(backward, zero, (filtered.inverse, after, y), reverse=True)[1]


def colour(filtered: Filtered, noise: Array) -> Array:
    """Turn standard normal noise, [T, d s], into states drawn from the posterior of mean zero.

    From the last time backward, x_t given x_{t+1} is N(−F_t⁻¹ O x_{t+1}, F_t⁻¹).
    """
    T, d = len(noise), filtered.after.shape[-1]
    after = jnp.concatenate([filtered.after, jnp.zeros_like(filtered.inverse[:1, :d, :d])])

    def back(x: Array, at: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        inverse, after, noise = at
        moved = (after @ x.reshape(d, -1)).reshape(-1)
        x = jnp.linalg.cholesky(inverse) @ noise - inverse @ moved
        return x, x

    at = (filtered.inverse, after, noise)
    return jax.lax.scan(back, jnp.zeros_like(noise[0]), at, reverse=True)[1].reshape(T, d, -1)


def walk(chain: Chain, noise: Array) -> Array:
    """Turn standard normal noise, [T, d, s], into states drawn from the prior."""
    roots = jnp.linalg.cholesky(chain.Q)

    def move(x: Array, at: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        A, root, noise = at
        x = A @ x + root @ noise
        return x, x

    _, later = jax.lax.scan(move, noise[0], (chain.A, roots, noise[1:]))
    return jnp.concatenate([noise[:1], later])


class Smoothed(NamedTuple):
    """Posterior covariances of s coupled chains."""

    functions: Array  # of the functions at each time, [T, s, s]
    same: Array  # Σ over chains of the states' covariance at each time, [T, d, d]
    following: Array  # the same of a state and the next, [T − 1, d, d]


def smoothed(filtered: Filtered) -> Smoothed:
    """Return posterior covariances, by one pass backward."""
    d = filtered.after.shape[-1]
    s = filtered.inverse.shape[-1] // d
    after = jnp.concatenate([filtered.after, jnp.zeros_like(filtered.inverse[:1, :d, :d])])

    def trace(block: Array) -> Array:
        return jnp.trace(block.reshape(d, s, d, s), axis1=1, axis2=3)

    def back(later: Array, at: tuple[Array, Array]) -> tuple[Array, tuple[Array, ...]]:
        inverse, after = at
        gain = _times(inverse, after)
        cross = gain @ later
        cov = inverse + cross @ gain.T
        return cov, (cov[:s, :s], trace(cov), -trace(cross))

    begin = jnp.zeros_like(filtered.inverse[0])
    both = (filtered.inverse, after)
    _, (functions, same, following) = jax.lax.scan(back, begin, both, reverse=True)
    return Smoothed(functions, same, following[:-1])
