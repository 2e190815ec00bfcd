"""Every public name says what it is in a sentence, and shows an example that runs."""

from __future__ import annotations

import doctest
import functools
import inspect
import os
import re
import sys
from pathlib import Path
from types import ModuleType

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import zigp
from zigp import ZeroInflatedGPRegressor
from zigp.datasets import simulate_rain_grid
from zigp.estimators.network import NetworkParts
from zigp.estimators.parameters import GPSettings

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "tools"))

from blocks import alike

MODULES = [m for m in (getattr(zigp, name) for name in zigp.__all__) if isinstance(m, ModuleType)]
ESTIMATORS = [
    one
    for one in (getattr(zigp, name) for name in zigp.__all__)
    if isinstance(one, type) and hasattr(one, "fit")
]
# What takes long to compile, and is compiled by the everyday tests of these estimators already.
SLOW = (
    "GPNetworkRegressor",
    "HurdleGPRegressor",
    "predict_lattice",
    "NetworkParts",
    "zigp.plots",
    "write_report",
)
NEEDS_THE_DATA = ("load_precipitation", "load_toy", "load_jura")


def case(*arguments: object, name: str) -> object:
    marks = [pytest.mark.slow] if any(slow in name for slow in SLOW) else []
    return pytest.param(*arguments, id=name, marks=marks)


def of_module(module: ModuleType) -> list:
    """What a module offers, one function or class after the other."""
    return [getattr(module, name) for name in module.__all__]


def own_methods(cls: type) -> dict:
    """The public methods and properties that a class of ours defines, not those of its bases."""
    return {
        name: member.fget if isinstance(member, property) else getattr(cls, name)
        for name, member in vars(cls).items()
        if name[0] != "_"
        and (callable(member) or isinstance(member, property | classmethod))
        and inspect.getdoc(getattr(cls, name))
    }


def inherited_methods(cls: type) -> dict:
    """All of them, from ours among the bases too."""
    bases = [base for base in reversed(cls.__mro__) if base.__module__.startswith("zigp.")]
    return {name: method for base in bases for name, method in own_methods(base).items()}


def undocumented(cls: type) -> list[str]:
    """The public methods that a class of ours defines without a docstring of their own."""
    return [
        f"{cls.__name__}.{name}"
        for name, member in vars(cls).items()
        if name[0] != "_" and inspect.isfunction(member) and not member.__doc__
    ]


def opens_with_a_sentence(doc: str | None) -> bool:
    """A first line or two that ends as a sentence does, or leads to a formula or a list."""
    first = (doc or "").strip().split("\n\n")[0]
    return bool(re.match(r"[A-Z0-9−Φlog]", first)) and first.rstrip()[-1:] in (".", ":", "…")


def has_example(*docs: str | None) -> bool:
    return any(">>> " in (doc or "") for doc in docs)


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_names_of_modules_say_what_they_are_and_show_an_example(module):
    assert opens_with_a_sentence(module.__doc__), module
    found = [one for one in of_module(module) if callable(one)]
    assert found
    assert [one.__name__ for one in found if not opens_with_a_sentence(one.__doc__)] == []
    assert [one.__name__ for one in found if not has_example(one.__doc__)] == []


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: e.__name__)
def test_methods_of_estimators_say_what_they_do_and_show_an_example(estimator):
    whole = inspect.getdoc(estimator)
    assert opens_with_a_sentence(whole)
    assert has_example(whole)
    methods = inherited_methods(estimator)
    assert {"fit", "predict", "prob_on", "save", "elbo", "sanity"} & set(methods) >= {"fit", "save"}
    bases = [base for base in estimator.__mro__ if base.__module__.startswith("zigp.")]
    assert [name for base in bases for name in undocumented(base)] == []
    assert [n for n, m in methods.items() if not opens_with_a_sentence(inspect.getdoc(m))] == []
    shown = {n for n in methods if f".{n}(" in whole}
    assert [n for n, m in methods.items() if n not in shown and not has_example(m.__doc__)] == []


