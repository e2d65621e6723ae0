# `make demo` and `make test` do everything; the first of them sets up, once.
# Needed on the machine: Python 3.11 or later, make, a C library. Everything else is fetched, pinned by requirements.lock.

.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Most tests wait for a broker more than they compute, so two processes share them.
ALL := -n 2 --no-loadscope-reorder

.PHONY: help demo test test-docker bench chaos lint docs wheel lock clean

help: ## this text
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(READY) ## set up, then the main job on a real broker on this machine
	$(BIN)/kstreams-assign demo

test: $(READY) ## set up, then all tests, against the checkout and against the wheel
	$(BIN)/python -m pytest $(or $(ARGS),$(ALL))

test-docker: $(READY) ## set up, then the tests with brokers and workers in containers alone
	$(BIN)/python -m pytest tests/docker $(ARGS)

bench: $(READY) ## set up, then measure ours against the peers (ARGS=--quick for a few seconds)
	$(BIN)/python -m bench $(ARGS)

chaos: $(READY) ## set up, then a group under faults for ten minutes (SEED=7 SECONDS=120 GUARANTEE=exactly_once_v2)
	$(BIN)/python -m tests.chaos $(if $(SEED),--seed $(SEED)) $(if $(SECONDS),--seconds $(SECONDS)) \
		$(if $(GUARANTEE),--guarantee $(GUARANTEE)) $(ARGS)

lint: $(READY) ## style, types, and who may import whom (the tests run these too)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(READY) ## build the documentation site into docs/_build/html (a warning is an error)
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --builder html docs docs/_build/html

wheel: $(READY) ## build the wheel into dist/
	$(BIN)/python -m build --wheel --no-isolation

lock: $(READY) ## pin the dependencies anew after a change in pyproject.toml
	$(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/python -m pip install --quiet pip-tools==7.6.2
	$(VENV)/lock/bin/python scripts/lock_packages.py

clean: ## remove everything that was built or installed here
	rm -rf $(VENV) dist build docs/_build docs/reference/api .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=python3.12 ...")'
	@echo "setting up $(VENV): $$($(PYTHON) --version), $$(grep -c == requirements.lock) locked packages" >&2
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@
