# Everything happens in .venv; PYTHON is the interpreter that makes it.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: smoke test setup lint report bench clean

smoke: setup           ## the main job on the embedded profile: every method, three seeds, a report
	$(BIN)/harness run --profile tiny --jobs 2
	$(BIN)/harness report --profile tiny

test: .venv/dev        ## lint, types and tests
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2

setup: .venv/run       ## the environment that runs the harness

.venv/run: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

.venv/dev: .venv/run
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

lint: .venv/dev        ## mend what can be mended, then complain
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/mypy

report: setup          ## every result in results/ as a report
	$(BIN)/harness report

bench: .venv/dev       ## the benchmarks, each a ratio measured side by side
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

clean:                 ## remove what was built, never results
	rm -rf .venv reports/build build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
