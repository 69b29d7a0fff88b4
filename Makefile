# lagbench: `make rehearse` is the first thing to try. Python packages go into .venv,
# what else is fetched into ~/.cache/lagbench.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.installed-dev
UV_VERSION := 0.13.9
SCENARIO ?= hello
TARGET ?= embedded
ARGS ?=

.PHONY: help install install-dev lock proto rehearse own-consumers ui down test test-all test-measured test-slow \
  test-rehearsals test-integration test-kubernetes test-compose in-kubernetes beside-kubernetes record sbom licences audit \
  check docs format bench pictures picture-own-dag clean

help: ## Show the targets.
	@grep -hE '^[a-z0-9.-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

install: $(STAMP) ## Install everything into .venv (idempotent).

$(STAMP): requirements.txt pyproject.toml
	@test "$$(uname -s)" = Linux \
	  || { echo "lagbench needs Linux, and this is $$(uname -s). Windows: WSL2; macOS: docker compose (docs/kubernetes.md)."; exit 3; }
	@test "$$(uname -m)" = x86_64 || echo "lagbench has been tried on x86-64 alone, and this is $$(uname -m)."
	@test -d $(VENV) || test "$$(df -Pk . | awk 'NR==2 {print int($$4 / 1048576)}')" -ge 5 \
	  || { echo "lagbench needs 5 GB of free disk here, 2 of them for .venv. Free some, then try again."; exit 3; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "lagbench needs Python 3.11 or newer; $(PYTHON) is older: make PYTHON=python3.12 ..."; exit 3; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	test "$$($(BIN)/uv --version 2>/dev/null | cut -d' ' -f2)" = "$(UV_VERSION)" \
	  || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	$(BIN)/python -m compileall -q include plugins spark_jobs
	$(BIN)/python -m lagbench.embedded.jars
	$(BIN)/python -c "from lagbench.project import state_dir; \
	  from lagbench.orchestrator.airflow_environment import prepare_database; \
	  prepare_database(state_dir())"
	@touch $(STAMP)
	@echo "Installed. For the command lagbench in this shell: source $(VENV)/bin/activate"

install-dev: $(DEV_STAMP) ## Install what tests and checks need, too.

$(DEV_STAMP): $(STAMP) requirements-dev.txt
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements-dev.txt
	@touch $(DEV_STAMP)

COMPILE := $(BIN)/uv pip compile --generate-hashes --universal --python-version 3.11 \
  --no-annotate --quiet --custom-compile-command "make lock"

lock: ## Compile requirements.txt and, with its versions, those for development and of the images.
	$(COMPILE) pyproject.toml --extra build -o requirements.txt
	$(COMPILE) pyproject.toml --extra build --extra dev -c requirements.txt -o requirements-dev.txt
	for image in programs spark postgres; do \
	  $(COMPILE) k8s/images/$$image.in -c requirements.txt -o k8s/images/$$image.txt || exit 1; done

.env: ## Make the secrets of docker compose, once.
	@umask 077; while IFS= read -r line; do case "$$line" in \
	  *=) printf '%s%s\n' "$$line" "$$(head -c 32 /dev/urandom | base64 | tr '+/' '-_')" ;; \
	  *) printf '%s\n' "$$line" ;; esac; done <.env.example >$@
	@echo "wrote .env; Airflow's user is admin, its password AIRFLOW_ADMIN_PASSWORD there"

include k8s/kind/kind.mk

proto: install-dev ## Generate the gRPC modules from externalscaler.proto.
	$(BIN)/python -m grpc_tools.protoc -Iinclude --python_out=include --pyi_out=include \
	  --grpc_python_out=include include/lag_scaler/wire/externalscaler.proto

rehearse: install ## Run a rehearsal: SCENARIO=hello ARGS="--seed 7" TARGET=kind|context:NAME.
	@$(BIN)/lagbench run $(SCENARIO) --target "$(TARGET)" $(ARGS)

own-consumers: install ## Build the examples of own consumers in Java and Go (needs javac, go).
	$(BIN)/python -m lagbench.embedded.example_consumers $(ARGS)

ui: install ## Start Airflow with its web UI, the bench (or TARGET=…) and the Dags.
	@$(BIN)/lagbench ui --target "$(TARGET)" $(ARGS)

down: ## Stop everything that was started.
	@test ! -x $(BIN)/lagbench || $(BIN)/lagbench down

# The tiers are pytest's markers (pyproject.toml). What measures runs alone, the rest several files at a time
# in the order given: the longest first, so that no process is left with one at the end.
FILES := --dist loadfile --no-loadscope-reorder
OTHERS := browser or cluster or compose
# Where tests start processes: to look for them elsewhere takes half a minute.
STARTING := tests/integration tests/contract
test: install-dev ## Run the tests of every promise in 8 minutes (docs/testing.md); ARGS: what to run instead.
ifneq ($(strip $(ARGS)),)
	$(BIN)/python -m pytest $(ARGS)
