# instar: `make` prints this list.
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Bytecode makes imports three to four times faster, also where the machine forbids writing it.
unexport PYTHONDONTWRITEBYTECODE

# A comma in a call's argument would end it.
comma := ,

.DEFAULT_GOAL := help
.PHONY: help demo test extra real check format bench clean

help: ## print this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-9s %s\n", $$1, $$2}'

demo: $(VENV)/.run ## play the whole story once: an agent rewrites its own hook; no key, no network
	@$(BIN)/python examples/demo.py

test: $(VENV)/.dev ## run the hermetic test suite
	@$(BIN)/python -m pytest

extra: $(VENV)/.extra ## test the providers of the extra instar[providers]: 250 MB to install
	@$(BIN)/python -m pytest tests/provider

check: $(VENV)/.dev ## format, lint, strict types, floors, sizes, hook points, docs
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/python -m pytest tests/test_floors.py tests/test_size.py tests/test_hook_points.py tests/test_docs.py

format: $(VENV)/.dev ## format and mend what can be mended
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

real: $(VENV)/.dev $(VENV)/.opencode ## test against the real opencode: npm fetches 180 MB; RECORD=1 records its data anew
	@INSTAR_REAL=$(VENV)/opencode INSTAR_RECORD=$(RECORD) $(BIN)/python -m pytest tests/real

bench: $(VENV)/.dev ## measure this machine: cold start, turn, tool call, hook call, memory
	@$(BIN)/python -m bench

clean: ## remove what make made
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis

# uv where there is one, else pip. An install that was cut short leaves no stamp and is made again.
define install
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
	  { echo "cannot make $(VENV): install the venv module (Debian: apt install python3-venv)" >&2; exit 1; }
	@echo "installing $(1) into $(VENV)"
	@if command -v uv >/dev/null; then \
	  VIRTUAL_ENV=$(VENV) uv pip install --quiet --compile-bytecode -e '$(1)'; \
	else \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '$(1)'; \
	fi
	@touch $@
endef

$(VENV)/.run: pyproject.toml
	$(call install,.)

$(VENV)/.dev: pyproject.toml
	$(call install,.[dev])
	@touch $(VENV)/.run

# The version that the recorded data comes from.
$(VENV)/.opencode: Makefile
	npm install --silent --no-audit --no-fund --prefix $(VENV)/opencode opencode-ai@1.18.33
	@touch $@

$(VENV)/.extra: pyproject.toml
	$(call install,.[dev$(comma)providers])
	@touch $(VENV)/.dev $(VENV)/.run
