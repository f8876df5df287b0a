# Everything runs in .venv, which needs only Python 3.11 or newer; the rest is installed from pyproject.toml,
# at the versions in constraints/.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed
# Tests that mostly wait for Spark, or for a browser.
WIDE := $(wildcard tests/spark tests/examples tests/dashboard)
# What `make bench` runs.
PARTS ?= store namesrv broker client up spark
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Else every process that a test, or Spark, starts would compile the modules anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo up test test-wide test-deep lint docs fuzz chaos bench compat clean

help: ## show this
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' Makefile

demo: $(INSTALLED) ## see it all work: orders through a cluster, a group and Spark, to Parquet and a topic (KEEP=1 leaves it up)
	@$(BIN)/python examples/demo.py

up: $(INSTALLED) ## run a whole cluster on this machine until interrupted: NameServer, broker and dashboard
	@$(BIN)/kerolox up $(ARGS)

test: lint ## run the checks and the tests, those with Spark or a browser beside the others; ARGS="tests/store -k crash" runs some
ifdef ARGS
	$(BIN)/pytest -m "not slow" $(ARGS)
else
	@mkdir -p artefacts
	@$(MAKE) --no-print-directory -j2 test-wide test-deep
endif

# Its output would get in the other's way, and is shown when it has ended.
test-wide: $(INSTALLED)
	@$(BIN)/pytest -m "not slow" $(WIDE) > artefacts/test-wide.log 2>&1 || { cat artefacts/test-wide.log; exit 1; }
	@tail -n 5 artefacts/test-wide.log

test-deep: $(INSTALLED)
	$(BIN)/pytest -m "not slow" $(addprefix --ignore=,$(WIDE))

lint: $(INSTALLED) ## run ruff, mypy --strict and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(INSTALLED) ## render the documentation to build/docs; fails on links that lead nowhere
	$(BIN)/python -m docs.build

fuzz: $(INSTALLED) ## throw two million damaged inputs at the codec
	KEROLOX_FUZZ_CASES=2000000 $(BIN)/pytest tests/wire/test_fuzz.py --timeout=0 -q -s $(ARGS)

bench: $(INSTALLED) ## measure the store, and compare NameServer, broker, client and Spark with others in one run (needs Java, Maven and a C compiler)
	@for part in $(PARTS); do echo "python -m bench.$$part $(ARGS)"; $(BIN)/python -m bench.$$part $(ARGS) || exit 1; done

chaos: $(INSTALLED) ## stop, starve and damage stores, kill Spark in mid-batch, and read back what was promised (uses strace)
	$(BIN)/python -m tests.crash.chaos $(ARGS)

compat: $(INSTALLED) ## run Apache RocketMQ's brokers, clients and mqadmin against ours, and what is slow (needs Java and Maven)
	$(BIN)/python -m tests.compat.everything $(ARGS)

clean: ## remove what was built
	rm -rf .venv build dist artefacts .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml $(wildcard constraints/*.txt)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Kerolox needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints/base.txt --constraint constraints/spark.txt --constraint constraints/test.txt --editable ".[test]"
	@touch $@
