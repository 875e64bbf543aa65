# Two commands do everything on a fresh machine with Python 3.11+ and Java 17+: make demo, make test.
.DEFAULT_GOAL := help
SHELL := /bin/bash

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
LIVE := -m "spark or slow"

.PHONY: help demo demo-quick test test-versions check lint unit coverage bench chaos-sim sbom docs dist format lock clean java python

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: java $(READY) ## WordCount under a peak, with and without Tidegate (about 15 minutes)
	$(BIN)/tidegate demo --out out/demo

demo-quick: java $(READY) ## The same, shorter (under five minutes)
	$(BIN)/tidegate demo --quick --out out/demo

test: java $(READY) ## Every test, Spark included
	@nice $(BIN)/python -m tests.versions --install --spark 3.5 4.2 > /dev/null 2>&1 & # used by tests further down
	$(MAKE) --no-print-directory check
	$(BIN)/pytest $(LIVE) --durations=5 || { [ $$? = 1 ] && echo "Repeating the failed tests once, in a fresh process with its own Spark. A test that fails again fails the build; one that passes now has to be fixed." && \
	  $(BIN)/pytest $(LIVE) --last-failed --last-failed-no-failures none; }

check: $(READY) ## Lint, types, layers and the tests that need no Java (under 90 seconds)
	@$(MAKE) --no-print-directory -j2 -Otarget lint unit

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

unit: $(READY) # by file: what the tests of a file share is made once
	$(BIN)/pytest -n 2 --dist worksteal -m "not spark and not slow"

test-versions: java $(READY) ## A plain job on Spark 3.5 to 4.3, embedded, Standalone and YARN; writes docs/versions.md (half an hour)
	$(BIN)/python -m tests.versions

coverage: $(READY) ## Branch coverage of evaluate, plan and control by the tests that need no Java (several minutes)
	@mkdir -p out
	COVERAGE_FILE=out/.coverage $(BIN)/pytest -n 2 -m "not spark and not slow" --cov --cov-report=json:out/coverage.json
	$(BIN)/python tools/coverage.py out/coverage.json

bench: java $(READY) ## Overhead of monitoring and control beside a running job, as a ratio
	$(BIN)/python benchmarks/overhead.py

chaos-sim: $(READY) ## The fleet under 10 000 seeds of faults, simulated (about 20 minutes)
	$(BIN)/python -m tests.simfleet --seeds 10000

sbom: $(READY) ## A bill of materials, as CycloneDX JSON in out/sbom.json
	$(BIN)/python tools/sbom.py --out out/sbom.json

docs: $(READY) ## The documentation as a site, in out/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "out/site/index.html"

dist: $(READY) ## Build product and laboratory, install each in a clean environment and try it (needs the network)
	$(BIN)/python tools/dist.py

format: $(READY) ## Format the code
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .

lock: ## Pin the dependencies again (needs uv)
	uv pip compile pyproject.toml --all-extras --group dev --group docs --universal --generate-hashes --no-emit-index-url --python-version 3.11 -o requirements.lock

clean: ## Remove the environment and all generated files
	rm -rf $(VENV) out .mypy_cache .ruff_cache .pytest_cache .hypothesis

python:
	@[ -n "$(PYTHON)" ] || { echo "Tidegate needs Python 3.11 or newer, and none was found on the PATH." \
	  "Install it (Debian, Ubuntu: apt-get install python3 python3-venv; macOS: brew install python) or say make PYTHON=/path/to/python." >&2; exit 2; }

java:
	@java=$${JAVA_HOME:+$$JAVA_HOME/bin/}java; \
	version=$$($$java -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1); \
	[ "$${version:-0}" -ge 17 ] || { echo "Spark needs Java 17 or newer; found: $${version:-none}." \
	  "Install it (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17) or point JAVA_HOME at it." >&2; exit 2; }

$(READY): requirements.lock pyproject.toml lab/pyproject.toml | python
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "$(PYTHON) has no venv module. Install it (Debian, Ubuntu: apt-get install python3-venv)." >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . -e lab
	@touch $(READY)
