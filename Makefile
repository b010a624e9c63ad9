# Every recipe works on a fresh machine with Python 3.11 or newer; `make` alone lists them.

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && command -v "$$p" && break; done)
BIN := .venv/bin
MODEL := $(CURDIR)/.venv/cems-model
BENCHES := $(filter-out bench/__init__.py bench/measure.py bench/capture_shapes.py,$(wildcard bench/[a-z]*.py))

help:  ## list the recipes
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/ready  ## make .venv with the program and all that tests and benches need

.venv/ready: pyproject.toml
	@test -n "$(PYTHON)" || { echo "error: Python 3.11 or newer is needed"; exit 1; }
	@test -x $(BIN)/python || "$(PYTHON)" -m venv .venv || { \
		echo "error: Python cannot make an environment; on Debian or Ubuntu install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --upgrade --disable-pip-version-check 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . --group dev
	@touch $@

demo: setup  ## see it work on sample sessions; leaves nothing running
	CEMS_EMBEDDING_MODEL_DIR="$(MODEL)" $(BIN)/python demo.py

up: setup  ## run it on your own sessions, in the foreground
	$(BIN)/cems up

test: setup  ## run the whole test-suite
	CEMS_TEST_MODEL_DIR="$(MODEL)" $(BIN)/python -m pytest -n 2 $(ARGS)

lint: setup  ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

schema: setup  ## write db/schema.sql anew after a migration
	$(BIN)/python -m tests.schema_file

docs: setup  ## write the generated documents anew
	$(BIN)/python -m tests.docs_files

bench: setup  ## run every benchmark, quickly
	@for b in $(BENCHES); do $(BIN)/python $$b --quick --json || exit 1; done

clean:  ## remove what the recipes made
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis dist

.PHONY: help setup demo up test lint schema docs bench clean
.DEFAULT_GOAL := help
