"""Settings are declared once, and everything else follows from the declaration."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import typer
from fuzz.material import model_file
from sklearn.base import clone
from typer.testing import CliRunner

import zigp
from zigp.cli.data import MODELS, ColumnRoles, new_estimator
from zigp.cli.options import Config, as_toml, default_of, options_of, with_settings
from zigp.estimators import persistence
from zigp.estimators.parameters import Option, estimator, parameter, redeclared

X, Y = np.linspace(0, 1, 12)[:, None], np.arange(12.0)


@pytest.fixture(scope="module")
def toy():
    """An estimator with one more setting than others, which files may hold for a while."""
    with patch.dict(persistence.ESTIMATORS):

        @estimator
        class Toy(zigp.SparseGPRegressor):
            """Regression in colour.

            Examples
            --------
            >>> Toy()
            """

            colour: str = parameter(
                "Colour of the curve.", default="red", choices=("red", "blue"), option=Option()
            )
            marks: int | None = parameter(
                "Number of marks.", default=None, scope="run", option=Option(name="dots", min=1)
            )
            tol: float = redeclared(zigp.SparseGPRegressor, "tol", default=1.0)

        yield Toy


def test_a_new_setting_is_in_the_constructor_and_its_docstring(toy):
    assert clone(toy("matern12", colour="blue")).get_params()["colour"] == "blue"
    assert inspect.signature(toy).parameters["tol"].default == 1.0
    sections = inspect.getdoc(toy).split("\n----------\n")
    assert sections[1].startswith("kernel : str, Kernel, list or dict, default='matern32'\n")
    assert (
        "\ncolour : {'red', 'blue'}, default='red'\n    Colour of the curve."
        "\nmarks : int or None, default=None\n    Number of marks."
        "\ntol : float, default=1.0\n    Training stops once"
    ) in sections[1]
    assert sections[2].count("\nn_iter_ : int") == 1
    assert sections[2].endswith("Examples\n--------\n>>> Toy()")


def test_a_new_setting_is_an_option_and_a_key_of_configuration_files(toy, tmp_path):
    app = typer.Typer(rich_markup_mode=None)

    @app.command()
    @with_settings([toy], "model", "run")
    def draw(context: typer.Context, settings: dict[str, Any], config: Config = None) -> None:
        print(settings["colour"], settings["marks"], settings["n_inducing"])
        print(as_toml(context))

    def typed(*words: str) -> str:
        return CliRunner().invoke(app, words).output

    assert "--colour <red|blue>" in typed("--help")
    assert "Number of marks.  [x>=1]" in typed("--help")
    assert "'green' is not one of 'red', 'blue'" in typed("--colour", "green")
    (tmp_path / "draw.toml").write_text('colour = "blue"\ninducing = {a = 3}\n')
    shown = typed("--config", str(tmp_path / "draw.toml"), "--dots", "3")
    assert shown.startswith("blue 3 {'a': 3}\n")
    assert 'colour = "blue"\ndots = 3' in shown


def test_a_new_setting_is_saved_unless_it_is_of_the_run(toy, tmp_path):
    model = toy(colour="blue", marks=5, steps=1, n_inducing=3).fit(X, Y)
    model.save(tmp_path / "toy.zigp")
    again = zigp.load(tmp_path / "toy.zigp")
    assert (again.colour, again.marks) == ("blue", None)
    with pytest.raises(ValueError, match="but colour, dtype differ from its settings"):
        again.set_params(colour="red", dtype="float32", warm_start=True).fit(X, Y)


def test_a_choice_that_there_is_not_is_named_by_every_estimator(toy):
    with pytest.raises(ValueError, match="colour must be 'red' or 'blue', not 'green'"):
        toy(colour="green").fit(X, Y)
    for cls in persistence.ESTIMATORS.values():
        for one in fields(cls):
            if one.metadata["choices"]:
                with pytest.raises(ValueError, match=f"{one.name} must be .* or .*, not 'neither'"):
                    cls(**{one.name: "neither"}).fit(X, Y)


def test_defaults_on_the_command_line_are_those_of_python():
    options = options_of(MODELS.values(), "model", "training", "run")
    differ = {name for name, one in options.items() if default_of(one) != one.default}
    assert differ == {"likelihood"}
    settings = {one.name: one.default for one in options.values()}
    for name, cls in MODELS.items():
        asked = new_estimator(name, ColumnRoles("y"), settings).get_params()
        differ = {name for name, value in cls().get_params().items() if asked[name] != value}
        assert differ == ({"combine"} if name == "hurdle" else set())


@pytest.mark.parametrize(
    "name",
    ["ready", *(pytest.param(n, marks=pytest.mark.slow) for n in ("class", "hurdle", "network"))],
)
def test_every_learned_attribute_is_documented(name):
    model = zigp.load(model_file(name))
    learned = {name for name in vars(model) if name[0] != "_" and name.endswith("_")}
    attributes = inspect.getdoc(model).split("\nAttributes\n----------\n")[1].split("\n\n")[0]
    documented = {
        name
        for line in attributes.splitlines()
        if line[0] != " "
        for name in line.split(" : ")[0].split(", ")
    }
    assert learned - documented == set()
    if name == "ready":
        assert documented - learned - {"origin_", "draws_"} == {"noise_"}
