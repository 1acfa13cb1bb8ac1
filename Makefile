# `make` lists the targets. Each sets up what it needs (.venv, Java) the first time and is quick afterwards.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
# Tests and the demo start hundreds of processes of Python. Without stored bytecode each would compile everything again.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
# What is installed, from the extras of pyproject.toml: to run Fairlead, and to work on it.
RUN_EXTRAS := spark network console security
DEV_EXTRAS := dev
PYTEST := $(BIN)/python -m pytest
WITH_JAVA := JAVA_HOME="$$(scripts/java)"; export JAVA_HOME;

.PHONY: help demo test check fmt bench bench-docs bench-history chaos golden soak docs lock hooks clean java found-chromium found-java found-mosquitto run-env dev-env lint types pictures site

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: found-java run-env ## Show Fairlead at work on sample data
	@$(WITH_JAVA) $(BIN)/fairlead demo --out build/demo

# Each process that tests Spark has a session of its own, so these tests run apart from the others.
test: found-java found-chromium found-mosquitto lint types ## Run the linters and every test
	@$(WITH_JAVA) scripts/tests --ignore tests/spark
	@$(WITH_JAVA) scripts/tests tests/spark

check: found-java found-mosquitto lint types site ## Run the quick checks: ruff, mypy, import directions, the site, the documentation's examples
	@$(WITH_JAVA) $(PYTEST) tests/arch tests/docs

fmt: dev-env ## Format the code and mend what ruff can mend
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format .

bench: found-java run-env ## Measure, side by side with what one would use instead
	@$(WITH_JAVA) $(BIN)/fairlead bench matching --out build/bench
	@$(WITH_JAVA) $(BIN)/fairlead bench correlation --quick --out build/bench

bench-docs: found-java run-env ## On an idle machine: measure everything for hours, and write the tables of docs/performance.md anew
	@$(WITH_JAVA) $(BIN)/fairlead bench pipeline --large --out build/bench --update docs/performance.md
	@$(WITH_JAVA) $(BIN)/fairlead bench correlation --out build/bench --update docs/performance.md
	@$(WITH_JAVA) $(BIN)/fairlead bench matching --peers --out build/bench --update docs/performance.md
	@cp build/bench/*.png docs/images/

bench-history: run-env ## Measure a little, and add a row to lab/bench-history.json: this machine, this commit
	@$(BIN)/python -m fairlead_lab.bench.history lab/bench-history.json

chaos: dev-env ## Break brokers for ten minutes, and write what came of it into docs/reliability.md
	@$(BIN)/python -m fairlead_lab.chaos --write docs/reliability.md

golden: found-java found-chromium found-mosquitto dev-env ## Write the golden files anew; read the difference before you commit it
	@$(WITH_JAVA) $(PYTEST) --golden

soak: found-java found-chromium found-mosquitto dev-env ## Run every test with many random examples, the long ones included
	@$(WITH_JAVA) HYPOTHESIS_PROFILE=soak scripts/tests --ignore tests/spark
	@$(WITH_JAVA) HYPOTHESIS_PROFILE=soak $(PYTEST) tests/spark

docs: pictures site ## Take the console's pictures, and build the documentation as a site, with the API reference, into build/site

pictures: found-java found-chromium dev-env
	@$(WITH_JAVA) $(PYTEST) --golden -q tests/console/views/test_browser.py tests/spark/test_watching.py

site: dev-env
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

lock: dev-env ## Write requirements.lock anew: the newest versions that pyproject.toml allows, for every Python
	@$(BIN)/python -m pip install --quiet uv
	@printf -- '-e .[dev]\n-e lab\n' | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --upgrade \
	  --no-header --no-annotate --no-emit-package fairlead --no-emit-package fairlead-lab - -o requirements.lock

hooks: dev-env ## Let git run the quick checks before each commit
	@$(BIN)/pre-commit install

clean: ## Remove .venv, caches and build products
	@rm -rf .venv .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

java: ## Print the home of a Java 17 or newer; install it where there is none
	@scripts/java

found-chromium:
	@scripts/chromium >/dev/null

found-mosquitto:
	@scripts/mosquitto >/dev/null

found-java:
	@scripts/java >/dev/null

run-env:
	@scripts/setup $(RUN_EXTRAS)

dev-env:
	@scripts/setup $(DEV_EXTRAS)

lint: dev-env
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check . || { echo "Not formatted: run 'make fmt'." >&2; exit 1; }

types: dev-env
	@$(BIN)/mypy
