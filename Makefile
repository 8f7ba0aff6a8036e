# make run   set up, test Sherpa on the bundled suite, write reports/
# make test  set up, run the tests
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SUITE ?= fixtures/validation/suite.json

.PHONY: run test test-full lint bench clean

run: $(VENV)/.run
	@$(BIN)/sherpa validate-suite --input $(SUITE) --output reports/validate-suite.json
	@echo "record: reports/validate-suite.json"

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 -q -m "not full"

test-full: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 -q

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.run
	$(BIN)/python -m benchmarks

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
