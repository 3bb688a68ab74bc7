# The door to everything here. Each target installs what it needs into .venv; only python3 with venv must be there.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
CLIENTGO := .cache/clientgo
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links
PATIENTLY := $(shell command -v chrt > /dev/null && echo chrt --idle 0)
GATED := watchslo/clock/*,watchslo/latency/*,watchslo/watch/*,watchslo/diagnose/*,watchslo/history/*

.DEFAULT_GOAL := help
.PHONY: help setup demo test check assets e2e timed patient faults soak fidelity confusion bench docs footprint image sbom golden dashboards manifests pictures screens mutate lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## Install watchslo and its tools into .venv, from the lock, by hash (PYTHON=python3.12 for another Python)

$(STAMP): requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null || { \
	  echo "error: watchslo runs on Python 3.11 to 3.13, and $(PYTHON) is none of those here: name one, as in make setup PYTHON=python3.12" >&2; \
	  exit 1; }
	@echo "installing into .venv, which takes about a minute the first time"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: setup ## Watch a simulated cluster and see its latencies, until Ctrl-C (DURATION=20 seconds, FAULT=frozen-cache)
	@$(BIN)/watchslo demo $(if $(DURATION),--duration $(DURATION)) $(if $(FAULT),--fault $(FAULT))

test: setup ## Run the unit tests; clock, latency, watch, diagnose and history must be covered, every branch of them
	$(BIN)/pytest --numprocesses auto --cov --cov-report= tests/unit
	$(BIN)/coverage report --include='$(GATED)' --fail-under=100 --skip-covered --show-missing

check: setup ## Check style, types, layers, the locks, known vulnerabilities, and what no file may hold
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest tests/unit/test_house.py
	@$(BIN)/python -m tools.audit requirements-dev.lock

assets: setup ## Build the real kube-apiservers, etcd and helm with Go, unless the environment names them
	@$(BIN)/python -m tests.support.assets

e2e: assets ## Run the contract and the whole daemon against real apiservers; what is patient runs beside what is timed
	@$(MAKE) --jobs=2 --output-sync=target --keep-going timed patient

timed: assets ## The part of e2e that asks when something comes
	$(BIN)/pytest -m "not patient" --timeout=300 tests/contract tests/e2e

patient: assets ## The part of e2e that asks only whether it comes, as idle work
	$(PATIENTLY) $(BIN)/pytest -m patient --timeout=600 tests/contract tests/e2e

faults: assets ## Make every fault, and write docs/faults.md from what comes of it
	$(BIN)/pytest tests/e2e/faults --golden

soak: assets ## Make faults at random, for MINUTES=20
	SOAK_MINUTES=$(or $(MINUTES),20) $(BIN)/pytest -s tests/e2e/test_soak.py

fidelity: assets ## Compare what is measured with the truth, and print both
	$(BIN)/python -m tests.fidelity

confusion: assets ## Make faults of every kind, and compare what is called their cause with what it is
	$(BIN)/python -m tests.confusion

bench: assets $(CLIENTGO) ## Measure what watchslo costs, beside client-go and kubernetes_asyncio
	$(BIN)/python -m benchmarks --clientgo $(CLIENTGO)

footprint: assets ## Measure what watchslo costs the apiserver and etcd, as tables for docs/operations.md (SECONDS=60)
	$(BIN)/python -m benchmarks.footprint --seconds $(or $(SECONDS),60) --variants

$(CLIENTGO): $(addprefix benchmarks/clientgo/,go.mod go.sum main.go)
	cd benchmarks/clientgo && go build -trimpath -o $(CURDIR)/$@ .

image: setup ## Build the image by debootstrap and buildah, as root on Debian; elsewhere `docker build .` does it
	@$(BIN)/python -m tools.image $$(git rev-parse HEAD)

sbom: setup ## Write dist/watchslo.cdx.json: what users install, with hashes, in CycloneDX
	@mkdir -p dist
	@$(BIN)/python -W ignore -m cyclonedx_py requirements --pyproject pyproject.toml --output-reproducible \
	  --output-file dist/watchslo.cdx.json requirements.lock
	@echo dist/watchslo.cdx.json

docs: setup ## Write docs/reference and the drawings of docs from the code
	$(BIN)/python -m tools.reference

golden: setup ## Rewrite the golden files; look at the difference before you commit it
	$(BIN)/pytest tests/unit --golden

dashboards: setup ## Write dashboards/*.json from their code in tools/dashboards
	$(BIN)/python -m tools.dashboards dashboards

manifests: setup ## Write what deploy holds of rights, rules and dashboards, from configurations and code
	$(BIN)/python -m tools.manifests

pictures: setup ## Draw the dashboards from a Prometheus' answers (PROMETHEUS=http://localhost:9090 MINUTES=15 SCRAPE=15)
	$(BIN)/python -m tools.pictures $(or $(PROMETHEUS),http://localhost:9090) --minutes $(or $(MINUTES),15) --scrape-interval $(or $(SCRAPE),15)

screens: setup ## Take the pictures of the page in docs/pictures, in an incident and a real browser
	$(BIN)/pytest -k incident tests/e2e/test_page.py --golden

mutate: setup ## Mutate clock, latency, watch and diagnose, and print how many mutants the tests kill
	rm -rf mutants
	$(BIN)/mutmut run
	@$(BIN)/mutmut results
	@$(BIN)/mutmut export-cicd-stats > /dev/null
	@$(BIN)/python -c 'import json; print("{killed} of {total} mutants killed, {timeout} timed out, {survived} survived".format(**json.load(open("mutants/mutmut-cicd-stats.json"))))'

lock: setup ## Bring the locks up to pyproject.toml; pins that still fit are kept
	$(COMPILE) pyproject.toml -o requirements.lock
	$(COMPILE) pyproject.toml --group dev -o requirements-dev.lock
	$(COMPILE) --group build --constraints requirements-dev.lock -o requirements-build.lock

clean: ## Remove what all of the above left here
	rm -rf .venv .coverage htmlcov mutants dist .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
