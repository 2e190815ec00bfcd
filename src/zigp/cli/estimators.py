"""The estimators that the options of a command describe."""

from collections.abc import Mapping
from typing import Any

from zigp import HurdleGPRegressor, SparseGPRegressor, ZeroInflatedGPRegressor
from zigp.cli.data import ColumnRoles, Data

MODELS: dict[str, Any] = {
    "gp": SparseGPRegressor,
    "hurdle": HurdleGPRegressor,
    "zigp": ZeroInflatedGPRegressor,
}
# A default that differs from Python's, as that of --likelihood does.
_COMBINE = {"hurdle": {"combine": "expectation"}}


def new_estimator(model: str, columns: ColumnRoles, settings: Mapping[str, Any]) -> Any:
    """Return an estimator with those of the settings that it has."""
    names = MODELS[model]().get_params()
    own = {name: value for name, value in settings.items() if name in names}
    return MODELS[model](latlon=columns.latlon, **own, **_COMBINE.get(model, {}))


def grouped(estimator: Any, columns: ColumnRoles, data: Data) -> Any:
    """Return the estimator with the column groups of a lattice, or of --inducing."""
    sizes, groups = estimator.n_inducing, data.groups
    if isinstance(sizes, dict):
        named = {name: columns.of_group(name) for name in sizes}
        if groups is None:
            have = [column for group in named.values() for column in group]
            groups, wanted = named, [c for c in data.X.columns if c != columns.exposure]
        else:  # dimensions may be named by what runs along them
            dims = {frozenset(group): dim for dim, group in groups.items()}
            sizes = {dims.get(frozenset(named[name]), name): n for name, n in sizes.items()}
            have, wanted = list(sizes), list(groups)
        if set(have) != set(wanted):
            raise ValueError(
                f"--inducing names {', '.join(have)}, but inputs are {', '.join(wanted)}: give a "
                f"number for each, such as {','.join(f'{name}=20' for name in wanted)}, or one "
                "number for all."
            )
    together = [{*(columns.latlon or ())} <= {*group} for group in (data.groups or {}).values()]
    if together and not any(together):  # along axes of their own they have no common distance
        estimator.set_params(latlon=None)
    return estimator.set_params(column_groups=groups, n_inducing=sizes)
