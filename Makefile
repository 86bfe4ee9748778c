# Everything here is a numbered script or a few of them; the scripts have more options (-h).
# CLUSTER=name chooses the cluster, KEEP=1 keeps the one a regression started.

SHELL := /bin/bash
VENV := .venv/bin
SHELL_FILES := $(wildcard scripts/*.sh scripts/*.bash scripts/lib/*.sh scripts/lib/hosts/*.sh benchmarks/*.sh benchmarks/lib/*.sh tests/*.sh tests/doubles/bin/* $(foreach dir,tests/bats tests/lab tests/gpu,$(dir)/*.sh $(dir)/*.bash $(dir)/*.bats))
export MVP_CLUSTER := $(or $(CLUSTER),$(MVP_CLUSTER),local)

.DEFAULT_GOAL := help
.PHONY: help regress-ppo regress-grpo regress-sft regress-all regress-versions learn e2e-smoke test test-all quick lint unit bats lab gpu-check deps deps-dev deps-lab prereq up down status bench

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 20

regress-ppo: ## the PPO regression: from nothing to a verdict on two real jobs
	@scripts/regress.sh ppo

regress-grpo: ## the same with one GRPO job
	@scripts/regress.sh grpo

regress-sft: ## the same with one SFT job
	@scripts/regress.sh sft

regress-all: ## PPO twice, GRPO and SFT on one cluster, and a verdict on every line of the Definition of Done
	@scripts/regress.sh all

regress-versions: ## two versions of verl's code at work at the same time, each in its own job
	@scripts/regress_versions.sh

learn: ## SFT, then GRPO from its weights: does the reward rise? A chart, and a test with its numbers (5 minutes)
	@scripts/learn.sh

e2e-smoke: ## the end-to-end procedure with the real verl on CPUs: smoke, save and resume, learning signal (4 minutes)
	@scripts/e2e_smoke.sh

test: TEST_TAGS ?= !nightly
test: ## the tests, with what they need installed first; TEST_JOBS=1 runs one file at a time
	@$(MAKE) --no-print-directory --jobs=2 deps-dev deps-lab
	@$(MAKE) --no-print-directory --jobs=2 --output-sync lint
	@TEST_TAGS='$(TEST_TAGS)' tests/run.sh tests/unit tests/bats tests/lab

test-all: ## the same with the slow and rare ones (an hour more)
	@$(MAKE) --no-print-directory test TEST_TAGS=

quick: ## within a minute: lint, types, and the unit tests that start no process
	@$(MAKE) --no-print-directory --jobs=2 --output-sync lint unit UNIT_OPTIONS="$(UNIT_OPTIONS) --no-processes"

.PHONY: lint-shell lint-python
lint: lint-shell lint-python ## shellcheck, shfmt, ruff, mypy --strict

lint-shell:
	@$(VENV)/shellcheck $(SHELL_FILES) && echo "shellcheck: $(words $(SHELL_FILES)) files are clean"
	@$(VENV)/shfmt -d $(SHELL_FILES) && echo "shfmt: they are formatted"

lint-python:
	$(VENV)/ruff check lib tests benchmarks docs
	$(VENV)/ruff format --check lib tests benchmarks docs
	$(VENV)/mypy

UNIT_OPTIONS := -n 2 --dist loadfile
unit: ## tests of the Python modules, a file at a time on each of two cores
	$(VENV)/pytest $(UNIT_OPTIONS)

bats: ## tests of the scripts, on real Ray clusters of their own
	@tests/run.sh tests/bats

lab: deps-lab ## tests on real hosts: ssh, docker, Slurm; what this machine cannot run is skipped, with the reason
	@tests/run.sh tests/lab

gpu-check: ## tests on a machine with a GPU (8 minutes); elsewhere skipped, with the reason
	@tests/run.sh tests/gpu

deps: ## create .venv with the pinned packages
	@scripts/12_install_py_deps.sh

deps-dev:
	@scripts/12_install_py_deps.sh --dev

deps-lab:
	@tests/lab/install.sh

LOCK = $(VENV)/uv pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-annotate --custom-compile-command 'make locks' pyproject.toml
.PHONY: locks
locks: ## write the lock files from pyproject.toml, with the hashes of PyPI; versions that still fit stay
	@$(LOCK) --extra ray --extra trainer -o requirements.lock
	@$(LOCK) -c requirements.lock -o requirements-helper.lock
	@$(LOCK) -c requirements.lock --extra dev -o requirements-dev.lock
	@awk '/^[a-z]/ { cuda = /^(torch|triton|(nvidia|cuda)-[^=]*)==/ && !/^nvidia-ml-py==/ } /^#/ || cuda' requirements.lock >requirements-cuda.lock
	@awk '/^[a-z]/ { cuda = /^(torch|triton|(nvidia|cuda)-[^=]*)==/ && !/^nvidia-ml-py==/ } !cuda' requirements.lock >requirements.lock.new && mv requirements.lock.new requirements.lock

.PHONY: schema
schema: ## write templates/jobspec.schema.json from the JobSpec's fields
	@PYTHONPATH=lib $(VENV)/python -c 'from mvp_helpers.plan import jobspec; print(jobspec.schema_json(), end="")' >templates/jobspec.schema.json.new
	@mv templates/jobspec.schema.json.new templates/jobspec.schema.json

.PHONY: images
images: ## write the pictures of docs/images; JOB=ID: with the screenshot of that job's page
	@$(VENV)/python docs/images/make.py $(if $(JOB),"$$(scripts/56_report.sh $(JOB))")

.PHONY: plans
plans: ## write the reviewed plans of tests/unit/plan/shapes anew; read the difference before you commit it
	@$(VENV)/pytest -q tests/unit/plan/test_shapes.py --write-plans

.PHONY: baselines
baselines: ## record the baselines of the CPU defaults anew, from ten jobs of each on the running cluster, and print false alarms
	@RECORD=1 benchmarks/bench_gates.sh

prereq: ## check this machine and the cluster's hosts
	@scripts/00_prereq_check.sh

up: ## start the cluster
	@scripts/01_up.sh

down: ## stop the cluster
	@scripts/02_down.sh

status: ## cluster and jobs on one screen
	@scripts/50_status.sh

bench: ## measurements, side by side (minutes)
	@for script in benchmarks/bench_*.sh; do "$$script" || exit; done
