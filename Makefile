# make reproduce   make the environment, then run the quick edition of every experiment
# make test        style, types and all tests (about ten minutes on two cores the first time, which compiles)
# make test-ray    the tests of the Ray executor on three nodes of one machine
# make test-fast   the tests of the daily loop (about a minute on two cores, more the first time, which compiles)
# make test-nightly  what takes too long for every day: thousands of odd requests, faults of processes and file systems
# make test-text   real sentences from end to end: M-tab6 and M-tab7 on some of TEXT_DATA (installs the extra text)
# make numbers     read every number in README and docs from the full edition in STORE, and say which is printed otherwise
# make test-lowest   the fast tests with the lowest versions that pyproject.toml allows (constraints-lowest.txt)
# make test-dist   the wheel and the source archive, built, installed into a new environment and used outside the clone
# make docs        the documentation site in site/, notebooks executed; a warning or a dead link fails
# make dist        the wheel and the source archive in dist/
# make cards       compute the cards that come with iclab again, after a change of the suite (docs/score.md)
# make lint        style and types alone
# make .venv       the environment alone

PYTHON ?= python3
BIN := .venv/bin

.PHONY: reproduce test tests test-fast test-nightly test-ray test-text test-lowest test-dist docs dist cards numbers lint

reproduce: .venv
	$(BIN)/iclab reproduce --quick

# One core checks the types while tests begin on the other.
test: .venv
	$(MAKE) --no-print-directory --jobs=2 lint tests

tests:
	$(BIN)/pytest -n auto --dist worksteal -m "not ray and not nightly"

test-fast: .venv
	$(BIN)/pytest -n auto --dist worksteal -m "not slow and not ray and not nightly"

test-nightly: .venv
	$(BIN)/pytest -n auto --dist worksteal -m nightly

test-ray: .venv
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --quiet --disable-pip-version-check --editable '.[ray]'
	$(BIN)/pytest -m ray tests/lab

TEXT_DATA ?= rotten-tomatoes

test-text: .venv
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --quiet --disable-pip-version-check --editable '.[test,bench,text]'
	$(BIN)/pytest tests/text
	HF_HUB_OFFLINE=1 $(BIN)/iclab run M-tab6 M-tab7 --quick --text-data $(TEXT_DATA) --out results/text \
	    --set train_sentences=400 --set test_sentences=150

STORE ?= results/store

numbers: .venv
	PYTHONPATH=tools $(BIN)/python -m quotes --store $(STORE) $(OPTIONS)

test-lowest:
	$(PYTHON) -m venv build/lowest
	PIP_CONSTRAINT=constraints-lowest.txt build/lowest/bin/pip install --quiet --disable-pip-version-check --editable '.[test]'
	build/lowest/bin/pytest -n auto --dist worksteal -m "not slow and not ray and not nightly"

dist: .venv
	rm -rf dist
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m build

test-dist: dist
	$(BIN)/python tools/check_dist.py dist

docs: .venv
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --quiet --disable-pip-version-check --editable '.[docs]'
	$(BIN)/pytest --quiet tests/test_docs.py
	$(BIN)/python tools/docs/assemble.py build/docs
	PYTHONPATH=tools/docs $(BIN)/zensical build --strict --clean
	$(BIN)/python tools/docs/check_site.py site

FAMILIES := mamba linear softmax deep-mamba deep-linear deep-softmax

cards: .venv
	for family in $(FAMILIES); do \
	    $(BIN)/iclab score $$family --quick --out results/score && \
	    cp results/score/$$family.json src/iclab/score/cards/ || exit 1; \
	done

lint: .venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.venv: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "iclab needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --quiet --disable-pip-version-check --editable '.[test,bench]'
	touch .venv
