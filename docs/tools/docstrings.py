"""Check the docstrings of everything public against the numpydoc standard.

    python docs/tools/docstrings.py                               check everything
    python docs/tools/docstrings.py zigp.plots                    check one public module
    python docs/tools/docstrings.py zigp.SparseGPRegressor.fit    check one class or function
    python docs/tools/docstrings.py src/zigp/estimators           check what these files define

Objects are inspected at run time, so that generated docstrings are checked too. The tool prints one
line per problem and exits with status 1 if there are any. The codes are those of numpydoc, and two
more: SS07, a summary that opens with a question word, and AT01, an estimator without Attributes.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from numpydoc.docscrape import get_doc_object
from numpydoc.validate import Validator, validate

import zigp

__all__ = ["Problem", "Public", "problems", "public"]

ROOT = Path(__file__).parents[2]

CODES = {
    *("GL06", "GL07", "GL08"),  # sections that exist, in order; a docstring at all
    *("SS01", "SS02", "SS03", "SS04", "SS05", "SS06"),  # the summary
    *("PR01", "PR02", "PR03", "PR04", "PR07", "PR10"),  # parameters
    *("RT01", "RT03", "YD01", "EX01"),  # what is returned or yielded; an example
}
# Classes that methods return, with the estimator that returns them.
RECORDS = {"zigp.estimators.network.NetworkParts": "GPNetworkRegressor"}
_QUESTION = re.compile(r"(What|How|Where|Whether|Which|Who|Whose|When|Why)\b")


@dataclass(frozen=True)
class Public:
    """A public object under its public name.

    `owner` is the class of a method, or the estimator that returns a record.
    """

    name: str
    value: Any
    owner: type | None = None


@dataclass(frozen=True)
class Problem:
    """A code of numpydoc, its message, and the place of the docstring."""

    place: str
    name: str
    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.name}: {self.code} {self.message}"


class _Validator(Validator):
    """A record without a Parameters section describes its fields under Attributes."""

    def __init__(self, obj_name: Any) -> None:
        # Methods are checked one by one: they are no part of the class's own docstring.
        super().__init__(get_doc_object(obj_name, config={"show_class_members": False}))

    @property
    def doc_all_parameters(self) -> dict:
        documented = super().doc_all_parameters
        if documented or not inspect.isclass(self.obj):
            return documented
        fields = self.signature_parameters
        attributes = self._doc_parameters(["Attributes"])
        return {name: described for name, described in attributes.items() if name in fields}


def public() -> Iterator[Public]:
    """Yield every public function and class, and the methods and properties of the classes.

    A method that several classes inherit is yielded once, for the first of them.
    """
    methods: set[int] = set()
    for name, value in _named_objects():
        yield Public(name, value)
        for method in _methods(name, value) if inspect.isclass(value) else ():
            if id(method.value) not in methods:
                methods.add(id(method.value))
                yield method
    for name, estimator in RECORDS.items():
        yield Public(name, Validator._load_obj(name), getattr(zigp, estimator))


def problems(one: Public) -> Iterator[Problem]:
    """Yield the problems of one docstring."""
    result = validate(one.value, validator_cls=_Validator)
    place = _place(one.value)
    for code, message in result["errors"]:
        if code in CODES and (code != "EX01" or _needs_example(one)):
            yield Problem(place, one.name, code, message)
    if question := _QUESTION.match(result["docstring"]):
        yield Problem(place, one.name, "SS07", f'Summary should not start with "{question[0]}"')
    if hasattr(one.value, "fit") and not _has_section(one.value, "Attributes"):
        yield Problem(place, one.name, "AT01", "No Attributes section found")


def _named_objects() -> Iterator[tuple[str, Any]]:
    # In this order, ZeroInflatedGPRegressor comes first: its example shows the inherited methods.
    for name in sorted(zigp.__all__, reverse=True):
        value = getattr(zigp, name)
        if not isinstance(value, ModuleType):
            yield f"zigp.{name}", value
            continue
        for inner in value.__all__:
            if callable(getattr(value, inner)):
                yield f"zigp.{name}.{inner}", getattr(value, inner)


def _methods(name: str, cls: type) -> Iterator[Public]:
    """Yield the public methods and properties of a class, as far as zigp defines them."""
    for method in dir(cls):
        value = inspect.getattr_static(cls, method)
        value = getattr(value, "__func__", value)
        defined_here = str(getattr(_code(value), "__module__", "")).startswith("zigp.")
        if method[0] == "_" or not defined_here or not isinstance(value, FunctionType | property):
            continue
        if value.__doc__ or not inspect.getdoc(value):  # an override may inherit its docstring
            yield Public(f"{name}.{method}", value, cls)


def _code(value: Any) -> Any:
    """Return the function behind a property or a decorated function, or the object itself."""
    return inspect.unwrap(getattr(value, "fget", None) or value)


def _place(value: Any) -> str:
    """Return the file and line of a definition."""
    code = _code(value)
    file = os.path.relpath(inspect.getsourcefile(code) or "?", ROOT)
    return f"{file}:{inspect.getsourcelines(code)[1]}"


def _needs_example(one: Public) -> bool:
    """Return whether an example is required: not where the example of the class shows a method."""
    if one.owner is None or inspect.isclass(one.value):
        return True
    if isinstance(one.value, property) or not hasattr(one.owner, "fit"):
        return False
    method = one.name.rpartition(".")[2]
    return not re.search(rf"^\s*(>>>|\.\.\.) .*\.{method}\(", one.owner.__doc__ or "", re.M)


def _has_section(value: Any, title: str) -> bool:
    return f"\n{title}\n{'-' * len(title)}\n" in (inspect.getdoc(value) or "")


def _selects(name: str, problem: Problem) -> bool:
    """Return whether a public name, or a file or folder, selects a problem."""
    file = problem.place.rpartition(":")[0]
    return f"{problem.name}.".startswith(f"{name}.") or Path(file).is_relative_to(name)


def main(names: list[str]) -> int:
    """Print the problems of the named objects, or of all, and return the exit status."""
    names = [os.path.relpath(name, ROOT) if os.path.exists(name) else name for name in names]
    every = [problem for one in public() for problem in problems(one)]
    chosen = [p for p in every if not names or any(_selects(name, p) for name in names)]
    print(*chosen, sep="\n")
    print(f"{len(chosen)} problems in docstrings." if chosen else "No problems in docstrings.")
    return int(bool(chosen))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
