"""How to train: settings, and which parameter follows which of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from zigp.models.model import Model
from zigp.training.natural import has_steps

__all__ = [
    "GROUPS",
    "Method",
    "Schedule",
    "Settings",
    "check_positive",
    "check_whole",
    "learned",
    "natural_of",
    "parameters",
    "rates_of",
]

GROUPS = ("variational", "kernel", "inducing", "noise")

# The fields of a model, from its root, and the group whose learning rate they follow.
_GROUP_OF = {
    "kernels": "kernel",
    "log_variance": "kernel",
    "prior_mean": "kernel",
    "inducing": "inducing",
    "q_mean": "variational",
    "q_cov": "variational",
    "likelihood": "noise",
}
_NAME_OF = {
    "kernels": "kernel",
    "log_variance": "variance",
    "inducing": "inducing",
    "prior_mean": "prior_mean",
    "q_mean": "q",
    "q_cov": "q",
}


def check_whole(name: str, value: Any) -> int:
    """A count as an int, also where it is 70.0; an error if it is none."""
    number = isinstance(value, int | float | np.integer | np.floating)
    if not (number and 1 <= value < np.inf and value % 1 == 0):
        raise ValueError(f"{name} must be a whole number of at least 1, not {value!r}.")
    return int(value)


def check_positive(name: str, value: Any) -> None:
    number = isinstance(value, int | float | np.integer | np.floating)
    if not (number and value > 0):
        raise ValueError(f"{name} must be a number above 0, not {value!r}.")


Method = Literal["adam", "natural"]
Schedule = Literal["cosine", "constant"] | Callable[[Array], Array]

# Inducing inputs that move as fast as the rest outrun what q has learned there.
_INDUCING_PACE = 0.1
_LOOKS = 101  # at a schedule that is a function, to tell it from others


@dataclass(frozen=True)
class Settings:
    """How to train.

    `method` is `adam` for all parameters, or `natural`: a natural-gradient step for every q (a
    whole one with all data, with minibatches a tenth that falls as scheduled), then one of Adam for
    all else. `learning_rate` is one number, with inducing inputs moving at a tenth of it and noise
    at `noise_pace` times it, or one number for each group of parameters (`variational`, `kernel`,
    `inducing`, `noise`). `schedule` is `cosine` (down to a hundredth), `constant`, or a function of
    the finished fraction of the steps that returns a factor. `fixed` names what is not to be
    learned: `noise`, `kernel`, `variance`, `prior_mean`, `inducing`, `q`, each also for one latent
    alone (`g.prior_mean`). Training stops early once the bound, averaged over `patience` chunks,
    differs by less than `tol` per row from that of the chunks before them, or once `max_seconds`
    have passed.
    """

    steps: int = 1000
    method: Method = "adam"
    learning_rate: float | Mapping[str, float] = 0.05
    noise_pace: float = 1.0
    schedule: Schedule = "cosine"
    batch_size: int | None = None
    fixed: tuple[str, ...] = ()
    tol: float = 1e-4
    patience: int = 4
    max_seconds: float | None = None
    chunk: int = 50
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "chunk", "patience", "batch_size"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, check_whole(name, value))
        if self.schedule not in ("cosine", "constant") and not callable(self.schedule):
            raise ValueError(
                f"schedule must be 'cosine', 'constant' or a function, not {self.schedule!r}."
            )
        if self.method not in ("adam", "natural"):
            raise ValueError(f"method must be 'adam' or 'natural', not {self.method!r}.")
        if not self.tol >= 0:
            raise ValueError(f"tol must not be negative; it is {self.tol!r}.")
        if self.max_seconds is not None:
            check_positive("max_seconds", self.max_seconds)
            if self.max_seconds == np.inf:
                object.__setattr__(self, "max_seconds", None)
        for group, rate in self.rates().items():
            if not (np.isfinite(rate) and rate >= 0):
                raise ValueError(
                    f"learning_rate must be a number of at least 0; for {group} it is {rate!r}."
                )

    def described(self) -> str:
        """All of it in words that are the same in every process: a function by what it returns.

        Its own words would name the place in memory where it happens to lie.
        """
        if not callable(self.schedule):
            return repr(self)
        factors = [float(self.schedule(jnp.asarray(done))) for done in np.linspace(0, 1, _LOOKS)]
        return f"{replace(self, schedule='constant')!r} times {factors}"

    def rates(self) -> dict[str, float]:
        """The learning rate of each group of parameters."""
        if not isinstance(self.learning_rate, Mapping):
            paces = {"inducing": _INDUCING_PACE, "noise": self.noise_pace}
            return {group: self.learning_rate * paces.get(group, 1.0) for group in GROUPS}
        given = dict(self.learning_rate)
        if set(given) != set(GROUPS):
            raise ValueError(
                f"learning_rate names the groups {', '.join(map(str, given))}; it must name "
                f"{', '.join(GROUPS)}, each once."
            )
        return given


def natural_of(model: Model, settings: Settings) -> tuple[str, ...]:
    """The latents whose q takes natural-gradient steps: all that can, if they are asked for."""
    if settings.method != "natural":
        return ()
    held = [name for name in model.latents if {"q", f"{name}.q"} & set(settings.fixed)]
    return tuple(n for n, latent in model.latents.items() if n not in held and has_steps(latent))


def learned(model: Model, natural: tuple[str, ...] = ()) -> Model:
    """The arrays that Adam learns: all but the q of latents with natural-gradient steps."""

    def keep(path: tuple[Any, ...], leaf: Any) -> Any:
        keys = _keys(path)
        by_steps = keys[0] == "latents" and keys[1] in natural and _NAME_OF.get(keys[2]) == "q"
        return leaf if eqx.is_inexact_array(leaf) and not by_steps else None

    return jax.tree_util.tree_map_with_path(keep, model)


def _keys(path: tuple[Any, ...]) -> list[str]:
    return [str(getattr(entry, "name", getattr(entry, "key", ""))) for entry in path]


def _labels(path: tuple[Any, ...]) -> tuple[str | None, set[str]]:
    """A parameter's group, and the names by which it can be held fixed."""
    keys = _keys(path)
    if keys[0] == "likelihood":
        return (None, set()) if keys[-1] == "floor" else ("noise", {"noise"})
    latent, part = keys[1], keys[2]
    if part not in _GROUP_OF:  # the jitter is no parameter
        return None, set()
    name = _NAME_OF[part]
    return _GROUP_OF[part], {name, f"{latent}.{name}"}


def parameters(model: Model) -> list[str]:
    """The names that `Settings.fixed` accepts for this model."""
    paths = jax.tree_util.tree_flatten_with_path(learned(model))[0]
    return sorted(set().union(*(_labels(path)[1] for path, _ in paths)))


def rates_of(model: Model, settings: Settings) -> Model:
    """A learning rate for every array that Adam learns, 0 where it is held fixed."""
    unknown = sorted(set(settings.fixed) - set(parameters(model)))
    if unknown:
        raise ValueError(
            f"fixed names {', '.join(map(repr, unknown))}, which this model does not have. "
            f"Choose from: {', '.join(parameters(model))}."
        )
    given = settings.rates()

    def rate(path: tuple[Any, ...], leaf: Array) -> Array:
        group, names = _labels(path)
        free = group is not None and not names & set(settings.fixed)
        return jnp.asarray(given[group] if free and group else 0.0, leaf.dtype)

    chosen = learned(model, natural_of(model, settings))
    return jax.tree_util.tree_map_with_path(rate, chosen)
