# Each target makes and fills .venv itself, and does nothing about it when it is up to date.
PYTHON ?= python3
BIN := .venv/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
REQUIREMENTS := pyproject.toml constraints.txt
# Each of the two test processes; with more threads than cores, small steps wait for each other.
ONE_THREAD := OMP_NUM_THREADS=1

.PHONY: help demo test test-slow lint format docs schemas cli-reference figures gallery claims bench clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:[^#]*## /\t/' | expand -t 12

demo: .venv/.bench  ## does DuRM help on the embedded digits data? the verdict, and a page about it
	$(BIN)/durm compare --out runs/demo

test: .venv/.dev  ## the test suite
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 -m "not slow and not long"

test-slow: .venv/.dev  ## the tests that take minutes: every model of every library
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 -m "slow and not long"

lint: .venv/.dev  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/.dev  ## let ruff rewrite
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: .venv/.dev  ## the documentation, into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

schemas: .venv/.dev  ## the JSON schemas of summary.json and result.json, into docs/reference/
	$(BIN)/python docs/schemas.py

cli-reference: .venv/.dev  ## the reference of the commands, into docs/reference/cli.md
	$(BIN)/python docs/cli.py

figures: .venv/.dev  ## the plots of the documentation, into docs/images/
	$(BIN)/python docs/pictures.py

gallery: .venv/.dev  ## the reports of the gallery from results/, into docs/reports/
	$(BIN)/python docs/gallery.py

claims: .venv/.dev  ## judge the paper's claims by results/, into docs/replication.md and the READMEs
	$(BIN)/python docs/claims.py

bench: .venv/.dev .venv/.peers  ## the speed measurements, into results/, and one table of them all
	$(BIN)/python benchmarks/overhead.py --out results/overhead.json
	$(BIN)/python benchmarks/loop.py --out results/loop.json
	$(BIN)/python benchmarks/input.py --out results/input.json
	$(BIN)/python benchmarks/study.py --out results/study.json
	$(BIN)/python benchmarks/startup.py --out results/startup.json
	$(BIN)/python benchmarks/time_to_verdict.py --out results/time_to_verdict.json
	$(BIN)/python benchmarks/own_code.py --out results/own_code.json
	$(BIN)/python benchmarks/channels_last.py --out results/channels_last.json
	$(BIN)/python benchmarks/manifest.py --files 100000 --out results/manifest.json
	$(BIN)/python benchmarks/domains.py --out results/domains.json
	$(BIN)/python benchmarks/probes.py --out results/probes.json
	$(BIN)/python benchmarks/attacks.py --out results/attacks.json
	$(BIN)/python benchmarks/fgsm.py --torchattacks .venv/peers --out results/fgsm.json
	$(BIN)/python benchmarks/curvature.py --pyhessian .venv/peers --out results/curvature.json
	$(BIN)/python benchmarks/evaluation.py --out results/evaluation.json
	$(BIN)/python benchmarks/outcomes.py --out results/outcomes.json
	$(BIN)/python benchmarks/growth.py --out results/growth.json
	$(BIN)/python benchmarks/table.py

clean:  ## remove what the targets made
	rm -rf .venv site .mypy_cache .pytest_cache .ruff_cache .hypothesis

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "durm needs Python 3.10 or newer: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv .venv

# The development environment holds everything that the demo needs, so its stamp serves for both.
.venv/.bench: .venv/bin/python $(REQUIREMENTS)
	@test .venv/.dev -nt pyproject.toml -a .venv/.dev -nt constraints.txt || \
		{ echo "Installing durm and what the demo needs into .venv …"; $(PIP_INSTALL) -e '.[bench]'; }
	@touch $@

.venv/.dev: .venv/bin/python $(REQUIREMENTS)
	@echo "Installing durm and the development tools into .venv …"
	@$(PIP_INSTALL) -e '.[dev]'
	@touch $@

# What is measured against, and is no dependency.
.venv/.peers: .venv/bin/python
	@$(PIP_INSTALL) --no-deps --upgrade --target .venv/peers pyhessian==0.1 torchattacks==3.5.1
	@touch $@
