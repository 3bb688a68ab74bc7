# The entry point to all tasks. Each target installs what it needs into .venv; only a Python of these versions with venv
# must exist.
FIT := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PYTHON ?= $(shell for one in python3 python3.13 python3.12 python3.11; do \
  if $$one -c '$(FIT)' 2> /dev/null; then echo $$one; exit; fi; done; echo python3)
BIN := .venv/bin
STAMP := .venv/.installed
FASTAPISERVER := .cache/fastapiserver
SITE := .cache/site
PERSES_PAGE := .cache/pictures
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)
COMPILE := $(BIN)/uv pip compile --quiet --no-strip-extras --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links
SLOWEST := --durations=10
# Runs tests in processes side by side, and those that fail once more, alone, at the end. A file runs in one process, so the
# longest files come first.
LANE := $(BIN)/python -m tests.lane --numprocesses $(or $(WORKERS),8) --dist loadfile --no-loadscope-reorder
# Only these trace what they cover: that makes a test take twice the time.
COVERED := $(addprefix tests/unit/,clock latency watch diagnose timeline own_metrics api reaction informer)
# Tests of these that take long: the others cover every branch without them.
UNTRACED := $(addprefix tests/unit/,clock/test_world.py clock/test_commit_offset_properties.py diagnose/test_matrix.py \
  latency/test_accuracy.py latency/test_confidence.py latency/test_estimate.py \
  watch/test_garbled_watches.py watch/test_herd.py watch/test_inventory_properties.py watch/test_machine_properties.py)
TRACED = $(filter-out $(UNTRACED),$(wildcard $(addsuffix /test_*.py,$(COVERED)))) tests/unit/test_changes.py

# With it, every process compiles its modules again, and pytest rewrites every test: that doubles the time of the tests.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test check assets tools e2e versions faults soak fidelity confusion night lab bench docs footprint image sbom release site golden dashboards manifests pictures screens mutate lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## Install watchslo and its tools into .venv, from the lock, by hash (PYTHON=python3.12 for another Python)

