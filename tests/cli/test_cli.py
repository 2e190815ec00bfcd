"""The command line in a process of its own."""

import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from zigp.cli.app import COMMANDS, app

ROOT = Path(__file__).parents[2]
ZIGP = Path(sys.executable).with_name("zigp")


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([ZIGP, *arguments], cwd=cwd, capture_output=True, text=True, timeout=300)


def table_rows(text: str, bar: str) -> dict[str, list[float]]:
    """Return the rows of six numbers by the name before them."""
    number = rf" *([0-9.]+) *[{bar}]"
    rows = re.findall(rf"^[{bar}] *(\w+) *[{bar}]{6 * number}$", text, re.M)
    return {name: [float(cell) for cell in cells] for name, *cells in rows}


@pytest.mark.slow
def test_demo_saves_a_figure_and_prints_the_scores_of_the_readme(tmp_path):
    done = run("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "zigp-demo" / "rain.png").stat().st_size > 20_000
    printed = table_rows(done.stdout, "│")
    promised = table_rows((ROOT / "README.md").read_text(), "|")
    assert list(printed) == list(promised) == ["Zero", "GPr", "ZiGP"]
    for model, row in promised.items():
        assert printed[model] == pytest.approx(row, abs=0.03)
    progress = "ZeroInflatedGPRegressor (gated) on a lattice of 40 × 240: step"
    assert progress in done.stderr  # apart from the results


@pytest.mark.slow
def test_compiled_programs_serve_the_next_run(tmp_path, monkeypatch):
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert run("simulate", "--hours", "30", "--out", "rain.csv", cwd=tmp_path).returncode == 0
    typed = ["fit", "rain.csv", "--target", "rain_mm", "--steps", "3", "--quiet", "--force"]
    kept = []
    for _ in range(2):
        assert run(*typed, "--out", "m.zigp", cwd=tmp_path).returncode == 0
        compiled = tmp_path / "cache" / "zigp" / "compiled"
        kept.append(sorted(p.name for p in compiled.iterdir() if p.name.endswith("-cache")))
    assert any(name.startswith("jit_advance") for name in kept[0])
    assert kept[0] == kept[1]


def test_version_prints_the_version_of_the_package(tmp_path):
    done = run("--version", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"zigp {version('zigp')}\n")


def test_a_closed_standard_output_is_reported(tmp_path):
    typed = f"{ZIGP} simulate --stations 2 --hours 2 >&-"
    done = subprocess.run(typed, shell=True, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == "Standard output is closed: choose a file as --out.\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_opens_with_its_line_in_the_list_and_shows_an_example(command):
    shown = CliRunner().invoke(app, [command, "--help"]).output
    assert f"\n\n  {COMMANDS[command]}\n" in shown
    assert f"Example: zigp {command}" in shown


def test_help_lists_the_commands_without_loading_jax():
    code = "import sys; sys.argv = ['zigp', '--help']; from zigp.cli import main\n"
    check = "try:\n    main()\nexcept SystemExit:\n    print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code + check], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "False"
    assert [name for name in COMMANDS if f"  {name} " not in done.stdout] == []