else
	@failed=0; set -x; \
	$(BIN)/python -m pytest -n 3 $(FILES) -m "smoke or not (slow or measured or $(OTHERS))" || failed=1; \
	$(BIN)/python -m pytest tests/e2e -m "measured and not slow" || failed=1; \
	exit $$failed
endif

# Kubernetes mostly waits: all that is not measured runs beside it.
test-all: install-dev ## Run all that `make test` leaves out, the next four (as root, on Debian 12).
	@failed=0; mkdir -p build; $(MAKE) test-measured || failed=1; \
	$(MAKE) -k -j2 in-kubernetes beside-kubernetes || failed=1; \
	cat build/kubernetes.log build/compose.log; exit $$failed

in-kubernetes: install-dev
	@$(MAKE) test-kubernetes ARGS='-m "cluster and not measured"' >build/kubernetes.log 2>&1

beside-kubernetes: install-dev
	@failed=0; $(MAKE) test-rehearsals || failed=1; \
	$(MAKE) test-compose >build/compose.log 2>&1 || failed=1; \
	$(MAKE) test-integration || failed=1; exit $$failed

test-measured: install-dev ## Run the rehearsals that measure, on one machine and on a real Kubernetes.
	@failed=0; set -x; \
	$(BIN)/python -m pytest tests/e2e -m "measured and slow" || failed=1; \
	$(BIN)/python -m tests.cluster -m "cluster and measured" || failed=1; \
	exit $$failed

test-slow: install-dev ## Run the rest against real brokers, localkube, Spark, Airflow, Chromium: rehearsals, then three files at a time.
	@failed=0; $(MAKE) test-rehearsals || failed=1; $(MAKE) test-integration || failed=1; exit $$failed

test-rehearsals: install-dev
	$(BIN)/python -m pytest tests/e2e -m "slow and not measured"

test-integration: install-dev
	$(BIN)/python -m pytest $(STARTING) -n 3 $(FILES) -m "(slow or browser) and not (smoke or measured or cluster)"

test-kubernetes: install-dev ## Run the suite that needs a real Kubernetes with KEDA (builds it the first time).
	$(BIN)/python -m tests.cluster $(ARGS)

# What the conformance tests compare with. KUBERNETES and KEDA choose versions of tests/cluster/rig/versions.toml.
record: install-dev ## Record the truth again: KUBERNETES=1.37 KEDA=2.21 ONLY=hpa,lag,webhook,traces KEEP=1.
	@KUBERNETES="$(KUBERNETES)" KEDA="$(KEDA)" ONLY="$(ONLY)" KEEP="$(KEEP)" $(BIN)/python -m tests.cluster.record

test-compose: install-dev ## Build the images and run docker compose on an engine of its own.
	$(BIN)/python -m tests.compose $(ARGS)

# CycloneDX's files come here: hashes by lock, and licences of what is installed.
SBOM ?= build/sbom
CYCLONEDX := $(BIN)/uv tool run --quiet --from cyclonedx-bom==7.5.0 cyclonedx-py
CYCLONEDX_OUTPUT = $(ARGS) --output-reproducible --output-format JSON --output-file $(SBOM)

sbom: install ## Write the SBOM of each lock of Python packages and of .venv into build/sbom (CycloneDX).
	@mkdir -p $(SBOM)
	for lock in requirements*.txt k8s/images/*.txt; do \
	  $(CYCLONEDX) requirements $$lock $(CYCLONEDX_OUTPUT)/$$(basename $$lock .txt).cdx.json || exit 1; done
	$(CYCLONEDX) environment $(BIN)/python $(CYCLONEDX_OUTPUT)/environment.cdx.json

licences: sbom ## Write third-party-licences.csv from the SBOM of .venv.
	$(BIN)/python -m tests.licences $(SBOM)/environment.cdx.json

audit: install-dev ## Ask which locked versions were yanked or have known vulnerabilities.
	@$(BIN)/python -m tests.audit $(ARGS)

check: install-dev ## Import contracts, lint, formatting, types, plain English.
	PYTHONPATH=plugins:spark_jobs $(BIN)/lint-imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m tests.plain_english
	@$(MAKE) --no-print-directory docs

docs: install-dev ## Build the site of the docs into build/site; a dead link fails.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

format: install-dev ## Format and fix what can be fixed.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: install-dev ## Measure producer, consumers, Spark, lag scaler, pages of 1,000 runs (minutes).
	PYTHONPATH=plugins $(BIN)/python -m tests.benchmarks $(ARGS)

pictures: install-dev ## Take the pictures of the pages from the kept runs, and those of a run: RUN=runs/ID (chromium).
	PYTHONPATH=plugins $(BIN)/python -m tests.pictures $(if $(RUN),"$(RUN)")

picture-own-dag: install-dev ## Run the example of an own Dag and take its picture in Airflow's UI (5 minutes; chromium).
	PYTHONPATH=plugins $(BIN)/python -m tests.own_dag_picture

clean: down ## Remove the environment, state and caches of this checkout (not runs/).
	rm -rf $(VENV) .lagbench .mypy_cache .ruff_cache .pytest_cache