$(STAMP): requirements-dev.lock pyproject.toml
	@$(PYTHON) -c '$(FIT)' 2>/dev/null || { \
	  echo "error: watchslo runs on Python 3.11 to 3.13, and $(PYTHON) is $$($(PYTHON) --version 2>/dev/null || echo missing):" \
	    "install one, or name one, as in make setup PYTHON=python3.12" >&2; \
	  exit 1; }
	@echo "installing into .venv, which takes about a minute the first time"
	@$(PYTHON) -m venv .venv || { \
	  echo "error: $(PYTHON) has no venv: install it (on Debian and Ubuntu the package python3-venv), or name another PYTHON" >&2; \
	  exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock || { \
	  echo "error: pip cannot install what requirements-dev.lock names, and says above why: without a way to its index," \
	    "set or correct HTTPS_PROXY, or PIP_INDEX_URL for an index of your own" >&2; \
	  exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: setup ## Watch a simulated cluster and show its latencies, until Ctrl-C (DURATION=20 seconds, FAULT=frozen-cache)
	@$(BIN)/watchslo demo $(if $(DURATION),--duration $(DURATION)) $(if $(FAULT),--fault $(FAULT))

test: setup ## Run the unit tests; those of the pure packages must cover every branch there
	@$(BIN)/pytest --numprocesses auto --cov --cov-report= $(TRACED)
	$(BIN)/coverage report --fail-under=100 --skip-covered --show-missing
	@echo "all other unit tests:"
	@$(BIN)/pytest --numprocesses auto --dist worksteal -m "not long" $(addprefix --ignore=,$(TRACED)) tests/unit

check: setup ## Check style, types, layers, words, locks, known vulnerabilities, and forbidden content
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	@$(BIN)/python -m tools.wording
	$(BIN)/pytest tests/unit/test_house.py
	@$(BIN)/python -m tools.audit requirements-dev.lock
	@$(BIN)/python -m tools.audit tools/site/requirements.lock

assets: setup ## Build the programs that `make e2e` and `make tools` run with Go, unless the environment names them
	@$(BIN)/python -m tests.support.assets

e2e: assets $(PERSES_PAGE)/page.js ## Run the contract, the whole daemon and `make tools` with real programs, in WORKERS=8 processes
	$(LANE) -m "not long" $(SLOWEST) tests/lab tests/e2e tests/contract tests/tools

versions: setup ## Run the contract and measure on every pinned kube-apiserver, building those that are missing
	@$(BIN)/python -m tests.support.assets --every-version
	$(BIN)/pytest --every-version -m version $(SLOWEST) tests/e2e
	$(LANE) --every-version $(SLOWEST) tests/contract

faults: assets ## Cause every fault, and write docs/faults.md from the results
	$(BIN)/python -m tests.lab counts --write

soak: assets ## Cause faults at random, for MINUTES=20
	$(BIN)/python -m tests.lab soak --minutes $(or $(MINUTES),20)

fidelity: assets ## Compare measured latencies with the true ones, and print both
	$(BIN)/python -m tests.fidelity
	$(BIN)/python -m tests.fidelity.reactions

confusion: assets ## Cause faults of every kind, and compare the named causes with the true ones
	$(BIN)/python -m tests.lab causes --goals
	$(BIN)/python -m tests.lab causes --goals --daemonset

night: assets ## Play a night on call: faults, then healthy MINUTES=30 of each profile; write docs/faults.md
	$(BIN)/python -m tests.lab night --minutes $(or $(MINUTES),30) --write

lab: assets ## Make all faults before all judges, and run the tests marked `long`: for some hours
	@status=0; for part in "pytest -m long tests/unit" "pytest -m long tests/e2e" "python -m tests.lab counts" "python -m tests.lab alerts" \
	  "python -m tests.lab causes --repeats 1" "python -m tests.lab night --minutes 5" "python -m tests.lab soak"; do \
	  echo "$$part"; $(BIN)/$$part || status=1; done; exit $$status

bench: setup $(FASTAPISERVER) ## Measure what an event and a scrape cost the daemon
	$(BIN)/python -m benchmarks --fastapiserver $(FASTAPISERVER)

footprint: assets ## Measure what watchslo costs the apiserver and etcd, as tables for docs/operations.md (SECONDS=60)
	$(BIN)/python -m benchmarks.footprint --seconds $(or $(SECONDS),60)

$(FASTAPISERVER): $(wildcard benchmarks/fastapiserver/*)
	cd benchmarks/fastapiserver && go build -trimpath -o $(CURDIR)/$@ .

image: setup ## Build the image by debootstrap and buildah, as root on Debian; elsewhere `docker build .` does it
	@$(BIN)/python -m tools.image $$(git rev-parse HEAD)

sbom: setup ## Write dist/watchslo.cdx.json: a CycloneDX list of the installed packages with hashes
	@$(BIN)/python -m tools.release sbom

tools: assets $(PERSES_PAGE)/page.js ## Check rules, manifests and dashboards by the tools that read them, on all cores
	$(BIN)/pytest --numprocesses auto --dist loadgroup $(SLOWEST) tests/tools

release: setup $(SITE)/.installed ## Build a release of the last commit into dist, and test it; TAG=v0.1.0 refuses what may not get that tag
	@$(BIN)/python -m tests.support.assets --krew > /dev/null
	@helm="$$($(BIN)/python -m tests.support.assets --helm)" && \
	  $(BIN)/python -m tools.release build --helm "$$helm" --site-python $(SITE)/bin/python $(if $(TAG),--tag $(TAG))
	$(BIN)/pytest $(SLOWEST) tests/release

$(SITE)/.installed: tools/site/requirements.lock | $(STAMP)
	@$(BIN)/python -m venv --clear $(SITE)
	@$(SITE)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

site: $(SITE)/.installed ## Show the documentation as a site at http://127.0.0.1:8000, and follow its changes, until Ctrl-C
	$(SITE)/bin/mkdocs serve --quiet --config-file tools/site/mkdocs.yml

docs: setup ## Write docs/reference and docs/concepts/revision-clock.svg from the code
	$(BIN)/python -m tools.docs

golden: setup ## Rewrite the golden files; read the diff before you commit it
	$(BIN)/pytest tests/unit --golden

dashboards: setup ## Write dashboards/*.json and dashboards/perses from the code in tools/dashboards
	$(BIN)/python -m tools.dashboards dashboards

manifests: setup ## Write the RBAC rules and alert rules in deploy from configurations and code
	$(BIN)/python -m tools.manifests

pictures: setup $(PERSES_PAGE)/page.js ## Take pictures of the dashboards in Perses (PROMETHEUS=http://localhost:9090 LENGTH=15m SCRAPE=15s)
	$(BIN)/python -m tools.pictures $(or $(PROMETHEUS),http://localhost:9090) --length $(or $(LENGTH),15m) --scrape-interval $(or $(SCRAPE),15s)

# Without main-fields, esbuild takes some packages twice: once for modules, and once for `require`.
$(PERSES_PAGE)/page.js: $(wildcard tools/pictures/page/*)
	@command -v npm > /dev/null || { echo "error: there is no npm to build the page of Perses with: install Node.js 20 or newer" >&2; exit 1; }
	@mkdir -p $(PERSES_PAGE)
	@kept="$(CACHE)/watchslo/perses/$$(cat $^ | sha256sum | cut -c1-16)"; \
	if [ ! -f "$$kept/page.js" ]; then \
	  echo "building the page from the components of Perses, which takes about a minute the first time"; \
	  cp $^ $(PERSES_PAGE) && npm ci --prefix $(PERSES_PAGE) --ignore-scripts --no-audit --no-fund --loglevel=error \
	    && npm run build --prefix $(PERSES_PAGE) --silent && rm -rf $(PERSES_PAGE)/node_modules \
	    && mkdir -p "$$kept" && cp $(PERSES_PAGE)/page.css $(PERSES_PAGE)/page.js "$$kept"; \
	fi && cp "$$kept"/page.* $(PERSES_PAGE) && touch $@

screens: setup ## Take the screenshots in docs/pictures of the page during an incident
	$(BIN)/pytest -k incident tests/e2e/test_page.py --golden

mutate: setup ## Mutate clock, latency, watch and diagnose, and print how many mutants the tests kill
	rm -rf mutants
	$(BIN)/mutmut run
	@$(BIN)/mutmut results
	@$(BIN)/mutmut export-cicd-stats > /dev/null
	@$(BIN)/python -c 'import json; print("{killed} of {total} mutants killed, {timeout} timed out, {survived} survived".format(**json.load(open("mutants/mutmut-cicd-stats.json"))))'

lock: setup ## Update the locks to match pyproject.toml; pins that still fit are kept
	$(COMPILE) pyproject.toml -o requirements.lock
	$(COMPILE) pyproject.toml --group dev -o requirements-dev.lock
	$(COMPILE) pyproject.toml --extra otlp --constraints requirements-dev.lock -o requirements-otlp.lock
	$(COMPILE) --group build --constraints requirements-dev.lock -o requirements-build.lock
	$(COMPILE) --group site --constraints requirements-dev.lock -o tools/site/requirements.lock

clean: ## Remove everything that the other targets created in this folder
	rm -rf .venv .coverage htmlcov mutants dist .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