# -- that they run ------------------------------------------------------------------------------


class Alike(doctest.OutputChecker):
    """What is printed counts as the same where only the last digits differ."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return super().check_output(want, got, optionflags) or alike(want, got)


def test_examples_are_compared_as_numbers_and_words():
    checker = Alike()
    assert checker.check_output("array([0., 4.])\n", "array([-0.,  3.99])\n", 0)
    assert not checker.check_output("array([0., 4.])\n", "array([0., 3.])\n", 0)
    assert not checker.check_output("True\n", "False\n", 0)


def run_examples(what: object, name: str, names: dict) -> tuple[doctest.TestResults, str]:
    """Run the examples of one docstring, which leave names behind: how many failed, and why."""
    doc = inspect.getdoc(what) or ""
    test = doctest.DocTestParser().get_doctest(doc, names, name, name, 0)
    test.globs = names
    said: list[str] = []
    runner = doctest.DocTestRunner(Alike(), verbose=False)
    runner.run(test, out=said.append, clear_globs=False)
    return runner.summarize(verbose=False), "".join(said)


@pytest.fixture(autouse=True)
def _in_a_folder_with_no_picture(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    plt.close("all")  # the next example would draw into it


@functools.cache
def example(estimator: type) -> dict:
    """The names that the example of an estimator leaves: a fitted model and its data."""
    names = {name: getattr(zigp, name) for name in zigp.__all__}
    names |= {"np": np, "pd": pd, "zigp": zigp, "simulate_rain_grid": simulate_rain_grid}
    found, said = run_examples(estimator, estimator.__name__, names)
    assert found.failed == 0 < found.attempted, said
    return names


def methods_of_estimators() -> list:
    """Each method once: where it is defined, and those of the shared bases for one estimator."""
    return [
        case(estimator, method, name=f"{estimator.__name__}.{name}")
        for estimator in ESTIMATORS
        for name, method in (
            inherited_methods(estimator)
            if estimator is ZeroInflatedGPRegressor
            else own_methods(estimator)
        ).items()
        if has_example(method.__doc__)  # others are shown by their class
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("estimator", "method"), methods_of_estimators())
def test_examples_of_methods_run(estimator, method):
    found, said = run_examples(method, method.__qualname__, dict(example(estimator)))
    assert found.failed == 0 < found.attempted, said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "estimator"),
    [
        case(zigp.load, ZeroInflatedGPRegressor, name="load"),
        case(zigp.open_stream, ZeroInflatedGPRegressor, name="open_stream"),
        case(GPSettings, ZeroInflatedGPRegressor, name="GPSettings"),
        case(zigp.SparseGPRegressor, zigp.SparseGPRegressor, name="SparseGPRegressor"),
        case(NetworkParts, zigp.GPNetworkRegressor, name="NetworkParts"),
    ],
)
def test_other_examples_run(what, estimator):
    found, said = run_examples(what, what.__name__, dict(example(estimator)))
    assert found.failed == 0 < found.attempted, said


def names_of_modules() -> list:
    return [
        case(module, one, name=f"{module.__name__}.{one.__name__}")
        for module in MODULES
        for one in of_module(module)
        if callable(one)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("module", "one"), names_of_modules())
def test_examples_of_modules_run(module, one, request, monkeypatch):
    if one.__name__ in NEEDS_THE_DATA:
        monkeypatch.setitem(os.environ, "ZIGP_DATA", str(request.getfixturevalue("data_dir")))
    names = dict(example(ZeroInflatedGPRegressor)) | vars(module)
    found, said = run_examples(one, one.__name__, names)
    assert found.failed == 0 < found.attempted, said
    for name, method in own_methods(one).items() if isinstance(one, type) else ():
        found, said = run_examples(method, f"{one.__name__}.{name}", names)
        assert found.failed == 0, said
