# Every target sets itself up: a fresh machine needs only Python >= 3.11, make and git.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
USABLE := $(VENV)/.usable
RELEASE := .venv-release
LOWEST := .venv-lowest
# Made by benchmarks/tables.py, where it is missing.
PEERS := .venv-peers
# The oldest Python that is there: old versions have no wheels for newer ones.
LOWEST_PYTHON ?= $(or $(shell for p in python3.11 python3.12 python3.13; do $$p -c '' 2>/dev/null && echo $$p && break; done),$(PYTHON))
# `make test-lowest SHORT=1`: help, a fit, saving, loading, predictions, checks, lint and a report.
SMOKE := tests/test_package.py tests/cli/test_commands.py tests/cli/test_lint_command.py
WORKERS ?= auto

.PHONY: help demo test test-slow test-lowest check format bench docs reproduce release clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "ocbnn needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -m venv $(VENV)

# What users need, and nothing else.
$(USABLE): pyproject.toml | $(VENV)/bin/python
	@echo "installing ocbnn and what it needs into $(VENV) (once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(READY): pyproject.toml | $(VENV)/bin/python
	@echo "installing ocbnn and the tools of its developers into $(VENV) (once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(USABLE)

demo: $(USABLE)  ## the main job on an embedded example
	@$(BIN)/ocbnn demo

test: $(READY)  ## the quick tests, in parallel
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

test-slow: $(READY)  ## the long tests too
	@XLA_FLAGS= $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m slow

$(LOWEST)/.ready: pyproject.toml tools/lowest.py
	@test -x $(LOWEST)/bin/python || $(LOWEST_PYTHON) -m venv $(LOWEST)
	@echo "installing ocbnn and the lowest versions it allows into $(LOWEST) (once) ..."
	@$(LOWEST)/bin/python tools/lowest.py > $(LOWEST)/lowest.txt
	@$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check --constraint $(LOWEST)/lowest.txt --editable '.[dev,bench]'
	@touch $@

test-lowest: $(LOWEST)/.ready  ## the quick tests with the lowest versions that pyproject.toml allows
	@JAX_COMPILATION_CACHE_DIR=$(CURDIR)/$(LOWEST)/compiled $(LOWEST)/bin/python -m pytest -n $(WORKERS) --dist loadfile $(if $(SHORT),$(SMOKE))

check: $(READY)  ## lint, format, types, and the order of the modules
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(READY)  ## let ruff put the code in shape
	@$(BIN)/ruff check --fix . || true
	@$(BIN)/ruff format .

$(VENV)/.ready-bench: $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@touch $@

bench: $(VENV)/.ready-bench  ## speed, as ratios against peers in one run
	@missed=; for file in $(filter-out $(addprefix benchmarks/,densities.py worth.py fairness.py),$(wildcard benchmarks/*.py)); do \
		echo "== $$file"; PYTHONPATH=. $(BIN)/python $$file || missed="$$missed $$file"; \
	done; test -z "$$missed" || { echo "below their target:$$missed"; exit 1; }

docs: $(READY)  ## the documentation, into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

reproduce: $(READY)  ## the paper's figures in our setting, and whether every bound is met
	@$(BIN)/python -m reproduce all --setting ours --out reproduced --check

release:  ## build wheel and sdist into dist/, check them, and try the wheel in an environment of its own
	@test -n "$(PYTHON)" || { echo "ocbnn needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	@rm -rf dist $(RELEASE) && $(PYTHON) -m venv $(RELEASE)/tools && $(PYTHON) -m venv $(RELEASE)/clean
	@$(RELEASE)/tools/bin/python -m pip install --quiet --disable-pip-version-check build twine
	@$(RELEASE)/tools/bin/python -m build --outdir dist .
	@$(RELEASE)/tools/bin/python -m twine check --strict dist/*
	@$(RELEASE)/clean/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	@cd $(RELEASE) && clean/bin/ocbnn --version && clean/bin/ocbnn demo --out demo && clean/bin/ocbnn verify demo/model

clean:  ## remove what the targets made
	rm -rf $(VENV) $(LOWEST) $(PEERS) $(RELEASE) build dist site reproduced .mypy_cache .ruff_cache .import_linter_cache
