"""Zero-inflated Gaussian processes and sparse Gaussian process networks."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zigp import datasets, diagnostics, kernels, plots, report, special
    from zigp.data.streams import open_stream
    from zigp.estimators import (
        GPNetworkRegressor,
        HurdleGPRegressor,
        SparseGPClassifier,
        SparseGPRegressor,
        ZeroInflatedGPRegressor,
        load,
    )

_MODULES = ("datasets", "diagnostics", "kernels", "plots", "report", "special")
_WHERE = {"open_stream": "zigp.data.streams"}

__all__ = [
    "GPNetworkRegressor",
    "HurdleGPRegressor",
    "SparseGPClassifier",
    "SparseGPRegressor",
    "ZeroInflatedGPRegressor",
    "datasets",
    "diagnostics",
    "kernels",
    "load",
    "open_stream",
    "plots",
    "report",
    "special",
]


def __getattr__(name: str) -> Any:
    # Loaded when first asked for, so that the command line answers at once.
    if name in _MODULES:
        return import_module(f"zigp.{name}")
    if name in __all__:
        return getattr(import_module(_WHERE.get(name, "zigp.estimators")), name)
    raise AttributeError(f"module 'zigp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
