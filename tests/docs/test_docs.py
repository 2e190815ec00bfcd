"""The documentation: its code runs and prints what it says, its commands exist, its site builds."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import zigp
from zigp.cli import app

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "tools"))

from blocks import alike, blocks, run, shell_lines
from hooks import formula
from measured import renewed

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
WITH_CODE = [page for page in PAGES if blocks(page.read_text())]
# Pictures that no page draws: `zigp demo` draws the first, benchmarks the others.
BY_SCRIPTS = {"convergence", "demo", "streaming", "calibration", "calibration-rain"}


def name_of(page: Path) -> str:
    return page.relative_to(DOCS).with_suffix("").as_posix()


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_code_in_pages_runs_and_prints_and_draws_what_it_says(page, tmp_path, monkeypatch):
    import matplotlib

    matplotlib.use("agg")
    monkeypatch.chdir(tmp_path)
    _, outcomes = run(page)
    for block, outcome in zip(blocks(page.read_text()), outcomes, strict=True):
        place = f"{name_of(page)}, line {block.line}"
        said = outcome.printed
        assert alike(block.printed or "", said), f"{place} prints\n{said}"
        assert bool(block.picture) == bool(outcome.figures), f"{place}: pictures"


def test_pages_with_code_are_those_we_know():
    """A page whose code is not found would not be run either."""
    assert {name_of(page) for page in WITH_CODE} >= {
        "choosing", "coming-from", "getting-started", "index", "model", "predictions",
        "tutorials/catches", "tutorials/network", "tutorials/rain",
    }  # fmt: skip
    for page in PAGES:
        assert page.read_text().count("```python\n") == len(blocks(page.read_text())), page


def test_every_picture_is_drawn_by_a_page_and_shown_in_one():
    shown = {
        (page.parent / link).resolve()
        for page in PAGES
        for link in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text())
    }
    drawn = {
        (page.parent / block.picture).resolve()
        for page in PAGES
        for block in blocks(page.read_text())
        if block.picture
    }
    kept = {path.resolve() for path in (DOCS / "images").iterdir() if path.name != "icon.svg"}
    assert shown == kept
    assert {path.stem for path in shown - drawn} == BY_SCRIPTS


def test_numbers_that_differ_are_told_apart():
    assert alike("RMSE 0.52, 3 of 4\n", "RMSE  0.521, 3 of 4")
    assert not alike("RMSE 0.52", "RMSE 0.62")
    assert not alike("RMSE 0.52", "MAE 0.52")
    assert not alike("True", "")


# -- commands -----------------------------------------------------------------------------------


def commands() -> list[tuple[str, list[str]]]:
    return [
        (name_of(page), shlex.split(line))
        for page in PAGES
        for line in shell_lines(page.read_text())
    ]


def options_of(command: str) -> set[str]:
    told = CliRunner().invoke(app, [command, "--help"])
    assert told.exit_code == 0, f"zigp {command}: {told.output}"
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", told.output))


def test_commands_in_pages_exist_with_their_options():
    typed = commands()
    assert len(typed) > 10
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    for page, (program, *words) in typed:
        if program == "make":
            assert words[0] in targets, page
            continue
        assert program == "zigp", page
        if words == ["--help"]:
            continue
        given = {word for word in words if word.startswith("--")}
        assert given <= options_of(words[0]), f"{page}: zigp {' '.join(words)}"


def test_every_command_has_its_help_on_the_page():
    told = CliRunner().invoke(app, ["--help"]).output
    names = re.findall(r"^  ([a-z]+) ", told[told.index("Commands") :], re.M)
    assert {"fit", "predict", "evaluate"} < set(names)
    page = (DOCS / "command-line.md").read_text()
    assert [name for name in names if f"{{{{ help {name} }}}}" not in page] == []


# -- tables and numbers -------------------------------------------------------------------------


def settings_listed() -> dict[str, dict[str, str]]:
    """The settings and defaults of each table of the page, by the heading above it."""
    found: dict[str, dict[str, str]] = {}
    heading = ""
    for line in (DOCS / "api" / "settings.md").read_text().splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        if row := re.match(r"\| `(\w+)` \| `(.*?)` \|", line):
            found.setdefault(heading, {})[row[1]] = row[2]
    return found


@pytest.mark.parametrize(
    "name",
    ["ZeroInflatedGPRegressor", "HurdleGPRegressor", "GPNetworkRegressor", "SparseGPRegressor"],
)
def test_the_page_of_settings_lists_them_all_with_their_defaults(name):
    listed = settings_listed()
    fields = dataclasses.fields(getattr(zigp, name))
    expected = {field.name: repr(field.default) for field in fields}
    assert listed["Settings"] | listed.get(name, {}) == expected


def test_measured_numbers_are_read_from_the_results():
    result = json.loads((ROOT / "benchmarks" / "results" / "gradient.json").read_text())
    number = f"{result['ratio']:.2f}<!-- gradient > ratio:.2f --> of it"
    assert renewed("7<!-- gradient > ratio:.2f --> of it") == number
    with pytest.raises(KeyError, match="ratios"):
        renewed("7<!-- gradient > ratios -->")


def test_measured_numbers_in_pages_are_those_of_the_results():
    pages = [page.read_text() for page in sorted((ROOT / "docs").rglob("*.md"))]
    assert sum(" > " in page and "<!-- " in page for page in pages) >= 2
    assert [page for page in pages if renewed(page) != page] == []


def test_formulas_are_drawings_with_their_source():
    drawn = formula(r"\Phi(g)\, f < 1")
    assert 'aria-label="\\Phi(g)\\, f &lt; 1"' in drawn
    assert 'fill="currentColor"' in drawn


# -- the site -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}  # an advertisement of the theme's
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, env=quiet)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


@pytest.mark.slow
def test_the_site_has_every_page_and_loads_nothing_from_elsewhere(site):
    built = {page.relative_to(site).with_suffix("").as_posix() for page in site.rglob("*.html")}
    assert built - {"404"} == {name_of(page) for page in PAGES}
    loading = r"<(?:script|img|link|iframe)\b[^>]*?(?:src|href)=[\"']?(?:https?:)?//[^\"' >]+"
    for page in site.rglob("*.html"):
        assert re.findall(loading, page.read_text()) == [], page


@pytest.mark.slow
def test_links_within_the_site_lead_somewhere(site):
    """Also those in docstrings, and to places within pages."""
    for page in site.rglob("*.html"):
        if page.name == "404.html":
            continue
        for link in re.findall(r'href="([^":]*)"', page.read_text()):
            target, _, anchor = link.partition("#")
            found = (page.parent / target) if target else page
            assert found.exists(), f"{page.name}: {link}"
            if anchor and found.suffix == ".html":
                assert f'id="{anchor}"' in found.read_text(), f"{page.name}: {link}"


@pytest.mark.slow
def test_every_public_name_is_in_the_reference(site):
    reference = "".join(page.read_text() for page in (site / "api").glob("*.html"))
    modules = ("datasets", "diagnostics", "kernels", "plots", "special")
    names = [f"zigp.{m}.{n}" for m in modules for n in getattr(zigp, m).__all__]
    names += [
        f"zigp.estimators.{n}.fit" for n in zigp.__all__ if n.endswith(("Regressor", "Classifier"))
    ]
    assert [name for name in names if f'id="{name}"' not in reference] == []


def test_the_tests_that_the_page_of_reliability_names_are_there():
    page = (DOCS / "reliability.md").read_text()
    files = {path.name: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    named = set(re.findall(r"`(test_\w+)`", page))
    assert len(named) > 25
    every = "\n".join(files.values())
    assert sorted(name for name in named if f"def {name}(" not in every) == []
    assert set(re.findall(r"`(test_\w+\.py)`", page)) <= files.keys()
