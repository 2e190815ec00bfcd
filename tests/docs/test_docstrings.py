"""The examples in public docstrings run; docs/tools/docstrings.py checks the other sections."""

import doctest
import functools
import inspect

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from blocks import equal_up_to_rounding
from docstrings import Public, problems, public

import zigp
from zigp.datasets import simulate_rain_grid

WITH_EXAMPLES = [one for one in public() if ">>> " in (inspect.getdoc(one.value) or "")]


class RoundingChecker(doctest.OutputChecker):
    """Accept output in which only the last digits differ."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return super().check_output(want, got, optionflags) or equal_up_to_rounding(want, got)


def run_example(what: object, names: dict) -> dict:
    """Run the example in a docstring, and return the names with those that it defines."""
    test = doctest.DocTestParser().get_doctest(inspect.getdoc(what) or "", names, "", "", 0)
    report: list[str] = []
    runner = doctest.DocTestRunner(RoundingChecker(), verbose=False)
    results = runner.run(test, out=report.append, clear_globs=False)
    assert results.failed == 0 < results.attempted, "".join(report)
    return test.globs


@functools.cache
def example_of(estimator: type) -> dict:
    """Return the names that the example of an estimator defines: a fitted model and its data."""
    names = {name: getattr(zigp, name) for name in zigp.__all__}
    names |= {"np": np, "pd": pd, "zigp": zigp, "simulate_rain_grid": simulate_rain_grid}
    return run_example(estimator, names)


@pytest.fixture(autouse=True)
def _empty_folder_without_figures(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    plt.close("all")  # the next example would draw into it


@pytest.mark.slow
@pytest.mark.parametrize("one", WITH_EXAMPLES, ids=lambda one: one.name)
def test_examples_run(one, request, monkeypatch):
    if one.name.startswith("zigp.datasets.load_"):
        monkeypatch.setenv("ZIGP_DATA", str(request.getfixturevalue("data_dir")))
    if hasattr(one.value, "fit"):
        example_of(one.value)
    elif hasattr(one.owner, "fit"):
        run_example(one.value, example_of(one.owner))
    else:
        module = vars(inspect.getmodule(one.value))
        run_example(one.value, module | example_of(zigp.ZeroInflatedGPRegressor))


def test_examples_are_found():
    names = {one.name for one in WITH_EXAMPLES}
    assert {"zigp.load", "zigp.SparseGPRegressor", "zigp.plots.fit_1d"} <= names


def test_undocumented_parameters_and_results_are_reported():
    def double(x):
        """Return twice x."""
        return 2 * x

    codes = {problem.code for problem in problems(Public("double", double))}
    assert codes == {"PR01", "RT01", "EX01"}
