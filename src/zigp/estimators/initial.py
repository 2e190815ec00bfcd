"""Initial latent functions, from the data: kernels, inducing inputs and their numbers."""

from collections.abc import Mapping, Sequence
from functools import reduce
from math import prod
from operator import mul
from typing import Literal

import numpy as np

from zigp.data.layout import Inputs, Layout
from zigp.gp.covariances import CovarianceName
from zigp.gp.inducing import pick, place
from zigp.gp.kernels import (
    Categorical,
    Kernel,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    SquaredExponential,
    Stationary,
)
from zigp.gp.latent import LatentGP
from zigp.gp.markov import ChainedGP, time_axis
from zigp.training import check_whole

KERNELS: dict[str, type[Stationary] | type[Linear]] = {
    "squared_exponential": SquaredExponential,
    "matern12": Matern12,
    "matern32": Matern32,
    "matern52": Matern52,
    "linear": Linear,
}
Sizes = int | Sequence[int] | Mapping[str, int]
KernelSpec = str | Kernel | Sequence[str | Kernel] | Mapping[str, str | Kernel]

_MOST_DENSE = 400  # inducing variables of a q with a full covariance by default
_MOST_DENSE_ASKED = 2000  # and if that is asked for
_WIDEST_CHAIN = 300  # inducing points for each coordinate of the axis of a chain
_MOST_POINTS = 100
# Inducing points of a group of one column, and of several: every coordinate, up to these numbers.
# Rows that do not lie on a lattice share little of the work.
_ON_LATTICE = (1100, 150)
_SCATTERED = (100, 20)
_MOST_VARIABLES = 200_000


def initial_latent(
    X: Inputs,
    layout: Layout,
    columns: Sequence[int],
    kernel: KernelSpec,
    *,
    n_inducing: Sizes | None,
    posterior: str,
    seed: int,
    dtype: str,
    at_random: bool = False,
    reach: float | None = None,
    variance: float = 1.0,
    q_sd: float = 1.0,
) -> LatentGP:
    """Return a latent over some of the columns of X, ready to be trained.

    With `at_random` inducing inputs are at random rows, otherwise they are spread over all. `reach`
    is the initial length-scale in standard deviations of a column, if not the default.
    """
    groups = layout.only(columns)
    if not groups:
        raise ValueError("A latent needs at least one input column; inputs names none.")
    names = [
        name
        for name, group in zip(layout.names, layout.groups, strict=True)
        if set(group) & set(columns)
    ]
    sizes = _sizes(X, groups, names, layout.names, n_inducing)
    # Units count every row once: a row that is there twice is a row of weight two.
    every = X.once_each(layout.groups) - layout.centre
    kernels, Z = [], []
    for group, spec, size in zip(
        groups, _per_group(kernel, names, layout.names), sizes, strict=True
    ):
        inputs = X.along(group)[0] - layout.centre[list(group)]
        built = _kernel(spec, group, layout)
        if at_random:
            places = pick(inputs, size, seed)
        else:
            levels = _levels(built, len(group))
            places = place(inputs, size, seed, latlon=group == layout.latlon, discrete=levels)
        Z.append(places)
        kernels.append(built.filled(every[:, group], reach or _reach(len(places), len(group))))
    axis = _chain_axis(X, layout, groups, kernels, Z)
    form = _form(posterior, prod(len(z) for z in Z), chained=axis is not None)
    given = (tuple(kernels), tuple(Z), groups)
    if form == "chain":
        return ChainedGP.create(*given, variance=variance, dtype=dtype)
    return LatentGP.create(*given, covariance=form, variance=variance, q_sd=q_sd, dtype=dtype)


def _chain_axis(
    X: Inputs,
    layout: Layout,
    groups: Sequence[tuple[int, ...]],
    kernels: Sequence[Kernel],
    Z: Sequence[np.ndarray],
) -> int | None:
    """Return the group along which a full q is a chain of blocks, None if there is none.

    The data must lie on a lattice, and have an inducing point at every coordinate of that group.
    """
    axis = time_axis(kernels, groups)
    if axis is None or X.lattice(layout.groups) is None:
        return None
    width = prod(len(z) for i, z in enumerate(Z) if i != axis)
    whole = len(Z[axis]) == X.count(groups[axis]) > 1
    return axis if whole and width <= _WIDEST_CHAIN else None


def _form(posterior: str, size: int, *, chained: bool) -> CovarianceName | Literal["chain"]:
    """Return the form of the covariance of q for a number of inducing points."""
    if posterior == "diagonal" or (posterior != "full" and size > _MOST_DENSE):
        return "diagonal"
    if size <= (_MOST_DENSE if chained else _MOST_DENSE_ASKED):
        return "dense"
    if chained:
        return "chain"
    raise ValueError(
        f"posterior='full' would need the covariance of {size:,} inducing points, more than "
        f"{_MOST_DENSE_ASKED:,}. Lower n_inducing, use posterior='diagonal', or lay out the data "
        "as a lattice with an inducing point at every coordinate of a group of one column with a "
        f"'matern12' or 'matern32' kernel, and up to {_WIDEST_CHAIN} in the other groups."
    )


