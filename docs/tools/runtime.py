"""Show classes in the API reference as Python sees them after import.

The constructors and docstrings of estimators, and the constructors of kernels, are partly
generated. Griffe reads source code, so this extension replaces the signature and the docstring of
these classes by those of the imported class.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import equinox
import griffe
from sklearn.base import BaseEstimator

__all__ = ["RunTime"]

_KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: griffe.ParameterKind.positional_only,
    inspect.Parameter.POSITIONAL_OR_KEYWORD: griffe.ParameterKind.positional_or_keyword,
    inspect.Parameter.VAR_POSITIONAL: griffe.ParameterKind.var_positional,
    inspect.Parameter.KEYWORD_ONLY: griffe.ParameterKind.keyword_only,
    inspect.Parameter.VAR_KEYWORD: griffe.ParameterKind.var_keyword,
}


class RunTime(griffe.Extension):
    """Replace signatures and docstrings by those at run time."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        for cls in _classes(pkg):
            imported = getattr(import_module(cls.module.path), cls.name, None)
            if inspect.isclass(imported) and issubclass(imported, BaseEstimator | equinox.Module):
                _replace(cls, imported)


def _classes(module: griffe.Module) -> list[griffe.Class]:
    """Return the classes that a module and its submodules define."""
    classes = [cls for cls in module.classes.values() if not cls.is_alias]
    for submodule in module.modules.values():
        classes += [] if submodule.is_alias else _classes(submodule)
    return classes


def _replace(cls: griffe.Class, imported: type) -> None:
    parameters = [
        griffe.Parameter(
            name,
            annotation=None if p.annotation is p.empty else str(p.annotation),
            kind=_KINDS[p.kind],
            default=None if p.default is p.empty else repr(p.default),
        )
        for name, p in inspect.signature(imported).parameters.items()
    ]
    constructor = griffe.Function("__init__", parameters=griffe.Parameters(*parameters))
    cls.set_member("__init__", constructor)
    cls.docstring = griffe.Docstring(inspect.getdoc(imported) or "", parent=cls, parser="numpy")
