# Every target sets itself up: a fresh machine needs only Python >= 3.11, make and git.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKERS ?= auto

.PHONY: demo test test-slow check format bench docs reproduce clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

$(READY): pyproject.toml
	@test -n "$(PYTHON)" || { echo "ocbnn needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing ocbnn and what it needs into $(VENV) (once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(READY)  ## the main job on an embedded example
	@$(BIN)/ocbnn demo

test: $(READY)  ## the quick tests, in parallel
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

test-slow: $(READY)  ## the long tests too
	@XLA_FLAGS= $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m slow

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
	@missed=; for file in $(filter-out benchmarks/densities.py,$(wildcard benchmarks/*.py)); do \
		echo "== $$file"; PYTHONPATH=. $(BIN)/python $$file || missed="$$missed $$file"; \
	done; test -z "$$missed" || { echo "below their target:$$missed"; exit 1; }

docs: $(READY)  ## the documentation, into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

reproduce: $(READY)  ## the paper's figures in our setting, and whether every bound is met
	@$(BIN)/python -m reproduce all --setting ours --out reproduced --check

clean:  ## remove what the targets made
	rm -rf $(VENV) build dist site reproduced .mypy_cache .ruff_cache .import_linter_cache
