# lagbench: `make rehearse` is the first thing to try. Python packages go into .venv,
# what else is fetched into ~/.cache/lagbench.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
UV_VERSION := 0.13.9
SCENARIO ?= quick_spike
TARGET ?= embedded
ARGS ?=

.PHONY: help install lock proto rehearse own-consumers ui down test test-unit test-integration test-e2e \
  test-kubernetes test-compose sbom audit check format bench pictures picture-own-dag clean

help: ## Show the targets.
	@grep -hE '^[a-z.-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

install: $(STAMP) ## Install everything into .venv (idempotent).

$(STAMP): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "lagbench needs Python 3.11 or newer; $(PYTHON) is older: make PYTHON=python3.12 ..."; exit 3; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	test "$$($(BIN)/uv --version 2>/dev/null | cut -d' ' -f2)" = "$(UV_VERSION)" \
	  || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	$(BIN)/python -m compileall -q include plugins spark_jobs
	$(BIN)/python -m lagbench.embedded.jars
	$(BIN)/python -c "from lagbench.embedded.bench import state_dir; \
	  from lagbench.orchestrator.airflow_environment import prepare_database; \
	  prepare_database(state_dir())"
	@touch $(STAMP)

COMPILE := $(BIN)/uv pip compile --generate-hashes --universal --python-version 3.11 \
  --no-annotate --quiet --custom-compile-command "make lock"

lock: ## Compile requirements.txt and, with its versions, those of the images.
	$(COMPILE) pyproject.toml --extra dev -o requirements.txt
	for image in programs spark postgres; do \
	  $(COMPILE) k8s/images/$$image.in -c requirements.txt -o k8s/images/$$image.txt || exit 1; done

.env: ## Make the secrets of docker compose, once.
	@umask 077; while IFS= read -r line; do case "$$line" in \
	  *=) printf '%s%s\n' "$$line" "$$(head -c 32 /dev/urandom | base64 | tr '+/' '-_')" ;; \
	  *) printf '%s\n' "$$line" ;; esac; done <.env.example >$@
	@echo "wrote .env; Airflow's user is admin, its password AIRFLOW_ADMIN_PASSWORD there"

include k8s/kind/kind.mk

proto: install ## Generate the gRPC modules from externalscaler.proto.
	$(BIN)/python -m grpc_tools.protoc -Iinclude --python_out=include --pyi_out=include \
	  --grpc_python_out=include include/lagbench/wire/externalscaler.proto

rehearse: install ## Run a rehearsal: SCENARIO=quick_spike ARGS="--seed 7" TARGET=kind|context:NAME.
	@$(BIN)/lagbench run $(SCENARIO) --target "$(TARGET)" $(ARGS)

own-consumers: install ## Build the examples of own consumers in Java and Go (needs javac, go).
	$(BIN)/python -m lagbench.embedded.example_consumers $(ARGS)

ui: install ## Start Airflow with its web UI, the bench (or TARGET=…) and the Dags.
	@$(BIN)/lagbench ui --target "$(TARGET)" $(ARGS)

down: ## Stop everything that was started.
	@test ! -x $(BIN)/lagbench || $(BIN)/lagbench down

# JUNIT=FOLDER also writes what pytest found there.
JUNIT ?=
junit = $(if $(JUNIT),--junitxml=$(JUNIT)/$(1).xml)
# A file of tests runs in one process, in the order below: most of their time is waiting.
PARALLEL := -n 2 --dist loadfile --no-loadscope-reorder
# It computes and waits for nothing: however slow the cores are, it finds the same.
SPARK := tests/integration/test_accounting_mutations.py
# Their facts are measures, so they have the machine to themselves.
MEASURED := tests/e2e/test_rehearsal.py tests/e2e/test_nightly.py
# The other rehearsals are judged by identity, at any speed. The longest files come first, so that
# neither of the two processes is left with one at the end.
LONGEST := $(patsubst %,tests/%.py,e2e/test_faults integration/test_spark_consumer \
  e2e/test_interruptions e2e/test_wrong_consumers e2e/test_experiment e2e/test_second_group)