def _reach(M: int, D: int) -> float:
    """Return the initial length-scale, in standard deviations of a column.

    It is twice the distance between neighbours among M inducing inputs spread evenly over a cube of
    side √12 (the side of a uniform distribution with standard deviation 1), at most 1: a GP that
    starts too smooth explains structure as noise and does not recover.
    """
    return float(min(1.0, 2.0 * np.sqrt(12.0) / max(M, 1) ** (1.0 / D)))


def _sizes(
    X: Inputs,
    groups: tuple[tuple[int, ...], ...],
    names: list[str],
    all_names: tuple[str, ...],
    n_inducing: Sizes | None,
) -> list[int]:
    """Return the number of inducing inputs of each group; a single number is for all together."""
    if n_inducing is None:
        if len(all_names) == 1:
            return [_MOST_POINTS]
        most = _ON_LATTICE if X.lattice(groups) or len(groups) == 1 else _SCATTERED
        sizes = [
            min(n, most[min(len(group), 2) - 1])
            for n, group in zip(map(X.count, groups), groups, strict=True)
        ]
        while prod(sizes) > _MOST_VARIABLES:
            sizes[int(np.argmax(sizes))] //= 2
        return sizes
    if isinstance(n_inducing, (int, float, np.number)):
        sizes = [n_inducing]
    else:
        sizes = _named("n_inducing", n_inducing, names, all_names)
    sizes = [check_whole("n_inducing", size) for size in sizes]
    if len(sizes) < len(groups):
        return _shared_out(sizes[0], [X.count(group) for group in groups])
    return sizes


def _shared_out(n: int, counts: list[int]) -> list[int]:
    """Return the sizes of a lattice of at most n points, as even as its coordinates allow.

    >>> _shared_out(50, [20, 9]), _shared_out(50, [20, 3]), _shared_out(10, [500, 60, 80])
    ([7, 7], [16, 3], [2, 2, 2])
    """
    sizes = [1] * len(counts)
    while True:
        room = [i for i, size in enumerate(sizes) if size < counts[i]]
        room = [i for i in room if prod(sizes) // sizes[i] * (sizes[i] + 1) <= n]
        if not room:
            return sizes
        sizes[min(room, key=lambda i: sizes[i])] += 1


def _per_group(
    kernel: KernelSpec, names: list[str], all_names: tuple[str, ...]
) -> list[str | Kernel]:
    if isinstance(kernel, (Mapping, Sequence)) and not isinstance(kernel, str):
        return _named("kernel", kernel, names, all_names)
    return [kernel] * len(names)


def _named[T](
    what: str, values: Sequence[T] | Mapping[str, T], names: list[str], all_names: tuple[str, ...]
) -> list[T]:
    """Return the values for some column groups, given one for each of all."""
    if not isinstance(values, Mapping):
        if len(values) != len(all_names):
            raise ValueError(
                f"{what} has {len(values)} entries for {len(all_names)} column groups "
                f"({', '.join(all_names)}): give one for each."
            )
        values = dict(zip(all_names, values, strict=True))
    if missing := [name for name in names if name not in values]:
        raise ValueError(f"{what} lacks the column group {', '.join(map(repr, missing))}.")
    return [values[name] for name in names]


def _kernel(spec: str | Kernel, group: tuple[int, ...], layout: Layout) -> Kernel:
    """Return a kernel object as it is, or a named kernel over the group's columns."""
    here = [group.index(c) for c in layout.latlon or () if c in group]
    if isinstance(spec, Kernel):
        return _chordal(spec, len(group), here) if here else spec
    if spec not in KERNELS:
        raise ValueError(
            f"There is no kernel {spec!r}. Choose from {', '.join(KERNELS)}, or pass a kernel "
            "object such as zigp.kernels.Matern32(lengthscale=50)."
        )
    family, every = KERNELS[spec], list(range(len(group)))
    levels = [i for i in every if group[i] in layout.categorical]
    rest = [i for i in every if i not in levels and (len(here) < 2 or i not in here)]
    parts: list[Kernel] = [Categorical().on(i) for i in levels]
    if len(here) == 2:
        parts.insert(0, _chordal(family().on(*here), len(group), here))
    if rest:
        parts.append(family().on(*rest))
    if len(parts) > 1 or (len(here) == 2 and here != every):
        return reduce(mul, parts)
    return _chordal(Categorical() if levels else family(), len(group), here)


def _chordal(kernel: Kernel, D: int, latlon: list[int]) -> Kernel:
    """Return a kernel over D columns with distances over the globe on latitude and longitude."""

    def on_globe(leaf: Kernel, columns: tuple[int, ...]) -> Kernel:
        if not isinstance(leaf, Stationary) or len(latlon) < 2 or not {*columns} & {*latlon}:
            return leaf
        if list(columns) == latlon:
            return leaf.with_metric("chordal")
        raise ValueError(
            f"A {type(leaf).__name__} kernel looks at latitude and longitude together with "
            "other columns. Give each its own with .on(): "
            "Matern32().on(0, 1) * Matern32().on(2) if latitude and longitude come first."
        )

    return kernel.map_leaves(on_globe, tuple(range(D)))


def _levels(kernel: Kernel, D: int) -> tuple[int, ...]:
    """Return the columns that a kernel treats as levels, among its D."""
    leaves = kernel.leaves(tuple(range(D)))
    return tuple(
        sorted({c for leaf, columns in leaves if isinstance(leaf, Categorical) for c in columns})
    )
