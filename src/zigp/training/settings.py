"""Settings of training, and the parameters that each of them governs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from zigp.models.model import Model

Method = Literal["adam", "natural"]
Schedule = Literal["cosine", "constant"] | Callable[[Array], Array]

GROUPS = ("variational", "kernel", "inducing", "noise")

# The fields of a latent: the group whose learning rate they follow, and the name that fixes them.
_FIELDS = {
    "kernels": ("kernel", "kernel"),
    "log_variance": ("kernel", "variance"),
    "prior_mean": ("kernel", "prior_mean"),
    "inducing": ("inducing", "inducing"),
    "q_mean": ("variational", "q"),
    "q_cov": ("variational", "q"),
}
# Inducing inputs that move as fast as the rest outrun what q has learned there.
_INDUCING_PACE = 0.1
_POINTS = 101  # at which a schedule that is a function is recorded


def check_whole(name: str, value: Any) -> int:
    """Return a count as an int, also if it is 70.0, or raise an error if it is not a count."""
    number = isinstance(value, int | float | np.integer | np.floating)
    if not (number and 1 <= value < np.inf and value % 1 == 0):
        raise ValueError(f"{name} must be a whole number of at least 1, not {value!r}.")
    return int(value)


def check_positive(name: str, value: Any) -> None:
    """Raise an error unless a value is a number above 0."""
    number = isinstance(value, int | float | np.integer | np.floating)
    if not (number and value > 0):
        raise ValueError(f"{name} must be a number above 0, not {value!r}.")


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of training.

    `method` is `adam` for all parameters, or `natural`: a natural-gradient step for every q (of
    length 1 with all data, with minibatches a tenth that falls with the schedule), then one of Adam
    for the rest. `learning_rate` is a number, of which inducing inputs use a tenth and noise
    `noise_pace` times as much, or a number for each group of parameters (`variational`, `kernel`,
    `inducing`, `noise`). `schedule` is `cosine` (down to a hundredth), `constant`, or a function of
    the finished fraction of the steps that returns a factor. `fixed` names parameters that are not
    learned: `noise`, `kernel`, `variance`, `prior_mean`, `inducing`, `q`, or one of them of a
    single latent (`g.prior_mean`). Training stops early if the bound, averaged over `patience`
    chunks, differs by less than `tol` per row from that of the chunks before, or after
    `max_seconds`.
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
        """Return all settings as text that is the same in every process.

        A schedule that is a function is described by its values: its repr is a memory address.
        """
        if not callable(self.schedule):
            return repr(self)
        done = np.linspace(0, 1, _POINTS)
        factors = [float(self.schedule(jnp.asarray(fraction))) for fraction in done]
        return f"{replace(self, schedule='constant')!r} times {factors}"

    def rates(self) -> dict[str, float]:
        """Return the learning rate of each group of parameters."""
        if not isinstance(self.learning_rate, Mapping):
            paces = {"inducing": _INDUCING_PACE, "noise": self.noise_pace}
            return {group: self.learning_rate * paces.get(group, 1.0) for group in GROUPS}
        rates = dict(self.learning_rate)
        if set(rates) != set(GROUPS):
            raise ValueError(
                f"learning_rate names the groups {', '.join(map(str, rates))}; it must name "
                f"{', '.join(GROUPS)}, each once."
            )
        return rates


def latents_with_natural_steps(model: Model, settings: TrainingSettings) -> tuple[str, ...]:
    """Return the latents whose q takes natural-gradient steps: with that method all not fixed.

    Coupled latents take them together, or not at all.
    """
    if settings.method != "natural":
        return ()
    held = {name for name in model.latents if {"q", f"{name}.q"} & set(settings.fixed)}
    for second, coupling in model.couplings.items():
        if held & {second, coupling.on}:
            held |= {second, coupling.on}
    return tuple(name for name in model.latents if name not in held)


def learned(model: Model, natural: tuple[str, ...] = ()) -> Model:
    """Return the arrays that Adam learns: all but the q of latents with natural-gradient steps."""

    def keep(path: tuple[Any, ...], leaf: Any) -> Any:
        stepped = _group_and_names(path)[1] & {f"{name}.q" for name in natural}
        return leaf if eqx.is_inexact_array(leaf) and not stepped else None

    return jax.tree_util.tree_map_with_path(keep, model)


def _group_and_names(path: tuple[Any, ...]) -> tuple[str | None, set[str]]:
    """Return the group of a parameter, if it is one, and the names that fix it."""
    keys = [str(getattr(entry, "name", getattr(entry, "key", ""))) for entry in path]
    if keys[0] == "likelihood":
        return (None, set()) if keys[-1] == "floor" else ("noise", {"noise"})
    if keys[0] == "couplings":
        return "variational", {"q", f"{keys[1]}.q"}
    if keys[0] == "mixing":
        means = {"f_mean": "f.prior_mean", "g_mean": "g.prior_mean"}
        return "kernel", {"prior_mean", means[keys[1]]} if keys[1] in means else {"coupling"}
    if keys[2] not in _FIELDS:  # the jitter is not a parameter
        return None, set()
    group, name = _FIELDS[keys[2]]
    return group, {name, f"{keys[1]}.{name}"}


def free_places(model: Model, fixed: tuple[str, ...]) -> set[str]:
    """Return the places of all arrays that are parameters and not fixed."""
    paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(model)[0]]
    named = {jax.tree_util.keystr(path, simple=True, separator="."): path for path in paths}
    return {
        place
        for place, (group, names) in ((k, _group_and_names(path)) for k, path in named.items())
        if group is not None and not names & set(fixed)
    }


def parameter_names(model: Model) -> list[str]:
    """Return the names that `TrainingSettings.fixed` accepts for a model."""
    paths = jax.tree_util.tree_flatten_with_path(learned(model))[0]
    return sorted(set().union(*(_group_and_names(path)[1] for path, _ in paths)))


def learning_rates(model: Model, settings: TrainingSettings) -> Model:
    """Return a learning rate for every array that Adam learns, 0 for those that are fixed."""
    names = parameter_names(model)
    if unknown := sorted(set(settings.fixed) - set(names)):
        raise ValueError(
            f"fixed names {', '.join(map(repr, unknown))}, which this model does not have. "
            f"Choose from: {', '.join(names)}."
        )
    rates = settings.rates()

    def rate(path: tuple[Any, ...], leaf: Array) -> Array:
        group, names = _group_and_names(path)
        if group is None or names & set(settings.fixed):
            return jnp.zeros((), leaf.dtype)
        of_latent = path[0].name == "latents"
        if model.mixing is not None and of_latent and "prior_mean" in names:  # it has its own
            return jnp.zeros((), leaf.dtype)
        return jnp.asarray(rates[group], leaf.dtype)

    chosen = learned(model, latents_with_natural_steps(model, settings))
    return jax.tree_util.tree_map_with_path(rate, chosen)
