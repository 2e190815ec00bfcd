"""The first guess of every parameter, from the data: kernels, inducing inputs, sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from zigp.data import Layout
from zigp.inducing import pick, place
from zigp.kernels import (
    Categorical,
    Columns,
    Kernel,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Product,
    Scaled,
    SquaredExponential,
    Stationary,
    Sum,
)
from zigp.latent import COVARIANCES, CovarianceName, LatentGP

__all__ = ["KERNELS", "KernelSpec", "Sizes", "Sparsity", "initial_latent"]

KERNELS: dict[str, type[Stationary] | type[Linear]] = {
    "squared_exponential": SquaredExponential,
    "matern12": Matern12,
    "matern32": Matern32,
    "matern52": Matern52,
    "linear": Linear,
}
Sizes = int | Sequence[int] | Mapping[str, int]
KernelSpec = str | Kernel | Sequence[str | Kernel] | Mapping[str, str | Kernel]

_MOST_DENSE = 400  # inducing variables up to which q gets a full covariance by itself
_MOST_POINTS = 100
# Along a group of columns of a lattice: a quarter of its coordinates, within these limits. A finer
# lattice raises the bound but, with one noise variance for rain and dry alike, fits noise in the
# amounts and predicts them worse.
_FEWEST = 10
_MOST_PLACES = 20  # for a group of several columns
_MOST_TIMES = 100  # for a group of one column


@dataclass(frozen=True)
class Sparsity:
    """How a latent is to be approximated: how many inducing inputs, and what covariance."""

    n_inducing: Sizes | None
    covariance: str  # CovarianceName or "auto"
    seed: int
    dtype: str
    at_random: bool = False  # inducing inputs at random rows instead of spread over all


def initial_latent(
    X: np.ndarray,
    layout: Layout,
    columns: Sequence[int],
    kernel: KernelSpec,
    sparsity: Sparsity,
    *,
    variance: float = 1.0,
    reach: float | None = None,
    q_sd: float = 1.0,
) -> LatentGP:
    """A latent over some of the columns of X (already centred), ready to be trained.

    `reach` is the first length-scale in standard deviations of a column, if not the default.
    """
    groups = layout.only(columns)
    names = [
        name
        for name, group in zip(layout.names, layout.groups, strict=True)
        if set(group) & set(columns)
    ]
    sizes = _sizes(X, groups, names, sparsity.n_inducing)
    kernels, Z = [], []
    for group, spec, size in zip(groups, _per_group(kernel, names), sizes, strict=True):
        inputs = X[:, group]
        built = _kernel(spec, group, layout)
        latlon = layout.latlon is not None and group == layout.latlon
        if sparsity.at_random:
            places = pick(inputs, size, sparsity.seed)
        else:
            levels = _levels(built, len(group))
            places = place(inputs, size, sparsity.seed, latlon=latlon, discrete=levels)
        Z.append(places)
        kernels.append(built.filled(inputs, reach or _reach(len(places), len(group))))
    return LatentGP.create(
        tuple(kernels),
        tuple(Z),
        groups,
        covariance=_covariance(sparsity.covariance, [len(z) for z in Z]),
        variance=variance,
        q_sd=q_sd,
        dtype=sparsity.dtype,
    )


def _reach(M: int, D: int) -> float:
    """A first length-scale, in standard deviations of a column.

    Twice the distance between neighbours among M inducing inputs spread evenly over a cube of
    side √12 (the side of a uniform distribution with standard deviation 1), at most 1: a GP that
    starts too smooth takes structure for noise and does not recover.
    """
    return float(min(1.0, 2.0 * np.sqrt(12.0) / max(M, 1) ** (1.0 / D)))


def _sizes(
    X: np.ndarray,
    groups: tuple[tuple[int, ...], ...],
    names: list[str],
    n_inducing: Sizes | None,
) -> list[int]:
    """How many inducing inputs each group gets."""
    if isinstance(n_inducing, Mapping):
        if missing := [name for name in names if name not in n_inducing]:
            raise ValueError(f"n_inducing lacks the column group {', '.join(map(repr, missing))}.")
        sizes = [n_inducing[name] for name in names]
    elif n_inducing is None:
        if len(groups) == 1:
            return [_MOST_POINTS]
        return [
            min(
                max(len(np.unique(X[:, group], axis=0)) // 4, _FEWEST),
                _MOST_TIMES if len(group) == 1 else _MOST_PLACES,
            )
            for group in groups
        ]
    elif np.ndim(n_inducing) == 0:
        if len(groups) > 1:
            raise ValueError(
                f"n_inducing={n_inducing!r} is one number, but the columns fall into "
                f"{len(groups)} groups: give one number for each of {', '.join(names)}."
            )
        sizes = [n_inducing]  # type: ignore[list-item]
    else:
        sizes = list(n_inducing)  # type: ignore[arg-type]
        if len(sizes) != len(groups):
            raise ValueError(
                f"n_inducing gives {len(sizes)} numbers for {len(groups)} column groups "
                f"({', '.join(names)}): give one for each."
            )
    if any(int(size) != size or size < 1 for size in sizes):
        raise ValueError(f"n_inducing must be at least 1 everywhere; it is {n_inducing!r}.")
    return [int(size) for size in sizes]


def _per_group(kernel: KernelSpec, names: list[str]) -> list[str | Kernel]:
    if isinstance(kernel, (str, Kernel)):
        return [kernel] * len(names)
    if isinstance(kernel, Mapping):
        if missing := [name for name in names if name not in kernel]:
            raise ValueError(f"kernel lacks the column group {', '.join(map(repr, missing))}.")
        return [kernel[name] for name in names]
    if len(kernel) != len(names):
        raise ValueError(
            f"{len(kernel)} kernels are given for {len(names)} column groups "
            f"({', '.join(names)}): give one kernel, or one for each group."
        )
    return list(kernel)


def _kernel(spec: str | Kernel, group: tuple[int, ...], layout: Layout) -> Kernel:
    """A kernel object as it is, or a named one over the group's columns."""
    if isinstance(spec, Kernel):
        return spec
    if spec not in KERNELS:
        raise ValueError(
            f"There is no kernel {spec!r}. Choose from {', '.join(KERNELS)}, or pass a kernel "
            "object such as zigp.kernels.Matern32(lengthscale=50)."
        )
    family = KERNELS[spec]
    if layout.latlon is None or not set(layout.latlon) <= set(group) or family is Linear:
        return family()
    chordal = family(metric="chordal")  # type: ignore[call-arg]
    if group == layout.latlon:
        return chordal
    here = [group.index(c) for c in layout.latlon]
    rest = [i for i in range(len(group)) if i not in here]
    return chordal.on(*here) if not rest else chordal.on(*here) * family().on(*rest)


def _covariance(name: str, sizes: list[int]) -> CovarianceName:
    if name == "auto":
        return "dense" if prod(sizes) <= _MOST_DENSE else "diagonal"
    if name not in COVARIANCES:
        raise ValueError(
            f"covariance must be 'auto', {', '.join(map(repr, COVARIANCES))}, not {name!r}."
        )
    return name  # type: ignore[return-value]


def _levels(kernel: Kernel, D: int) -> tuple[int, ...]:
    """The columns that a kernel treats as levels, among its D."""
    match kernel:
        case Categorical():
            return tuple(range(D))
        case Columns():
            inner = _levels(kernel.kernel, len(kernel.columns))
            return tuple(kernel.columns[i] for i in inner)
        case Scaled():
            return _levels(kernel.kernel, D)
        case Sum():
            parts = kernel.terms
        case Product():
            parts = kernel.factors
        case _:
            return ()
    return tuple(sorted({c for part in parts for c in _levels(part, D)}))
