# `make help` lists the targets. Everything runs inside .venv.

PYTHON ?= python3
BIN := .venv/bin
# One process more than cores: many tests wait for child processes or timers.
PROCESSES ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
PYTEST := $(BIN)/pytest -q --numprocesses $(PROCESSES) --maxprocesses 4 --dist loadfile --no-loadscope-reorder

# Without cached bytecode, every process that the tests start would recompile everything.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: $(shell awk -F: '/^[a-z-]+:.*## / {print $$1}' $(MAKEFILE_LIST))

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: .venv/.installed ## Start the service; pass options with ARGS="--port 8000"
	@$(BIN)/secretary serve $(ARGS)

test: .venv/.dev lint types ## Run all checks and tests
	@$(PYTEST)

test-extended: .venv/.dev ## Run the slow variants that `make test` skips
	@$(PYTEST) -m extended

SHARED := tests/contract tests/integration tests/unit/test_dashboard.py tests/unit/test_openapi.py
test-shared: .venv/.dev ## Run the store, API and integration suites on MongoDB with GridFS, then with S3
	@TEST_STORE=gridfs $(PYTEST) $(SHARED)
	@TEST_STORE=s3 $(PYTEST) $(SHARED)

check: format test security ## Format, check and test the code before you submit a change

security: .venv/.group-security ## Scan for vulnerabilities with bandit and pip-audit (only bandit if offline)
	@$(BIN)/bandit --quiet --recursive --configfile pyproject.toml src scripts
	@$(BIN)/python scripts/audit.py --report

audit: .venv/.group-security ## Check installed packages for known vulnerabilities; fails if offline
	@$(BIN)/python scripts/audit.py

format: .venv/.dev ## Format the code
	@$(BIN)/ruff format -q .
	@$(BIN)/ruff check -q --fix-only .

lint: .venv/.dev ## Lint the code
	@$(BIN)/ruff format -q --check . || { echo 'Run "make format".' >&2; exit 1; }
	@$(BIN)/ruff check -q .

types: .venv/.dev ## Check types
	@$(BIN)/mypy --no-error-summary

docs: .venv/.group-docs ## Build the documentation site in site/
	@$(BIN)/python scripts/write_reference.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "Open site/index.html"

lock: ## Pin all packages in requirements/ after a change of pyproject.toml; new versions: ARGS=--upgrade
	@$(PYTHON) scripts/lock.py $(ARGS)

sbom: ## Write the SBOM (CycloneDX) of the pinned packages to dist/
	@$(PYTHON) scripts/sbom.py

licences: .venv/.dev ## Update the list of third-party licences
	@$(BIN)/python scripts/write_licences.py

pictures: .venv/.dev ## Retake the dashboard screenshots for the docs
	@PYTHONPATH=. $(BIN)/python scripts/take_pictures.py

bench: .venv/.dev ## Run all benchmarks and write docs/benchmarks.md; ARGS="--only api,scale --quick"
	@$(BIN)/python bench/run.py $(ARGS)

bench-page: .venv/.dev ## Render docs/benchmarks.md from the stored results
	@$(BIN)/python bench/run.py --page $(ARGS)

bench-engine: .venv/.dev ## Benchmark the job queue next to its peers; ARGS="--quick"
	@$(BIN)/python bench/engine.py $(ARGS)

bench-api: .venv/.dev ## Benchmark the HTTP API next to a bare FastAPI route; ARGS="--quick"
	@$(BIN)/python bench/api.py $(ARGS)

bench-documents: .venv/.dev ## Benchmark document conversion next to other tools; ARGS="--quick"
	@$(BIN)/python bench/documents.py $(ARGS)

bench-media: .venv/.dev ## Benchmark recordings next to bare engines and ffmpeg; ARGS="--quick"
	@$(BIN)/python bench/media.py $(ARGS)

bench-knowledge: .venv/.dev ## Benchmark transformer jobs next to bare model calls; ARGS="--quick"
	@$(BIN)/python bench/knowledge.py $(ARGS)

bench-dashboard: .venv/.dev ## Benchmark the dashboard with a million stored jobs; ARGS="--quick"
	@$(BIN)/python bench/dashboard.py $(ARGS)

bench-scale: .venv/.dev ## Benchmark many workers on MongoDB next to Celery and RQ; ARGS="--quick"
	@$(BIN)/python bench/scale.py $(ARGS)

simulate: .venv/.dev ## Simulate a day of mixed jobs with the claim policy; ARGS="--seed 7"
	@$(BIN)/python bench/simulate.py $(ARGS)

soak: .venv/.dev ## Soak test: half an hour at full load to find leaks; ARGS="--minutes 4"
	@$(BIN)/python bench/soak.py $(ARGS)

chaos: .venv/.dev ## Chaos test: inject random faults for longer than `make test` does; ARGS="--seed 7 --seconds 600"
	@$(BIN)/python -m tests.chaos $(ARGS)

fuzz: .venv/.dev ## Fuzz files, requests and values for longer than `make test` does; ARGS="--seed 7 --seconds 600 --kinds media,office"
	@$(BIN)/python -m tests.fuzzing $(ARGS)

fuzz-api: .venv/.dev ## Fuzz the HTTP API with Schemathesis; ARGS="--seed 7 --max-examples 500"
	@$(BIN)/python -m tests.fuzzing.api --max-examples 200 $(ARGS)

clean: ## Remove everything that can be rebuilt; your data is kept
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis fuzz-finds dist site
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# What .venv is made from.
PINNED := pyproject.toml scripts/make-venv $(wildcard requirements/*.txt)

.venv/.installed: $(PINNED)
	@PYTHON=$(PYTHON) scripts/make-venv

.venv/.group-docs: $(PINNED)
	@PYTHON=$(PYTHON) scripts/make-venv docs

.venv/.group-security: .venv/.dev
	@PYTHON=$(PYTHON) scripts/make-venv security

.venv/.dev: $(PINNED)
	@PYTHON=$(PYTHON) scripts/make-venv dev
