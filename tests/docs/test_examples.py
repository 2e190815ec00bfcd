"""The scripts in examples/ run, and their results are plausible."""

import re
import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def output_of(name, capsys, monkeypatch, tmp_path, *arguments):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capsys.readouterr().out


@pytest.mark.slow
def test_rain(capsys, monkeypatch, tmp_path):
    out = output_of("rain.py", capsys, monkeypatch, tmp_path)
    scores = {name: float(value) for name, value in re.findall(r"^ +(\w+) (-?[\d.]+)$", out, re.M)}
    assert scores["f1"] > 0.7
    assert 0.8 < scores["coverage90"] <= 1.0
    assert "hour 66:" in out


@pytest.mark.slow
def test_catches(capsys, monkeypatch, tmp_path):
    out = output_of("catches.py", capsys, monkeypatch, tmp_path)
    assert "likelihood: zinb" in out
    assert "zeros, as expected" in out
    index = re.findall(r"^(20\d\d) +([\d.]+)", out, re.M)
    assert [year for year, _ in index] == ["2021", "2022", "2023", "2024", "2025"]
    assert float(index[0][1]) > 1.5 * float(index[-1][1])  # the simulated decline


@pytest.mark.slow
def test_jura(capsys, monkeypatch, tmp_path, data_dir):
    out = output_of("jura.py", capsys, monkeypatch, tmp_path, data_dir)
    errors = [float(value) for value in re.findall(r"error ([\d.]+) ppm", out)]
    assert len(errors) == 3
    assert errors[2] < min(errors[:2])
