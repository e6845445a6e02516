# `make demo` and `make test` need Python 3.11 or later, make and this checkout: they set up .venv themselves.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DOCS := $(VENV)/.installed-docs
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check
PYTHON ?=
TESTS ?=
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --durations=20

# Thousands of processes import the package: its bytecode is kept, whatever the environment says.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test tests check lint slow soak lowest newest vulnerabilities bench docs wheel wheelhouse clean

help: ## show this list
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/  make \1\t\2/p' Makefile

demo: $(STAMP) ## the main job on real data; writes demo-output/report.html, demo-output-trees/report.html
	$(BIN)/bayes-risk demo --output demo-output --overwrite

lint: $(STAMP) ## ruff, ruff format, mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: $(STAMP) ## lint, types and the tests that guard correctness: five minutes on two idle cores
	@$(MAKE) --no-print-directory -j 2 lint tests

tests: $(STAMP)
	$(PYTEST)

check: docs ## the second tier: workers, stopped runs, whole studies, browser, documentation
	$(PYTEST) -m "check and not slow and not soak"

slow: $(STAMP) ## calibration and other long tests
	$(BIN)/python -m pytest -m slow

soak: $(STAMP) ## thousands of random studies, broken files and killed runs: an hour of processor time
	$(BIN)/python -m pytest -m soak -n 2 --durations=20 tests/soak tests/app/test_fuzz_study.py tests/app/test_fuzz_files.py

lowest: ## both tiers of tests with the lowest versions allowed, in .venv-lowest
	@PYTHON="$(PYTHON)" .ci/with-versions lowest $(TESTS)

newest: ## the same with the newest versions allowed, in .venv-newest
	@PYTHON="$(PYTHON)" .ci/with-versions newest $(TESTS)

vulnerabilities: $(STAMP) ## known vulnerabilities of the locked versions, if a registry answers
	@$(BIN)/python .ci/vulnerabilities.py

bench: $(STAMP) ## seconds and memory for stated n, m, H, G
	@set -e; for script in tests/benchmarks/bench_*.py; do \
	    echo "$$script"; $(BIN)/python "$$script"; \
	done

docs: $(DOCS) ## these pages as HTML, examples run: docs/_build/html/index.html
	@rm -rf docs/api/generated
	$(BIN)/python docs/generate_study_file.py
	$(BIN)/python docs/generate_clauses.py
	$(BIN)/python -m sphinx -W --keep-going -n -q -j 2 -b html docs docs/_build/html

wheel: $(STAMP) ## dist/*.whl, the same bytes from the same commit
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m pip wheel -q --no-deps --no-build-isolation -w dist .

wheelhouse: wheel ## wheelhouse/: the package and all it needs, for machines without a network
	$(BIN)/python -m pip wheel -q -w wheelhouse -r requirements-lock.txt
	cp dist/*.whl wheelhouse/

clean: ## remove the environment and everything generated
	rm -rf $(VENV) .venv-lowest .venv-newest demo-output demo-output-trees build dist wheelhouse docs/_build docs/api/generated *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find bayes_risk tests examples -name __pycache__ -type d -prune -exec rm -rf {} +

# Made anew only when what is to be installed changes. The stamp comes last: an interrupted set-up is repeated.
$(STAMP): pyproject.toml requirements-lock.txt
	@python=''; \
	for candidate in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11; do \
	    if "$$candidate" -c 'import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' \
	        >/dev/null 2>&1; then python="$$candidate"; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	    echo 'bayes_risk needs Python 3.11 to 3.14 with the venv module; none was found as python3 or python3.1x.' >&2; \
	    echo 'Install one (on Debian or Ubuntu also its python3-venv package), or name it: make PYTHON=/path/to/python3 ...' >&2; \
	    exit 1; \
	fi; \
	if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then "$$python" -m venv --clear $(VENV); fi
	@echo 'Installing bayes_risk and its dependencies into $(VENV) (once; two minutes, more on a slow network) ...'
	@$(PIP) --require-hashes -r requirements-lock.txt
	@$(PIP) --no-deps --no-build-isolation -e .
	@echo 'Compiling (once; two minutes) ...'
	@$(BIN)/python .ci/kernels.py >/dev/null 2>&1 || true
	@touch $@

$(DOCS): $(STAMP) requirements-docs-lock.txt
	@$(PIP) --require-hashes -r requirements-lock.txt -r requirements-docs-lock.txt
	@touch $@
