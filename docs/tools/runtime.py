"""Show classes in the API reference as Python sees them after import.

The settings of the estimators become constructors and docstrings at import time. Griffe reads source
code, so this extension replaces the signature and the docstring of these classes by those of the
imported class.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import griffe

__all__ = ["RunTime"]

_KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: griffe.ParameterKind.positional_only,
    inspect.Parameter.POSITIONAL_OR_KEYWORD: griffe.ParameterKind.positional_or_keyword,
    inspect.Parameter.VAR_POSITIONAL: griffe.ParameterKind.var_positional,
    inspect.Parameter.KEYWORD_ONLY: griffe.ParameterKind.keyword_only,
    inspect.Parameter.VAR_KEYWORD: griffe.ParameterKind.var_keyword,
}


class RunTime(griffe.Extension):
    """Replace the signatures and docstrings of the estimators by those at run time."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        for cls in _classes(pkg):
            imported = getattr(import_module(cls.module.path), cls.name, None)
            if hasattr(imported, "get_params"):
                _replace(cls, imported)


def _classes(module: griffe.Module) -> list[griffe.Class]:
    """Return the classes of a module and of its submodules."""
    found = list(module.classes.values())
    for submodule in module.modules.values():
        found += _classes(submodule)
    return [cls for cls in found if not cls.is_alias]


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
    cls.docstring = griffe.Docstring(inspect.getdoc(imported) or "", parent=cls)
