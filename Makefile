# make run   set up, test Sherpa on the bundled suite, run the research gate, write reports/
# make test  set up, run the tests
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SUITE ?= fixtures/validation/suite.json

GATE ?= fixtures/validation/synthetic-workflows.json

.PHONY: mutants docs run test test-full test-openclaw lint bench results results-check clean

run: $(VENV)/.run
	@$(BIN)/sherpa validate-suite --input $(SUITE) --output reports/validate-suite.json
	@echo
	@$(BIN)/sherpa research-gate --dataset $(GATE) --output reports/gate

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 -q -m "not full and not openclaw"

test-full: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 -q -m "not openclaw"

# Installs Node and OpenClaw from npm into .openclaw-program (or $$SHERPA_OPENCLAW) and runs them offline.
test-openclaw: $(VENV)/.dev
	$(BIN)/python -m pytest -q -m openclaw

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.run
	$(BIN)/python -m sherpa.cli.reference docs/cli.md
	$(BIN)/python -m harness.openclaw.tools
	$(BIN)/python -m harness.openclaw.manifest

bench: $(VENV)/.run
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks

# Each mutation of the runtime must be found by a test.
mutants: $(VENV)/.dev
	$(BIN)/python -m harness.runtime.bench.mutation

results: $(VENV)/.run
	$(BIN)/python -m experiments.results build

results-check: $(VENV)/.run
	$(BIN)/python -m experiments.results check

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# The stamps make a second call work without a network.
$(VENV)/.run: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@ $(VENV)/.run

clean:
	rm -rf $(VENV) reports build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
