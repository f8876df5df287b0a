# Everything runs in .venv, which needs only Python 3.11 or newer; the rest is installed from pyproject.toml,
# at the versions in constraints/. `make test-all` has a further environment for each other Python.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# What a user needs, and what the checks and tests need on top of it.
RUNNABLE := $(VENV)/runnable
INSTALLED := $(VENV)/installed
# Tests that mostly wait for Spark, or for a browser; and others that run after them, so that both halves of the suite
# take about the same time.
WIDE := $(wildcard tests/spark tests/examples tests/dashboard)
BESIDE := $(wildcard tests/store tests/crash tests/message tests/local)
# Which lines the tests have run, for each Python.
COVERAGE = artefacts/coverage$(VENV)
# What `make bench` runs.
PARTS ?= store namesrv broker client up spark
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Else every process that a test, or Spark, starts would compile the modules anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo up test test-all test-others test-suite test-wide test-rest test-deep lint docs release fuzz chaos bench compat clean

help: ## show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' Makefile

demo: $(RUNNABLE) ## see it all work: orders through a cluster, a group and Spark, to Parquet and a topic (KEEP=1 leaves it up)
	@$(BIN)/python examples/demo.py

up: $(RUNNABLE) ## run a whole cluster on this machine until interrupted: NameServer, broker and dashboard
	@$(BIN)/kerolox up $(ARGS)

test: lint ## run the checks and the tests, those with Spark or a browser beside the others; ARGS="tests/store -k crash" runs some
	@$(MAKE) --no-print-directory test-suite

test-all: lint ## the same tests on every Python installed, each in an environment of its own, such as .venv-3.13.0
	@$(BIN)/python -m tests.interpreters

test-others: $(INSTALLED) ## on every Python but the one of .venv, the tests without Spark and browser; fails if there is none
	@$(BIN)/python -m tests.interpreters --others

test-suite: $(INSTALLED)
ifdef ARGS
	$(BIN)/pytest -m "not slow" $(ARGS)
else
	@$(MAKE) --no-print-directory -j2 test-wide test-rest
	@$(BIN)/python -m tests.coverage check $(COVERAGE)-wide $(COVERAGE)-rest
endif

# Its output would get in the other's way, and is shown when it has ended.
test-wide: $(INSTALLED)
	@mkdir -p artefacts
	@$(BIN)/python -m tests.coverage run $(COVERAGE)-wide -m "not slow" $(WIDE) $(BESIDE) > artefacts/test-wide.log 2>&1 || { cat artefacts/test-wide.log; exit 1; }
	@tail -n 5 artefacts/test-wide.log

test-rest: $(INSTALLED)
	@mkdir -p artefacts
	$(BIN)/python -m tests.coverage run $(COVERAGE)-rest -m "not slow" $(addprefix --ignore=,$(WIDE) $(BESIDE))

# What `make test-others` runs on each Python.
test-deep: $(INSTALLED)
	@mkdir -p artefacts
	$(BIN)/python -m tests.coverage run $(COVERAGE)-deep -m "not slow" $(addprefix --ignore=,$(WIDE))
	@$(BIN)/python -m tests.coverage check $(COVERAGE)-deep

lint: $(INSTALLED) ## run ruff, mypy --strict (src, tests, bench and docs) and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(INSTALLED) ## render the documentation to build/docs; fails on links that lead nowhere
	$(BIN)/python -m docs.build

release: $(INSTALLED) ## build wheel and sdist in dist/ and check them in clean environments; VERSION=0.1.0 also compiles changes/ into CHANGELOG.md
	$(BIN)/python -m docs.release $(if $(VERSION),--version $(VERSION))

fuzz: $(INSTALLED) ## throw two million damaged inputs at the codec
	KEROLOX_FUZZ_CASES=2000000 $(BIN)/pytest tests/wire/test_fuzz.py --timeout=0 -q -s $(ARGS)

bench: $(INSTALLED) ## measure the store, and compare NameServer, broker, client and Spark with others in one run (needs Java, Maven and a C compiler)
	@for part in $(PARTS); do echo "python -m bench.$$part $(ARGS)"; $(BIN)/python -m bench.$$part $(ARGS) || exit 1; done

chaos: $(INSTALLED) ## stop, starve and damage stores, kill Spark in mid-batch, and read back what was promised (uses strace)
	$(BIN)/python -m tests.crash.chaos $(ARGS)

compat: $(INSTALLED) ## run Apache RocketMQ's brokers, clients and mqadmin against ours, and what is slow (needs Java and Maven)
	$(BIN)/python -m tests.compat.everything $(ARGS)

clean: ## remove what was built
	rm -rf .venv .venv-* build dist artefacts .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

CONSTRAINTS := $(wildcard constraints/*.txt)
INSTALL := $(BIN)/pip install --quiet $(addprefix --constraint ,$(CONSTRAINTS)) --editable

$(RUNNABLE): pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Kerolox needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) ".[dashboard,spark]"
	@touch $@

$(INSTALLED): $(RUNNABLE)
	$(INSTALL) ".[test]"
	@touch $@
