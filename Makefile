# make reproduce   the environment, then the quick edition of every experiment
# make test        the environment if need be, then style, types and all tests
# make .venv       the environment alone

PYTHON ?= python3
BIN := .venv/bin

.PHONY: reproduce test lint

reproduce: .venv
	$(BIN)/iclab reproduce --quick

test: .venv lint
	$(BIN)/pytest

lint: .venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.venv: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "iclab needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --quiet --disable-pip-version-check --editable '.[test,bench]'
	touch .venv
