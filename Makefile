# Every target prepares what it needs by itself. `make` alone lists them.
PYTHON := .venv/bin/python
PYTEST := $(PYTHON) -m pytest
LINT_IMPORTS := .venv/bin/lint-imports --no-logo

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-deep bench lint clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 12

setup: ## system packages, .venv, dependencies (scripts/bootstrap)
	@scripts/bootstrap

demo: setup ## box an example agent and show what it could and could not do
	@.venv/bin/axonkernel demo

test: setup ## import contracts and all tests that take seconds
	@$(LINT_IMPORTS)
	@$(PYTEST) --hypothesis-profile=ci $(ARGS)

test-deep: setup ## all tests, the slow ones and 10,000 examples per property included
	@$(PYTEST) --hypothesis-profile=deep --timeout=3600 -m "" $(ARGS)

bench: ## the cost table, as ratios; also in bench/results.json
	@scripts/bootstrap bench
	@$(PYTHON) -m bench $(ARGS)

lint: setup ## ruff, mypy --strict, import contracts, sizes
	@status=0; \
	$(PYTHON) -m ruff check || status=1; \
	$(PYTHON) -m ruff format --check --quiet || { echo "run: ruff format"; status=1; }; \
	$(PYTHON) -m mypy || status=1; \
	$(LINT_IMPORTS) || status=1; \
	$(PYTHON) scripts/sizes.py; \
	exit $$status

clean: ## remove .venv, caches and build results
	@rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
