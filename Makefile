# Everything a newcomer types. Needs git, make and Python >= 3.11; uv is used where it is there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What `make run` uses, and with it everything that the tests and checks use.
RUN_STAMP := $(VENV)/.steelyard-run
STAMP := $(VENV)/.steelyard-setup
BENCH_STAMP := $(VENV)/.steelyard-bench
# The first three only compute, the others measure this machine; `make bench BENCHMARKS=ingest` runs one.
BENCHMARKS := false_alarms time_to_verdict report overhead probe_overhead ingest
UV := $(shell command -v uv 2>/dev/null)
ifneq ($(UV),)
install = uv pip install --quiet --python $(BIN)/python $(1)
else
install = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile $(1)
endif

.PHONY: run test test-all setup lint bench lock clean

# ARGS="--budget 2m --no-verdict" are options of `steelyard run`.
run: $(RUN_STAMP)
	$(BIN)/steelyard run $(ARGS)

test: setup
	.ci/test $(BIN)/python quick

# PHASES="live redis" runs some of them: .ci/test says which there are.
test-all: setup
	.ci/test $(BIN)/python $(PHASES)

setup: $(STAMP)

$(STAMP): requirements.lock $(RUN_STAMP) .ci/redis-programs
	$(call install,--require-hashes -r requirements.lock)
	.ci/redis-programs $(VENV)
	@touch $(STAMP)

$(RUN_STAMP): requirements-run.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$(PYTHON) is older than 3.11; name a newer one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
ifneq ($(UV),)
	@test -x $(BIN)/python || uv venv --quiet --python $(PYTHON) $(VENV)
else
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
endif
	$(call install,--require-hashes -r requirements-run.lock)
	$(call install,--no-deps --no-build-isolation -e .)
	@touch $(RUN_STAMP)

lint: setup
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/mypy benchmarks/overhead.py benchmarks/probe_overhead.py benchmarks/log_cost.py \
		benchmarks/turn_probe_overhead.py
	$(BIN)/lint-imports
	$(BIN)/python .ci/house_figures.py
	$(BIN)/python .ci/words.py

bench: setup $(BENCH_STAMP)
	@set -ex; for benchmark in $(BENCHMARKS); do $(BIN)/python benchmarks/$$benchmark.py; done

# What the reading of transaction logs is compared with; nothing else needs it.
$(BENCH_STAMP): requirements-bench.lock $(STAMP)
	$(call install,--require-hashes -r requirements-bench.lock)
	@touch $(BENCH_STAMP)

# The locks: every package with its hashes for every supported Python, and no index host. The first
# three have the same version of what stands in several; Otava is installed apart and needs others.
lock_of = uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-emit-find-links --no-header --custom-compile-command "make lock" -o $(1)
lock:
	$(call lock_of,requirements.lock) --all-extras --group dev pyproject.toml
	$(call lock_of,requirements-run.lock) --extra embedded --extra charts --extra serve --group build \
	  --constraint requirements.lock pyproject.toml
	$(call lock_of,requirements-bench.lock) --group bench --constraint requirements.lock
	$(call lock_of,requirements-otava.lock) --group otava

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
