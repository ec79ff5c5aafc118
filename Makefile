# Everything is installed in .venv; PYTHON is the interpreter that creates it.
PYTHON ?= python3
SECOND ?= python3.13
BIN := .venv/bin

.PHONY: smoke test docs encoders steady floors wheel long faults mutants cluster trackers setup lint report bench card rehearsal clean

smoke: setup           ## every method with three seeds on the toy profile, and a report
	$(BIN)/harness run --profile tiny --jobs 2
	$(BIN)/harness report --profile tiny

test: .venv/dev        ## lint, types and tests
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

docs: .venv/docs       ## the documentation as web pages in docs/_build; any warning is an error
	$(BIN)/sphinx-build -W --keep-going -q -c tools/sphinx docs docs/_build
	@echo open docs/_build/index.html

encoders: .venv/dev    ## docs/encoders.md: a small model of every type of encoder, opened and compared; minutes
	$(BIN)/python tools/encoders_page.py --write

steady: .venv/dev      ## the tests in random order five times, on a second Python too where it is installed; an hour or more
	if $(SECOND) --version >/dev/null 2>&1; then $(MAKE) .venv-second/dev; \
	else echo 'only one Python: $(SECOND) does not start; name another by SECOND=...'; fi
	$(BIN)/python tests/steady.py $(BIN)/python $$(ls .venv-second/bin/python 2>/dev/null)

.venv-second/dev: pyproject.toml
	$(SECOND) -m venv .venv-second
	.venv-second/bin/python -m pip install --quiet --editable '.[dev]'
	touch $@

# torch by name too: uv takes the newest torchvision first, which asks for a newer torch
floors:                ## the tests with the lowest versions of pyproject.toml
	$(PYTHON) -m venv .venv-floors
	.venv-floors/bin/python -m pip install --quiet uv
	.venv-floors/bin/uv pip install --quiet --python .venv-floors/bin/python --resolution lowest-direct --editable '.[dev]' 'torch<2.11'
	.venv-floors/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

wheel:                 ## sdist and wheel in dist/, the wheel installed into an empty environment and run there
	rm -rf dist .venv-wheel
	$(PYTHON) -m venv .venv-wheel
	.venv-wheel/bin/python -m pip install --quiet build
	.venv-wheel/bin/python -m build
	.venv-wheel/bin/python -m pip install --quiet dist/*.whl
	cd dist && ../.venv-wheel/bin/harness run --profile tiny --methods simcse,mcse --seeds 2 --set steps=20 --set eval_every=10
	cd dist && ../.venv-wheel/bin/harness report --profile tiny

long: .venv/dev        ## what the tests check in part, whole; minutes
	$(BIN)/pytest -m long -n 2 --dist loadfile --no-loadscope-reorder

faults: .venv/dev      ## the fault suite, whole: every place of every file; tens of minutes
	$(BIN)/pytest -m faults -n 2 tests/faults

mutants: .venv/dev     ## small changes of the code, drawn at random, that no test notices; hours, or MUTANTS='--count 9 tests/stats'
	$(BIN)/python tests/mutants.py $(MUTANTS)

cluster: .venv/dev     ## grids on clusters that are started here, with nodes that are killed; minutes
	$(BIN)/pytest -m cluster --log-cli-level=INFO --log-cli-format='%(message)s'

setup: .venv/run       ## the environment that runs the harness

.venv/run: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

.venv/dev: .venv/run
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

.venv/docs: .venv/run
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@

trackers: .venv/dev    ## the trackers of examples/trackers against their real libraries
	$(BIN)/python -m pip install --quiet --editable examples/trackers
	$(BIN)/pytest tests/work/test_trackers.py

lint: .venv/dev        ## fix what can be fixed, report the rest
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/mypy

report: setup          ## a report of every result in results/
	$(BIN)/harness report

bench: .venv/dev       ## the benchmarks
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

card: .venv/dev        ## what the card of this machine can do, in five minutes: a table, and card.json
	$(BIN)/python benchmarks/card.py

rehearsal: .venv/dev   ## fetch, runs and report with data of full size, from stand-ins on loopback; prints a table
	$(BIN)/python tests/rehearsal/full.py

clean:                 ## remove build files, never results
	rm -rf .venv .venv-* docs/_build reports/build build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