WAITING := $(LONGEST) $(filter-out $(LONGEST) $(SPARK) $(MEASURED),$(sort \
  $(foreach folder,e2e integration integration/*,$(wildcard tests/$(folder)/test_*.py))))
SUITES := test-unit test-spark test-integration test-e2e

test: install ## Run all tests but those that need a real Kubernetes or a container engine; ARGS: what to run instead.
ifneq ($(strip $(ARGS)),)
	$(BIN)/python -m pytest $(ARGS)
else
	@failed=0; for part in $(SUITES); do \
	  $(MAKE) --no-print-directory $$part || failed=1; done; exit $$failed
endif

test-unit: install ## Run the tests that start nothing.
	$(BIN)/python -m pytest tests/unit tests/conformance $(PARALLEL) $(call junit,unit) $(ARGS)

test-spark: install ## Run Spark's accounting on runs with known faults.
	$(BIN)/python -m pytest $(SPARK) $(call junit,spark) $(ARGS)

test-integration: install ## Run the tests against real brokers, localkube, Spark, Airflow, two at a time.
	$(BIN)/python -m pytest $(WAITING) $(PARALLEL) $(call junit,integration) $(ARGS)

test-e2e: install ## Run the whole rehearsals that measure, one after the other.
	$(BIN)/python -m pytest $(MEASURED) $(call junit,e2e) $(ARGS)

test-kubernetes: install ## Run the suite that needs a real Kubernetes with KEDA (as root; builds it the first time).
	$(BIN)/python -m tests.cluster $(call junit,kubernetes) $(ARGS)

test-compose: install ## Build the images and run docker compose on an engine of its own (as root, Debian 12).
	$(BIN)/python -m tests.compose $(call junit,compose) $(ARGS)

# CycloneDX's files come here: hashes by lock, and licences of what is installed.
SBOM ?= build/sbom
CYCLONEDX := $(BIN)/uv tool run --quiet --from cyclonedx-bom==7.5.0 cyclonedx-py
CYCLONEDX_OUTPUT = $(ARGS) --output-reproducible --output-format JSON --output-file $(SBOM)

sbom: install ## Write the SBOM of each lock of Python packages and of .venv into build/sbom (CycloneDX).
	@mkdir -p $(SBOM)
	for lock in requirements.txt k8s/images/*.txt; do \
	  $(CYCLONEDX) requirements $$lock $(CYCLONEDX_OUTPUT)/$$(basename $$lock .txt).cdx.json || exit 1; done
	$(CYCLONEDX) environment $(BIN)/python $(CYCLONEDX_OUTPUT)/environment.cdx.json

audit: install ## Ask which locked versions were yanked or have known vulnerabilities.
	@$(BIN)/python -m tests.audit $(ARGS)

check: install ## Import contracts, lint, formatting, types, plain English.
	PYTHONPATH=plugins:spark_jobs $(BIN)/lint-imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m tests.plain_english

format: install ## Format and fix what can be fixed.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: install ## Measure producer, consumers, Spark, pod start, Dag overhead (minutes).
	$(BIN)/python -m tests.benchmarks $(ARGS)

pictures: install ## Take the pictures of README and docs anew from a run: RUN=runs/ID (needs Debian's chromium).
	PYTHONPATH=plugins $(BIN)/python -m tests.pictures "$(RUN)"

picture-own-dag: install ## Run the example of an own Dag and take its picture in Airflow's UI (5 minutes; chromium).
	PYTHONPATH=plugins $(BIN)/python -m tests.own_dag_picture

clean: down ## Remove the environment, state and caches of this checkout (not runs/).
	rm -rf $(VENV) .lagbench .mypy_cache .ruff_cache .pytest_cache
