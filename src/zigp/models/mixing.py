"""A coregionalised pair: two predictors that share two latents in the prior."""

from __future__ import annotations

from collections.abc import Mapping

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from zigp.gp.moments import Moments


class Mixing(eqx.Module):
    """The predictors f = β_f + u_f + a u_g and g = β_g + u_g + b u_f of latents u of mean zero.

    They are dependent in the prior, with Cov(f, g) = b Var u_f + a Var u_g. The latents keep the
    names of the predictors. With a covariance c between the latents under q,

        Var f = v_f + a² v_g + 2 a c        Cov(f, g) = b v_f + a v_g + (1 + a b) c
    """

    weights: ArrayLike  # a and b
    f_mean: ArrayLike  # β_f
    g_mean: ArrayLike

    @classmethod
    def of(cls, a: float, b: float, f_mean: float, g_mean: float, dtype: str) -> Mixing:
        """Return the mixing with these weights and prior means."""
        return cls(*(np.asarray(value, dtype) for value in ([a, b], f_mean, g_mean)))

    def moments(self, latents: Mapping[str, Moments]) -> dict[str, Moments]:
        """Return the moments of the predictors from those of the latents."""
        a, b = jnp.asarray(self.weights)
        u, w = latents["f"], latents["g"]
        c = u.cov.get("g", w.cov.get("f", jnp.zeros_like(u.var)))
        means = self.values({"f": u.mean, "g": w.mean})
        f_var = u.var + a**2 * w.var + 2.0 * a * c
        g_var = w.var + b**2 * u.var + 2.0 * b * c
        between = b * u.var + a * w.var + (1.0 + a * b) * c
        mixed = {
            "f": Moments(means["f"], f_var, {"g": between}),
            "g": Moments(means["g"], g_var),
        }
        return {**latents, **mixed}

    def values(self, latents: Mapping[str, Array]) -> dict[str, Array]:
        """Return the predictors at values of the latents."""
        a, b = jnp.asarray(self.weights)
        u, w = latents["f"], latents["g"]
        f_mean, g_mean = jnp.asarray(self.f_mean), jnp.asarray(self.g_mean)
        return {**latents, "f": f_mean + u + a * w, "g": g_mean + w + b * u}
