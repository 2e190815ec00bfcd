# make setup   an environment in .venv with all that is needed
# make demo    the main job on simulated rain: fit, score, draw
# make test    every test not marked slow
# make check   linter, formatter, types
# make bench   measure against peers (see benchmarks/README.md)

PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup demo test test-slow check format bench bench-check

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null || \
	  { echo "zigp needs Python 3.12 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Install one and run: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv --clear .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: setup
	$(BIN)/zigp demo

test: setup
	$(BIN)/pytest

test-slow: setup
	$(BIN)/pytest -m slow

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

PEER_PYTHON ?= python3.11
GPYTORCH := benchmarks/.peers/gpytorch

bench: setup $(GPYTORCH)/ready
	$(BIN)/python benchmarks/run.py

bench-check: setup
	$(BIN)/python benchmarks/run.py --check

$(GPYTORCH)/ready:
	$(PEER_PYTHON) -m venv $(GPYTORCH)
	$(GPYTORCH)/bin/pip install --quiet --disable-pip-version-check torch==2.13.0 gpytorch
	@touch $@
