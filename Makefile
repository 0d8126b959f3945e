# `make help` lists the targets. Everything is installed into .venv, nothing outside of this folder.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
SHELL := /bin/bash
# Else each process would compile all that it imports, and pytest would rewrite all tests each time.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
PYTEST_ARGS ?=

# What benchmarks compare with, and nothing else uses.
BYTEWAX := bytewax==0.21.1
PYFLINK := apache-flink==2.3.0
# What `make mutants` alone uses.
MUTMUT := mutmut==3.8.1
# What `make sbom` and `make audit` alone use, each in an environment of its own.
CYCLONEDX := cyclonedx-bom==7.5.0
PIP_AUDIT := pip-audit==2.10.1
IMAGES := operator runtime

# `make run` runs $(EXAMPLE)/run. VERIFY=1 compares the result with that of plain Python.
EXAMPLE ?= examples/word-count
RUN_ARGS ?=

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: setup
setup: ## make .venv with everything in it (the other targets do this by themselves)
	@scripts/bootstrap

.PHONY: run
run: setup ## run the word count on this machine (VERIFY=1 checks the result)
	@$(EXAMPLE)/run $(if $(VERIFY),--verify) $(RUN_ARGS)

# 5 is pytest's word for no test.
UNIT_PYTEST = $(BIN)/pytest -q tests/unit -n auto -m "not slow" --drawn
.PHONY: check
check: lint ## linters, types, layers, and the unit tests that the change can reach
	@echo "pytest …" && { $(UNIT_PYTEST) --reached $(PYTEST_ARGS) || [ $$? -eq 5 ]; }

.PHONY: check-all
check-all: lint ## linters, types, layers and all unit tests: some minutes
	@echo "pytest …" && $(UNIT_PYTEST) $(PYTEST_ARGS)

.PHONY: lint
lint: setup ## linters, types and layers only
	@echo "ruff …" && $(BIN)/ruff check --quiet && $(BIN)/ruff format --check --quiet
	@echo "mypy …" && $(BIN)/mypy --no-error-summary
	@echo "lint-imports …" && scripts/quietly $(BIN)/lint-imports --no-logo

# Spark starts in half the time with its classes kept ready, and without them as well. So does the
# Kafka of tests.
.PHONY: classes
classes: setup ## make every start of Spark faster: takes a minute, once
	@$(BIN)/python -m fulmen.engine.spark.class_training || echo "Spark will start more slowly."
	@PYTHONPATH=tests $(BIN)/python -m support.servers.kafka_classes || echo "Kafka will start more slowly."

# Of each run of pytest: .ci/run makes a table of them.
results_in = $(if $(FULMEN_RESULTS),--junitxml=$(FULMEN_RESULTS)/$(1).xml)
# Three at a time: a test of Spark or of a server waits much, and takes a gigabyte of memory.
ENGINE_PYTEST = PATH="$$PATH:$$(go env GOPATH 2>/dev/null)/bin" $(BIN)/pytest tests/engine -n 3 \
	--dist loadfile --no-loadscope-reorder
# What PYTEST_ARGS selects may be in one of two runs only: 5 is pytest's word for no test.
NONE_IS_FINE = $(if $(PYTEST_ARGS),|| [ $$? -eq 5 ])
# Of each matrix only what the seed draws.
DRAWN = --drawn
.PHONY: test
test: classes ## unit tests, and one real run of each thing that only Spark or a server can show
	@$(BIN)/pytest tests/unit -n auto $(DRAWN) $(call results_in,unit) $(PYTEST_ARGS) $(NONE_IS_FINE)
	@$(ENGINE_PYTEST) -m "not thorough and not slow" $(DRAWN) $(call results_in,engine) $(PYTEST_ARGS) $(NONE_IS_FINE)

.PHONY: test-thorough
test-thorough: classes ## what is too dear for each change, such as runs that are killed again and again
	@$(ENGINE_PYTEST) -m "thorough and not slow" $(call results_in,thorough) $(PYTEST_ARGS)

.PHONY: test-all
test-all: DRAWN =
test-all: test test-thorough ## every test that needs no cluster: hours
	@$(ENGINE_PYTEST) -m slow $(PYTEST_ARGS)

