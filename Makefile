# make setup   an environment in .venv with all that is needed
# make demo    the main job on simulated rain: fit, score, draw
# make test    every test not marked slow
# make test-peers  the same numbers as GPflow and GPyTorch, built in environments of their own
# make test-oldest  the same with the oldest JAX that pyproject.toml allows
# make check   run the linters, the formatter and the type checker
# make coverage  the same tests; fails where a room of the mathematics is covered by less than 90 %
# make mutants   small wrong changes to the mathematics, by cosmic-ray: how many do no tests notice? (hours)
# make fuzz    ten thousand generated cases of bad input
# make docs    build the documentation in site/ and check its links
# make wheel-check  the wheel and the source archive, tried in an empty environment
# make bench   measure against peers and write docs/performance.md (see benchmarks/README.md)
# make bench-check  fail where what was measured is worse than promised
# make performance-page  write docs/performance.md from what was measured
# make study   how far intervals can be trusted, by simulation and on rain: docs/calibration.md

PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup demo test test-slow test-peers fuzz check format docs wheel-check bench bench-check performance-page test-oldest coverage mutants study study-page

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null || \
	  { echo "zigp needs Python 3.12 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Install one and run: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv --clear .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,docs]'
	@touch $@

demo: setup
	$(BIN)/zigp demo

test: setup
	$(BIN)/pytest

test-oldest: build/oldest/ready
	build/oldest/bin/pytest

OLDEST = $(shell sed -n 's/.*"jax>=\([0-9.]*\)".*/\1/p' pyproject.toml)

build/oldest/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear build/oldest
	sed 's/^\(jax\|jaxlib\)==.*/\1==$(OLDEST)/' constraints.txt > build/oldest/constraints.txt
	build/oldest/bin/pip install --quiet --disable-pip-version-check --constraint build/oldest/constraints.txt --editable '.[dev,docs]'
	@touch $@

test-slow: setup
	$(BIN)/pytest -m slow

# Where the mathematics is.
ROOMS := math gp models training

coverage: setup
	$(BIN)/pytest --cov --cov-report=
	$(BIN)/coverage report
	@low=; for room in $(ROOMS); do \
	  $(BIN)/coverage report --fail-under=90 --include="src/zigp/$$room.py,src/zigp/$$room/*" >/dev/null || \
	  low="$$low $$room"; done; [ -z "$$low" ] || { echo "less than 90 % covered:$$low" >&2; exit 1; }

# In a copy, so that no change is left in the working tree.
mutants: setup
	rm -rf build/mutants && mkdir -p build/mutants && cp -r src tests pyproject.toml cosmic-ray.toml build/mutants
	cd build/mutants && export PYTHONPATH=src PATH=$(CURDIR)/$(BIN):$$PATH && \
	  cosmic-ray init cosmic-ray.toml session.sqlite && cr-filter-operators session.sqlite cosmic-ray.toml && \
	  cosmic-ray exec cosmic-ray.toml session.sqlite && cr-report --surviving-only --show-diff session.sqlite

fuzz: setup
	$(BIN)/python -m tests.fuzz --cases 10000 --commands 200 --record

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python docs/tools/docstrings.py

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir site
	@echo "The documentation is in site/index.html."

# An empty environment with nothing of the checkout in reach.
wheel-check: setup
	rm -rf build/wheel-check
	$(BIN)/python -m build --outdir build/wheel-check/dist .
	$(PYTHON) -m venv build/wheel-check/env
	build/wheel-check/env/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt build/wheel-check/dist/*.whl
	cd build/wheel-check && env/bin/zigp demo --help && env/bin/zigp demo --out demo

# The peers live apart, each in an environment of its own with the versions of benchmarks/peers.
PEER_PYTHON ?= python3.11
PEERS := benchmarks/.peers

test-peers: setup $(PEERS)/gpytorch/ready $(PEERS)/gpflow/ready
	$(BIN)/pytest -m peers --numprocesses 0 tests/peers

bench: setup $(PEERS)/gpytorch/ready $(PEERS)/gpflow/ready
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/floor.py
	$(BIN)/python benchmarks/convergence.py $(ZIGP_DATA)
	$(BIN)/python benchmarks/trainers.py $(ZIGP_DATA)
	$(BIN)/python benchmarks/streaming.py
	$(BIN)/python benchmarks/compile_network.py
	$(BIN)/python benchmarks/stranger.py $(ZIGP_DATA)
	$(BIN)/python benchmarks/cube.py
	$(BIN)/python benchmarks/page.py

bench-check: setup
	$(BIN)/python benchmarks/check.py

performance-page: setup
	$(BIN)/python benchmarks/page.py

study: setup
	$(BIN)/python benchmarks/calibration.py

study-page: setup
	$(BIN)/python benchmarks/calibration_page.py

$(PEERS)/%/ready: benchmarks/peers/%.txt
	$(PEER_PYTHON) -m venv --clear $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@
