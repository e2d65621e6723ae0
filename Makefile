# `make demo` sets up what the demo needs, `make test` and the others add the rest; each once.
# Needed on the machine: Python 3.11 or later, make, a C library. Everything else is fetched, pinned by the lock files.

.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# The demo alone needs a tenth of the packages; where all are there, it needs nothing more.
DEMO_READY := $(or $(wildcard $(READY)),$(VENV)/.demo-ready)
# Three processes for two cores: tests wait for a broker or a time limit more than they compute.
BY_SEVERAL := -n 3 --no-loadscope-reorder

.PHONY: help demo check test test-docker bench chaos lint docs wheel lock clean

help: ## this text
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(DEMO_READY) ## set up what it needs, then the main job on a real broker on this machine
	$(BIN)/kstreams-assign demo

check: $(READY) ## set up, then the tests that need no broker, JVM, Docker or browser: about a minute
	@echo "left out: tests that need a broker, Java, Spark, Node, Go, Docker or a browser, and slow ones; of many cases and generated examples some run; make test has all" >&2
	@HYPOTHESIS_PROFILE=brief $(BIN)/python -m pytest -q -m quick $(or $(ARGS),$(BY_SEVERAL))

test: $(READY) ## set up, then all tests, against the checkout and against the wheel
	$(BIN)/python -m pytest $(or $(ARGS),$(BY_SEVERAL))

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
	@echo "open docs/_build/html/index.html"

wheel: $(READY) ## build the wheel into dist/
	$(BIN)/python -m build --wheel --no-isolation

lock: $(READY) ## pin the dependencies again after a change in pyproject.toml
	$(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/python -m pip install --quiet pip-tools==7.6.2
	$(VENV)/lock/bin/python scripts/lock_packages.py

clean: ## remove everything that was built or installed here
	rm -rf $(VENV) dist build docs/_build docs/reference/api .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/.demo-ready: LOCK := requirements-demo.lock
$(VENV)/.demo-ready: requirements-demo.lock pyproject.toml
	@echo "setting up $(VENV) for the demo: 39 packages (80 MB to fetch, 200 MB on disk), then 46 jars of Apache Kafka (45 MB); about a minute" >&2
	$(SET_UP)

$(READY): LOCK := requirements.lock
$(READY): requirements.lock pyproject.toml
	@echo "setting up $(VENV) for tests and development: $$(grep -c == requirements.lock) packages (700 MB to fetch, 1.7 GB on disk); some minutes" >&2
	$(SET_UP)

define SET_UP
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=python3.12 ...")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python scripts/install_packages.py $(LOCK)
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@
endef
