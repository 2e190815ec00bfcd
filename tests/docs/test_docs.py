"""The code of the documentation runs, its commands and links exist, and its site builds."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import architecture
import measured
import pytest
from blocks import blocks, equal_up_to_rounding, run, shell_lines
from docstrings import public
from hooks import formula
from typer.testing import CliRunner

from zigp.cli.app import COMMANDS, app

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = {page.relative_to(DOCS).with_suffix("").as_posix(): page for page in DOCS.rglob("*.md")}
WITH_CODE = sorted(name for name, page in PAGES.items() if blocks(page.read_text()))
# Pictures that `zigp demo` and the benchmarks draw.
BY_SCRIPTS = {"architecture", "convergence", "demo", "streaming", "calibration", "calibration-rain"}


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_CODE)
def test_code_runs_and_prints_and_draws_what_the_page_shows(name, tmp_path, monkeypatch):
    import matplotlib

    matplotlib.use("agg")
    monkeypatch.chdir(tmp_path)
    _, outcomes = run(PAGES[name])
    for block, outcome in zip(blocks(PAGES[name].read_text()), outcomes, strict=True):
        place = f"{name}, line {block.line}"
        printed = outcome.printed
        assert equal_up_to_rounding(block.printed or "", printed), f"{place} prints\n{printed}"
        assert bool(block.picture) == bool(outcome.figures), f"{place}: pictures"


def test_every_python_block_is_found():
    for page in PAGES.values():
        text = page.read_text()
        assert text.count("```python\n") == len(blocks(text)), page


def test_every_picture_is_shown_and_drawn_by_a_page_or_a_script():
    shown, drawn = set(), set()
    for page in PAGES.values():
        text = page.read_text()
        shown |= {(page.parent / link).resolve() for link in re.findall(r"!\[.*?\]\((.+?)\)", text)}
        drawn |= {(page.parent / b.picture).resolve() for b in blocks(text) if b.picture}
    assert shown == {p.resolve() for p in (DOCS / "images").iterdir() if p.name != "icon.svg"}
    assert {path.stem for path in shown - drawn} == BY_SCRIPTS


def test_numbers_that_differ_are_distinguished():
    assert equal_up_to_rounding("RMSE 0.52, 3 of 4\n", "RMSE  0.521, 3 of 4")
    assert equal_up_to_rounding("array([0., 4.])\n", "array([-0.,  3.99])\n")
    for other in ("RMSE 0.62", "MAE 0.52", ""):
        assert not equal_up_to_rounding("RMSE 0.52", other)


# -- commands -----------------------------------------------------------------------------------


def test_commands_in_pages_exist_with_their_options():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    commands = [
        (name, *shlex.split(line))
        for name, page in PAGES.items()
        for line in shell_lines(page.read_text())
    ]
    assert len(commands) > 10
    for name, program, command, *arguments in commands:
        assert program in ("make", "zigp"), name
        if program == "make":
            assert command in targets, name
        elif command != "--help":
            options = {word for word in arguments if word.startswith("--")}
            assert command in COMMANDS, name
            shown = CliRunner().invoke(app, [command, "--help"]).output
            known = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", shown))
            assert options <= known, f"{name}: zigp {command}"


def test_every_command_has_its_help_on_the_page():
    page = PAGES["command-line"].read_text()
    assert [name for name in COMMANDS if f"{{{{ help {name} }}}}" not in page] == []


# -- numbers, formulas, names -------------------------------------------------------------------


def test_measured_numbers_are_those_of_the_results():
    ratio = json.loads((measured.RESULTS / "gradient.json").read_text())["ratio"]
    marked = "<!-- gradient > ratio:.2f -->"
    assert measured.updated(f"7{marked} of it") == f"{ratio:.2f}{marked} of it"
    with pytest.raises(KeyError, match="ratios"):
        measured.updated("7<!-- gradient > ratios -->")
    pages = [page.read_text() for page in PAGES.values()]
    assert sum(" > " in page and "<!-- " in page for page in pages) >= 2
    assert [page for page in pages if measured.updated(page) != page] == []


def test_formulas_are_drawings_with_their_source():
    drawn = formula(r"\Phi(g)\, f < 1")
    assert 'aria-label="\\Phi(g)\\, f &lt; 1"' in drawn
    assert 'fill="currentColor"' in drawn


def test_the_tests_that_pages_name_exist():
    named = {
        path
        for page in PAGES.values()
        for path in re.findall(r"`(tests/[\w/]+\.py)`", page.read_text())
    }
    assert len(named) > 10
    assert [path for path in named if not (ROOT / path).is_file()] == []


# -- the site -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The pages of the site, built strictly, as text by their path."""
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}  # an advertisement of the theme
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, env=quiet)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return {page: page.read_text() for page in folder.rglob("*.html") if page.name != "404.html"}


@pytest.mark.slow
def test_the_site_has_every_page_and_loads_nothing_from_other_hosts(site):
    root = next(page.parent for page in site if page.stem == "getting-started")
    assert {page.relative_to(root).with_suffix("").as_posix() for page in site} == PAGES.keys()
    loading = r"<(?:script|img|link|iframe)\b[^>]*?(?:src|href)=[\"']?(?:https?:)?//[^\"' >]+"
    assert [page for page, text in site.items() if re.search(loading, text)] == []


@pytest.mark.slow
def test_links_within_the_site_lead_somewhere(site):
    """Links in docstrings and to places within pages are included."""
    for page, text in site.items():
        for link in re.findall(r'href="([^":]*)"', text):
            target, _, anchor = link.partition("#")
            path = (page.parent / target).resolve() if target else page
            assert path.exists(), f"{page.name}: {link}"
            if anchor and path in site:
                assert f'id="{anchor}"' in site[path], f"{page.name}: {link}"


@pytest.mark.slow
def test_every_public_name_is_in_the_reference(site):
    reference = "".join(text for page, text in site.items() if page.parent.name == "api")
    assert [one.name for one in public() if f'id="{one.name}"' not in reference] == []


def test_the_steps_of_the_architecture_page_are_in_the_code():
    page = (DOCS / "architecture.md").read_text()
    steps = re.findall(r"`([\w/]+\.py):(\w+)`", page)
    package = ROOT / "src" / "zigp"
    missing = [
        f"{file}:{name}"
        for file, name in steps
        if not re.search(rf"^\s*(def|class) {name}\b", (package / file).read_text(), re.M)
    ]
    assert len(steps) > 20
    assert architecture.PICTURE.read_text() == architecture.picture()
    assert missing == []
    files = set(re.findall(r"`((?:gp|models|training|data|estimators|cli)/[\w/]*)(?:\.py)?", page))
    assert [
        f for f in files if not (package / f).exists() and not (package / f"{f}.py").exists()
    ] == []
