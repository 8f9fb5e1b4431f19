# Every target sets up what it needs: a virtual environment with pinned, hashed packages. `make help` lists them.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS := .venvs
PEER_NAMES := openenv openenv-core fastapi-mcp
PEERS_READY := $(PEER_NAMES:%=$(PEERS)/%/.ready)
PEER_FLAGS_bfcl := --no-deps
PROCESSES ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo trl bfcl test check format bench bench-awm bench-density bench-ingest bench-rollout bench-kinds soak lock docs-tables clean

help:  ## Say what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(READY): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; name one with: make PYTHON=/path/to/python3 ..."; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
	  || { echo "this Python lacks venv; on Debian: apt-get install python3-venv"; exit 2; }
	@echo "setting up $(VENV): pip installs for a minute or two and says nothing meanwhile"
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

# Peers that the tests talk to; each in an environment of its own, because they cannot share one.
$(PEERS)/%/.ready: requirements/peer-%.txt $(READY)
	@mkdir -p $(PEERS)
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(PEERS)/$*
	$(BIN)/uv pip install --quiet $(PEER_FLAGS_$*) --python $(PEERS)/$*/bin/python --require-hashes -r requirements/peer-$*.txt
	@touch $@

# TRL, which wants torch. The registry's torch for x86-64 is a CUDA build of several gigabytes, so the CPU build is named
# by its local version (+cpu) and its hash, and pip takes it from where it is told to look (find-links, or PyTorch's own
# index as an extra index). It and all that TRL needs are installed without dependencies, from lists that are complete, so
# that nothing else can come along. `make TORCH=torch==2.13.0+cpu trl` takes that build for any Python, without a hash, and
# on arm64 `make TORCH=torch==2.13.0 trl` the registry's, which is for the CPU.
TRL_READY := $(PEERS)/trl/.ready
TORCH ?= --require-hashes --requirement requirements/peer-trl-torch.txt
TRL_PIP := $(PEERS)/trl/bin/python -m pip install -qq --disable-pip-version-check --no-deps

$(TRL_READY): requirements/peer-trl.txt requirements/peer-trl-torch.txt | $(READY)
	@mkdir -p $(PEERS)
	$(BIN)/python -m venv --clear $(PEERS)/trl
	$(TRL_PIP) $(TORCH)
	$(TRL_PIP) --require-hashes --requirement requirements/peer-trl.txt
	@touch $@

trl: $(READY)  ## Set up TRL's environment; where there is no torch to be had, its tests are skipped
	@$(MAKE) --no-print-directory $(TRL_READY) || echo "no TRL here: the tests that train with it will be skipped"

bfcl: $(READY)  ## Set up BFCL's own checker; where it is not to be had, the tests that compare with it are skipped
	@$(MAKE) --no-print-directory $(PEERS)/bfcl/.ready || echo "no bfcl-eval here: the tests of its import will be skipped"

demo: $(READY)  ## Play the shipped tasks with five agents, store every record, and report
	$(BIN)/quintain demo

test: $(READY) $(PEERS_READY) trl bfcl  ## Run the test suite
	$(BIN)/python -m pytest -n $(PROCESSES) --dist loadgroup

check: $(READY)  ## Formatting, lint, strict types, import layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	MYPYPATH=src/quintain/sandboxes $(BIN)/mypy --strict --config-file= --explicit-package-bases -p inside
	$(BIN)/lint-imports --no-cache

format: $(READY)  ## Format and mend what the linter can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: bench-awm bench-density bench-ingest bench-rollout bench-kinds  ## Run all benchmarks

bench-awm: $(READY)  ## Measure AWM episodes through a real server; JSON=path writes the figures, URL= measures another
	$(BIN)/python benchmarks/awm.py $(if $(JSON),--json $(JSON)) $(if $(URL),--url $(URL))

bench-density: $(READY)  ## Measure many sessions at once; SESSIONS=1000, HIBERNATE=seconds
	$(BIN)/python benchmarks/density.py --sessions $(or $(SESSIONS),1000) $(if $(HIBERNATE),--hibernate-after $(HIBERNATE))

bench-ingest: $(READY)  ## Measure ingest into the store; RECORDS=20000
	$(BIN)/python benchmarks/ingest.py --records $(or $(RECORDS),20000) $(if $(JSON),--json $(JSON))

bench-rollout: $(READY)  ## Measure what the rollout engine adds to a step; JSON=path
	$(BIN)/python benchmarks/rollout.py $(if $(JSON),--json $(JSON))

bench-kinds: $(READY)  ## Measure each kind of environment beside the others
	$(BIN)/python benchmarks/kinds.py $(if $(JSON),--json $(JSON))

soak: $(READY) $(PEERS_READY) trl bfcl  ## Long chaos and soak runs
	$(BIN)/python -m pytest -m soak

lock: $(READY)  ## Resolve all requirements again
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --group dev --extra hub --extra store pyproject.toml -o requirements/dev.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url src/quintain/environments/awm.in -o src/quintain/environments/awm.lock.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url src/quintain/environments/python.in -o src/quintain/environments/python.lock.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url -c requirements/dev.txt src/quintain/environments/mcp.in -o src/quintain/environments/mcp.lock.txt
	for peer in $(PEER_NAMES) bfcl; do $(BIN)/uv pip compile --quiet $$([ $$peer = bfcl ] && echo $(PEER_FLAGS_bfcl)) --universal --python-version 3.11 --generate-hashes --no-emit-index-url requirements/peer-$$peer.in -o requirements/peer-$$peer.txt || exit 1; done
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-package torch --override requirements/peer-trl-overrides.txt --extra trl pyproject.toml requirements/peer-trl.in -o requirements/peer-trl.txt

docs-tables: $(READY)  ## Write the generated tables of docs/ again
	$(BIN)/python docs/tables.py

clean:  ## Remove environments and caches of this checkout
	rm -rf $(VENV) $(PEERS) .pytest_cache .mypy_cache .ruff_cache .hypothesis
