"""Show classes in the API reference as Python sees them after import.

Estimators, kernels and records are dataclasses: their constructors are generated, and so are parts
of some docstrings. Griffe reads source code, so this extension replaces the signature and the
docstring of these classes by those of the imported class. It also writes types and defaults as
numpydoc does: griffe takes "int, list or None" for a tuple, and the first of some choices for the
default.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
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
    """Replace signatures and docstrings by those at run time, and write types as numpydoc does."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        for module in _modules(pkg):
            for cls in _defined(module.classes):
                imported = getattr(import_module(module.path), cls.name, None)
                if is_dataclass(imported):
                    _replace(cls, imported)
                for documented in (cls, *_defined(cls.functions)):
                    _write_types(documented)
            for function in _defined(module.functions):
                _write_types(function)


def _defined(members: Mapping[str, Any]) -> list[Any]:
    """Return the members that are defined here, not imported."""
    return [member for member in members.values() if not member.is_alias]


def _modules(module: griffe.Module) -> Iterator[griffe.Module]:
    """Yield a module and its submodules."""
    yield module
    for submodule in module.modules.values():
        if not submodule.is_alias:
            yield from _modules(submodule)


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


def _write_types(documented: griffe.Function | griffe.Class) -> None:
    """Correct the types and defaults in the tables of parameters and attributes."""
    for section in documented.docstring.parsed if documented.docstring else ():
        if section.kind.value not in ("parameters", "attributes"):
            continue
        for entry in section.value:
            if isinstance(entry.annotation, griffe.ExprTuple):
                entry.annotation = _type(entry.annotation)
            if section.kind.value == "parameters" and entry.name in documented.parameters:
                entry.value = documented.parameters[entry.name].default


def _type(alternatives: griffe.ExprTuple) -> str:
    """Return "int, list or None", and choices in braces."""
    words = [str(element) for element in alternatives.elements]
    listed = ", ".join(words)
    return f"{{{listed}}}" if all(word[0] in "'\"" for word in words) else listed