# Any cluster: IMAGE_LOAD="kind load docker-image" make test-cluster. See docs/development.md.
.PHONY: bench-compare
bench-compare: setup ## what is slower than REF, another revision: some ten minutes
	@$(BIN)/python -m benchmarks.compare $(REF)

.PHONY: test-cluster
test-cluster: setup ## tests on the Kubernetes cluster of KUBECONFIG
	@scripts/cluster-tests $(PYTEST_ARGS)

.PHONY: docs
docs: setup ## the documentation as a searchable site, in artifacts/site
	@$(BIN)/python scripts/option_tables.py
	@NO_MKDOCS_2_WARNING=1 scripts/quietly $(BIN)/mkdocs build --strict
	@echo "artifacts/site/index.html"

# On a cluster, that of KUBECONFIG: make soak SOAK_ROUNDS=100, or SOAK_SECONDS=3600
SOAK_ROUNDS ?=
SOAK_SECONDS ?=
.PHONY: soak
soak: classes ## an hour of random kills on this machine, which ends with its figures
ifeq ($(SOAK_ROUNDS)$(SOAK_SECONDS),)
	@PYTHONPATH=tests $(BIN)/python -m support.soaks.soak $(SOAK_ARGS)
else
	@FULMEN_ROUNDS=$(SOAK_ROUNDS) FULMEN_SECONDS=$(SOAK_SECONDS) $(BIN)/pytest tests/cluster/test_chaos.py -m cluster -s $(PYTEST_ARGS)
endif

# Of all groups that scripts/mutants.py lists, or: make mutants MUTANTS_OF="plan acking"
MUTANTS_OF ?=
.PHONY: mutants
mutants: setup ## break pure code in one place at a time, and list what no test notices
	@$(BIN)/python scripts/mutants.py '$(MUTMUT)' $(MUTANTS_OF)

.PHONY: bench
bench: classes ## measure latency and throughput on this machine (BENCH_ARGS=--small: a minute)
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps '$(BYTEWAX)'
	@$(BIN)/python -m benchmarks $(BENCH_ARGS)

# In an environment of its own: it wants older versions of what Fulmen needs. setuptools has the
# pkg_resources that it imports.
artifacts/pyflink: | setup
	@$(BIN)/uv venv --quiet --python $(BIN)/python $@
	@VIRTUAL_ENV=$@ $(BIN)/uv pip install --quiet '$(PYFLINK)' 'setuptools<80' || { rm -rf $@; exit 1; }

.PHONY: bench-pyflink
bench-pyflink: artifacts/pyflink ## keyed counts on disk, beside those of PyFlink, which is downloaded for it
	@$(BIN)/python -m benchmarks.pyflink_state --python $</bin/python $(BENCH_ARGS)

.PHONY: format
format: setup ## format the code and mend what the linter can
	@$(BIN)/ruff check --fix --quiet && $(BIN)/ruff format --quiet

.PHONY: dashboard
dashboard: setup ## write the dashboard for Grafana, charts/fulmen/dashboards/topology.json
	@$(BIN)/python scripts/dashboard.py

.PHONY: lock
lock: setup ## choose the newest versions anew and write constraints.txt
	@scripts/lock

.PHONY: sbom
sbom: setup ## what the images have of Python packages, in artifacts/sbom, as CycloneDX
	@mkdir -p artifacts/sbom
	@for image in $(IMAGES); do \
		$(BIN)/uv tool run --quiet --from '$(CYCLONEDX)' cyclonedx-py requirements \
			requirements/$$image.txt --output-reproducible --output-file artifacts/sbom/$$image.json \
			&& echo "artifacts/sbom/$$image.json" || exit 1; done

# --strict: a package that can't be looked up is an error, and so is a service that is away.
.PHONY: audit
audit: setup ## ask for known vulnerabilities of the packages that the images have
	@for image in $(IMAGES); do \
		$(BIN)/uv tool run --quiet --from '$(PIP_AUDIT)' pip-audit --strict --require-hashes \
			--disable-pip --requirement requirements/$$image.txt || exit 1; done

.PHONY: clean
clean: ## remove .venv and all that tools have left behind
	@rm -rf .venv build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@rm -rf artifacts metastore_db spark-warehouse derby.log
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
